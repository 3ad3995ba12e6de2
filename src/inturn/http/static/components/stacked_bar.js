// A customer's waiting documents: a bar with a piece in each level's colour, and their sum.

import { el, keyed, setProp, setText } from "../dom.js";
import { number } from "../format.js";
import { levelClass, levelName } from "./badges.js";

/** row: {lines: {level: number}, waiting, most}; the bar is full when `waiting` is `most`. */
export function stack(row) {
  const bar = el("span", { class: "stack", "aria-hidden": "true" });
  const sum = el("span", { class: "stack-sum" });
  return updateStack(Object.assign(el("span", { class: "stack-box" }, bar, sum), { bar, sum }), row);
}

export function updateStack(node, row) {
  const lines = Object.entries(row.lines).filter(([, n]) => n > 0);
  const update = (part, [, n]) => part.style.setProperty("--part", String(n / row.most));
  const make = (line) => {
    const part = el("span", { class: levelClass(Number(line[0])) });
    update(part, line);
    return part;
  };
  keyed(node.bar, lines, ([level]) => level, make, update);
  setProp(node, "title", lines.map(([level, n]) => `${levelName(Number(level))}: ${number(n)}`).join(", ") || null);
  setText(node.sum, number(row.waiting));
  return node;
}
