// Explain a document's level in words: the count at its check, and the thresholds around it.

import { el, fill } from "../dom.js";
import { number, time } from "../format.js";
import { t } from "../i18n.js";
import { levelClass } from "./badges.js";

const LEVELS = [1, 2, 3, 4, 5, 6, 7, 8, 9];

/**
 * bounds: {below, not_below} of the API, or null.
 * @param {number} level
 * @param {number} count
 * @param {Api.Bounds | null | undefined} bounds
 */
export function describeLevel(level, count, bounds) {
  const { below = null, not_below: notBelow = null } = bounds ?? {};
  if (below !== null && notBelow !== null) return t("reasons.level_between", { level, count, below, not_below: notBelow });
  if (below !== null) return t("reasons.level_last", { level, count, below });
  if (notBelow !== null) return t("reasons.level_first", { level, count, not_below: notBelow });
  return t("reasons.level_alone", { level, count });
}

/**
 * Describe a customer's counter: its count, and the time of its reset.
 * @param {Api.Counter} counter
 */
export function describeCounter(counter) {
  const isOver = counter.resets_after < Date.now() * 1_000;
  return isOver ? t("reasons.counter_over", { count: counter.count }) : t("reasons.counter", { count: counter.count, time: time(counter.resets_after) });
}

/** All levels in a row; update([1, 2]) marks some. Hidden from screen readers: the text beside it says the same. */
export function levelScale() {
  const node = el("ol", { class: "level-scale", "aria-hidden": "true" });
  let shown = "";
  return {
    node,
    update(/** @type {number[]} */ levels) {
      if (shown === String(levels)) return;
      shown = String(levels);
      fill(
        node,
        LEVELS.map((level) => el("li", { class: `${levelClass(level)} ${levels.includes(level) ? "is-here" : ""}` }, number(level))),
      );
    },
  };
}
