// The steps of a document: those behind it, the one it is at, and those planned.

import { el, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { icon } from "../../components/icons.js";
import { panel } from "../../components/panel.js";

/** @typedef {"done" | "now" | "stopped" | "ahead"} Progress */
/** @typedef {{ name: string, progress: Progress }} Step */

const STOPPED = ["failed", "cancelled", "expired"];

export class StepsPanel {
  #shown = "";

  constructor() {
    this.list = el("ol", { class: "document-trail" });
    this.node = panel(t("document.steps"), { className: "document-steps" }, this.list);
    this.node.hidden = true;
  }

  /**
   * @param {Api.Document} doc
   * @param {Api.Timeline} timeline
   */
  update(doc, timeline) {
    const steps = stepsOf(doc, timeline);
    this.node.hidden = steps.length < 2;
    const shown = JSON.stringify(steps);
    if (shown === this.#shown) return;
    this.#shown = shown;
    fill(this.list, steps.map(makeStep));
  }
}

/**
 * While its parts run, a document is at none of its steps.
 * @param {Api.Document} doc
 * @param {Api.Timeline} timeline
 * @returns {Step[]}
 */
function stepsOf(doc, timeline) {
  const queues = new Map(timeline.steps.map((span) => [span.step, span.queue])); // the last run of each
  const behind = Array.from({ length: doc.step }, (_, step) => /** @type {Step} */ ({ name: queues.get(step) ?? "–", progress: "done" }));
  const ahead = doc.ahead.map((name) => /** @type {Step} */ ({ name, progress: "ahead" }));
  if (doc.state === "split") return [...behind, { name: t("document.steps_parts"), progress: "now" }, { name: doc.queue, progress: "ahead" }, ...ahead];
  const progress = doc.state === "done" ? "done" : STOPPED.includes(doc.state) ? "stopped" : "now";
  return [...behind, { name: doc.queue, progress }, ...ahead];
}

/** @param {Step} step */
function makeStep({ name, progress }) {
  const isHere = progress === "now" || progress === "stopped";
  const mark = el("span", { class: "step-mark", "aria-hidden": "true" }, progress === "done" && icon("check"), progress === "stopped" && icon("close"));
  return el("li", { class: `step step-${progress}`, "aria-current": isHere ? "step" : null }, mark, el("span", { class: "step-name" }, name), el("span", { class: "hidden" }, ` (${t(`document.step_${progress}`)})`));
}
