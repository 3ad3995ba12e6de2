// A button that opens a menu of choices: groups of which one item each is chosen. Follows the ARIA menu button pattern.

import { el, newId, setProp } from "../dom.js";
import { icon } from "./icons.js";

/** @typedef {{ label: string, options: string[][], value: string, pick: (value: string) => unknown }} MenuGroup */

/** @type {Record<string, number>} */
const STEP_BY_KEY = { ArrowDown: 1, ArrowUp: -1 };

/**
 * groups() returns [{label, options: [[value, text, lang]], value, pick(value)}] each time the menu opens.
 * Returns {node, setLabel(text), close()}.
 * @param {{ iconName: string, groups: () => MenuGroup[] }} options
 */
export function menuButton({ iconName, groups }) {
  const list = el("div", { class: "menu-list", role: "menu", id: newId("menu"), hidden: true });
  const button = el("button", { class: "button-icon", type: "button", "aria-haspopup": "menu", "aria-expanded": "false", "aria-controls": list.id }, icon(iconName));
  const node = el("div", { class: "menu-box" }, button, list);
  const items = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=menuitemradio]")]);
  const focused = () => items().findIndex((item) => item === document.activeElement);

  /** @param {number} [index] */
  function open(index) {
    list.replaceChildren(...groups().map(makeGroup));
    list.hidden = false;
    setProp(button, "aria-expanded", "true");
    focusItem(index ?? items().findIndex((item) => item.getAttribute("aria-checked") === "true"));
  }

  function close({ returnFocus = false } = {}) {
    if (list.hidden) return;
    list.hidden = true;
    setProp(button, "aria-expanded", "false");
    if (returnFocus) button.focus();
  }

  /** @param {MenuGroup} group */
  function makeGroup({ label, options, value, pick }) {
    const heading = el("p", { class: "menu-heading", id: newId("heading") }, label);
    const make = (/** @type {string[]} */ [key, text, lang]) => {
      const on = { click: () => choose(key, pick) };
      return el("button", { class: "menu-item", type: "button", role: "menuitemradio", tabindex: "-1", lang, "aria-checked": String(key === value), data: { value: key }, on }, icon("check"), text);
    };
    return el("div", { role: "group", "aria-labelledby": heading.id }, heading, options.map(make));
  }

  /**
   * @param {string} value
   * @param {MenuGroup["pick"]} pick
   */
  function choose(value, pick) {
    close({ returnFocus: true });
    pick(value);
  }

  /** @param {number} index */
  function focusItem(index) {
    const all = items();
    all[(index + all.length) % all.length]?.focus();
  }

  /** @param {string} letter */
  function focusByLetter(letter) {
    const all = items();
    const from = focused() + 1;
    const match = [...all.slice(from), ...all.slice(0, from)].find((item) => item.textContent.toLocaleLowerCase().startsWith(letter.toLocaleLowerCase()));
    match?.focus();
  }

  button.addEventListener("click", () => (list.hidden ? open() : close()));
  node.addEventListener("keydown", (event) => {
    const { key } = event;
    if (list.hidden) {
      if (!(key in STEP_BY_KEY)) return;
      open(key === "ArrowUp" ? -1 : undefined);
    } else if (key in STEP_BY_KEY) focusItem(focused() + STEP_BY_KEY[key]);
    else if (key === "Home") focusItem(0);
    else if (key === "End") focusItem(-1);
    else if (key === "Escape") close({ returnFocus: true });
    else if (key.length === 1 && key !== " " && !event.ctrlKey && !event.metaKey && !event.altKey) focusByLetter(key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  node.addEventListener("focusout", (event) => {
    if (!node.contains(/** @type {Node | null} */ (event.relatedTarget))) close();
  });
  return { node, setLabel: (/** @type {string} */ text) => setProp(button, "aria-label", text), close };
}
