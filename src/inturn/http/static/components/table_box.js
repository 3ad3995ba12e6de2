// The box around a table. Where the table fits, its head sticks below the top bar while the page scrolls; where it does
// not, as on phones, the box scrolls in both directions, with the head at its top.

import { el } from "../dom.js";

/** @import { Child } from "../dom.js" */

/**
 * @param {string} label
 * @param {Child[]} children
 */
export function tableBox(label, ...children) {
  const node = el("div", { class: "table-box", role: "region", "aria-label": label, tabindex: "0" }, children);
  const observer = new ResizeObserver(() => node.classList.toggle("is-wide", node.scrollWidth > node.clientWidth));
  observer.observe(node);
  for (const child of node.children) observer.observe(child);
  return node;
}
