// Show a replay of real documents under two policies: gainers, losers, and the number waiting over time.

import { el } from "../dom.js";
import { duration, time } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { timeChart } from "./charts.js";

/**
 * Waits of a group of customers, in seconds.
 * @typedef {{ mean: number, p50: number, p95: number, worst: number }} Waits
 *
 * What a job of the server measured: documents of one period as they were and as they would have been.
 * @typedef {{
 *   since: number, until: number, documents: number, customers: number, workers: number, is_cut: boolean,
 *   less: WaitChange[], more: WaitChange[],
 *   groups: { group: string, customers: number, documents: number, current: Waits, proposed: Waits, [more: string]: any }[],
 *   levels_current: Record<string, number>, levels_proposed: Record<string, number>,
 *   waiting: Record<string, number>[],
 * }} Comparison
 * @typedef {{ customer: string, current: number, proposed: number }} WaitChange
 */

const SECOND = 1_000_000;

/**
 * Documents submitted with a delay may be due after now; the range of what came ends now.
 * @param {Comparison} comparison
 */
export function describeReplay(comparison) {
  const until = Math.min(comparison.until, Date.now() * 1_000);
  return t("policy.preview_played", { n: comparison.documents, customers: comparison.customers, workers: comparison.workers, since: time(comparison.since), until: time(until) });
}

/**
 * Name a group of customers by its documents a day: 1–20.
 * @param {string} group
 */
export function groupName(group) {
  return group.replace("-", "–");
}

/** @param {Comparison} comparison */
export function gainersAndLosers(comparison) {
  return el("div", { class: "preview-sides" }, customerChanges("less", comparison.less), customerChanges("more", comparison.more));
}

/**
 * @param {"less" | "more"} which
 * @param {Comparison["less"]} changes
 */
function customerChanges(which, changes) {
  const rows = changes.map((change) => el("li", {}, el("a", { href: pageUrl("customer", { name: change.customer }) }, change.customer), waitChange(change.current, change.proposed)));
  const body = rows.length > 0 ? el("ol", { class: "changes" }, rows) : el("p", { class: "muted" }, t("policy.preview_nobody"));
  return el("section", { class: `preview-${which}` }, el("h3", {}, t(`policy.preview_${which}`)), body);
}

/**
 * Show the change of a wait. Both waits are in seconds.
 * @param {number} before
 * @param {number} after
 */
export function waitChange(before, after) {
  return el("span", { class: "change" }, duration(before * SECOND), " → ", el("strong", {}, duration(after * SECOND)));
}

/**
 * Draw the documents waiting over time. series: as in timeChart; a key names a column of comparison.waiting.
 * @param {Comparison} comparison
 * @param {import("./charts.js").Series[]} series
 */
export function waitingChart(comparison, series) {
  const chart = timeChart({ label: t("policy.preview_waiting"), series, height: 200 });
  const column = (/** @type {string} */ name) => comparison.waiting.map((point) => point[name]);
  chart.update({ at: column("at"), ...Object.fromEntries(series.map(({ key }) => [key, column(key)])) });
  return chart;
}
