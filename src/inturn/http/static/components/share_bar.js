// A customer's share of worker time: a bar for the actual share, and a mark at the fair share.

import { el, setProp } from "../dom.js";

/** @typedef {{ received: number | null, due: number | null, is_over: boolean }} ShareNumbers */

/** update({received, due, is_over}, most): the bar is full at `most`, so that bars with the same `most` compare. */
export function shareBar() {
  const fill = el("span", { class: "share-fill" });
  const mark = el("span", { class: "share-mark" });
  const node = el("span", { class: "share-bar", "aria-hidden": "true" }, fill, mark);
  return {
    node,
    update(/** @type {ShareNumbers} */ share, /** @type {number} */ most) {
      fill.style.setProperty("--part", String(Math.min(1, (share.received ?? 0) / most)));
      mark.style.setProperty("--part", String(Math.min(1, (share.due ?? 0) / most)));
      setProp(mark, "hidden", share.due === null);
      node.classList.toggle("is-over", share.is_over);
    },
  };
}

/**
 * The largest value that the bars of these shares have to show.
 * @param {readonly Pick<ShareNumbers, "received" | "due">[]} shares
 */
export function largestShare(shares) {
  return Math.max(0.001, ...shares.flatMap((share) => [share.received ?? 0, share.due ?? 0]));
}
