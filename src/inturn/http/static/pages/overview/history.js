// One chart of what happened: waits, throughput by customer, or waiting documents by level. Range, zoom and hidden series
// are in the address.

import { get } from "../../api.js";
import { el, fill } from "../../dom.js";
import { duration, roundedNumber, number, time } from "../../format.js";
import { t } from "../../i18n.js";
import { levelName } from "../../components/badges.js";
import { timeChart } from "../../components/charts.js";
import { panel } from "../../components/panel.js";
import { segments } from "../../components/segments.js";

/** @import { View } from "../../router.js" */
/** @typedef {"waits" | "throughput" | "levels"} Tab */

const SECOND = 1_000_000;
const MINUTE = 60 * SECOND;
/** @type {Record<string, number>} */
const RANGES = { "15m": 15 * MINUTE, "1h": 60 * MINUTE, "24h": 24 * 60 * MINUTE, "7d": 7 * 24 * 60 * MINUTE };
/** @type {Record<Tab, "state" | "customer" | "level">} */
const TABS = { waits: "state", throughput: "customer", levels: "level" };
const TOP_CUSTOMERS = 6;
/** A shorter time is shown as this much: its steps are minutes. */
const MIN_ZOOM = 5 * MINUTE;

export class HistoryPanel {
  #view;
  /** @type {ReturnType<typeof timeChart> | null} */
  #chart = null;
  /** @type {Tab | null} */
  #tab = null;
  #now = 0;

  /** @param {View} view */
  constructor(view) {
    this.#view = view;
    this.body = el("div", { class: "history-body" });
    this.legend = el("div", { class: "history-legend" });
    this.back = el("button", { type: "button", class: "button button-small", hidden: true, on: { click: () => this.#goTo({ from: null, to: null }) } }, t("overview.zoom_out"));
    this.span = el("p", { class: "muted history-span", role: "status" });
    const kinds = Object.keys(TABS).map((tab) => /** @type {const} */ ([tab, t(`overview.tab_${tab}`)]));
    const ranges = Object.keys(RANGES).map((range) => /** @type {const} */ ([range, t(`overview.range_${range}`)]));
    this.tabs = segments({ label: t("overview.history"), options: kinds, value: this.tab, pick: (tab) => this.#goTo({ tab, hide: null }) });
    this.ranges = segments({ label: t("overview.range"), options: ranges, value: this.range, pick: (range) => this.#goTo({ range, from: null, to: null }) });
    this.node = panel(t("overview.history"), { className: "overview-history", actions: this.ranges.node }, el("div", { class: "history-head" }, this.tabs.node, this.back, this.legend), this.body, this.span);
  }

  /** @returns {Tab} */
  get tab() {
    const tab = this.#view.query.get("tab") ?? "";
    return tab === "throughput" || tab === "levels" ? tab : "waits";
  }

  get range() {
    const range = this.#view.query.get("range") ?? "";
    return range in RANGES ? range : "1h";
  }

  /** The zoomed time; null if the range is shown. */
  get zoom() {
    const [from, to] = ["from", "to"].map((name) => Number(this.#view.query.get(name) ?? NaN));
    return Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to > from ? { from, to } : null;
  }

  /** @param {Record<string, string | number | null>} query */
  #goTo(query) {
    this.#view.setQuery(query, { quietly: true });
    this.load().catch(() => {}); // the status indicator shows an offline server
  }

  /** Ask for the shown time; a range ends now, by the server's clock. */
  async load(now = this.#now) {
    const { tab, zoom } = this;
    this.#now = now;
    const query = { by: TABS[tab], top: tab === "throughput" ? TOP_CUSTOMERS : null, ...(zoom ?? { from: Math.max(0, now - RANGES[this.range]) }) };
    const history = await get("/v1/history", { query, signal: this.#view.signal });
    if (tab !== this.tab) return;
    const { series, data } = DATA[tab](history);
    const chart = this.#chart === null || this.#tab !== tab ? this.#open(tab, series) : this.#chart;
    chart.update(data, series);
    this.tabs.select(tab);
    this.ranges.select(zoom === null ? this.range : null);
    this.back.hidden = zoom === null;
    this.span.textContent = zoom === null ? "" : t("overview.zoomed", { from: time(zoom.from), to: time(zoom.to) });
  }

  /**
   * @param {Tab} tab
   * @param {Series[]} series
   */
  #open(tab, series) {
    this.#tab = tab;
    const chart = timeChart({
      label: t(`overview.tab_${tab}`),
      series,
      ...(tab === "waits" ? { format: duration, isLength: true } : { format: tab === "levels" ? number : roundedNumber, isStacked: true }),
      hidden: (this.#view.query.get("hide") ?? "").split(",").filter(Boolean),
      onHide: (keys) => this.#view.setQuery({ hide: keys.join(",") || null }, { quietly: true }),
      onZoom: (from, to) => this.#goTo({ from, to: Math.max(to, from + MIN_ZOOM) }),
      onZoomOut: () => {
        if (this.zoom !== null) this.#goTo({ from: null, to: null });
      },
    });
    fill(this.legend, chart.legend);
    fill(this.body, chart.node);
    this.#chart = chart;
    return chart;
  }
}

/** @import { ChartData, Series } from "../../components/time_chart.js" */

/**
 * @type {Record<Tab, (history: Api.QueueHistory) => { series: Series[], data: ChartData }>}
 * What each tab draws of a history. Keys of series are short, since hidden ones stand in the address.
 */
const DATA = {
  waits({ at, total }) {
    const series = ["p50", "p95"].map((key) => ({ key, label: key, className: `series-${key}` }));
    return { series, data: { at, p50: total.wait_p50, p95: total.wait_p95 } };
  },
  throughput({ at, step, series }) {
    const columns = series.map((one, index) => /** @type {const} */ ([one.customer === null ? "others" : `c${index}`, one]));
    return {
      series: columns.map(([key, one], index) => ({ key, label: one.customer ?? t("overview.other_customers"), className: one.customer === null ? "series-others" : `series-${index + 1}` })),
      data: { at, ...Object.fromEntries(columns.map(([key, one]) => [key, one.done.map((n, index) => (n === null ? null : ((n + (one.failed[index] ?? 0)) * MINUTE) / step))])) },
    };
  },
  levels({ at, series }) {
    return {
      series: series.map(({ level }) => ({ key: `l${level}`, label: levelName(level ?? 0), className: `level-${level} series-level` })),
      data: { at, ...Object.fromEntries(series.map((one) => [`l${one.level}`, one.waiting])) },
    };
  },
};
