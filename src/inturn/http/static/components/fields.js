// Labelled form fields. Each returns {node, input, setError}; label, hint and error are linked to the input.

import { debounce, el, newId, setText } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

/**
 * The input's attributes, and its label, hint and error. `hidden` hides the label from the eye only.
 * @typedef {import("../dom.js").Props & { label: string, hint?: string | null, hidden?: boolean }} FieldProps
 */

/**
 * @template {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} I
 * @param {I} input
 * @param {FieldProps} props
 */
function field(input, { label, hint = null, hidden = false }) {
  const id = newId("field");
  const about = newId("about");
  input.id = id;
  const error = el("p", { class: "field-error", id: newId("error") });
  input.setAttribute("aria-describedby", `${about} ${error.id}`);
  const node = el(
    "div",
    { class: "field" },
    el("label", { for: id, class: hidden ? "hidden" : null }, label),
    input,
    el("p", { class: "field-hint", id: about }, hint ?? ""),
    error,
  );
  return {
    node,
    input,
    setError(/** @type {string | null | undefined} */ text) {
      setText(error, text ?? "");
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/** @param {FieldProps} props */
export function textField({ label, hint, hidden, ...props }) {
  return field(el("input", { type: "text", class: "input", ...props }), { label, hint, hidden });
}

/** @param {FieldProps} props */
export function numberField({ label, hint, hidden, ...props }) {
  return field(el("input", { type: "number", class: "input", ...props }), { label, hint, hidden });
}

/** @param {FieldProps} props */
export function textArea({ label, hint, hidden, ...props }) {
  return field(el("textarea", { class: "input", ...props }), { label, hint, hidden });
}

/** @param {FieldProps & { options: readonly (readonly string[])[], value?: string }} props options: [[value, text], …] */
export function selectField({ label, hint, hidden, options, value, ...props }) {
  const input = el(
    "select",
    { class: "input", ...props },
    options.map(([key, shown]) => el("option", { value: key, selected: key === value }, shown)),
  );
  return field(input, { label, hint, hidden });
}

/** @param {import("../dom.js").Props & { label: import("../dom.js").Child }} props */
export function checkbox({ label, ...props }) {
  const input = el("input", { type: "checkbox", ...props });
  return { node: el("label", { class: "check" }, input, el("span", {}, label)), input };
}

/**
 * Radio buttons with a title and a hint each.
 * @template {string} V
 * @param {string} name
 * @param {V[]} values
 * @param {(value: V) => string[]} wordsOf
 * @param {(value: V) => unknown} choose
 */
export function radios(name, values, wordsOf, choose) {
  return values.map((value) => {
    const input = el("input", { type: "radio", name, value, on: { change: () => choose(value) } });
    const [title, hint] = wordsOf(value);
    const words = el("span", {}, el("strong", {}, title), el("span", { class: "muted" }, hint));
    return { input, node: el("label", { class: "order" }, input, words) };
  });
}

/**
 * A search field. onSearch is called after a pause in typing, and at once on Enter.
 * @param {{ label: string, value?: string, onSearch: (text: string) => unknown }} props
 */
export function searchField({ label, value = "", onSearch }) {
  const later = debounce(() => onSearch(input.value.trim()));
  /** @type {HTMLInputElement} */
  const input = el("input", {
    type: "search",
    class: "input",
    placeholder: label,
    "aria-label": label,
    value,
    on: {
      input: later,
      keydown: (event) => {
        if (event.key === "Enter") onSearch(input.value.trim());
      },
    },
  });
  return { node: el("div", { class: "search" }, icon("search"), input), input };
}

/** A note for users with a read-only key. */
export function readOnlyNote() {
  return el("p", { class: "muted" }, t("shell.read_only"));
}
