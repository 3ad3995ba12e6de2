// Relative times, with the exact time as the tooltip.

import { el, setProp, setText } from "../dom.js";
import { ago, time } from "../format.js";

export function relativeTime(at) {
  const node = el("time", {});
  return updateRelativeTime(node, at);
}

export function updateRelativeTime(node, at) {
  if (at === null || at === undefined) {
    setText(node, "–");
    return node;
  }
  setProp(node, "datetime", new Date(at / 1_000).toISOString());
  setProp(node, "title", time(at));
  setText(node, ago(at));
  return node;
}
