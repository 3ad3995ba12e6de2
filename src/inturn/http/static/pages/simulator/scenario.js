// Run built-in scenarios under several orders and compare them.

import { el, setText } from "../../dom.js";
import { duration, jainText, number, roundedNumber } from "../../format.js";
import { hasText, t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { checkbox, numberField, selectField } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { staticTable } from "../../components/static_table.js";
import { historyCharts, spreadChart, waitBars } from "./charts.js";
import { MAX_WORKERS, ORDERS, readInteger, readNumber } from "./inputs.js";

/** @import { View } from "../../router.js" */

/** @import { Series } from "../../components/charts.js" */
/** @import { Report } from "./charts.js" */

const SECOND = 1_000_000;
const DEFAULT_SCENARIO = "two-bulk";

export class ScenarioForm {
  #view;
  #scenarios;
  path = "/v1/simulations";
  hint = t("simulator.hint");

  /**
   * @param {View} view
   * @param {Api.Scenario[]} scenarios
   */
  constructor(view, scenarios) {
    this.#view = view;
    this.#scenarios = scenarios;
    const changed = { change: () => this.#changed() };
    const options = scenarios.map((scenario) => [scenario.scenario, scenarioTitle(scenario)]);
    this.scenario = selectField({ label: t("simulator.scenario"), options, on: { change: () => this.#chosen() } });
    this.workers = numberField({ label: t("simulator.workers"), min: "1", max: MAX_WORKERS, step: "1", on: changed });
    this.load = numberField({ label: t("simulator.load"), hint: t("simulator.load_hint"), min: "10", max: "1000", step: "any", on: changed });
    this.seed = numberField({ label: t("simulator.seed"), hint: t("simulator.seed_hint"), min: "0", step: "1", on: changed });
    this.orders = ORDERS.map((order) => checkbox({ label: t(`simulator.order_${order}`), value: order, on: changed }));
    this.ordersError = el("p", { class: "field-error", role: "alert" });
    this.about = el("p", { class: "muted simulator-about" });
    const orders = el("fieldset", {}, el("legend", {}, t("simulator.orders")), el("div", { class: "simulator-orders" }, this.orders.map((field) => field.node)), this.ordersError);
    const able = mayOperate() ? [el("div", { class: "simulator-fields" }, this.workers.node, this.load.node, this.seed.node), orders] : [];
    this.node = el("div", { class: "form" }, this.scenario.node, this.about, able);
  }

  /** Show the inputs of the address. */
  read() {
    const { query } = this.#view;
    const names = this.#scenarios.map((scenario) => scenario.scenario);
    const wanted = query.get("scenario") ?? "";
    this.scenario.input.value = names.includes(wanted) ? wanted : DEFAULT_SCENARIO;
    this.workers.input.value = query.get("workers") ?? String(this.#chosenScenario().workers);
    this.load.input.value = query.get("load") ?? "100";
    this.seed.input.value = query.get("seed") ?? "1";
    const orders = query.getAll("order");
    for (const field of this.orders) field.input.checked = orders.length === 0 || orders.includes(field.input.value);
    const groups = this.#chosenScenario().groups.map((group) => t("simulator.group_of", { group: groupLabel(group.group), n: group.customers }));
    setText(this.about, groups.join(" · "));
  }

  /** Build the request; null if a field is invalid, with an error at the field. */
  requestBody() {
    const orders = this.#orders();
    setText(this.ordersError, orders.length > 0 ? "" : t("simulator.error_orders"));
    const [workers, load, seed] = [readInteger(this.workers, 1, MAX_WORKERS), readNumber(this.load, 10, 1_000), readInteger(this.seed, 0, Number.MAX_SAFE_INTEGER)];
    if (workers === null || load === null || seed === null || orders.length === 0) {
      /** @type {HTMLElement | null} */ (this.node.querySelector("[aria-invalid]"))?.focus();
      return null;
    }
    return { scenario: this.scenario.input.value, orders, workers, load: load / 100, seed };
  }

  /** @param {{ reports: Report[] }} parts */
  results({ reports }) {
    return renderResults(reports);
  }

  #chosenScenario() {
    return this.#scenarios.find((scenario) => scenario.scenario === this.scenario.input.value) ?? this.#scenarios[0];
  }

  #orders() {
    return this.orders.filter((field) => field.input.checked).map((field) => field.input.value);
  }

  /** Change the scenario, which has its own number of workers. */
  #chosen() {
    this.#view.setQuery({ ...this.#query(), scenario: this.scenario.input.value, workers: null }, { replace: false });
  }

  #changed() {
    this.#view.setQuery(this.#query(), { quietly: true });
  }

  /** The inputs that differ from their defaults, for the address. */
  #query() {
    const orders = this.#orders();
    const unless = (/** @type {{ input: HTMLInputElement }} */ field, /** @type {string} */ usual) => (field.input.value === usual ? null : field.input.value);
    const workers = unless(this.workers, String(this.#chosenScenario().workers));
    return { workers, load: unless(this.load, "100"), seed: unless(this.seed, "1"), order: orders.length === ORDERS.length ? null : orders };
  }
}

/**
 * Scenarios and groups come from the server; known names are translated.
 * @param {Api.Scenario} scenario
 */
function scenarioTitle(scenario) {
  return hasText(`simulator.scenario_${scenario.scenario}`) ? t(`simulator.scenario_${scenario.scenario}`) : scenario.title;
}

/** @param {string} group */
function groupLabel(group) {
  const key = group.toLowerCase().replaceAll(" ", "_");
  return hasText(`simulator.group_${key}`) ? t(`simulator.group_${key}`) : group;
}

/** @param {Report[]} reports */
function renderResults(reports) {
  const [first] = reports;
  const orders = reports.map((report) => ({ key: report.order, label: t(`simulator.order_${report.order}`), className: `order-${report.order}` }));
  const legend = () => el("ul", { class: "legend" }, orders.map((order) => el("li", { class: order.className }, order.label)));
  const summary = t("simulator.played", { n: first.documents, workers: first.workers, length: duration(first.seconds * SECOND) });
  return [
    el("p", { role: "status" }, summary),
    panel(t("simulator.waits"), { actions: legend(), hint: t("simulator.waits_hint") }, waitBars(reports, orders, groupLabel)),
    panel(t("simulator.shares"), { hint: t("simulator.shares_hint") }, historyCharts(reports, orders, groupLabel)),
    el("div", { class: "simulator-sides" }, panel(t("simulator.spread"), { actions: legend(), hint: t("simulator.spread_hint") }, spreadChart(reports, orders)), customersTable(reports, orders)),
    figuresTable(reports, orders),
  ];
}

/**
 * The customers with the most documents, and their mean wait in each order.
 * @param {Report[]} reports
 * @param {Series[]} orders
 */
function customersTable(reports, orders) {
  const heads = [t("simulator.customer"), t("simulator.documents"), ...orders.map((order) => order.label)];
  const rows = reports[0].customers.map((customer, index) => {
    const waits = reports.map((report) => duration(report.customers[index].mean * SECOND));
    return [customer.customer === customer.group ? groupLabel(customer.group) : customer.customer, number(customer.documents), ...waits];
  });
  return panel(t("simulator.customers"), { className: "panel-flush", hint: t("simulator.customers_hint") }, staticTable(t("simulator.customers"), heads, rows));
}

/**
 * All figures in one table: the charts' values as text, and more.
 * @param {Report[]} reports
 * @param {Series[]} orders
 */
function figuresTable(reports, orders) {
  const names = ["mean", "p50", "p95", "p99", "worst"];
  const heads = [t("simulator.group"), t("simulator.order"), ...names.map((statistic) => t(`simulator.figure_${statistic}`)), t("simulator.figure_gap"), t("simulator.figure_slowdown"), t("simulator.figure_jain"), t("simulator.figure_jain_documents")];
  const rows = reports[0].groups.flatMap((group, index) =>
    reports.map((report, orderIndex) => {
      const own = report.groups[index];
      const indices = [own.jain ?? report.jain, own.jain_documents ?? report.jain_documents];
      return [groupLabel(group.group), orders[orderIndex].label, ...names.map((statistic) => duration(own[statistic] * SECOND)), duration(own.longest_gap * SECOND), `${roundedNumber(own.slowdown)} ×`, ...indices.map(jainText)];
    }),
  );
  return panel(t("simulator.figures"), { className: "panel-flush", hint: t("simulator.figures_hint") }, staticTable(t("simulator.figures"), heads, rows, 2));
}
