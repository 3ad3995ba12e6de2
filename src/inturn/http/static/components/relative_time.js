// Times that a reader can hover for the exact one, and that stay right while the page is open.

import { el, setProp, setText } from "../dom.js";
import { ago, countdown, time } from "../format.js";

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

/** A clock that counts down to a time, a tick a second while somebody looks; `view` ends it. */
export function countdownTo(view, at, { onZero = () => {} } = {}) {
  const node = el("time", { class: "countdown", role: "timer" });
  let goal = at;
  const tick = () => {
    const left = goal - Date.now() * 1_000;
    setText(node, countdown(left));
    if (left <= 0 && left > -1_100_000) onZero();
  };
  tick();
  view.every(1_000, tick);
  return {
    node,
    update(wanted) {
      goal = wanted;
      tick();
    },
  };
}
