// A table of words and numbers that is drawn once; it scrolls in its own frame where it is too wide.

import { el } from "../dom.js";

/** rows are lists of texts or nodes; the first of each names its row, the first `texts` columns are words. */
export function staticTable(label, heads, rows, texts = 1) {
  const align = (index) => (index >= texts ? "cell-end" : null);
  const head = heads.map((heading, index) => el("th", { scope: "col", class: align(index) }, heading));
  const body = rows.map((row) => el("tr", {}, row.map((cell, index) => el(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: align(index) }, cell))));
  const table = el("table", { class: "table" }, el("caption", { class: "hidden" }, label), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "table-box", role: "region", tabindex: "0", "aria-label": label }, table);
}
