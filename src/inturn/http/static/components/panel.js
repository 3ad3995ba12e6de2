// Cards and panels.

import { el, setText } from "../dom.js";
import { sparkline } from "./charts.js";

/** @import { Child } from "../dom.js" */

/** @typedef {{ value: string | number, details?: string[], at?: number[], history?: (number | null)[], kind?: "bad" | null }} CardFigures */

/**
 * A figure with a sparkline, a link as a whole. Returns {node, update({value, details: [texts], at: [times], history: [numbers or null], kind: "bad"})}.
 * @param {{ label: string, href?: string | null }} props
 */
export function card({ label, href }) {
  const value = el("span", { class: "card-value" }, "–");
  const figures = el("span", { class: "card-figures" }, value);
  const line = sparkline();
  const node = el(
    href ? "a" : "div",
    { class: "card", href },
    el("span", { class: "card-label" }, label),
    figures,
    line.node,
  );
  return {
    node,
    /** @param {CardFigures} figures */
    update({ value: shown, details = [], at = [], history = [], kind = null }) {
      setText(value, shown);
      while (figures.childElementCount <= details.length) figures.append(el("span", { class: "card-detail" }));
      [...figures.children].slice(1).forEach((span, index) => setText(span, details[index] ?? ""));
      node.classList.toggle("card-bad", kind === "bad");
      line.update(at, history);
    },
  };
}

/**
 * A framed section with a heading.
 * @param {Child} title
 * @param {{ actions?: Child, hint?: Child, className?: string }} options
 * @param {Child[]} children
 */
export function panel(title, { actions = null, hint = null, className = "" } = {}, ...children) {
  const head = el("div", { class: "panel-head" }, el("h2", {}, title), actions);
  return el("section", { class: `panel ${className}` }, head, hint && el("p", { class: "panel-hint" }, hint), children);
}
