// A table that is drawn once.

import { el } from "../dom.js";
import { tableBox } from "./table_box.js";

/** @import { Child } from "../dom.js" */

/**
 * rows: lists of texts or nodes, the first the row's heading. Columns after the first `texts` are aligned as numbers.
 * @param {string} label
 * @param {Child[]} heads
 * @param {Child[][]} rows
 */
export function staticTable(label, heads, rows, texts = 1) {
  const align = (/** @type {number} */ index) => (index >= texts ? "cell-end" : null);
  const head = heads.map((heading, index) => el("th", { scope: "col", class: align(index) }, heading));
  const body = rows.map((row) => el("tr", {}, row.map((cell, index) => el(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: align(index) }, cell))));
  const table = el("table", { class: "table" }, el("caption", { class: "hidden" }, label), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return tableBox(label, table);
}
