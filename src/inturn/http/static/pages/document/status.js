// The answer that a document's page opens with, its cause, and below them the details in sentences.

import { el, fill, reconcileChildren, setProp, setText } from "../../dom.js";
import { durationInWords, percent, time, timeToTheMinute } from "../../format.js";
import { t } from "../../i18n.js";
import { personOf } from "../../person.js";
import { pageUrl } from "../../routes.js";
import { mayAct } from "../../session.js";
import { levelBadge, stateBadge } from "../../components/badges.js";
import { copyButton } from "../../components/copy_button.js";
import { describeAnswer, describeCause, wholeSeconds } from "./answer.js";

export class StatusPanel {
  /** @type {Api.Document} */
  #document;
  /** @type {Api.Why} */
  #why;
  #isRetried = false;

  constructor() {
    this.answer = el("h2", { class: "status-answer" });
    this.whole = el("p", { class: "status-part", hidden: true });
    this.cause = el("p", { class: "status-cause" });
    this.badge = el("div", { class: "status-badges" });
    this.sentences = el("div", { class: "status-sentences" });
    this.clock = el("p", { class: "status-clock" });
    this.bar = el("span", {});
    this.meter = el("span", { class: "meter", role: "progressbar", "aria-label": t("document.progress"), "aria-valuemin": "0", "aria-valuemax": "100" }, this.bar);
    this.done = el("span", { class: "muted" });
    this.progress = el("div", { class: "status-progress", hidden: true }, this.meter, this.done);
    this.error = el("pre", { class: "document-error", tabindex: "0", role: "region", "aria-label": t("document.error") });
    this.errorBox = el("div", { class: "status-error", hidden: true });
    const head = el("div", { class: "panel-head" }, this.answer, this.badge);
    const why = el("div", { class: "status-why", "aria-live": "polite" }, this.cause, this.sentences);
    this.node = el("section", { class: "panel document-status" }, head, this.whole, why, this.clock, this.progress, this.errorBox);
  }

  /**
   * `sent`: how many documents the customer sent in the window before this one, null if that is not known.
   * @param {Api.Document} doc
   * @param {Api.Why} why
   * @param {Api.Timeline} timeline
   * @param {number | null} sent
   */
  update(doc, why, timeline, sent) {
    this.#document = doc;
    this.#why = why;
    this.#isRetried = isRetried(doc, timeline);
    const key = `${doc.state} ${doc.expedited}`;
    if (this.badge.dataset.key !== key) {
      this.badge.dataset.key = key;
      fill(this.badge, stateBadge(doc.state), levelBadge(doc.expedited ? 0 : doc.level));
    }
    const cause = describeCause(doc, why, sent);
    setText(this.cause, cause ?? "");
    this.cause.hidden = cause === null;
    reconcileChildren(this.sentences, this.#sentencesForState().filter((words) => typeof words === "string").map((words, index) => ({ words, index })), (sentence) => sentence.index, (sentence) => el("p", {}, sentence.words), (node, sentence) => setText(node, sentence.words));
    this.progress.hidden = doc.state !== "running" || timeline.done === null;
    if (timeline.done !== null) {
      this.bar.style.setProperty("--part", String(timeline.done));
      setProp(this.meter, "aria-valuenow", Math.round(timeline.done * 100));
      setText(this.done, percent(timeline.done, 0));
    }
    this.#showError(doc.state === "done" ? null : doc.error);
    this.tick();
  }

  /**
   * Of a part: its number, and the document that it is a part of.
   * @param {Api.Document} doc
   * @param {Api.Document | null} whole null if there is none, or none any more
   */
  showWhole(doc, whole) {
    this.whole.hidden = doc.part === null || whole === null;
    if (doc.part !== null && whole !== null) fill(this.whole, t("document.part_of", { part: doc.part }), " ", el("a", { href: pageUrl("document", { id: whole.id }) }, whole.name));
  }

  /** @param {string | null} error */
  #showError(error) {
    this.errorBox.hidden = error === null;
    if (error === null || this.error.textContent === error) return;
    setText(this.error, error);
    fill(this.errorBox, this.error, copyButton(error, t("document.error")));
  }

