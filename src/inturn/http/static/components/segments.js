// A row of choices of which one is taken: tabs above a panel, or the ranges of a chart.

import { el, setProp } from "../dom.js";

/**
 * pick(value) is called for another choice; null selects none. Arrow keys move.
 * @param {{ label: string, options: readonly (readonly [string, string])[], value: string | null, pick: (value: string) => void }} options
 */
export function segments({ label, options, value, pick }) {
  /** @type {Map<string, HTMLElement>} */
  const buttons = new Map(options.map(([key, text]) => [key, el("button", { type: "button", role: "tab", class: "segment", on: { click: () => choose(key) } }, text)]));
  const keys = [...buttons.keys()];
  const node = el("div", { class: "segments", role: "tablist", "aria-label": label }, [...buttons.values()]);

  /** @param {string | null} selected */
  function select(selected) {
    for (const [key, button] of buttons) {
      setProp(button, "aria-selected", String(key === selected));
      setProp(button, "tabindex", key === selected || (!keys.includes(selected ?? "") && key === keys[0]) ? "0" : "-1");
    }
  }

  /** @param {string} key */
  function choose(key) {
    select(key);
    pick(key);
  }

  node.addEventListener("keydown", (event) => {
    const here = keys.findIndex((key) => buttons.get(key) === document.activeElement);
    /** @type {Record<string, number>} */
    const targets = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: keys.length - 1 };
    const next = targets[event.key];
    if (next === undefined || here < 0) return;
    const key = keys[(next + keys.length) % keys.length];
    buttons.get(key)?.focus();
    choose(key);
    event.preventDefault();
  });
  select(value);
  return { node, select };
}
