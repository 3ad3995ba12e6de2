// Charts: sparklines and pairs of bars here, charts over time in time_chart.js, what they share in chart_parts.js.

import { el, setProp, svg } from "../dom.js";
import { areaPath, linePath, round } from "./chart_parts.js";

export { timeChart } from "./time_chart.js";

/** @import { Point } from "./chart_parts.js" */
/** @typedef {import("./time_chart.js").Series} Series */

/** The least width of a sparkline, in microseconds: the first seconds after a start are not drawn as if they were long. */
const MIN_SPARK_SPAN = 60_000_000;
/** Points come every five seconds, and less often while a large queue is read; a longer pause is a gap. */
const MIN_SPARK_GAP = 30_000_000;

/**
 * A line without axes, hidden from screen readers: the figure beside it has the value. It is drawn from zero, over
 * time. Where nothing was measured it has a gap; a point between two gaps is a dot.
 */
export function sparkline() {
  const line = svg("path", { class: "spark-line" });
  const below = svg("path", { class: "spark-area" });
  const node = svg("svg", { class: "spark", viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" }, below, line);
  return {
    node,
    update(/** @type {readonly number[]} */ times, /** @type {readonly (number | null)[]} */ values) {
      const points = sparkPoints(times, values);
      setProp(line, "d", linePath(points));
      setProp(below, "d", areaPath(points, points.map((point) => point && [point[0], 27])));
    },
  };
}

/**
 * Points in the sparkline's units, zero at the bottom; null is a gap.
 * @param {readonly number[]} times
 * @param {readonly (number | null)[]} values
 * @returns {Point[]}
 */
function sparkPoints(times, values) {
  if (times.length === 0) return [];
  const last = times[times.length - 1];
  const first = Math.min(times[0], last - MIN_SPARK_SPAN);
  const most = Math.max(...values.map((value) => value ?? 0)) || 1;
  const steps = times.slice(1).map((at, index) => at - times[index]).sort((one, other) => one - other);
  const gap = Math.max(MIN_SPARK_GAP, 3 * (steps[Math.floor(steps.length / 2)] ?? 0));
  return times.flatMap((at, index) => {
    const value = values[index] ?? null;
    /** @type {Point} */
    const point = value === null ? null : [round(((at - first) / (last - first)) * 100), round(27 - (Math.max(0, value) / most) * 25)];
    return index > 0 && at - times[index - 1] > gap ? [null, point] : [point];
  });
}

/** Two bars to compare, such as what is above what was. */
export function pairBar() {
  const first = el("span", { class: "pair-first" });
  const second = el("span", { class: "pair-second" });
  return {
    node: el("span", { class: "pair", "aria-hidden": "true" }, first, second),
    update(/** @type {number | null | undefined} */ one, /** @type {number | null | undefined} */ other) {
      first.style.setProperty("--part", String(Math.min(1, one ?? 0)));
      second.style.setProperty("--part", String(Math.min(1, other ?? 0)));
    },
  };
}
