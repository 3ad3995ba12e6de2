// A panel with one chart of a queue's or a customer's history, and tabs for what it shows. Tab, range, zoom and hidden series
// are in the address.

import { get } from "../api.js";
import { el, fill } from "../dom.js";
import { time } from "../format.js";
import { t } from "../i18n.js";
import { timeChart } from "./charts.js";
import { panel } from "./panel.js";
import { segments } from "./segments.js";

/** @import { View } from "../router.js" */
/** @import { ChartData, Options, Series } from "./time_chart.js" */
/**
 * @typedef {{
 *   label: string, by?: "state" | "customer" | "level", top?: number, chart: Partial<Options>,
 *   read: (history: Api.QueueHistory) => { series: Series[], data: ChartData },
 * }} HistoryTab
 * What a tab asks for, and draws of the answer. Keys of series are short, since hidden ones stand in the address.
 */

const SECOND = 1_000_000;
const MINUTE = 60 * SECOND;
/** @type {Record<string, number>} */
const RANGES = { "15m": 15 * MINUTE, "1h": 60 * MINUTE, "24h": 24 * 60 * MINUTE, "7d": 7 * 24 * 60 * MINUTE };
/** A shorter time is shown as this much: its steps are minutes. */
const MIN_ZOOM = 5 * MINUTE;

export class HistoryPanel {
  #view;
  #tabs;
  #query;
  /** @type {ReturnType<typeof timeChart> | null} */
  #chart = null;
  /** @type {string | null} */
  #tab = null;
  #now = 0;

  /**
   * `tabs` by their names in the address, the first one without; `query` is asked with each of them.
   * @param {View} view
   * @param {Record<string, HistoryTab>} tabs
   * @param {{ customer?: string }} query
   */
  constructor(view, tabs, query = {}) {
    this.#view = view;
    this.#tabs = tabs;
    this.#query = query;
    this.body = el("div", { class: "history-body" });
    this.legend = el("div", { class: "history-legend" });
    this.back = el("button", { type: "button", class: "button button-small", hidden: true, on: { click: () => this.#goTo({ from: null, to: null }) } }, t("shell.history_zoom_out"));
    this.span = el("p", { class: "muted history-span", role: "status" });
    const kinds = Object.entries(tabs).map(([tab, { label }]) => /** @type {const} */ ([tab, label]));
    const ranges = Object.keys(RANGES).map((range) => /** @type {const} */ ([range, t(`shell.history_${range}`)]));
    this.tabs = segments({ label: t("shell.history"), options: kinds, value: this.tab, pick: (tab) => this.#goTo({ tab, hide: null }) });
    this.ranges = segments({ label: t("shell.history_range"), options: ranges, value: this.range, pick: (range) => this.#goTo({ range, from: null, to: null }) });
    this.node = panel(t("shell.history"), { className: "history-panel", actions: this.ranges.node }, el("div", { class: "history-head" }, this.tabs.node, this.back, this.legend), this.body, this.span);
  }

  get tab() {
    const tab = this.#view.query.get("tab") ?? "";
    return tab in this.#tabs ? tab : Object.keys(this.#tabs)[0];
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
    const { by = "state", top = null, read } = this.#tabs[tab];
    const query = { ...this.#query, by, top, ...(zoom ?? { from: Math.max(0, now - RANGES[this.range]) }) };
    const history = await get("/v1/history", { query, signal: this.#view.signal });
    if (tab !== this.tab) return;
    const { series, data } = read(history);
    const chart = this.#chart === null || this.#tab !== tab ? this.#open(tab, series) : this.#chart;
    chart.update(data, series);
    this.tabs.select(tab);
    this.ranges.select(zoom === null ? this.range : null);
    this.back.hidden = zoom === null;
    this.span.textContent = zoom === null ? "" : t("shell.history_zoomed", { from: time(zoom.from), to: time(zoom.to) });
  }

  /**
   * @param {string} tab
   * @param {Series[]} series
   */
  #open(tab, series) {
    this.#tab = tab;
    const { label, chart: options } = this.#tabs[tab];
    const chart = timeChart({
      label,
      series,
      ...options,
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

/**
 * A count of each step as documents a minute.
 * @param {readonly (number | null)[]} counts
 * @param {number} step
 */
export function perMinute(counts, step) {
  return counts.map((n) => (n === null ? null : (n * MINUTE) / step));
}

/** @param {Api.QueueHistory} history */
export function readWaits({ at, total }) {
  const series = ["p50", "p95"].map((key) => ({ key, label: key, className: `series-${key}` }));
  return { series, data: { at, p50: total.wait_p50, p95: total.wait_p95 } };
}
