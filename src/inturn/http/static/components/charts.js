// Draw small SVG charts in real pixels, so that lines stay sharp and texts keep their shape.

import { el, fill, setProp, setText, svg } from "../dom.js";
import { number, shortTimeOfDay, timeOfDay } from "../format.js";
import { levelClass, levelName } from "./badges.js";

/** A line without axes, hidden from screen readers: the figure beside it has the value. */
export function sparkline() {
  const line = svg("path", { class: "spark-line" });
  const below = svg("path", { class: "spark-area" });
  const node = svg("svg", { class: "spark", viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" }, below, line);
  return {
    node,
    update(values) {
      const known = values.filter((value) => value !== null);
      if (known.length < 2) {
        setProp(line, "d", "M0 27H100");
        setProp(below, "d", null);
        return;
      }
      const low = Math.min(...known);
      const span = Math.max(...known) - low || 1;
      const step = 100 / (known.length - 1);
      const isFlat = Math.max(...known) === low;
      const points = known.map((value, at) => `${round(at * step)} ${isFlat ? 14 : round(26 - ((value - low) / span) * 24)}`);
      setProp(line, "d", `M${points.join("L")}`);
      setProp(below, "d", `M0 28L${points.join("L")}L100 28Z`);
    },
  };
}

const HEIGHT = 240;
const MARGIN = { top: 12, right: 12, bottom: 26, left: 30 };
const CHARACTER_WIDTH_PX = 6.6;
/** Upper ends of duration axes, in seconds. A quarter of each is a round duration too. */
const DURATION_AXIS_SECONDS = [0.4, 1, 2, 4, 8, 20, 40, 60, 120, 240, 480, 1_200, 2_400, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 345_600];

/**
 * Draw lines over time. series: [{key, label, className}]; update({at: [µs], [key]: [numbers or null]}).
 * `format` formats a value; `isLength` marks values as durations. The readout follows the pointer. Screen readers get the latest values.
 */
export function lineChart({ label, series, format = number, isLength = false, height = HEIGHT }) {
  const axes = svg("g", { class: "chart-axes" });
  const lines = series.map((curve) => svg("path", { class: `chart-line ${curve.className}` }));
  const cursor = svg("line", { class: "chart-cursor", y1: MARGIN.top, y2: height - MARGIN.bottom });
  const drawing = svg("svg", { class: "chart", height, role: "img", "aria-label": label }, axes, lines, cursor);
  const readout = el("div", { class: "chart-readout", "aria-hidden": "true" });
  const legend = el(
    "ul",
    { class: "legend" },
    series.map((curve) => el("li", { class: curve.className }, curve.label)),
  );
  const node = el("div", { class: "chart-box" }, drawing, readout);
  let data = { at: [] };
  let scale = null;

  function draw() {
    const width = node.clientWidth;
    if (width === 0) return;
    setProp(drawing, "width", width);
    setProp(drawing, "viewBox", `0 0 ${width} ${height}`);
    const values = series.flatMap((curve) => data[curve.key] ?? []).filter((value) => value !== null);
    const top = isLength ? niceDurationMax(Math.max(0, ...values)) : niceMax(Math.max(0, ...values));
    const left = Math.max(MARGIN.left, ...axisTicks(top).map((value) => 14 + CHARACTER_WIDTH_PX * format(value).length));
    const first = data.at[0] ?? 0;
    const last = data.at.at(-1) ?? 1;
    scale = {
      left,
      x: (at) => left + ((at - first) / (last - first || 1)) * (width - left - MARGIN.right),
      y: (value) => height - MARGIN.bottom - (value / top) * (height - MARGIN.top - MARGIN.bottom),
    };
    drawAxes(width, top, first, last);
    series.forEach((curve, index) => setProp(lines[index], "d", path(data.at, data[curve.key] ?? [])));
    const latest = series.map((curve) => `${curve.label}: ${written((data[curve.key] ?? []).at(-1))}`);
    setProp(drawing, "aria-label", `${label}. ${latest.join(", ")}`);
  }

  function written(value) {
    return value === null || value === undefined ? "–" : format(value);
  }

  function drawAxes(width, top, first, last) {
    const rows = axisTicks(top).map((value) => [
      svg("line", { class: "chart-grid", x1: scale.left, x2: width - MARGIN.right, y1: scale.y(value), y2: scale.y(value) }),
      svg("text", { class: "chart-mark", x: scale.left - 8, y: scale.y(value) + 4, "text-anchor": "end" }, format(value)),
    ]);
    const room = Math.max(2, Math.min(6, Math.floor((width - scale.left) / 110)));
    const isShort = last - first < 120_000_000;
    const columns =
      data.at.length < 2
        ? []
        : Array.from({ length: room }, (_, index) => {
            const at = first + ((last - first) * (index + 0.5)) / room;
            return svg("text", { class: "chart-mark", x: scale.x(at), y: height - 6, "text-anchor": "middle" }, isShort ? timeOfDay(at) : shortTimeOfDay(at));
          });
    fill(axes, rows, columns);
  }

  function path(times, values) {
    let isDrawing = false;
    let commands = "";
    values.forEach((value, index) => {
      if (value === null) isDrawing = false;
      else {
        commands += `${isDrawing ? "L" : "M"}${round(scale.x(times[index]))} ${round(scale.y(value))}`;
        isDrawing = true;
      }
    });
    return commands;
  }

  function point(event) {
    if (scale === null || data.at.length === 0) return;
    const x = event.clientX - node.getBoundingClientRect().left;
    let nearest = 0;
    data.at.forEach((at, index) => {
      if (Math.abs(scale.x(at) - x) < Math.abs(scale.x(data.at[nearest]) - x)) nearest = index;
    });
    const at = scale.x(data.at[nearest]);
    setProp(cursor, "x1", at);
    setProp(cursor, "x2", at);
    fill(
      readout,
      el("p", {}, timeOfDay(data.at[nearest])),
      series.map((curve) => el("p", { class: curve.className }, `${curve.label} ${written((data[curve.key] ?? [])[nearest])}`)),
    );
    node.classList.add("is-pointed");
    const isRight = at > node.clientWidth / 2;
    readout.style.left = isRight ? "auto" : `${at + 10}px`;
    readout.style.right = isRight ? `${node.clientWidth - at + 10}px` : "auto";
  }

  node.addEventListener("pointermove", point);
  node.addEventListener("pointerleave", () => node.classList.remove("is-pointed"));
  new ResizeObserver(draw).observe(node);
  return {
    node,
    legend,
    update(next) {
      data = next;
      draw();
    },
  };
}

/** Bars of waiting documents by level, each a link. update([[level, number], …]). */
export function levelBars({ hrefOf }) {
  const node = el("ul", { class: "bars" });
  const rows = new Map();
  return {
    node,
    update(levels) {
      const most = Math.max(1, ...levels.map(([, n]) => n));
      if (levels.length !== rows.size || levels.some(([level]) => !rows.has(level))) {
        rows.clear();
        fill(
          node,
          levels.map(([level]) => {
            const bar = el("span", { class: "bar-fill" });
            const shown = el("span", { class: "bar-number" });
            rows.set(level, { bar, shown });
            const name = el("span", { class: "bar-label" }, levelName(level));
            const link = el("a", { class: "bar", href: hrefOf(level) }, name, el("span", { class: "bar-track", "aria-hidden": "true" }, bar), shown);
            return el("li", { class: levelClass(level) }, link);
          }),
        );
      }
      for (const [level, n] of levels) {
        const { bar, shown } = rows.get(level);
        bar.style.setProperty("--part", String(n / most));
        setText(shown, number(n));
      }
    },
  };
}

/** Two bars to compare, such as what is above what was. */
export function pairBar() {
  const first = el("span", { class: "pair-first" });
  const second = el("span", { class: "pair-second" });
  return {
    node: el("span", { class: "pair", "aria-hidden": "true" }, first, second),
    update(one, other) {
      first.style.setProperty("--part", String(Math.min(1, one ?? 0)));
      second.style.setProperty("--part", String(Math.min(1, other ?? 0)));
    },
  };
}

function axisTicks(top) {
  return [0, 1, 2, 3, 4].map((part) => (top * part) / 4);
}

function niceDurationMax(most) {
  const seconds = most / 1_000_000;
  return 1_000_000 * (DURATION_AXIS_SECONDS.find((candidate) => candidate >= seconds) ?? niceMax(seconds / 86_400) * 86_400);
}

function niceMax(most) {
  if (most <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 8, 10].map((step) => step * size).find((candidate) => candidate >= most);
}

function round(value) {
  return Math.round(value * 10) / 10;
}
