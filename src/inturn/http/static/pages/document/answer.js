// The answer that a document's page opens with: one line that says where it stands, and one sentence that says why.

import { countdown, durationInWords, durationRange, number } from "../../format.js";
import { t } from "../../i18n.js";

const IMMINENT_START_MICROSECONDS = 1_000_000;
/** The window of the sentence of cause: how much the customer sent before this document. */
export const SENT_WINDOW_MICROSECONDS = 1_800_000_000;

/**
 * One line: "Starts in about 8–14 min · 2,125 ahead of it". `now` is the browser's clock, in microseconds.
 * @param {Api.Document} doc
 * @param {Api.Why} why
 * @param {number} now
 */
export function describeAnswer(doc, why, now) {
  switch (doc.state) {
    case "waiting":
      return why.closed_by.length > 0 ? t(`document.hold_${why.closed_by[0]}`, { queue: why.queue }) : [describeStart(why), describeAhead(why)].filter(Boolean).join(" · ");
    case "delayed":
      if (doc.due_at === null || doc.due_at <= now) return t("document.answer_due");
      return t(doc.attempt === 0 ? "document.answer_delayed_first" : "document.answer_delayed", { time: countdown(doc.due_at - now) });
    case "split":
      return why.unended_parts === 0 ? t("document.answer_parts_ended") : t("document.answer_split", { n: why.unended_parts });
    case "running":
      return t("document.answer_running", { time: durationInWords(wholeSeconds(now - (doc.started_at ?? now))) });
    case "done":
      return t("document.answer_done", { took: durationInWords(doc.step > 0 ? (doc.finished_at ?? 0) - doc.submitted_at : doc.worked ?? (doc.finished_at ?? 0) - (doc.started_at ?? 0)) });
    case "failed":
      return t(doc.attempt < doc.max_attempts ? "document.answer_rejected" : "document.answer_failed", { n: doc.attempt });
    default:
      return t(`document.answer_${doc.state}`);
  }
}

/**
 * Why it stands where it stands, in the customer's terms; null where the line above says it all. `sent`: see SENT_WINDOW_MICROSECONDS.
 * @param {Api.Document} doc
 * @param {Api.Why} why
 * @param {number | null} sent
 */
export function describeCause(doc, why, sent) {
  if (doc.state !== "waiting" || why.closed_by.length > 0) return null;
  if (doc.expedited) return t("document.expedited_by_hand");
  const { customer, level } = doc;
  if (level > 1 && sent !== null && sent > 1) return t("document.cause_sent", { n: sent, customer, minutes: number(SENT_WINDOW_MICROSECONDS / 60_000_000), level });
  if (level > 1) return t("document.cause_counter", { n: 1 - doc.count, customer, level });
  if (why.ahead === null || why.place === null || why.place === 0) return null;
  return t(why.ahead.own_line * 2 > why.place ? "document.cause_own" : "document.cause_first_level", { customer });
}

/** @param {Api.Why} why */
function describeStart({ at, start, no_start: reason, queue }) {
  if (start === null) return ["no_worker", "queue_unserved", "by_hand", "too_few_finishes"].includes(reason ?? "") ? t(`document.answer_${reason}`, { queue }) : t("document.answer_waiting");
  if (start.latest - at <= IMMINENT_START_MICROSECONDS) return t("document.start_now");
  const { text, isFromNow } = durationRange(start.earliest - at, start.latest - at);
  return t(isFromNow ? "document.answer_within" : "document.answer_start", { range: text });
}

/** @param {Api.Why} why */
function describeAhead({ place, ahead }) {
  if (place === null) return null;
  if (place === 0) return t("document.answer_next");
  return t(ahead === null ? "document.answer_about_ahead" : "document.answer_ahead", { n: place });
}

/**
 * Round down to whole seconds, so that the clock does not show tenths.
 * @param {number} length
 */
export function wholeSeconds(length) {
  return Math.floor(Math.max(0, length) / 1_000_000) * 1_000_000;
}
