// What all charts share: drawings in real pixels, scales, axes with round marks, and paths with gaps.

import { el, setProp, svg } from "../dom.js";
import { shortDate, shortTimeOfDay, timeOfDay } from "../format.js";

const SECOND = 1_000_000;
const DAY = 86_400 * SECOND;
const CHARACTER_WIDTH_PX = 6.6;
const MARK_WIDTH_PX = 78;
/** Upper ends of duration axes, in seconds. A quarter of each is a round duration too. */
const DURATION_AXIS_SECONDS = [0.4, 1, 2, 4, 8, 20, 40, 60, 120, 240, 480, 1_200, 2_400, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 345_600];
/** Distances of marks on a time axis, in seconds. */
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600];

/**
 * A point of a drawing; null is a gap.
 * @typedef {readonly [number, number] | null} Point
 */

/**
 * A drawing that is made anew when its width changes: draw(width). Lines stay sharp and texts keep their shape.
 * @param {{ height: number, className?: string, label?: string | null }} options
 * @param {(width: number) => void} draw
 */
export function responsiveDrawing({ height, className = "chart", label = null }, draw) {
  const drawing = svg("svg", { class: className, height, role: "img", "aria-label": label });
  const node = el("div", { class: "chart-box" }, drawing);
  const redraw = () => {
    const width = node.clientWidth;
    if (width === 0) return;
    setProp(drawing, "width", width);
    setProp(drawing, "viewBox", `0 0 ${width} ${height}`);
    draw(width);
  };
  new ResizeObserver(redraw).observe(node);
  return { node, drawing, redraw };
}

/**
 * Values of the horizontal lines of a chart up to `top`.
 * @param {number} top
 */
export function axisTicks(top) {
  return [0, 1, 2, 3, 4].map((part) => (top * part) / 4);
}

/**
 * Lines across a chart with their values at the left.
 * @param {readonly number[]} values
 * @param {{ left: number, right: number, y: (value: number) => number, format: (value: number) => string }} scale
 */
export function horizontalGrid(values, { left, right, y, format }) {
  return values.map((value) => [
    svg("line", { class: "chart-grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    svg("text", { class: "chart-mark", x: left - 7, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
}

/**
 * The room that the longest of some texts takes, in pixels.
 * @param {readonly string[]} texts
 */
export function textWidth(texts) {
  return CHARACTER_WIDTH_PX * Math.max(0, ...texts.map((text) => text.length));
}

/** @param {number} most */
export function niceDurationMax(most) {
  const seconds = most / SECOND;
  return SECOND * (DURATION_AXIS_SECONDS.find((candidate) => candidate >= seconds) ?? niceMax(seconds / 86_400) * 86_400);
}

/** @param {number} most */
export function niceMax(most) {
  if (most <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 8, 10].map((step) => step * size).find((candidate) => candidate >= most) ?? most;
}

/**
 * Round times of the reader's zone between two times, as many as fit. Midnights show their date.
 * @param {number} from
 * @param {number} to
 * @param {number} width
 */
export function timeTicks(from, to, width) {
  const room = Math.max(2, Math.floor(width / MARK_WIDTH_PX));
  const step = SECOND * (TIME_STEPS.find((seconds) => (to - from) / SECOND / seconds <= room) ?? TIME_STEPS[TIME_STEPS.length - 1]);
  const times = [];
  for (let at = firstTick(from, step); at <= to; at = nextTick(at, step)) times.push(at);
  return times.map((at) => ({ at, text: tickText(at, step) }));
}

/**
 * @param {number} at
 * @param {number} step
 */
function tickText(at, step) {
  if (step >= DAY || isMidnight(at)) return shortDate(at);
  return step < 60 * SECOND ? timeOfDay(at) : shortTimeOfDay(at);
}

/** @param {number} at */
function isMidnight(at) {
  const date = new Date(at / 1_000);
  return date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
}

/**
 * Days are counted from local midnights, which are 23 to 25 hours apart.
 * @param {number} from
 * @param {number} step
 */
function firstTick(from, step) {
  const date = new Date(from / 1_000);
  date.setHours(0, 0, 0, 0);
  let at = date.getTime() * 1_000;
  while (at < from) at = nextTick(at, step);
  return at;
}

/**
 * @param {number} at
 * @param {number} step
 */
function nextTick(at, step) {
  if (step < DAY) return at + step;
  const date = new Date(at / 1_000);
  date.setDate(date.getDate() + step / DAY);
  return date.getTime() * 1_000;
}

/**
 * A line through points, broken where one is null. A point between two gaps is a dot.
 * @param {readonly Point[]} points
 */
export function linePath(points) {
  return pieces(points).map((piece) => (piece.length === 1 ? `M${piece[0].join(" ")}h0.01` : `M${piece.map((point) => point.join(" ")).join("L")}`)).join("") || null;
}

/**
 * The area between two lines over the same x, broken where a point is null.
 * @param {readonly Point[]} upper
 * @param {readonly Point[]} lower
 */
export function areaPath(upper, lower) {
  const both = upper.map((point, index) => {
    const below = lower[index];
    return point === null || below === null ? null : /** @type {const} */ ([point, below]);
  });
  return pieces(both).map((piece) => `M${piece.map(([point]) => point.join(" ")).join("L")}L${piece.map(([, point]) => point.join(" ")).reverse().join("L")}Z`).join("") || null;
}

/**
 * @template T
 * @param {readonly (T | null)[]} points
 */
function pieces(points) {
  /** @type {T[][]} */
  const result = [];
  /** @type {T[] | null} */
  let piece = null;
  for (const point of points) {
    if (point === null) piece = null;
    else {
      if (piece === null) result.push((piece = []));
      piece.push(point);
    }
  }
  return result;
}

/** @param {number} value */
export function round(value) {
  return Math.round(value * 10) / 10;
}
