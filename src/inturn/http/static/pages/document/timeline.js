// A document's timeline, oldest first, with the start, end and error of each attempt.

import { el, reconcileChildren } from "../../dom.js";
import { duration, time } from "../../format.js";
import { t } from "../../i18n.js";
import { hasSteps } from "../../queues.js";
import { panel } from "../../components/panel.js";
import { relativeTime } from "../../components/relative_time.js";
import { spansOfSteps, stepAt } from "./spans.js";
import { StepChart } from "./step_chart.js";

const MAX_ERROR_LINE_CHARACTERS = 300;
/** @type {Record<string, string>} */
const STATE_BY_KIND = { started: "running", step_done: "done", split: "split", parts_ended: "split", finished: "done", failed: "failed", lease_lost: "failed", delayed: "delayed", cancelled: "cancelled", expired: "expired" };

export class TimelinePanel {
  constructor() {
    this.list = el("ol", { class: "timeline" });
    this.note = el("p", { class: "muted" }, t("document.timeline_partial"));
    this.chart = new StepChart();
    this.node = panel(t("document.timeline"), {}, this.chart.node, this.list, this.note);
  }

  /**
   * @param {Api.Document} doc
   * @param {Api.Timeline} timeline
   */
  update(doc, timeline) {
    this.chart.update(spansOfSteps(timeline, Date.now() * 1_000));
    this.note.hidden = timeline.is_whole;
    reconcileChildren(this.list, toSteps(doc, timeline), (step) => step.key, makeStep, () => {}); // past steps do not change
  }
}

/**
 * @param {Api.Document} doc
 * @param {Api.Timeline} timeline
 */
function toSteps(doc, { moments, steps }) {
  return moments.map((moment, index) => {
    const since = index > 0 ? moment.at - moments[index - 1].at : null;
    return { ...moment, queue: moment.kind === "started" && hasSteps(doc) ? (steps[stepAt(steps, moment.at)]?.queue ?? null) : null, since, most: doc.max_attempts, key: `${moment.kind} ${moment.at} ${since}` };
  });
}

/** @param {ReturnType<typeof toSteps>[number]} step */
function makeStep(step) {
  const when = relativeTime(step.at, { text: time(step.at) });
  const since = step.since !== null && el("span", { class: "muted" }, `+${duration(step.since)}`);
  const worker = step.kind === "started" && step.worker && el("span", { class: "muted timeline-worker" }, `${t("document.detail_worker")}: ${step.worker}`);
  const queue = step.queue !== null && el("span", { class: "muted timeline-worker" }, `${t("document.detail_queue")}: ${step.queue}`);
  const words = t(`document.timeline_${step.kind}`, { attempt: step.attempt, most: step.most });
  const by = step.operator && el("p", { class: "muted timeline-by" }, step.why ? t("document.by_why", { name: step.operator, why: step.why }) : t("document.by", { name: step.operator }));
  return el("li", { class: `timeline-step state-${STATE_BY_KIND[step.kind] ?? "waiting"}` }, el("p", { class: "timeline-what" }, words), el("p", { class: "muted timeline-when" }, when, since, queue, worker), by, step.error !== null && errorNode(step.error));
}

/**
 * The first line of an error; the rest can be unfolded.
 * @param {string} error
 */
function errorNode(error) {
  const [line] = error.split("\n");
  const short = line.length > MAX_ERROR_LINE_CHARACTERS ? `${line.slice(0, MAX_ERROR_LINE_CHARACTERS)}…` : line;
  if (short === error) return el("p", { class: "document-error" }, error);
  const rest = short === line ? error.slice(line.length + 1) : error;
  return el("details", { class: "timeline-error" }, el("summary", { class: "document-error" }, short), el("pre", { class: "document-error", tabindex: "0", role: "group", "aria-label": t("document.error") }, rest));
}
