// What a document's time went into, step by step: waiting, attempts, and parts.

/** @typedef {"wait" | "work" | "failed" | "parts"} SpanKind */
/** @typedef {{ kind: SpanKind, from: number, to: number, attempt: number | null }} Span */
/** @typedef {{ queue: string, spans: Span[] }} StepSpans */
/** @typedef {Api.Timeline["moments"][number]} Moment */

const WENT_WELL = ["finished", "step_done", "split"];
const STEP_ENDS = ["step_done", "split"];
const ENDED = ["done", "failed", "cancelled", "expired"];

/**
 * The spans of each step since the last retry that began with the first one. The last span of a document that has not ended
 * lasts until `now`.
 * @param {Api.Document} doc
 * @param {Api.Timeline} timeline
 * @param {Api.StepResult[]} results
 * @param {number} now
 * @returns {StepSpans[]}
 */
export function spansOfSteps(doc, timeline, results, now) {
  const moments = sinceFirstStep(doc, timeline.moments);
  const queues = queuesOfMoments(doc, moments, results);
  /** @type {StepSpans[]} */
  const steps = [{ queue: queues[0] ?? doc.queue, spans: [] }];
  /** @type {Omit<Span, "to"> | null} */
  let open = null;
  const close = (/** @type {number} */ at, /** @type {SpanKind | null} */ kind = null) => {
    if (open !== null && at > open.from) steps[steps.length - 1].spans.push({ ...open, kind: kind ?? open.kind, to: at });
    open = null;
  };
  for (const [index, moment] of moments.entries()) {
    close(moment.at, moment.kind === "started" || open?.kind !== "work" || WENT_WELL.includes(moment.kind) ? null : "failed");
    if (moment.kind === "started") open = { kind: "work", from: moment.at, attempt: moment.attempt };
    else if (!ENDED.includes(moment.kind) && moment.kind !== "finished") open = { kind: moment.kind === "split" ? "parts" : "wait", from: moment.at, attempt: null };
    if (STEP_ENDS.includes(moment.kind)) steps.push({ queue: queues[index + 1] ?? doc.queue, spans: [] });
  }
  if (!ENDED.includes(doc.state)) close(now);
  return steps.filter((item, index) => item.spans.length > 0 || index === steps.length - 1);
}

/**
 * The queue of the step that each of these moments belongs to: counted from the last one, which is that of the document.
 * @param {Api.Document} doc
 * @param {Moment[]} moments
 * @param {Api.StepResult[]} results
 */
export function queuesOfMoments(doc, moments, results) {
  let step = doc.step;
  return moments
    .toReversed()
    .map((moment) => {
      if (STEP_ENDS.includes(moment.kind)) step -= 1;
      return step === doc.step ? doc.queue : (results.find((result) => result.step === step)?.queue ?? "–");
    })
    .reverse();
}

/**
 * Leave out what was before a retry that began with the first step.
 * @param {Api.Document} doc
 * @param {Moment[]} moments
 */
function sinceFirstStep(doc, moments) {
  const retried = moments.findLastIndex((moment) => moment.kind === "retried");
  const ends = moments.slice(retried + 1).filter((moment) => STEP_ENDS.includes(moment.kind)).length;
  return retried > 0 && ends === doc.step ? moments.slice(retried) : moments;
}
