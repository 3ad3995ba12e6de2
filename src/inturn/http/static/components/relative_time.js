// Relative times. The exact time with its zone is shown while one is pointed at or has the focus.

import { el, setProp, setText } from "../dom.js";
import { ago, exactTime } from "../format.js";
import { setTip } from "./tooltip.js";

/** @typedef {{ inRow?: boolean, text?: string | null }} TimeOptions */

/**
 * `inRow`: a link of the same table row can be focused and shows the exact time, so that the time itself need not be.
 * @param {number | null | undefined} at
 * @param {TimeOptions} options
 */
export function relativeTime(at, options = {}) {
  return updateRelativeTime(el("time", {}), at, options);
}

/**
 * `text` stands for the relative time where that is part of a sentence.
 * @template {HTMLElement} N
 * @param {N} node
 * @param {number | null | undefined} at
 * @param {TimeOptions} options
 */
export function updateRelativeTime(node, at, { inRow = false, text = null } = {}) {
  const isKnown = at !== null && at !== undefined;
  setProp(node, "datetime", isKnown ? new Date(at / 1_000).toISOString() : null);
  setTip(node, isKnown ? exactTime(at) : null, { inRow });
  setText(node, isKnown ? (text ?? ago(at)) : (text ?? "–"));
  return node;
}
