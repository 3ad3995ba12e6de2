// Times that a reader can hover for the exact one, and that stay right while the page is open.

import { el, setProp, setText } from "../dom.js";
import { ago, time } from "../format.js";

/** "3 minutes ago", exact in its title. */
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
