// A chart over time with a cursor, a brush and a legend: lines, or areas on top of each other.

import { el, fill, setProp, svg } from "../dom.js";
import { number, time } from "../format.js";
import { t } from "../i18n.js";
import { areaPath, axisTicks, horizontalGrid, linePath, niceDurationMax, niceMax, responsiveDrawing, round, textWidth, timeTicks } from "./chart_parts.js";

const HEIGHT = 220;
const MARGIN = { top: 12, right: 12, bottom: 26, left: 30 };
const MIN_BRUSH_PX = 8;
const MAX_READ_OUT = 8;

/**
 * @typedef {{ key: string, label: string, className: string }} Series
 * @typedef {Record<string, readonly (number | null)[]> & { at: readonly number[] }} ChartData
 * @typedef {{ x: (at: number) => number, y: (value: number) => number }} Scale
 * @typedef {(number | null)[]} Values
 * @typedef {{ curve: Series, upper: Values, lower: Values }} Row
 * @typedef {{
 *   label: string, series: readonly Series[], format?: (value: number) => string, isLength?: boolean, isStacked?: boolean, height?: number,
 *   hidden?: readonly string[], onZoom?: ((from: number, to: number) => void) | null, onZoomOut?: (() => void) | null,
 *   onHide?: (keys: string[]) => void,
 * }} Options
 */

/**
 * series: [{key, label, className}]; update({at: [µs], [key]: [numbers or null]}, series?). Null is a gap.
 * `format` formats a value, `isLength` marks values as durations, `isStacked` puts areas on top of each other.
 * Arrow keys move a cursor that reads out the values. Dragging, or Shift with arrows and then Enter, calls onZoom(from, to);
 * Escape, or the button of `back`, calls onZoomOut(). The legend's buttons hide series: onHide([keys]).
 * @param {Options} options
 */
