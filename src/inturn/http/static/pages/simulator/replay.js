// What really came to this queue, played once more: as it was, and with another order or other workers.

import { el } from "../../dom.js";
import { duration, figure } from "../../format.js";
import { t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { panel } from "../../components/panel.js";
import { groupName, played, sides, waitingChart } from "../../components/comparison.js";
import { numeric, select } from "../../components/fields.js";
import { plainTable } from "../../components/static_table.js";
import { banner } from "../../components/placeholders.js";
import { waitBars } from "./charts.js";
import { MOST_WORKERS, ORDERS, whole } from "./inputs.js";

const SECOND = 1_000_000;
const DAY = 86_400;
const LENGTHS = { day: DAY, week: 7 * DAY };
const FIGURES = ["mean", "p50", "p95", "worst"];

export const OWN = Object.keys(LENGTHS);

/** How the past is to be played. */
export class OwnChoice {
  #view;
  path = "/v1/replays";
  hint = t("simulator.own_hint");

  constructor(view) {
    this.#view = view;
    const changed = { change: () => this.#changed() };
    const options = [["", t("simulator.own_as_it_was")], ...ORDERS.map((each) => [each, t(`simulator.order_${each}`)])];
    this.order = select({ label: t("simulator.order"), options, on: changed });
    this.workers = numeric({ label: t("simulator.workers"), hint: t("simulator.own_workers_hint"), min: "1", max: MOST_WORKERS, step: "1", on: changed });
    this.node = el("div", { class: "form" }, mayOperate() && el("div", { class: "simulator-fields" }, this.order.node, this.workers.node));
  }

  /** As the address says. */
  read() {
    const wanted = this.#view.query.get("order");
    this.order.input.value = ORDERS.includes(wanted) ? wanted : "";
    this.workers.input.value = this.#view.query.get("workers") ?? "";
  }

  /** What the server is asked for; null if a field is wrong, which it says. */
  asked() {
    const isAsItWas = this.workers.input.value === "" && !this.workers.input.validity.badInput;
    const workers = isAsItWas ? null : whole(this.workers, 1, MOST_WORKERS);
    if (isAsItWas) this.workers.setError(null);
    else if (workers === null) {
      this.workers.input.focus();
      return null;
    }
    const since = Math.round((Date.now() / 1_000 - LENGTHS[this.#view.query.get("source")]) * SECOND);
    return { since, order: this.order.input.value || null, workers };
  }

  results({ comparison }) {
    return results(comparison);
  }

  #changed() {
    this.#view.setQuery({ order: this.order.input.value, workers: this.workers.input.value }, { quietly: true });
  }
}

function results(found) {
  const series = ["measured", "current", "proposed"].filter((key) => !(found.is_same && key === "proposed"));
  const shown = series.map((key) => ({ key, label: t(`simulator.own_${key}`), className: `own-${key}` }));
  const legend = el("ul", { class: "legend" }, shown.map((each) => el("li", { class: each.className }, each.label)));
  const reports = series.map((key) => ({ groups: found.groups.map((each) => ({ group: each.group, customers: each.customers, ...each[key] })) }));
  const chart = waitingChart(found, shown);
  const changed = found.workers === found.workers_proposed ? "" : ` ${t("simulator.own_workers", { n: found.workers_proposed })}`;
  return [
    el("p", { role: "status" }, played(found), changed),
    found.is_cut && banner(t("simulator.own_cut"), { kind: "warn" }),
    panel(t("simulator.waits"), { actions: legend, hint: t("simulator.own_waits_hint") }, waitBars(reports, shown, nameOf)),
    !found.is_same && panel(t("simulator.own_who"), { hint: t("simulator.own_who_hint") }, sides(found)),
    panel(t("policy.preview_waiting"), { actions: chart.legend }, chart.node),
    figures(found, shown),
  ];
}

function nameOf(group) {
  return t("simulator.own_group", { group: groupName(group) });
}

function figures(found, shown) {
  const heads = [t("policy.head_documents_a_day"), t("simulator.own_played"), ...FIGURES.map((each) => t(`simulator.figure_${each}`)), t("simulator.figure_gap"), t("simulator.figure_slowdown"), t("simulator.figure_jain")];
  const rows = found.groups.flatMap((group) =>
    shown.map(({ key, label }) => {
      const fairness = group[`${key}_fairness`];
      const rest = fairness === undefined ? ["–", "–", "–"] : [duration(fairness.longest_gap * SECOND), `${figure(fairness.slowdown)} ×`, fairness.jain === null ? "–" : figure(fairness.jain)];
      return [groupName(group.group), label, ...FIGURES.map((each) => (group[key] === null ? "–" : duration(group[key][each] * SECOND))), ...rest];
    }),
  );
  return panel(t("simulator.figures"), { className: "panel-flush", hint: t("simulator.figures_hint") }, plainTable(t("simulator.figures"), heads, rows, 2));
}
