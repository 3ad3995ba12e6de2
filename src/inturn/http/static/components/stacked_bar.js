// A customer's waiting documents: a bar with a segment per level, and their sum.

import { el, reconcileChildren, setProp, setText } from "../dom.js";
import { number } from "../format.js";
import { levelClass, levelName } from "./badges.js";

/** @typedef {{ lines: Record<string, number>, waiting: number, most: number }} StackedBarRow */

/**
 * row: {lines: {level: number}, waiting, most}; the bar is full when `waiting` equals `most`.
 * @param {StackedBarRow} row
 */
export function stackedBar(row) {
  const bar = el("span", { class: "stacked-bar", "aria-hidden": "true" });
  const sum = el("span", { class: "stacked-bar-sum" });
  return updateStackedBar(Object.assign(el("span", { class: "stacked-bar-box" }, bar, sum), { bar, sum }), row);
}

/**
 * @param {HTMLElement & { bar: HTMLElement, sum: HTMLElement }} node
 * @param {StackedBarRow} row
 */
export function updateStackedBar(node, row) {
  const lanes = Object.entries(row.lines).filter(([, n]) => n > 0);
  const update = (/** @type {HTMLElement} */ part, /** @type {[string, number]} */ [, n]) => part.style.setProperty("--part", String(n / row.most));
  const make = (/** @type {[string, number]} */ lane) => {
    const part = el("span", { class: levelClass(Number(lane[0])) });
    update(part, lane);
    return part;
  };
  reconcileChildren(node.bar, lanes, ([level]) => level, make, update);
  setProp(node, "title", lanes.map(([level, n]) => `${levelName(Number(level))}: ${number(n)}`).join(", ") || null);
  setText(node.sum, number(row.waiting));
  return node;
}
