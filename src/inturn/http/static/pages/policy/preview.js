// Preview a typed policy: replay real documents under it, and show who waits less and who waits more.

import { ApiError } from "../../api.js";
import { el, fill } from "../../dom.js";
import { duration, number, percent } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { levelClass, levelName } from "../../components/badges.js";
import { pairBar } from "../../components/charts.js";
import { describeReplay, gainersAndLosers, groupName, waitingChart } from "../../components/comparison.js";
import { selectField } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { banner, errorState } from "../../components/placeholders.js";
import { progressJob } from "../../components/progress_job.js";
import { staticTable } from "../../components/static_table.js";
import { isSame } from "./description.js";
import { differenceTable } from "./difference.js";

/** @import { View } from "../../router.js" */

/** @import { Comparison } from "../../components/comparison.js" */

const SECOND = 1_000_000;
const HOUR = 3_600;
/** @type {Record<string, number>} */
const PERIOD_SECONDS = { hour: HOUR, quarter: 6 * HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR };

export class Preview {
  #valueOf;
  /** @type {string | null} */
  #previewedPolicy = null;
  /** @type {Api.Policy | null} */
  #base = null;

  /**
   * valueOf() returns the typed policy, or null if a field is invalid.
   * @param {View} view
   * @param {() => Api.Policy | null} valueOf
   */
  constructor(view, valueOf) {
    this.#valueOf = valueOf;
    const options = Object.keys(PERIOD_SECONDS).map((period) => [period, t(`policy.last_${period}`)]);
    this.length = selectField({ label: t("policy.preview_of"), options, value: "day" });
    this.button = el("button", { class: "button", type: "button", on: { click: () => this.#run() } }, t("policy.preview_run"));
    this.job = progressJob({ label: t("policy.preview"), signal: view.signal });
    this.outdated = el("div", { hidden: true }, banner(t("policy.preview_outdated"), { kind: "warn" }));
    this.result = el("div", { class: "preview-result", "aria-live": "polite" });
    const tools = el("div", { class: "preview-tools" }, this.length.node, this.button, this.job.node);
    this.typed = el("div", { class: "preview-typed" });
    this.node = panel(t("policy.preview"), { hint: t("policy.preview_hint") }, this.typed, tools, this.outdated, this.result);
  }

  /**
   * Take the typed policy, null if invalid, and the one in force. A result of another policy is marked as outdated.
   * @param {Api.Policy | null} policy
   * @param {Api.Policy} base
   */
  changed(policy, base) {
    this.#base = base;
    this.button.disabled = policy === null;
    const settings = el("a", { href: pageUrl("policy") }, t("policy.preview_change"));
    if (policy === null) fill(this.typed, el("p", {}, t("policy.is_wrong")), settings);
    else if (isSame(policy, base)) fill(this.typed, el("p", { class: "muted" }, t("policy.preview_unchanged")), settings);
    else fill(this.typed, differenceTable(t("policy.compare"), [[t("policy.in_force"), base], [t("policy.as_typed"), policy]]), settings);
    this.outdated.hidden = this.#previewedPolicy === null || JSON.stringify(policy) === this.#previewedPolicy;
  }

  async #run() {
    const policy = this.#valueOf();
    const since = Math.max(0, Math.round((Date.now() / 1_000 - PERIOD_SECONDS[this.length.input.value]) * SECOND));
    this.#previewedPolicy = null;
    this.outdated.hidden = true;
    fill(this.result);
    this.button.disabled = true;
    try {
      const result = await this.job.run("/v1/policy/preview", { policy, since });
      if (result === null) return;
      this.#previewedPolicy = JSON.stringify(policy);
      fill(this.result, renderComparison(result.comparison));
    } catch (error) {
      const isNothing = error instanceof ApiError && (error.detail ?? "").includes("nothing to play");
      fill(this.result, isNothing ? el("p", { class: "muted" }, t("policy.preview_nothing")) : errorState(error, () => this.#run()));
    } finally {
      if (this.#base !== null) this.changed(this.#valueOf(), this.#base);
    }
  }
}

/** @param {Comparison} comparison */
function renderComparison(comparison) {
  return [
    el("p", {}, describeReplay(comparison), comparison.is_cut ? ` ${t("policy.preview_cut")}` : ""),
    gainersAndLosers(comparison),
    groupTable(comparison.groups),
    el("div", { class: "preview-sides" }, levelShares(comparison), waitingSection(comparison)),
  ];
}

/** @param {Comparison["groups"]} groups */
function groupTable(groups) {
  const label = t("policy.preview_groups");
  const heads = ["documents_a_day", "customers", "documents", "mean_now", "mean_then", "p95_now", "p95_then"].map((name) => t(`policy.head_${name}`));
  const rows = groups.map((group) => {
    const waits = [group.current.mean, group.proposed.mean, group.current.p95, group.proposed.p95].map((wait) => duration(wait * SECOND));
    return [groupName(group.group), number(group.customers), number(group.documents), ...waits];
  });
  return el("section", {}, el("h3", {}, label), staticTable(label, heads, rows));
}

/**
 * The documents by level under the proposed policy (above) and the current one (below).
 * @param {Comparison} comparison
 */
function levelShares(comparison) {
  const all = [...new Set([...Object.keys(comparison.levels_current), ...Object.keys(comparison.levels_proposed)].map(Number))].sort((one, other) => one - other);
  const most = Math.max(1, ...Object.values(comparison.levels_current), ...Object.values(comparison.levels_proposed));
  const rows = all.map((level) => {
    const [now, then] = [comparison.levels_current[level] ?? 0, comparison.levels_proposed[level] ?? 0];
    const bar = pairBar();
    bar.update(then / most, now / most);
    return el("li", { class: `preview-level ${levelClass(level)}` }, el("span", {}, levelName(level)), bar.node, el("span", { class: "change" }, percent(now / comparison.documents), " → ", percent(then / comparison.documents)));
  });
  return el("section", {}, el("h3", {}, t("policy.preview_levels")), el("ul", { class: "preview-levels" }, rows));
}

/** @param {Comparison} comparison */
function waitingSection(comparison) {
  const series = [
    { key: "current", label: t("policy.as_now"), className: "series-now" },
    { key: "proposed", label: t("policy.as_typed"), className: "series-a" },
  ];
  const chart = waitingChart(comparison, series);
  return el("section", {}, el("div", { class: "preview-head" }, el("h3", {}, t("policy.preview_waiting")), chart.legend), chart.node);
}
