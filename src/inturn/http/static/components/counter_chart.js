// Draw the counter: one column per document, as long as its count, in the colour of its level.

import { fill, setProp, svg } from "../dom.js";
import { number } from "../format.js";
import { levelOf } from "../priority.js";
import { levelClass, levelName } from "./badges.js";
import { responsiveDrawing, textWidth } from "./chart_parts.js";

const HEIGHT = 260;
const MARGIN = { top: 22, right: 12, bottom: 8 };
/**
 * @typedef {{ checks: { count: number, isReset: boolean }[], thresholds: number[], depth: number, resetText: string | null, summary: string }} CounterData
 * @typedef {ReturnType<typeof makeScale>} Scale
 */

const LABEL_HEIGHT_PX = 13;

/**
 * update({checks: [{count, isReset}], thresholds, depth, resetText, summary}): the chart has room for counts down to
 * -depth. A check with `isReset` gets a gap before it, labelled `resetText`. The summary is for screen readers.
 */
export function counterChart() {
  const { node, drawing, redraw } = responsiveDrawing({ height: HEIGHT, className: "counter-chart" }, draw);
  /** @type {CounterData | null} */
  let data = null;

  /** @param {number} width */
  function draw(width) {
    if (data === null) return;
    setProp(drawing, "aria-label", data.summary);
    const scale = makeScale(width, data);
    fill(drawing, grid(scale, data), columns(scale, data), svg("line", { class: "counter-base", x1: scale.left, x2: scale.right, y1: MARGIN.top, y2: MARGIN.top }));
  }

  return {
    node,
    update(/** @type {CounterData} */ next) {
      data = next;
      redraw();
    },
  };
}

/**
 * @param {number} width
 * @param {CounterData} data
 */
function makeScale(width, { checks, thresholds, depth }) {
  const names = thresholds.map((_, index) => levelName(index + 2));
  const left = 10 + textWidth(thresholds.map((threshold) => number(threshold)));
  const right = width - 12 - textWidth(names);
  const slots = Math.max(12, checks.length + checks.filter((check) => check.isReset).length * 3);
  const lowest = Math.max(2, depth);
  return { width, left, right, slot: (right - left) / slots, y: (/** @type {number} */ count) => MARGIN.top + ((0.6 - count) / (lowest + 0.6)) * (HEIGHT - MARGIN.top - MARGIN.bottom) };
}

/**
 * Draw a line where each level begins. Labels that would overlap are left out.
 * @param {Scale} scale
 * @param {CounterData} data
 */
function grid(scale, { thresholds }) {
  let last = -Infinity;
  return thresholds.map((threshold, index) => {
    const y = scale.y(threshold - 0.5);
    if (y > HEIGHT - 4) return null;
    const line = svg("line", { class: "counter-grid", x1: scale.left, x2: scale.right, y1: y, y2: y });
    if (y - last < LABEL_HEIGHT_PX) return line;
    last = y;
    return [
      line,
      svg("text", { class: "counter-mark", x: scale.left - 6, y: y + 4, "text-anchor": "end" }, number(threshold)),
      svg("text", { class: `counter-level ${levelClass(index + 2)}`, x: scale.right + 6, y: y + 4 }, levelName(index + 2)),
    ];
  });
}

/**
 * @param {Scale} scale
 * @param {CounterData} data
 */
function columns(scale, { checks, thresholds, resetText }) {
  const gap = scale.slot > 5 ? Math.min(3, scale.slot * 0.25) : 0;
  const base = scale.y(0.6);
  let slots = 0;
  return checks.map((check) => {
    /** @type {SVGElement[]} */
    const drawn = [];
    if (check.isReset) {
      slots += 3;
      const x = scale.left + (slots - 1.5) * scale.slot;
      drawn.push(svg("line", { class: "counter-reset", x1: x, x2: x, y1: 4, y2: HEIGHT - MARGIN.bottom }));
      if (resetText) drawn.push(svg("text", { class: "counter-mark", x: x - 6, y: 13, "text-anchor": "end" }, resetText));
    }
    const x = scale.left + slots * scale.slot;
    slots += 1;
    const size = { x, y: base, width: Math.max(0.5, scale.slot - gap), height: scale.y(check.count) - base, rx: gap > 1 ? 2 : 0 };
    return [drawn, svg("rect", { class: `counter-column ${levelClass(levelOf(check.count, thresholds))}`, ...size })];
  });
}