  /** Update what runs with the clock, once a second. */
  tick() {
    const { state, submitted_at: submitted, due_at: due, ready_at: ready } = this.#document;
    const now = Date.now() * 1_000;
    setText(this.answer, describeAnswer(this.#document, this.#why, now));
    if (state === "waiting") setText(this.clock, this.#describeWait(wholeSeconds(now - (this.#isRetried ? submitted : ready))));
    else setText(this.clock, state === "delayed" && due !== null && due <= now ? t("document.due_now") : "");
  }

  #sentencesForState() {
    const doc = this.#document;
    const attempts = { attempt: doc.attempt, most: doc.max_attempts };
    switch (doc.state) {
      case "waiting":
        return this.#describeWaiting();
      case "delayed":
        return [doc.attempt === 0 ? t("document.delayed_first", { time: timeOrDash(doc.due_at) }) : t("document.delayed", { ...attempts, time: timeOrDash(doc.due_at) })];
      case "split":
        return [t("document.split", { queue: doc.queue })];
      case "running":
        if (personOf(doc.worker) !== null) return [t("document.running_person", { name: personOf(doc.worker) })];
        return [doc.worker === null ? t("document.running", attempts) : t("document.running_at", { ...attempts, worker: doc.worker })];
      case "done":
        return [this.#describeDone()];
      case "failed":
        if (doc.attempt < doc.max_attempts) return [t("document.rejected", attempts)];
        return [t("document.failed", attempts), mayAct() && t("document.failed_hint")];
      case "expired":
        return [t("document.expired", { time: timeOrDash(doc.start_by) })];
      case "cancelled":
        return [t("document.cancelled")];
    }
  }

  /**
   * A retried document has waited since it was submitted; the part before its last return to the line is named.
   * @param {number} length
   */
  #describeWait(length) {
    if (!this.#isRetried) return t("document.waits_for", { time: durationInWords(length) });
    return t("document.waits_since", { time: durationInWords(length), retries: durationInWords(wholeSeconds(this.#document.ready_at - this.#document.submitted_at)) });
  }

  #describeDone() {
    const doc = this.#document;
    const started = doc.started_at ?? doc.ready_at; // a document that is done has all three times
    const began = doc.began_at ?? started;
    const took = durationInWords(doc.worked ?? (doc.finished_at ?? began) - started);
    if (doc.step > 0) return t("document.done_steps", { n: doc.step + 1, took: durationInWords((doc.finished_at ?? began) - doc.submitted_at) });
    if (!this.#isRetried) return t("document.done", { wait: durationInWords(Math.max(0, began - doc.ready_at)), took });
    return t("document.done_retried", { wait: durationInWords(Math.max(0, began - doc.submitted_at)), retries: durationInWords(Math.max(0, doc.ready_at - doc.submitted_at)), took });
  }

  #describeWaiting() {
    const why = this.#why;
    const isOpen = why.closed_by.length === 0;
    const closed = () => t("document.closed", { reasons: why.closed_by.map((reason) => describeClosing(reason, why)).join("; ") });
    return [isOpen ? this.#describePosition() : closed(), this.#document.start_by === null ? null : t("document.must_start_by", { time: time(this.#document.start_by) }), this.#describeStart()];
  }

  #describePosition() {
    const { place, ahead } = this.#why;
    if (place === null) return null;
    if (place === 0) return t("document.next");
    if (ahead === null) return t("document.about_before", { n: place });
    /** @type {[string, number][]} */
    const parts = [
      [t("document.better_levels", { n: ahead.better_levels }), ahead.better_levels],
      [t("document.same_level", { n: ahead.same_level }), ahead.same_level],
      [t("document.own_line", { n: ahead.own_line }), ahead.own_line],
    ];
    const named = parts.filter(([, n]) => n > 0).map(([words]) => words);
    return t("document.before", { n: place, parts: named.join(", ") });
  }

  #describeStart() {
    const { start, start_held: held } = this.#why;
    if (start === null) return null;
    const expected = t("document.start", { earliest: timeToTheMinute(start.earliest), latest: timeToTheMinute(start.latest) });
    return held === null ? expected : `${expected} ${t("document.start_held", { n: held })}`;
  }
}

const STEP_ENDS = ["step_done", "split"];

/**
 * Whether an attempt at this step was made before the document came into its line the last time.
 * @param {Api.Document} doc
 * @param {Api.Timeline} timeline
 */
export function isRetried(doc, timeline) {
  const ofStep = timeline.moments.slice(timeline.moments.findLastIndex((moment) => STEP_ENDS.includes(moment.kind)) + 1);
  return ofStep.some((moment) => moment.kind === "started" && moment.at < doc.ready_at);
}

/**
 * @param {string} reason
 * @param {Api.Why} why
 */
function describeClosing(reason, why) {
  if (reason === "share") return why.slot_use === null ? t("document.closed_by_share_only") : t("document.closed_by_share", why.slot_use);
  return t(`document.closed_by_${reason}`, { queue: why.queue });
}

/** @param {number | null} at */
function timeOrDash(at) {
  return at === null ? "–" : time(at);
}
