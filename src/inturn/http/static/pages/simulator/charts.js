// Charts of a scenario's results by order. Times are seconds, as in the simulator's reports.

import { el, fill, setProp, svg } from "../../dom.js";
import { duration, percent } from "../../format.js";
import { t } from "../../i18n.js";

const SECOND = 1_000_000;
const MEASURES = ["mean", "p95", "worst"];
const SERIES = ["series-a", "series-b", "series-c"];
const HEIGHT = 220;
const MARGIN = { top: 10, right: 10, bottom: 24 };
const CHARACTER_WIDTH_PX = 6.6;

/** For each group a bar per order, as long as its wait. The bars of one measure share a scale. */
export function waitBars(reports, orders, nameOf) {
  const groups = reports[0].groups.map((group, index) => {
    const columns = MEASURES.map((measure) => {
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

/** Each group's share of the workers' time: a chart per order, all with one scale. */
export function historyCharts(reports, orders, nameOf) {
  const groups = Object.keys(reports[0].history.groups);
  const legend = el("ul", { class: "legend" }, groups.map((group, index) => el("li", { class: SERIES[index % SERIES.length] }, nameOf(group))));
  const pictures = reports.map((report, orderIndex) => {
    const label = orders[orderIndex].label;
    return el("figure", { class: "share-chart" }, el("figcaption", {}, label), stackedAreaChart(`${t("simulator.shares")}: ${label}`, report.history, groups));
  });
  return el("div", {}, legend, el("div", { class: "share-charts" }, pictures));
}

function stackedAreaChart(label, history, groups) {
  return responsiveChart(label, 150, (width, height) => {
    const left = 8 + CHARACTER_WIDTH_PX * percent(1).length;
    const points = history.groups[groups[0]].length;
    const x = (index) => left + (index / points) * (width - left - MARGIN.right);
    const y = (part) => height - MARGIN.bottom - part * (height - MARGIN.top - MARGIN.bottom);
    const below = new Array(points).fill(0);
    const areas = groups.map((group, index) => {
      const top = history.groups[group].map((part, at) => below[at] + part);
      const area = `M${stepPoints(top, x, y)}L${stepPoints(below, x, y).split("L").reverse().join("L")}Z`;
      top.forEach((part, at) => {
        below[at] = part;
      });
      return svg("path", { class: `share-area ${SERIES[index % SERIES.length]}`, d: area });
    });
    const end = points * history.step;
    return [horizontalGrid([0, 0.5, 1], width, left, y, (part) => percent(part, 0)), areas, xAxisLabels([0.5, 1], left, width, height, (part) => duration(part * end * SECOND))];
  });
}

/** The corner points of a step line. */
function stepPoints(values, x, y) {
  return values.flatMap((value, at) => [`${round(x(at))} ${round(y(value))}`, `${round(x(at + 1))} ${round(y(value))}`]).join("L");
}

/** The mean waits of all customers, from the shortest to the longest. */
export function spreadChart(reports, orders) {
  const most = Math.max(0.1, ...reports.flatMap((report) => report.spread));
  const label = `${t("simulator.spread")}. ${reports.map((report, orderIndex) => `${orders[orderIndex].label}: ${duration(report.spread[report.spread.length >> 1] * SECOND)}`).join(", ")}`;
  return responsiveChart(label, HEIGHT, (width, height) => {
    const written = (part) => duration(part * most * SECOND);
    const left = 8 + CHARACTER_WIDTH_PX * Math.max(...[0, 0.5, 1].map((part) => written(part).length));
    const y = (part) => height - MARGIN.bottom - part * (height - MARGIN.top - MARGIN.bottom);
    const lines = reports.map((report, orderIndex) => {
      const x = (index) => left + (index / (report.spread.length - 1)) * (width - left - MARGIN.right);
      const points = report.spread.map((wait, index) => `${round(x(index))} ${round(y(wait / most))}`);
      return svg("path", { class: `chart-line ${orders[orderIndex].className}`, d: `M${points.join("L")}` });
    });
    return [horizontalGrid([0, 0.5, 1], width, left, y, written), lines, xAxisLabels([0, 0.5, 1], left, width, height, (part) => percent(part, 0))];
  });
}

/** A chart that is redrawn when its width changes. */
function responsiveChart(label, height, make) {
  const drawing = svg("svg", { class: "chart", height, role: "img", "aria-label": label });
  const node = el("div", { class: "chart-box" }, drawing);
  new ResizeObserver(() => {
    const width = node.clientWidth;
    if (width === 0) return;
    setProp(drawing, "width", width);
    setProp(drawing, "viewBox", `0 0 ${width} ${height}`);
    fill(drawing, make(width, height));
  }).observe(node);
  return node;
}

function horizontalGrid(parts, width, left, y, format) {
  return parts.map((part) => [
    svg("line", { class: "chart-grid", x1: left, x2: width - MARGIN.right, y1: y(part), y2: y(part) }),
    svg("text", { class: "chart-mark", x: left - 6, y: y(part) + 4, "text-anchor": "end" }, format(part)),
  ]);
}

function xAxisLabels(parts, left, width, height, format) {
  const anchor = { 0: "start", 1: "end" };
  return parts.map((part) => svg("text", { class: "chart-mark", x: left + part * (width - left - MARGIN.right), y: height - 6, "text-anchor": anchor[part] ?? "middle" }, format(part)));
}

function round(value) {
  return Math.round(value * 10) / 10;
}
