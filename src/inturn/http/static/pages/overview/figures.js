// Four figures of the queue, each with its change against an hour ago.

import { el } from "../../dom.js";
import { duration, number, roundedNumber } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { card } from "../../components/panel.js";

/** @import { LatelyBuffer } from "../overview.js" */

const SECOND = 1_000_000;
const HOUR = 3_600 * SECOND;
export const STEP = 300 * SECOND;
/** What is asked for, to know how it was an hour ago. */
export const PAST_RANGE = HOUR + 3 * STEP;

export class Figures {
  /** @type {Api.QueueHistory | null} */
  #past = null;

  constructor() {
    const documents = (/** @type {string} */ state) => pageUrl("documents", {}, { state });
    this.waiting = card({ label: t("overview.waiting"), href: documents("waiting") });
    this.running = card({ label: t("overview.running"), href: documents("running") });
    this.speed = card({ label: t("overview.per_minute"), href: documents("done") });
    this.wait = card({ label: t("overview.wait_p95"), href: documents("waiting") });
    this.node = el("div", { class: "cards" }, [this.waiting, this.running, this.speed, this.wait].map((figure) => figure.node));
  }

  /**
   * The history of the last hour and a little more, in steps of five minutes.
   * @param {Api.QueueHistory} past
   */
  setPast(past) {
    this.#past = past;
  }

  /**
   * @param {Api.Overview} overview
   * @param {LatelyBuffer} history
   */
  update(overview, history) {
    const { states, waits, held } = overview;
    const course = (/** @type {keyof Api.History} */ name) => ({ at: history.of("at"), history: history.of(name) });
    const perMinute = 60 * overview.per_second;
    const before = this.#anHourAgo(overview.at);
    const change = (/** @type {number | null} */ now, /** @type {number | null} */ then, /** @type {(value: number) => string} */ write) => (then === null || now === null ? [] : [t("overview.against_hour", { change: signed(now - then, write) })]);
    this.waiting.update({ value: number(states.waiting), details: [...change(states.waiting, before.waiting, number), ...(held > 0 ? [t("overview.held", { n: held })] : [])], ...course("waiting") });
    this.running.update({ value: number(states.running), details: change(states.running, before.running, number), ...course("running") });
    this.speed.update({ value: roundedNumber(perMinute), details: change(perMinute, before.perMinute, roundedNumber), ...course("per_second") });
    this.wait.update({ value: waits === null ? "–" : duration(waits.p95), details: change(waits?.p95 ?? null, before.p95, duration), ...course("p95") });
  }

  /**
   * The figures of the five minutes an hour ago; null where nothing is known.
   * @param {number} now
   */
  #anHourAgo(now) {
    const past = this.#past;
    const index = past?.at.findIndex((at) => at <= now - HOUR && now - HOUR < at + past.step) ?? -1;
    if (past === null || index < 0) return { waiting: null, running: null, perMinute: null, p95: null };
    const { waiting, running, done, failed, wait_p95: p95 } = past.total;
    const [finished, broken] = [done[index], failed[index]];
    const ended = finished === null || broken === null ? null : ((finished + broken) * 60 * SECOND) / past.step;
    return { waiting: waiting[index], running: running[index], perMinute: ended, p95: p95[index] };
  }
}

/**
 * @param {number} difference
 * @param {(value: number) => string} write
 */
function signed(difference, write) {
  if (difference === 0) return `±${write(0)}`;
  return `${difference > 0 ? "+" : "−"}${write(Math.abs(difference))}`;
}
