// A table of words and numbers that is drawn once; it scrolls in its own frame where it is too wide.

import { el } from "../dom.js";

/** rows are lists of texts or nodes; the first of each names its row, the first `texts` columns are words. */
export function plainTable(label, heads, rows, texts = 1) {
  const align = (place) => (place >= texts ? "cell-end" : null);
  const head = heads.map((each, place) => el("th", { scope: "col", class: align(place) }, each));
  const body = rows.map((row) => el("tr", {}, row.map((each, place) => el(place === 0 ? "th" : "td", { scope: place === 0 ? "row" : null, class: align(place) }, each))));
  const table = el("table", { class: "table" }, el("caption", { class: "hidden" }, label), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "table-box", role: "region", tabindex: "0", "aria-label": label }, table);
}
