// What a person fills in: the fields of the queue's form, or any JSON value where it has none.

import { el } from "../../dom.js";
import { t } from "../../i18n.js";
import { checkbox, numberField, selectField, textArea, textField } from "../../components/fields.js";

/** @typedef {{ ok: true, result: unknown } | { ok: false }} Answer */

export class AnswerForm {
  /** @type {{ field: Api.FormField, input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement, setError: (text: string | null) => void, node: HTMLElement }[]} */
  #fields = [];
  /** @type {ReturnType<typeof textArea> | null} */
  #json = null;
  #initial;

  /**
   * @param {Api.FormField[] | null} fields
   * @param {Record<string, string | boolean> | null} typed what was typed before
   */
  constructor(fields, typed) {
    if (fields === null) this.#json = textArea({ label: t("task.json"), hint: t("task.json_hint"), rows: 8, class: "input mono", spellcheck: "false" });
    else this.#fields = fields.map((field) => ({ field, ...makeField(field) }));
    this.node = el("div", { class: "form" }, this.#json?.node, this.#fields.map((item) => item.node));
    this.#initial = JSON.stringify(this.typed());
    if (typed !== null) this.#restore(typed);
  }

  get isDirty() {
    return JSON.stringify(this.typed()) !== this.#initial;
  }

  /** What is typed now, as the fields have it. */
  typed() {
    if (this.#json !== null) return { json: this.#json.input.value };
    return Object.fromEntries(this.#fields.map(({ field, input }) => [field.name, field.kind === "boolean" ? /** @type {HTMLInputElement} */ (input).checked : input.value]));
  }

  /**
   * The result for the API. Where it is not what the form asks for, the fields say so and the first has the focus.
   * @returns {Answer}
   */
  value() {
    if (this.#json !== null) return this.#parse(this.#json);
    /** @type {[string, unknown][]} */
    const entries = [];
    for (const item of this.#fields) {
      const { field, input } = item;
      const { value, problem } = readField(field, input);
      item.setError(problem);
      if (value !== null) entries.push([field.name, value]);
    }
    const invalid = /** @type {HTMLElement | null} */ (this.node.querySelector("[aria-invalid]"));
    invalid?.focus();
    return invalid === null ? { ok: true, result: Object.fromEntries(entries) } : { ok: false };
  }

  focus() {
    /** @type {HTMLElement | null} */ (this.node.querySelector("input, select, textarea"))?.focus({ preventScroll: true });
  }

  /** @param {boolean} isOn */
  setReadOnly(isOn) {
    for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (this.node.querySelectorAll("input, textarea"))) input.readOnly = isOn;
  }

  /** @param {Record<string, string | boolean>} typed */
  #restore(typed) {
    if (this.#json !== null && typeof typed.json === "string") this.#json.input.value = typed.json;
    for (const { field, input } of this.#fields) {
      const value = typed[field.name];
      if (typeof value === "boolean") /** @type {HTMLInputElement} */ (input).checked = value;
      else if (value !== undefined) input.value = value;
    }
  }

  /**
   * @param {ReturnType<typeof textArea>} json
   * @returns {Answer}
   */
  #parse(json) {
    try {
      const text = json.input.value.trim();
      const result = text === "" ? null : JSON.parse(text);
      json.setError(null);
      return { ok: true, result };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      json.setError(t("task.json_wrong", { reason: error.message }));
      json.input.focus();
      return { ok: false };
    }
  }
}

/** @param {Api.FormField} field */
function makeField({ kind, label, required, help, options }) {
  const props = { label: required ? t("task.required", { label }) : label, hint: help, "aria-required": required ? "true" : null };
  switch (kind) {
    case "boolean": {
      const { node, input } = checkbox({ label });
      return { node: el("div", { class: "field" }, node, help && el("p", { class: "field-hint" }, help)), input, setError: () => {} };
    }
    case "number":
      return numberField({ ...props, step: "any" });
    case "choice":
      return selectField({ ...props, options: [["", t("task.choose")], ...options.map((option) => [option, option])], value: "" });
    case "date":
      return textField({ ...props, type: "date" });
    case "text":
      return textArea({ ...props, rows: 2, maxlength: 10_000 });
  }
}

/**
 * A field's value for the API, null if it has none, and the reason why it is invalid.
 * @param {Api.FormField} field
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
 */
function readField({ kind, required }, input) {
  if (kind === "boolean") return { value: /** @type {HTMLInputElement} */ (input).checked, problem: null };
  if (input.validity.badInput) return { value: null, problem: t(kind === "date" ? "task.error_date" : "task.error_number") };
  if (input.value.trim() === "") return { value: null, problem: required ? t("task.error_required") : null };
  return { value: kind === "number" ? Number(input.value) : input.value, problem: null };
}
