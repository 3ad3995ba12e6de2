// What a document does now, why, and until when: in sentences. Those that hold a clock go on by themselves.

import { el, fill, keyed, setProp, setText } from "../../dom.js";
import { clock, countdown, durationInWords, percent, time } from "../../format.js";
import { t } from "../../i18n.js";
import { mayAct } from "../../session.js";
import { panel } from "../../components/panel.js";
import { levelBadge, stateBadge } from "../../components/badges.js";

const SOON = 1_000_000;

export class Now {
  #found = null;
  #why = null;

  constructor() {
    this.badge = el("div", { class: "now-badges" });
    this.sentences = el("div", { class: "now-sentences", "aria-live": "polite" });
    this.clock = el("p", { class: "now-clock" });
    this.bar = el("span", {});
    this.progress = el("div", { class: "now-progress", hidden: true }, el("span", { class: "meter", role: "progressbar", "aria-label": t("document.progress"), "aria-valuemin": "0", "aria-valuemax": "100" }, this.bar), el("span", { class: "muted" }));
    this.error = el("pre", { class: "document-error", tabindex: "0", role: "region", "aria-label": t("document.error"), hidden: true });
    this.node = panel(t("document.now"), { actions: this.badge, className: "document-now" }, this.sentences, this.clock, this.progress, this.error);
  }

  update(found, why, life) {
    this.#found = found;
    this.#why = why;
    const key = `${found.state} ${found.expedited}`;
    if (this.badge.dataset.key !== key) {
      this.badge.dataset.key = key;
      fill(this.badge, stateBadge(found.state), levelBadge(found.expedited ? 0 : found.level));
    }
    keyed(this.sentences, this.#told().filter(Boolean).map((words, place) => ({ words, place })), (each) => each.place, (each) => el("p", {}, each.words), (node, each) => setText(node, each.words));
    this.progress.hidden = found.state !== "running" || life.done === null;
    if (!this.progress.hidden) {
      this.bar.style.setProperty("--part", String(life.done));
      setProp(this.progress.firstChild, "aria-valuenow", Math.round(life.done * 100));
      setText(this.progress.lastChild, percent(life.done, 0));
    }
    this.error.hidden = found.error === null || found.state === "done";
    setText(this.error, found.error ?? "");
    this.tick();
  }

  /** The clock alone, once a second. */
  tick() {
    const { state, started_at: started, due_at: due, ready_at: ready } = this.#found;
    const now = Date.now() * 1_000;
    if (state === "waiting") setText(this.clock, t("document.waits_for", { time: durationInWords(whole(now - ready)) }));
    else if (state === "running") setText(this.clock, t("document.runs_for", { time: durationInWords(whole(now - started)) }));
    else if (state === "delayed" && due !== null) setText(this.clock, due > now ? t("document.due_in", { time: countdown(due - now) }) : t("document.due_now"));
    else setText(this.clock, "");
  }

  #told() {
    const found = this.#found;
    const attempts = { attempt: found.attempt, most: found.max_attempts };
    switch (found.state) {
      case "waiting":
        return this.#waiting();
      case "delayed":
        return [found.attempt === 0 ? t("document.delayed_first", { time: time(found.due_at) }) : t("document.delayed", { ...attempts, time: time(found.due_at) })];
      case "running":
        return [found.worker === null ? t("document.running", attempts) : t("document.running_at", { ...attempts, worker: found.worker })];
      case "done":
        return [t("document.done", { wait: durationInWords(Math.max(0, (found.began_at ?? found.started_at) - found.ready_at)), took: durationInWords(found.worked ?? found.finished_at - found.started_at) })];
      case "failed":
        if (found.attempt < found.max_attempts) return [t("document.rejected", attempts)];
        return [t("document.failed", attempts), mayAct() && t("document.failed_hint")];
      case "expired":
        return [t("document.expired", { time: found.start_by === null ? "–" : time(found.start_by) })];
      default:
        return [t("document.cancelled")];
    }
  }

  #waiting() {
    const why = this.#why;
    const isOpen = why.closed_by.length === 0;
    const closed = () => t("document.closed", { reasons: why.closed_by.map((each) => t(`document.closed_by_${each}`)).join("; ") });
    return [isOpen ? this.#place() : closed(), this.#found.start_by === null ? null : t("document.must_start_by", { time: time(this.#found.start_by) }), this.#start()];
  }

  #place() {
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

  #start() {
    const { at, start, no_start: reason } = this.#why;
    if (start === null) return ["closed", "no_worker", "too_few_finishes"].includes(reason) ? t(`document.no_start_${reason}`) : null;
    if (start.latest - at <= SOON) return t("document.start_now");
    return t("document.start", { shortest: durationInWords(start.earliest - at), longest: durationInWords(start.latest - at), earliest: soon(start.earliest), latest: soon(start.latest) });
  }
}

/** Whole seconds: a clock that shows tenths would jump. */
function whole(length) {
  return Math.floor(Math.max(0, length) / 1_000_000) * 1_000_000;
}

/** The time of day, with the date if that is another day. */
function soon(at) {
  return new Date(at / 1_000).toDateString() === new Date().toDateString() ? clock(at) : time(at);
}
