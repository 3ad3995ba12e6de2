// What a document's time went into, step by step: waiting, attempts, pauses before another attempt, and parts.

/** @typedef {"wait" | "work" | "failed" | "delay" | "parts"} SpanKind */
/** @typedef {{ kind: SpanKind, from: number, to: number, attempt: number | null }} Span */
/** @typedef {{ queue: string, spans: Span[] }} StepSpans */

/** Ends of attempts that are no failures: a document handed back is waiting again. */
const WENT_WELL = ["finished", "step_done", "split", "handed_back", "cancelled"];
/** @type {Record<string, SpanKind | undefined>} */
const BEGUN_BY = { submitted: "wait", retried: "wait", due: "wait", handed_back: "wait", lease_lost: "wait", expedited: "wait", step_done: "wait", parts_ended: "wait", started: "work", delayed: "delay", split: "parts" };

/** What ends a document. */
const ENDS = ["finished", "failed", "cancelled", "expired"];

/**
 * The spans of each step. The last one of a document that has not ended lasts until `now`.
 * @param {Api.Timeline} timeline
 * @param {number} now
 * @returns {StepSpans[]}
 */
export function spansOfSteps({ moments, steps }, now) {
  /** @type {StepSpans[]} */
  const rows = steps.map(({ queue }) => ({ queue, spans: [] }));
  moments.forEach((moment, index) => {
    const kind = BEGUN_BY[moment.kind];
    if (kind === undefined) return; // an end, or something that ends no span
    const next = moments.slice(index + 1).find((later) => later.kind in BEGUN_BY || ENDS.includes(later.kind));
    const to = next?.at ?? now;
    const hasFailed = kind === "work" && next !== undefined && !WENT_WELL.includes(next.kind);
    const row = rows[stepAt(steps, moment.at)];
    if (to > moment.at) row?.spans.push({ kind: hasFailed ? "failed" : kind, from: moment.at, to, attempt: kind === "work" ? moment.attempt : null });
  });
  return rows;
}

/**
 * The index of the step that a document was at; the wait for its parts belongs to the step that split it.
 * @param {Api.TimelineStep[]} steps
 * @param {number} at
 */
export function stepAt(steps, at) {
  return Math.max(0, steps.findLastIndex((step) => step.ready_at !== null && step.ready_at <= at));
}
