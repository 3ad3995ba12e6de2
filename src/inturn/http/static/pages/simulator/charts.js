// Charts of a scenario's results by order. Times are seconds, as in the simulator's reports.

import { el, fill, svg } from "../../dom.js";
import { duration, percent } from "../../format.js";
import { t } from "../../i18n.js";
import { areaPath, horizontalGrid, linePath, responsiveDrawing, round, textWidth } from "../../components/chart_parts.js";


/** @import { Child } from "../../dom.js" */
/** @import { Series } from "../../components/charts.js" */

/**
 * A simulated order, in seconds; the fields that the page uses.
 * @typedef {{
 *   order: string,
 *   groups: GroupReport[],
 *   customers: { customer: string, group: string, documents: number, mean: number }[],
 *   history: ShareHistory,
 *   spread: number[],
 *   documents: number, workers: number, seconds: number, jain: number | null, jain_documents: number | null,
 * }} Report
 * @typedef {{ group: string, customers: number, [figure: string]: any }} GroupReport
 * @typedef {{ step: number, groups: Record<string, number[]> }} ShareHistory
 */

const SECOND = 1_000_000;
const MEASURES = ["mean", "p95", "worst"];
const SERIES = ["series-a", "series-b", "series-c"];
const HEIGHT = 220;
const MARGIN = { top: 10, right: 10, bottom: 24 };

/**
 * For each group a bar per order, as long as its wait. The bars of one measure share a scale.
 * @param {readonly { groups: GroupReport[] }[]} reports
 * @param {readonly Series[]} orders
 * @param {(group: string) => string} nameOf
 */
export function waitBars(reports, orders, nameOf) {
  const groups = reports[0].groups.map((group, index) => {
    const columns = MEASURES.map((measure) => {
      /** @type {(number | undefined)[]} */
      const waits = reports.map((report) => report.groups[index][measure]); // undefined: not measured
      const most = Math.max(...waits.filter((wait) => wait !== undefined), 0.001);
      const bars = waits.map((wait, orderIndex) => {
        const bar = el("span", { class: "wait-bar", vars: { part: (wait ?? 0) / most } });
        return el("li", { class: orders[orderIndex].className }, el("span", { class: "hidden" }, `${orders[orderIndex].label}: `), el("span", { class: "wait-track", "aria-hidden": "true" }, bar), el("span", { class: "wait-number" }, wait === undefined ? "–" : duration(wait * SECOND)));
      });
      return el("div", {}, el("h4", {}, t(`simulator.figure_${measure}`)), el("ul", { class: "wait-bars" }, bars));
    });
    const about = t("simulator.group_of", { group: nameOf(group.group), n: group.customers });
    return el("section", { class: "wait-group" }, el("h3", {}, about), el("div", { class: "wait-columns" }, columns));
  });
  return el("div", { class: "wait-groups" }, groups);
}

/**
 * Each group's share of the workers' time: a chart per order, all with one scale.
 * @param {readonly Report[]} reports
 * @param {readonly Series[]} orders
 * @param {(group: string) => string} nameOf
 */
export function historyCharts(reports, orders, nameOf) {
  const groups = Object.keys(reports[0].history.groups);
  const legend = el("ul", { class: "legend" }, groups.map((group, index) => el("li", { class: SERIES[index % SERIES.length] }, nameOf(group))));
  const pictures = reports.map((report, orderIndex) => {
    const label = orders[orderIndex].label;
    return el("figure", { class: "share-chart" }, el("figcaption", {}, label), stackedAreaChart(`${t("simulator.shares")}: ${label}`, report.history, groups));
  });
  return el("div", {}, legend, el("div", { class: "share-charts" }, pictures));
}

/**
 * @param {string} label
 * @param {ShareHistory} history
 * @param {string[]} groups
 */
function stackedAreaChart(label, history, groups) {
  return responsiveChart(label, 150, (width, height) => {
    const left = 8 + textWidth([percent(1)]);
    const points = history.groups[groups[0]].length;
    const x = (/** @type {number} */ index) => left + (index / points) * (width - left - MARGIN.right);
    const y = (/** @type {number} */ part) => height - MARGIN.bottom - part * (height - MARGIN.top - MARGIN.bottom);
    /** @type {number[]} */
    const below = new Array(points).fill(0);
    const areas = groups.map((group, index) => {
      const top = history.groups[group].map((part, at) => below[at] + part);
      const area = areaPath(stepPoints(top, x, y), stepPoints(below, x, y));
      top.forEach((part, at) => {
        below[at] = part;
      });
      return svg("path", { class: `share-area ${SERIES[index % SERIES.length]}`, d: area });
    });
    const end = points * history.step;
    return [horizontalGrid([0, 0.5, 1], { left, right: width - MARGIN.right, y, format: (part) => percent(part, 0) }), areas, xAxisLabels([0.5, 1], left, width, height, (part) => duration(part * end * SECOND))];
  });
}

/**
 * The corner points of a step line.
 * @param {number[]} values
 * @param {(index: number) => number} x
 * @param {(part: number) => number} y
 * @returns {[number, number][]}
 */
function stepPoints(values, x, y) {
  return values.flatMap((value, at) => [[round(x(at)), round(y(value))], [round(x(at + 1)), round(y(value))]]);
}

/**
 * The mean waits of all customers, from the shortest to the longest.
 * @param {readonly Report[]} reports
 * @param {readonly Series[]} orders
 */
export function spreadChart(reports, orders) {
  const most = Math.max(0.1, ...reports.flatMap((report) => report.spread));
  const label = `${t("simulator.spread")}. ${reports.map((report, orderIndex) => `${orders[orderIndex].label}: ${duration(report.spread[report.spread.length >> 1] * SECOND)}`).join(", ")}`;
  return responsiveChart(label, HEIGHT, (width, height) => {
    const written = (/** @type {number} */ part) => duration(part * most * SECOND);
    const left = 8 + textWidth([0, 0.5, 1].map(written));
    const y = (/** @type {number} */ part) => height - MARGIN.bottom - part * (height - MARGIN.top - MARGIN.bottom);
    const lines = reports.map((report, orderIndex) => {
      const x = (/** @type {number} */ index) => left + (index / (report.spread.length - 1)) * (width - left - MARGIN.right);
      const d = linePath(report.spread.map((wait, index) => [round(x(index)), round(y(wait / most))]));
      return svg("path", { class: `chart-line ${orders[orderIndex].className}`, d });
    });
    return [horizontalGrid([0, 0.5, 1], { left, right: width - MARGIN.right, y, format: written }), lines, xAxisLabels([0, 0.5, 1], left, width, height, (part) => percent(part, 0))];
  });
}

/**
 * A chart made of what make(width, height) returns.
 * @param {string} label
 * @param {number} height
 * @param {(width: number, height: number) => Child} make
 */
function responsiveChart(label, height, make) {
  const { node, drawing } = responsiveDrawing({ height, label }, (width) => fill(drawing, make(width, height)));
  return node;
}

/**
 * @param {number[]} parts
 * @param {number} left
 * @param {number} width
 * @param {number} height
 * @param {(part: number) => string} format
 */
function xAxisLabels(parts, left, width, height, format) {
  /** @type {Record<number, string>} */
  const anchor = { 0: "start", 1: "end" };
  return parts.map((part) => svg("text", { class: "chart-mark", x: left + part * (width - left - MARGIN.right), y: height - 6, "text-anchor": anchor[part] ?? "middle" }, format(part)));
}
