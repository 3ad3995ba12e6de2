// The fields of the form that people fill in who serve a queue.

import { el, fill, setProp } from "../../dom.js";
import { t } from "../../i18n.js";
import { checkbox, selectField, textArea, textField } from "../../components/fields.js";
import { icon } from "../../components/icons.js";

const KINDS = /** @type {const} */ (["text", "number", "boolean", "choice", "date"]);
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/;
const MAX_FIELDS = 50;

export class FormEditor {
  /** @type {FieldEditor[]} */
  #fields = [];

  /** @param {Api.FormField[]} fields */
  constructor(fields) {
    this.list = el("ol", { class: "queue-fields" });
    this.add = el("button", { class: "button button-small", type: "button", on: { click: () => this.#add() } }, t("queues.form_add"));
    this.node = el("fieldset", { class: "choice" }, el("legend", {}, t("queues.form")), el("p", { class: "field-hint" }, t("queues.form_hint")), this.list, el("div", {}, this.add));
    this.#fields = fields.map((field) => this.#editor(field));
    this.#draw();
  }

  /** The fields as the API takes them; null if one is not right, and the focus is on it. */
  value() {
    const names = this.#fields.map((field) => field.name.input.value.trim());
    const values = this.#fields.map((field, index) => field.value(names.indexOf(names[index]) < index));
    if (values.every((value) => value !== null)) return values;
    /** @type {HTMLElement | null} */ (this.list.querySelector("[aria-invalid]"))?.focus();
    return null;
  }

  #add() {
    const field = this.#editor({ name: "", label: "", kind: "text", options: [], required: false, help: null });
    this.#fields.push(field);
    this.#draw();
    field.label.input.focus();
  }

  /** @param {Api.FormField} field */
  #editor(field) {
    const editor = new FieldEditor(field, { move: (by) => this.#move(editor, by), remove: () => this.#remove(editor) });
    return editor;
  }

  /**
   * @param {FieldEditor} field
   * @param {number} by
   */
  #move(field, by) {
    const from = this.#fields.indexOf(field);
    this.#fields.splice(from, 1);
    this.#fields.splice(from + by, 0, field);
    this.#draw();
    const [wanted, other] = by < 0 ? [field.up, field.down] : [field.down, field.up];
    (wanted.disabled ? other : wanted).focus();
  }

  /** @param {FieldEditor} field */
  #remove(field) {
    this.#fields = this.#fields.filter((item) => item !== field);
    this.#draw();
    this.add.focus();
  }

  #draw() {
    fill(this.list, this.#fields.map((field) => field.node));
    this.#fields.forEach((field, index) => {
      field.up.disabled = index === 0;
      field.down.disabled = index === this.#fields.length - 1;
    });
    this.add.disabled = this.#fields.length >= MAX_FIELDS;
  }
}

class FieldEditor {
  /**
   * @param {Api.FormField} field
   * @param {{ move: (by: number) => void, remove: () => void }} handlers
   */
  constructor(field, { move, remove }) {
    const { name, label, kind, options, required, help } = field;
    this.label = textField({ label: t("queues.field_label"), value: label, maxlength: 200, autocomplete: "off" });
    this.name = textField({ label: t("queues.field_name"), hint: t("queues.field_name_hint"), value: name, maxlength: 63, autocomplete: "off", spellcheck: "false" });
    this.kind = selectField({ label: t("queues.field_kind"), options: KINDS.map((item) => [item, t(`queues.kind_${item}`)]), value: kind, on: { change: () => this.#showOptions() } });
    this.options = textArea({ label: t("queues.field_options"), hint: t("queues.field_options_hint"), rows: 3, value: options.join("\n") });
    this.help = textField({ label: t("queues.field_help"), value: help ?? "", maxlength: 1000, autocomplete: "off" });
    this.required = checkbox({ label: t("queues.field_required"), checked: required });
    const button = (/** @type {string} */ drawing, /** @type {string} */ text, /** @type {() => void} */ call) => el("button", { class: "button-icon", type: "button", "aria-label": text, title: text, on: { click: call } }, icon(drawing));
    this.up = button("up", t("queues.field_up"), () => move(-1));
    this.down = button("down", t("queues.field_down"), () => move(1));
    const row = el("div", { class: "queue-field-row" }, this.label.node, this.name.node, this.kind.node);
    const foot = el("div", { class: "queue-field-foot" }, this.required.node, this.up, this.down, button("close", t("queues.field_remove"), remove));
    this.node = el("li", { class: "queue-field" }, row, this.options.node, this.help.node, foot);
    this.label.input.addEventListener("input", () => this.#suggestName());
    this.isNamed = name !== "";
    this.name.input.addEventListener("input", () => {
      this.isNamed = this.name.input.value !== "";
    });
    this.#showOptions();
  }

  /**
   * The field as the API takes it; null if it is not right.
   * @param {boolean} isRepeated another field before it has its name
   * @returns {Api.FormField | null}
   */
  value(isRepeated) {
    const [name, label, kind] = [this.name.input.value.trim(), this.label.input.value.trim(), KINDS[this.kind.input.selectedIndex]];
    const lines = this.options.input.value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
    const options = kind === "choice" ? [...new Set(lines)] : [];
    const isNameRight = NAME.test(name) && !isRepeated;
    this.name.setError(isNameRight ? null : t(isRepeated ? "queues.error_name_repeated" : "queues.error_name"));
    this.options.setError(kind === "choice" && options.length === 0 ? t("queues.error_options") : null);
    if (!isNameRight || (kind === "choice" && options.length === 0)) return null;
    return { name, label: label || name, kind, options, required: this.required.input.checked, help: this.help.input.value.trim() || null };
  }

  /** A new field is named after its label, until a name is typed. */
  #suggestName() {
    if (this.isNamed) return;
    const plain = this.label.input.value.normalize("NFD").replace(/[^A-Za-z0-9 _-]/g, "").trim().toLowerCase();
    this.name.input.value = plain.replace(/[ -]+/g, "_").replace(/^[0-9]+/, "").slice(0, 63);
  }

  #showOptions() {
    setProp(this.options.node, "hidden", KINDS[this.kind.input.selectedIndex] !== "choice");
  }
}