export function timeChart({ label, series, format = number, isLength = false, isStacked = false, height = HEIGHT, hidden = [], onZoom = null, onZoomOut = null, onHide = () => {} }) {
  const axes = svg("g", { class: "chart-axes" });
  const curves = svg("g");
  const brush = svg("rect", { class: "chart-brush", y: MARGIN.top, height: height - MARGIN.top - MARGIN.bottom });
  const line = svg("line", { class: "chart-cursor", y1: MARGIN.top, y2: height - MARGIN.bottom });
  const { node, drawing, redraw } = responsiveDrawing({ height, label }, draw);
  drawing.append(axes, curves, brush, line);
  setProp(drawing, "aria-hidden", "true");
  const readout = el("div", { class: "chart-readout", "aria-hidden": "true" });
  const handle = el("div", { class: "chart-handle", role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "0" });
  node.append(handle, readout);
  const legend = el("ul", { class: "legend" });
  const off = new Set(hidden);
  /** @type {ChartData} */
  let data = { at: [] };
  /** @type {Scale | undefined} */
  let scale;
  /** @type {number | null} */
  let cursor = null;
  /** @type {number | null} */
  let anchor = null;

  const shown = () => series.filter((curve) => !off.has(curve.key));
  const valueOf = (/** @type {Series} */ curve, /** @type {number} */ index) => (data[curve.key] ?? [])[index] ?? null;
  const written = (/** @type {number | null} */ value) => (value === null ? "–" : format(value));

  /** @param {number} width */
  function draw(width) {
    const rows = stack(shown(), data, isStacked);
    const most = Math.max(0, ...rows.flatMap(({ upper }) => upper.map((value) => value ?? 0)));
    const top = isLength ? niceDurationMax(most) : niceMax(most);
    const left = Math.max(MARGIN.left, 14 + textWidth(axisTicks(top).map(format)));
    const [first, last] = [data.at[0] ?? 0, data.at.at(-1) ?? 1];
    const right = width - MARGIN.right;
    /** @type {Scale} */
    const drawn = {
      x: (at) => round(left + ((at - first) / (last - first || 1)) * (right - left)),
      y: (value) => round(height - MARGIN.bottom - (value / top) * (height - MARGIN.top - MARGIN.bottom)),
    };
    scale = drawn;
    const marks = data.at.length < 2 ? [] : timeTicks(first, last, right - left);
    fill(axes, horizontalGrid(axisTicks(top), { left, right, y: drawn.y, format }), marks.map(({ at, text }) => timeMark(drawn.x(at), text, width)));
    fill(curves, rows.map((row) => drawCurve(row, drawn)));
    setCursor(cursor);
  }

  /**
   * @param {number} x
   * @param {string} text
   * @param {number} width
   */
  function timeMark(x, text, width) {
    const half = textWidth([text]) / 2;
    const inside = x - half < 0 || x + half > width ? null : svg("text", { class: "chart-mark", x, y: height - 6, "text-anchor": "middle" }, text);
    return [svg("line", { class: "chart-tick", x1: x, x2: x, y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }), inside];
  }

  /**
   * @param {Row} row
   * @param {Scale} drawn
   */
  function drawCurve({ curve, upper, lower }, drawn) {
    const points = (/** @type {Values} */ values) => values.map((value, index) => (value === null ? null : /** @type {const} */ ([drawn.x(data.at[index]), drawn.y(value)])));
    if (!isStacked) return svg("path", { class: `chart-line ${curve.className}`, d: linePath(points(upper)) });
    return svg("path", { class: `chart-area ${curve.className}`, d: areaPath(points(upper), points(lower)) });
  }

  /** @param {number | null} index */
  function setCursor(index) {
    cursor = index === null || data.at.length === 0 ? null : Math.max(0, Math.min(data.at.length - 1, index));
    node.classList.toggle("is-pointed", cursor !== null);
    setProp(handle, "aria-valuemax", String(Math.max(0, data.at.length - 1)));
    setProp(handle, "aria-valuenow", String(cursor ?? Math.max(0, data.at.length - 1)));
    setProp(handle, "aria-valuetext", describe(cursor ?? data.at.length - 1));
    setProp(brush, "visibility", anchor === null || cursor === null || anchor === cursor ? "hidden" : "visible");
    if (cursor === null || scale === undefined) return;
    const x = scale.x(data.at[cursor]);
    setProp(line, "x1", x);
    setProp(line, "x2", x);
    if (anchor !== null) {
      const from = scale.x(data.at[anchor]);
      setProp(brush, "x", Math.min(from, x));
      setProp(brush, "width", Math.abs(from - x));
    }
    const here = cursor;
    fill(readout, el("p", {}, time(data.at[here])), readOut(here).map((curve) => el("p", { class: curve.className }, `${curve.label} ${written(valueOf(curve, here))}`)));
    const isRight = x > node.clientWidth / 2;
    readout.style.left = isRight ? "auto" : `${x + 10}px`;
    readout.style.right = isRight ? `${node.clientWidth - x + 10}px` : "auto";
  }

  /**
   * Series to read out at a point: all, or of many those with the highest values.
   * @param {number} index
   */
  function readOut(index) {
    if (shown().length <= MAX_READ_OUT) return shown();
    return shown().sort((one, other) => (valueOf(other, index) ?? -1) - (valueOf(one, index) ?? -1)).slice(0, MAX_READ_OUT);
  }

  /** @param {number} index */
  function describe(index) {
    if (index < 0) return t("shell.chart_empty");
    return `${time(data.at[index])}: ${readOut(index).map((curve) => `${curve.label} ${written(valueOf(curve, index))}`).join(", ")}`;
  }

  /**
   * @param {PointerEvent} event
   * @param {Scale} drawn
   */
  function nearest(event, drawn) {
    const x = event.clientX - node.getBoundingClientRect().left;
    const distance = (/** @type {number} */ at) => Math.abs(drawn.x(at) - x);
    return data.at.reduce((best, at, index) => (distance(at) < distance(data.at[best]) ? index : best), 0);
  }

  function zoom() {
    if (anchor === null || cursor === null || anchor === cursor || onZoom === null) return;
    const [from, to] = [anchor, cursor].sort((one, other) => one - other);
    anchor = null;
    const step = data.at[1] - data.at[0];
    onZoom(data.at[from], data.at[to] + step);
  }

  handle.addEventListener("keydown", (event) => {
    const last = data.at.length - 1;
    const here = cursor ?? last;
    /** @type {Record<string, number>} */
    const targets = { ArrowLeft: here - 1, ArrowRight: here + 1, PageDown: here - 10, PageUp: here + 10, Home: 0, End: last };
    const target = targets[event.key];
    if (target !== undefined && last >= 0) {
      if (!event.shiftKey) anchor = null;
      else anchor ??= here;
      setCursor(target);
    } else if (event.key === "Enter") zoom();
    else if (event.key === "Escape" && anchor !== null) {
      anchor = null;
      setCursor(cursor);
    }
    else if (event.key === "Escape" && onZoomOut !== null) onZoomOut();
    else return;
    event.preventDefault();
  });
  handle.addEventListener("blur", () => {
    anchor = null;
    setCursor(null);
  });
  /** @type {number | null} */
  let pressedAt = null;
  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || scale === undefined || data.at.length === 0 || onZoom === null) return;
    [pressedAt, anchor] = [event.clientX, nearest(event, scale)];
    handle.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointermove", (event) => {
    if (scale !== undefined && data.at.length > 0) setCursor(nearest(event, scale));
  });
  node.addEventListener("pointerup", (event) => {
    const isDrag = pressedAt !== null && Math.abs(event.clientX - pressedAt) >= MIN_BRUSH_PX;
    pressedAt = null;
    if (isDrag) zoom();
    anchor = null;
    setCursor(cursor);
  });
  node.addEventListener("pointercancel", () => {
    [pressedAt, anchor] = [null, null];
  });
  node.addEventListener("pointerleave", () => {
    if (pressedAt === null && document.activeElement !== handle) setCursor(null);
  });

  function drawLegend() {
    fill(legend, series.map((curve) => {
      const button = el("button", { type: "button", class: "legend-button", "aria-pressed": String(!off.has(curve.key)) }, curve.label);
      button.addEventListener("click", () => toggle(curve, button));
      return el("li", { class: curve.className }, button);
    }));
  }

  /**
   * @param {Series} curve
   * @param {HTMLElement} button
   */
  function toggle(curve, button) {
    if (!off.delete(curve.key)) off.add(curve.key);
    setProp(button, "aria-pressed", String(!off.has(curve.key)));
    onHide([...off]);
    redraw();
  }

  drawLegend();
  return {
    node,
    legend,
    update(/** @type {ChartData} */ next, /** @type {readonly Series[]} */ nextSeries = series) {
      const isOther = nextSeries.map((curve) => curve.key).join("\n") !== series.map((curve) => curve.key).join("\n");
      const at = cursor === null ? null : data.at[cursor];
      [series, data] = [nextSeries, next];
      if (isOther) drawLegend();
      if (at !== null) cursor = Math.max(0, data.at.indexOf(at));
      redraw();
    },
  };
}

/**
 * Rows of a chart: each series from its lower to its upper values; stacked ones begin where the one before ends.
 * @param {readonly Series[]} series
 * @param {ChartData} data
 * @param {boolean} isStacked
 * @returns {Row[]}
 */
function stack(series, data, isStacked) {
  let below = data.at.map(() => 0);
  return series.map((curve) => {
    const values = data.at.map((_, index) => (data[curve.key] ?? [])[index] ?? null);
    const lower = below;
    const upper = isStacked ? values.map((value, index) => (value === null ? null : value + lower[index])) : values;
    if (isStacked) below = upper.map((value, index) => value ?? lower[index]);
    return { curve, upper, lower };
  });
}
