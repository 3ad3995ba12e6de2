// Long lists: page by page with the server's cursors, or all at once with only the visible rows drawn.

import { el, fill, setProp } from "../dom.js";
import { t } from "../i18n.js";

/** A button for the next page of a list that is filled up from below. update({hasMore, isBusy}). */
export function loadMoreButton(load) {
  const button = el("button", { class: "button", type: "button", on: { click: load } }, t("shell.more"));
  const node = el("div", { class: "more" }, button);
  return {
    node,
    update({ hasMore, isBusy = false }) {
      node.hidden = !hasMore;
      button.disabled = isBusy;
    },
  };
}

/**
 * A scrolling list of any length: rows of one height, of which only those in sight exist.
 * row(index) makes a node; update(count) redraws; `near(first, last)` hears what is in sight, to fetch it.
 */
export function windowed({ rowHeight, row, near = () => {}, label }) {
  const list = el("div", { class: "windowed-list", role: "list" });
  const node = el("div", { class: "windowed", tabindex: "0", role: "region", "aria-label": label }, list);
  let count = 0;
  let frame = 0;

  function draw() {
    frame = 0;
    const first = Math.max(0, Math.floor(node.scrollTop / rowHeight) - 5);
    const last = Math.min(count, first + Math.ceil(node.clientHeight / rowHeight) + 10);
    list.style.height = `${count * rowHeight}px`;
    near(first, last);
    const rows = [];
    for (let index = first; index < last; index += 1) {
      const made = row(index);
      setProp(made, "role", "listitem");
      setProp(made, "aria-setsize", count);
      setProp(made, "aria-posinset", index + 1);
      made.style.position = "absolute";
      made.style.top = `${index * rowHeight}px`;
      rows.push(made);
    }
    fill(list, rows);
  }

  function later() {
    if (frame === 0) frame = requestAnimationFrame(draw);
  }

  node.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(node);
  return {
    node,
    update(n) {
      count = n;
      later();
    },
  };
}
