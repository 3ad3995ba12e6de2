// A document's status in sentences, with a clock.

import { el, fill, reconcileChildren, setProp, setText } from "../../dom.js";
import { countdown, durationInWords, percent, time, timeOfDay } from "../../format.js";
import { t } from "../../i18n.js";
import { mayAct } from "../../session.js";
import { levelBadge, stateBadge } from "../../components/badges.js";
import { panel } from "../../components/panel.js";

const IMMINENT_START_MICROSECONDS = 1_000_000;

export class StatusPanel {
  #document = null;
  #why = null;

  constructor() {
    this.badge = el("div", { class: "status-badges" });
    this.sentences = el("div", { class: "status-sentences", "aria-live": "polite" });
    this.clock = el("p", { class: "status-clock" });
    this.bar = el("span", {});
    this.progress = el("div", { class: "status-progress", hidden: true }, el("span", { class: "meter", role: "progressbar", "aria-label": t("document.progress"), "aria-valuemin": "0", "aria-valuemax": "100" }, this.bar), el("span", { class: "muted" }));
    this.error = el("pre", { class: "document-error", tabindex: "0", role: "region", "aria-label": t("document.error"), hidden: true });
    this.node = panel(t("document.status"), { actions: this.badge, className: "document-status" }, this.sentences, this.clock, this.progress, this.error);
  }

  update(doc, why, timeline) {
    this.#document = doc;
    this.#why = why;
    const key = `${doc.state} ${doc.expedited}`;
    if (this.badge.dataset.key !== key) {
      this.badge.dataset.key = key;
      fill(this.badge, stateBadge(doc.state), levelBadge(doc.expedited ? 0 : doc.level));
    }
    reconcileChildren(this.sentences, this.#sentencesForState().filter(Boolean).map((words, index) => ({ words, index })), (sentence) => sentence.index, (sentence) => el("p", {}, sentence.words), (node, sentence) => setText(node, sentence.words));
    this.progress.hidden = doc.state !== "running" || timeline.done === null;
    if (!this.progress.hidden) {
      this.bar.style.setProperty("--part", String(timeline.done));
      setProp(this.progress.firstChild, "aria-valuenow", Math.round(timeline.done * 100));
      setText(this.progress.lastChild, percent(timeline.done, 0));
    }
    this.error.hidden = doc.error === null || doc.state === "done";
    setText(this.error, doc.error ?? "");
    this.tick();
  }

  /** Update the clock, once a second. */
  tick() {
    const { state, started_at: started, due_at: due, ready_at: ready } = this.#document;
    const now = Date.now() * 1_000;
    if (state === "waiting") setText(this.clock, t("document.waits_for", { time: durationInWords(wholeSeconds(now - ready)) }));
    else if (state === "running") setText(this.clock, t("document.runs_for", { time: durationInWords(wholeSeconds(now - started)) }));
    else if (state === "delayed" && due !== null) setText(this.clock, due > now ? t("document.due_in", { time: countdown(due - now) }) : t("document.due_now"));
    else setText(this.clock, "");
  }

  #sentencesForState() {
    const doc = this.#document;
    const attempts = { attempt: doc.attempt, most: doc.max_attempts };
    switch (doc.state) {
      case "waiting":
        return this.#describeWaiting();
      case "delayed":
        return [doc.attempt === 0 ? t("document.delayed_first", { time: time(doc.due_at) }) : t("document.delayed", { ...attempts, time: time(doc.due_at) })];
      case "running":
        return [doc.worker === null ? t("document.running", attempts) : t("document.running_at", { ...attempts, worker: doc.worker })];
      case "done":
        return [t("document.done", { wait: durationInWords(Math.max(0, (doc.began_at ?? doc.started_at) - doc.ready_at)), took: durationInWords(doc.worked ?? doc.finished_at - doc.started_at) })];
      case "failed":
        if (doc.attempt < doc.max_attempts) return [t("document.rejected", attempts)];
        return [t("document.failed", attempts), mayAct() && t("document.failed_hint")];
      case "expired":
        return [t("document.expired", { time: doc.start_by === null ? "–" : time(doc.start_by) })];
      default:
        return [t("document.cancelled")];
    }
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
    const parts = [
      [t("document.better_levels", { n: ahead.better_levels }), ahead.better_levels],
      [t("document.same_level", { n: ahead.same_level }), ahead.same_level],
      [t("document.own_line", { n: ahead.own_line }), ahead.own_line],
    ];
    const named = parts.filter(([, n]) => n > 0).map(([words]) => words);
    return t("document.before", { n: place, parts: named.join(", ") });
  }

  #describeStart() {
    const { at, start, no_start: reason } = this.#why;
    if (start === null) return ["closed", "no_worker", "too_few_finishes"].includes(reason) ? t(`document.no_start_${reason}`) : null;
    if (start.latest - at <= IMMINENT_START_MICROSECONDS) return t("document.start_now");
    return t("document.start", { shortest: durationInWords(start.earliest - at), longest: durationInWords(start.latest - at), earliest: timeOrDateTime(start.earliest), latest: timeOrDateTime(start.latest) });
  }
}

function describeClosing(reason, why) {
  if (reason === "share") return why.slot_use === null ? t("document.closed_by_share_only") : t("document.closed_by_share", why.slot_use);
  return t(`document.closed_by_${reason}`);
}

/** Round down to whole seconds, so that the clock does not show tenths. */
function wholeSeconds(length) {
  return Math.floor(Math.max(0, length) / 1_000_000) * 1_000_000;
}

/** Format the time of day, with the date if it is not today. */
function timeOrDateTime(at) {
  return new Date(at / 1_000).toDateString() === new Date().toDateString() ? timeOfDay(at) : time(at);
}
