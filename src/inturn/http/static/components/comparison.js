// Show a replay of real documents under two policies: gainers, losers, and the number waiting over time.

import { el } from "../dom.js";
import { duration, time } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { lineChart } from "./charts.js";

const SECOND = 1_000_000;

export function describeReplay(comparison) {
  return t("policy.preview_played", { n: comparison.documents, customers: comparison.customers, workers: comparison.workers, since: time(comparison.since), until: time(comparison.until) });
}

/** Name a group of customers by its documents a day: 1–20. */
export function groupName(group) {
  return group.replace("-", "–");
}

export function gainersAndLosers(comparison) {
  return el("div", { class: "preview-sides" }, customerChanges("less", comparison.less), customerChanges("more", comparison.more));
}

function customerChanges(which, changes) {
  const rows = changes.map((change) => el("li", {}, el("a", { href: pageUrl("customer", { name: change.customer }) }, change.customer), waitChange(change.current, change.proposed)));
  const body = rows.length > 0 ? el("ol", { class: "changes" }, rows) : el("p", { class: "muted" }, t("policy.preview_nobody"));
  return el("section", { class: `preview-${which}` }, el("h3", {}, t(`policy.preview_${which}`)), body);
}

/** Show the change of a wait. Both waits are in seconds. */
export function waitChange(before, after) {
  return el("span", { class: "change" }, duration(before * SECOND), " → ", el("strong", {}, duration(after * SECOND)));
}

/** Draw the documents waiting over time. series: as in lineChart; a key names a column of comparison.waiting. */
export function waitingChart(comparison, series) {
  const chart = lineChart({ label: t("policy.preview_waiting"), series, height: 200 });
  const column = (name) => comparison.waiting.map((point) => point[name]);
  chart.update({ at: column("at"), ...Object.fromEntries(series.map(({ key }) => [key, column(key)])) });
  return chart;
}
