// Replay this queue's real documents, with another order or another number of workers.

import { el } from "../../dom.js";
import { duration, jainText, roundedNumber } from "../../format.js";
import { t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { describeReplay, gainersAndLosers, groupName, waitingChart } from "../../components/comparison.js";
import { numberField, selectField } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { banner } from "../../components/placeholders.js";
import { staticTable } from "../../components/static_table.js";
import { waitBars } from "./charts.js";
import { MAX_WORKERS, ORDERS, readInteger } from "./inputs.js";

/** @import { View } from "../../router.js" */

/** @import { Series } from "../../components/charts.js" */
/** @import { Comparison } from "../../components/comparison.js" */
/** @typedef {Comparison & { is_same: boolean, workers_proposed: number }} ReplayComparison */

const SECOND = 1_000_000;
const DAY = 86_400;
/** @type {Record<string, number>} */
const PERIOD_SECONDS = { day: DAY, week: 7 * DAY };
const STATISTICS = ["mean", "p50", "p95", "worst"];

export const REPLAY_SOURCES = Object.keys(PERIOD_SECONDS);

export class ReplayForm {
  #view;
  path = "/v1/replays";
  hint = t("simulator.own_hint");

  /** @param {View} view */
  constructor(view) {
    this.#view = view;
    const changed = { change: () => this.#changed() };
    const options = [["", t("simulator.own_as_it_was")], ...ORDERS.map((order) => [order, t(`simulator.order_${order}`)])];
    this.order = selectField({ label: t("simulator.order"), options, on: changed });
    this.workers = numberField({ label: t("simulator.workers"), hint: t("simulator.own_workers_hint"), min: "1", max: MAX_WORKERS, step: "1", on: changed });
    this.node = el("div", { class: "form" }, mayOperate() && el("div", { class: "simulator-fields" }, this.order.node, this.workers.node));
  }

  /** Show the inputs of the address. */
  read() {
    const wanted = this.#view.query.get("order") ?? "";
    this.order.input.value = ORDERS.includes(wanted) ? wanted : "";
    this.workers.input.value = this.#view.query.get("workers") ?? "";
  }

  /** Build the request; null if a field is invalid, with an error at the field. */
  requestBody() {
    const isAsItWas = this.workers.input.value === "" && !this.workers.input.validity.badInput;
    const workers = isAsItWas ? null : readInteger(this.workers, 1, MAX_WORKERS);
    if (isAsItWas) this.workers.setError(null);
    else if (workers === null) {
      this.workers.input.focus();
      return null;
    }
    const since = Math.round((Date.now() / 1_000 - PERIOD_SECONDS[this.#view.query.get("source") ?? "day"]) * SECOND);
    return { since, order: this.order.input.value || null, workers };
  }

  /** @param {{ comparison: ReplayComparison }} parts */
  results({ comparison }) {
    return renderResults(comparison);
  }

  #changed() {
    this.#view.setQuery({ order: this.order.input.value, workers: this.workers.input.value }, { quietly: true });
  }
}

/** @param {ReplayComparison} comparison */
function renderResults(comparison) {
  const series = ["measured", "current", "proposed"].filter((key) => !(comparison.is_same && key === "proposed"));
  const shown = series.map((key) => ({ key, label: t(`simulator.own_${key}`), className: `own-${key}` }));
  const legend = el("ul", { class: "legend" }, shown.map((curve) => el("li", { class: curve.className }, curve.label)));
  const reports = series.map((key) => ({ groups: comparison.groups.map((group) => ({ group: group.group, customers: group.customers, ...group[key] })) }));
  const chart = waitingChart(comparison, shown);
  const changed = comparison.workers === comparison.workers_proposed ? "" : ` ${t("simulator.own_workers", { n: comparison.workers_proposed })}`;
  return [
    el("p", { role: "status" }, describeReplay(comparison), changed),
    comparison.is_cut && banner(t("simulator.own_cut"), { kind: "warn" }),
    panel(t("simulator.waits"), { actions: legend, hint: t("simulator.own_waits_hint") }, waitBars(reports, shown, groupLabel)),
    !comparison.is_same && panel(t("simulator.own_who"), { hint: t("simulator.own_who_hint") }, gainersAndLosers(comparison)),
    panel(t("policy.preview_waiting"), { actions: chart.legend }, chart.node),
    figuresTable(comparison, shown),
  ];
}

/** @param {string} group */
function groupLabel(group) {
  return t("simulator.own_group", { group: groupName(group) });
}

/**
 * @param {ReplayComparison} comparison
 * @param {Series[]} shown
 */
function figuresTable(comparison, shown) {
  const heads = [t("policy.head_documents_a_day"), t("simulator.own_played"), ...STATISTICS.map((statistic) => t(`simulator.figure_${statistic}`)), t("simulator.figure_gap"), t("simulator.figure_slowdown"), t("simulator.figure_jain"), t("simulator.figure_jain_documents")];
  const rows = comparison.groups.flatMap((group) =>
    shown.map(({ key, label }) => {
      const fairness = group[`${key}_fairness`];
      const rest = fairness === undefined ? ["–", "–", "–", "–"] : [duration(fairness.longest_gap * SECOND), `${roundedNumber(fairness.slowdown)} ×`, jainText(fairness.jain), jainText(fairness.jain_documents)];
      return [groupName(group.group), label, ...STATISTICS.map((statistic) => (group[key] === null ? "–" : duration(group[key][statistic] * SECOND))), ...rest];
    }),
  );
  return panel(t("simulator.figures"), { className: "panel-flush", hint: t("simulator.figures_hint") }, staticTable(t("simulator.figures"), heads, rows, 2));
}
