// A text field with suggestions. Any typed value is valid, suggested or not.

import { get } from "../api.js";
import { debounce, el, fill, newId, setProp } from "../dom.js";
import { textField } from "./fields.js";

/** @typedef {{ value: string, note?: string | null }} Suggestion */

/**
 * find(text) resolves with [{value, note}]. onChange(value) is called with a chosen suggestion, and with typed text on
 * Enter or blur. Returns {node, input, setError} like other fields. Follows the ARIA combobox pattern.
 * @param {import("./fields.js").FieldProps & { find: (text: string) => Promise<Suggestion[]>, onChange?: (value: string) => unknown }} props
 */
export function combobox({ find, onChange = () => {}, ...props }) {
  const list = el("ul", { class: "suggestions", role: "listbox", id: newId("suggestions"), "aria-label": props.label, hidden: true });
  const field = textField({
    ...props,
    autocomplete: "off",
    spellcheck: "false",
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
  });
  const { input } = field;
  let lastValue = input.value;
  let activeIndex = -1;
  let requestId = 0;

  const fetchSuggestions = debounce(async () => {
    requestId += 1;
    const ownId = requestId;
    const wanted = input.value.trim();
    const suggestions = wanted === "" ? [] : await find(wanted).catch(() => /** @type {Suggestion[]} */ ([])); // the field works without suggestions
    if (ownId === requestId && document.activeElement === input) show(suggestions);
  }, 200);

  /** @param {Suggestion[]} suggestions */
  function show(suggestions) {
    activeIndex = -1;
    fill(list, suggestions.map(option));
    list.hidden = suggestions.length === 0;
    setProp(input, "aria-expanded", String(suggestions.length > 0));
    setProp(input, "aria-activedescendant", null);
  }

  /** @param {Suggestion} suggestion */
  function option({ value, note = null }) {
    const on = { mousedown: (/** @type {Event} */ event) => event.preventDefault(), click: () => choose(value) };
    const node = el("li", { class: "suggestion", role: "option", id: newId("option"), "aria-selected": "false", on }, el("span", {}, value), note && el("span", { class: "muted" }, note));
    return Object.assign(node, { choice: value });
  }

  /** @param {number} to */
  function highlight(to) {
    const options = /** @type {(HTMLElement & { choice: string })[]} */ ([...list.children]);
    activeIndex = (to + options.length) % options.length;
    options.forEach((item, index) => setProp(item, "aria-selected", String(index === activeIndex)));
    setProp(input, "aria-activedescendant", options[activeIndex].id);
    options[activeIndex].scrollIntoView({ block: "nearest" });
  }

  /** @param {string} value */
  function choose(value) {
    requestId += 1;
    input.value = value;
    show([]);
    notifyChange();
  }

  function notifyChange() {
    const value = input.value.trim();
    if (value === lastValue) return;
    lastValue = value;
    onChange(value);
  }

  input.addEventListener("input", () => {
    fetchSuggestions();
    if (input.value === "") choose("");
  });
  input.addEventListener("blur", () => choose(input.value));
  input.addEventListener("keydown", (event) => {
    const isOpen = !list.hidden;
    if (event.key === "ArrowDown" && isOpen) highlight(activeIndex + 1);
    else if (event.key === "ArrowUp" && isOpen) highlight(activeIndex < 0 ? -1 : activeIndex - 1);
    else if (event.key === "Escape" && isOpen) show([]);
    else if (event.key === "Enter") choose(isOpen && activeIndex >= 0 ? /** @type {HTMLElement & { choice: string }} */ (list.children[activeIndex]).choice : input.value);
    else return;
    event.preventDefault();
  });
  field.node.classList.add("combobox");
  input.after(list);
  return {
    ...field,
    /** Set the value without calling onChange. */
    setValue(/** @type {string} */ value) {
      lastValue = value;
      if (input.value.trim() !== value) input.value = value;
    },
  };
}

/**
 * Find customers by a part of their name, for `find`.
 * @param {string} wanted
 * @returns {Promise<Suggestion[]>}
 */
export async function findCustomers(wanted) {
  const page = await get("/v1/customers", { query: { text: wanted, limit: 8 } });
  return page.customers.map((row) => ({ value: row.customer, note: row.display_name }));
}
