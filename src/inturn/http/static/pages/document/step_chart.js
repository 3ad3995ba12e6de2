// A bar for each step of a document, over time: waiting light, work full, parts hatched. The same as a table below it.

import { el, fill } from "../../dom.js";
import { duration, shortTimeOfDay, time } from "../../format.js";
import { t } from "../../i18n.js";
import { staticTable } from "../../components/static_table.js";

/** @import { Span, StepSpans } from "./spans.js" */

export class StepChart {
  #shown = "";

  constructor() {
    this.rows = el("div", { class: "step-chart" });
    this.axis = el("div", { class: "step-axis muted" });
    this.table = el("div", {});
    const kinds = /** @type {const} */ (["wait", "work", "failed", "delay", "parts"]);
    this.legend = el("ul", { class: "step-legend" }, kinds.map((kind) => el("li", { class: `span-${kind}`, data: { kind } }, t(`document.span_${kind}`))));
    const details = el("details", { class: "step-table" }, el("summary", {}, t("document.span_table")), this.table);
    this.node = el("div", { class: "step-box", hidden: true }, this.rows, this.axis, this.legend, details);
  }

  /**
   * Shown where there is more than one step or attempt.
   * @param {StepSpans[]} steps
   */
  update(steps) {
    const spans = steps.flatMap((step) => step.spans);
    const attempts = spans.filter((span) => span.kind === "work" || span.kind === "failed").length;
    this.node.hidden = spans.length === 0 || (steps.length < 2 && attempts < 2);
    const shown = JSON.stringify(steps);
    if (this.node.hidden || shown === this.#shown) return;
    this.#shown = shown;
    const [from, to] = [spans[0].from, Math.max(spans[0].from + 1, ...spans.map((span) => span.to))];
    fill(this.rows, steps.map((step) => makeRow(step, from, to)));
    fill(this.axis, el("span", {}, shortTimeOfDay(from)), el("span", {}, duration(to - from)), el("span", {}, shortTimeOfDay(to)));
    for (const item of /** @type {NodeListOf<HTMLElement>} */ (this.legend.querySelectorAll("li"))) item.hidden = !spans.some((span) => span.kind === item.dataset.kind);
    const rows = steps.flatMap((step) => step.spans.map((span) => [step.queue, describeSpan(span), time(span.from), duration(span.to - span.from)]));
    fill(this.table, staticTable(t("document.timeline"), [t("documents.head_step"), t("document.span_what"), t("document.span_from"), t("document.span_took")], rows, 3));
  }
}

/**
 * @param {StepSpans} step
 * @param {number} from
 * @param {number} to
 */
function makeRow({ queue, spans }, from, to) {
  const bars = spans.map((span) => el("span", { class: `span span-${span.kind}`, title: `${describeSpan(span)}: ${duration(span.to - span.from)}`, vars: { from: (span.from - from) / (to - from), part: (span.to - span.from) / (to - from) } }));
  const words = spans.map((span) => `${describeSpan(span)} ${duration(span.to - span.from)}`).join(", ");
  return el("div", { class: "step-row" }, el("span", { class: "step-row-name" }, queue), el("div", { class: "step-track", role: "img", "aria-label": `${queue}: ${words || t("document.step_ahead")}` }, bars));
}

/** @param {Span} span */
function describeSpan({ kind, attempt }) {
  return attempt === null ? t(`document.span_${kind}`) : t(`document.span_attempt_${kind}`, { attempt });
}
