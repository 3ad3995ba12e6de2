// A text field that suggests what there is while one types; what is typed counts, whether it was suggested or not.

import { get } from "../api.js";
import { debounced, el, fill, newId, setProp } from "../dom.js";
import { text as textField } from "./fields.js";

/**
 * find(text) resolves with [{value, note}]; onChange(value) hears what was chosen, or typed and confirmed with Enter, or
 * left there. Gives {node, input, setError}, as fields do. A list of options by the pattern of ARIA's combobox.
 */
export function suggest({ find, onChange = () => {}, ...props }) {
  const list = el("ul", { class: "suggestions", role: "listbox", id: newId("suggestions"), "aria-label": props.label, hidden: true });
  const made = textField({
    ...props,
    autocomplete: "off",
    spellcheck: "false",
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
  });
  const { input } = made;
  let told = input.value;
  let at = -1;
  let asked = 0;

  const look = debounced(async () => {
    asked += 1;
    const mine = asked;
    const wanted = input.value.trim();
    const found = wanted === "" ? [] : await find(wanted).catch(() => []); // without suggestions one can still type
    if (mine === asked && document.activeElement === input) show(found);
  }, 200);

  function show(found) {
    at = -1;
    fill(list, found.map(option));
    list.hidden = found.length === 0;
    setProp(input, "aria-expanded", String(found.length > 0));
    setProp(input, "aria-activedescendant", null);
  }

  function option({ value, note = null }) {
    const on = { mousedown: (event) => event.preventDefault(), click: () => choose(value) };
    const node = el("li", { class: "suggestion", role: "option", id: newId("option"), "aria-selected": "false", on }, el("span", {}, value), note && el("span", { class: "muted" }, note));
    return Object.assign(node, { choice: value });
  }

  function point(to) {
    const options = [...list.children];
    at = (to + options.length) % options.length;
    options.forEach((each, place) => setProp(each, "aria-selected", String(place === at)));
    setProp(input, "aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }

  function choose(value) {
    asked += 1;
    input.value = value;
    show([]);
    tell();
  }

  function tell() {
    const value = input.value.trim();
    if (value === told) return;
    told = value;
    onChange(value);
  }

  input.addEventListener("input", () => {
    look();
    if (input.value === "") choose("");
  });
  input.addEventListener("blur", () => choose(input.value));
  input.addEventListener("keydown", (event) => {
    const isOpen = !list.hidden;
    if (event.key === "ArrowDown" && isOpen) point(at + 1);
    else if (event.key === "ArrowUp" && isOpen) point(at < 0 ? -1 : at - 1);
    else if (event.key === "Escape" && isOpen) show([]);
    else if (event.key === "Enter") choose(isOpen && at >= 0 ? list.children[at].choice : input.value);
    else return;
    event.preventDefault();
  });
  made.node.classList.add("suggest");
  input.after(list);
  return {
    ...made,
    /** Show another value without telling. */
    setValue(value) {
      told = value;
      if (input.value.trim() !== value) input.value = value;
    },
  };
}

/** For `find`: customers with this in their names. */
export async function findCustomers(wanted) {
  const page = await get("/v1/customers", { query: { text: wanted, limit: 8 } });
  return page.customers.map((each) => ({ value: each.customer, note: each.display_name }));
}
