// Built-in scenarios, played in several orders beside each other.

import { el, setText } from "../../dom.js";
import { duration, figure, number } from "../../format.js";
import { hasText, t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { panel } from "../../components/panel.js";
import { checkbox, numeric, select } from "../../components/fields.js";
import { plainTable } from "../../components/static_table.js";
import { courses, spreadChart, waitBars } from "./charts.js";
import { MOST_WORKERS, ORDERS, between, whole } from "./inputs.js";

const SECOND = 1_000_000;
const FIRST = "two-bulk";

/** Which scenario is to be played, and how. */
export class ScenarioChoice {
  #view;
  #scenarios;
  path = "/v1/simulations";
  hint = t("simulator.hint");

  constructor(view, scenarios) {
    this.#view = view;
    this.#scenarios = scenarios;
    const changed = { change: () => this.#changed() };
    const options = scenarios.map((each) => [each.scenario, titleOf(each)]);
    this.scenario = select({ label: t("simulator.scenario"), options, on: { change: () => this.#chosen() } });
    this.workers = numeric({ label: t("simulator.workers"), min: "1", max: MOST_WORKERS, step: "1", on: changed });
    this.load = numeric({ label: t("simulator.load"), hint: t("simulator.load_hint"), min: "10", max: "1000", step: "any", on: changed });
    this.seed = numeric({ label: t("simulator.seed"), hint: t("simulator.seed_hint"), min: "0", step: "1", on: changed });
    this.orders = ORDERS.map((order) => checkbox({ label: t(`simulator.order_${order}`), value: order, on: changed }));
    this.wrong = el("p", { class: "field-error", role: "alert" });
    this.about = el("p", { class: "muted simulator-about" });
    const orders = el("fieldset", {}, el("legend", {}, t("simulator.orders")), el("div", { class: "simulator-orders" }, this.orders.map((each) => each.node)), this.wrong);
    const able = mayOperate() ? [el("div", { class: "simulator-fields" }, this.workers.node, this.load.node, this.seed.node), orders] : [];
    this.node = el("div", { class: "form" }, this.scenario.node, this.about, able);
  }

  /** As the address says. */
  read() {
    const { query } = this.#view;
    const names = this.#scenarios.map((each) => each.scenario);
    this.scenario.input.value = names.includes(query.get("scenario")) ? query.get("scenario") : FIRST;
    this.workers.input.value = query.get("workers") ?? this.#chosenScenario().workers;
    this.load.input.value = query.get("load") ?? "100";
    this.seed.input.value = query.get("seed") ?? "1";
    const wanted = query.getAll("order");
    for (const each of this.orders) each.input.checked = wanted.length === 0 || wanted.includes(each.input.value);
    const groups = this.#chosenScenario().groups.map((each) => t("simulator.group_of", { group: nameOf(each.group), n: each.customers }));
    setText(this.about, groups.join(" · "));
  }

  /** What the server is asked for; null if a field is wrong, which it says. */
  asked() {
    const orders = this.#orders();
    setText(this.wrong, orders.length > 0 ? "" : t("simulator.error_orders"));
    const values = [whole(this.workers, 1, MOST_WORKERS), between(this.load, 10, 1_000), whole(this.seed, 0, Number.MAX_SAFE_INTEGER)];
    if (values.includes(null) || orders.length === 0) {
      this.node.querySelector("[aria-invalid]")?.focus();
      return null;
    }
    const [workers, load, seed] = values;
    return { scenario: this.scenario.input.value, orders, workers, load: load / 100, seed };
  }

  results({ reports }) {
    return results(reports);
  }

  #chosenScenario() {
    return this.#scenarios.find((each) => each.scenario === this.scenario.input.value);
  }

  #orders() {
    return this.orders.filter((each) => each.input.checked).map((each) => each.input.value);
  }

  /** Another scenario has workers of its own. */
  #chosen() {
    this.#view.setQuery({ ...this.#query(), scenario: this.scenario.input.value, workers: null }, { replace: false });
  }

  #changed() {
    this.#view.setQuery(this.#query(), { quietly: true });
  }

  /** What is not as usual, for the address. */
  #query() {
    const orders = this.#orders();
    const unless = (field, usual) => (field.input.value === usual ? null : field.input.value);
    const workers = unless(this.workers, String(this.#chosenScenario().workers));
    return { workers, load: unless(this.load, "100"), seed: unless(this.seed, "1"), order: orders.length === ORDERS.length ? null : orders };
  }
}

/** Names of scenarios and groups come from the server; those that we know are translated. */
function titleOf(scenario) {
  return hasText(`simulator.scenario_${scenario.scenario}`) ? t(`simulator.scenario_${scenario.scenario}`) : scenario.title;
}

function nameOf(group) {
  const key = group.toLowerCase().replaceAll(" ", "_");
  return hasText(`simulator.group_${key}`) ? t(`simulator.group_${key}`) : group;
}

function results(reports) {
  const [first] = reports;
  const orders = reports.map((each) => ({ key: each.order, label: t(`simulator.order_${each.order}`), className: `order-${each.order}` }));
  const legend = () => el("ul", { class: "legend" }, orders.map((each) => el("li", { class: each.className }, each.label)));
  const played = t("simulator.played", { n: first.documents, workers: first.workers, length: duration(first.seconds * SECOND) });
  return [
    el("p", { role: "status" }, played),
    panel(t("simulator.waits"), { actions: legend(), hint: t("simulator.waits_hint") }, waitBars(reports, orders, nameOf)),
    panel(t("simulator.shares"), { hint: t("simulator.shares_hint") }, courses(reports, orders, nameOf)),
    el("div", { class: "simulator-sides" }, panel(t("simulator.spread"), { actions: legend(), hint: t("simulator.spread_hint") }, spreadChart(reports, orders)), customers(reports, orders)),
    figures(reports, orders),
  ];
}

/** Those with the most documents: what they wait in each order. */
function customers(reports, orders) {
  const heads = [t("simulator.customer"), t("simulator.documents"), ...orders.map((each) => each.label)];
  const rows = reports[0].customers.map((each, place) => {
    const waits = reports.map((report) => duration(report.customers[place].mean * SECOND));
    return [each.customer === each.group ? nameOf(each.group) : each.customer, number(each.documents), ...waits];
  });
  return panel(t("simulator.customers"), { className: "panel-flush", hint: t("simulator.customers_hint") }, plainTable(t("simulator.customers"), heads, rows));
}

/** Every figure in one table: what the charts show, for those who cannot see them, and more. */
function figures(reports, orders) {
  const names = ["mean", "p50", "p95", "p99", "worst"];
  const heads = [t("simulator.group"), t("simulator.order"), ...names.map((each) => t(`simulator.figure_${each}`)), t("simulator.figure_gap"), t("simulator.figure_slowdown"), t("simulator.figure_jain")];
  const rows = reports[0].groups.flatMap((group, place) =>
    reports.map((report, which) => {
      const own = report.groups[place];
      const jain = own.jain ?? report.jain;
      return [nameOf(group.group), orders[which].label, ...names.map((each) => duration(own[each] * SECOND)), duration(own.longest_gap * SECOND), `${figure(own.slowdown)} ×`, jain === null ? "–" : figure(jain)];
    }),
  );
  return panel(t("simulator.figures"), { className: "panel-flush", hint: t("simulator.figures_hint") }, plainTable(t("simulator.figures"), heads, rows, 2));
}
