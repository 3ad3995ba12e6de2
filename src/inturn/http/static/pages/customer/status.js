// The status that a customer's page opens with: who it is, what waits and runs, what holds it, since when, by whom and why.

import { el, fill, setText } from "../../dom.js";
import { duration, durationInWords } from "../../format.js";
import { t } from "../../i18n.js";
import { levelBadge } from "../../components/badges.js";
import { copyable } from "../../components/copy_button.js";
import { relativeTime } from "../../components/relative_time.js";

/** @import { Moments } from "../customer.js" */

export class StatusPanel {
  /**
   * `action` is the button that pauses or resumes, null for who may not.
   * @param {HTMLElement | null} action
   */
  constructor(action) {
    this.answer = el("h2", { class: "status-answer" });
    this.badge = el("div", { class: "status-badges" });
    this.cause = el("p", { class: "status-cause" });
    this.reason = el("p", { class: "muted status-reason" });
    this.about = el("p", { class: "muted status-about" });
    const text = el("div", { class: "status-why", "aria-live": "polite" }, this.cause, this.reason);
    this.node = el("section", { class: "panel customer-status" }, el("div", { class: "panel-head" }, this.answer, this.badge), text, el("div", { class: "status-foot" }, this.about, action));
  }

  /**
   * @param {Api.CustomerDetail} customer
   * @param {Api.Priority} _priority
   * @param {Moments} moments
   */
  update(customer, _priority, moments) {
    const hold = holdOf(customer);
    setText(this.answer, [hold && t(`customer.hold_${hold}`), ...describeLoad(customer, hold)].filter(Boolean).join(" · "));
    setText(this.cause, describeCause(customer, hold));
    this.#showPause(hold === "paused" ? moments.byHand.find((event) => event.detail?.paused === true) : undefined);
    const key = `${customer.level} ${customer.customer}`;
    if (this.node.dataset.key === key) return;
    this.node.dataset.key = key;
    fill(this.badge, levelBadge(customer.level));
    fill(this.about, copyable(customer.customer));
  }

  /**
   * The newest event that paused the customer; undefined if it is not paused or the event is not known.
   * @param {Api.AuditEvent | undefined} event
   */
  #showPause(event) {
    this.reason.hidden = event === undefined;
    const key = String(event?.number);
    if (event === undefined || this.reason.dataset.key === key) return;
    this.reason.dataset.key = key;
    const by = t(event.why ? "customer.paused_by_why" : "customer.paused_by", { name: event.operator, why: event.why });
    fill(this.reason, by, " ", relativeTime(event.at));
  }
}

/**
 * What holds a customer, by the states that its lanes and settings show; null if nothing does.
 * @param {Api.CustomerDetail} customer
 */
function holdOf({ paused, at_slot_limit: atSlotLimit, waiting, running, cap, rate, lines }) {
  if (paused) return "paused";
  const isClosed = waiting > 0 && lines.filter((lane) => lane.waiting > 0).every((lane) => !lane.is_open);
  if (!isClosed) return null;
  if (atSlotLimit) return "share";
  if (cap !== null && running >= cap) return "cap";
  return rate === null ? "queue" : "rate";
}

/**
 * @param {Api.CustomerDetail} customer
 * @param {string | null} hold
 */
function describeLoad({ waiting, running }, hold) {
  if (waiting === 0 && running === 0) return [hold === null ? t("customer.status_idle") : null];
  return [waiting > 0 && t("customer.status_waiting", { n: waiting }), running > 0 && t("customer.status_running", { n: running })];
}

/**
 * @param {Api.CustomerDetail} customer
 * @param {string | null} hold
 */
function describeCause(customer, hold) {
  const { cap, rate, level, lines } = customer;
  if (hold === "paused") return t("customer.is_paused_text");
  if (hold === "share") return t("customer.at_slot_limit_text");
  if (hold === "cap") return t("customer.cause_cap", { n: cap });
  if (hold === "rate" && rate !== null) return t("customer.cause_rate", { n: rate.documents, per: durationInWords(rate.per) });
  if (hold === "queue") return t("customer.cause_queue");
  const longest = Math.max(-1, ...lines.filter((lane) => lane.waiting > 0).map((lane) => lane.oldest_wait ?? -1));
  return longest < 0 ? t("customer.cause_next", { level }) : t("customer.cause_turn", { level, wait: duration(longest) });
}
