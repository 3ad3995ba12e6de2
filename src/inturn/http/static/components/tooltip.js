// Short texts that are shown beside a thing while it is pointed at or has the focus. One node serves the whole page.

import { el, newId, setProp, setText } from "../dom.js";

const GAP_PX = 2;
const EDGE_PX = 8;

/**
 * Give a node a text to show; null removes it. The node can be focused, but for nodes in rows, whose links can.
 * @template {HTMLElement} N
 * @param {N} node
 * @param {string | null} text
 */
export function setTip(node, text, { inRow = false } = {}) {
  setProp(node, "data-tip", text);
  if (!inRow) setProp(node, "tabindex", text === null ? null : "0");
  return node;
}

/** Show the tips of all nodes. Escape hides one; it stays while the pointer is on it. */
export function startTooltips() {
  const tip = el("div", { class: "tooltip", role: "tooltip", id: newId("tip"), hidden: true });
  /** @type {HTMLElement | null} */
  let target = null;
  document.getElementById("main")?.append(tip); // so that it belongs to a landmark

  /** @param {HTMLElement | null} node */
  function show(node) {
    if (node === target) return;
    hide();
    if (!node?.dataset.tip) return;
    target = node;
    setText(tip, node.dataset.tip);
    tip.hidden = false;
    setProp(node, "aria-describedby", tip.id);
    place();
  }

  function place() {
    if (target === null) return;
    const [at, size] = [target.getBoundingClientRect(), tip.getBoundingClientRect()];
    const left = Math.min(Math.max(EDGE_PX, at.left + at.width / 2 - size.width / 2), document.documentElement.clientWidth - size.width - EDGE_PX);
    const above = at.top - size.height - GAP_PX;
    tip.style.left = `${left}px`;
    tip.style.top = `${above < EDGE_PX ? at.bottom + GAP_PX : above}px`;
  }

  function hide() {
    target?.removeAttribute("aria-describedby");
    target = null;
    tip.hidden = true;
  }

  /** A node's own tip, or that of the row whose link has the focus. */
  const tipOf = (/** @type {EventTarget | null} */ node) => /** @type {HTMLElement | null} */ (node instanceof Element ? node.closest("[data-tip]") : null);
  const rowTipOf = (/** @type {EventTarget | null} */ node) => /** @type {HTMLElement | null} */ (node instanceof Element ? (node.closest("tr")?.querySelector("[data-tip]:not([tabindex])") ?? null) : null);
  document.addEventListener("pointerover", ({ target: node }) => {
    if (node === tip) return;
    if (tipOf(node) !== null) show(tipOf(node));
    else if (!target?.contains(document.activeElement)) hide();
  });
  document.addEventListener("focusin", ({ target: node }) => show(tipOf(node) ?? rowTipOf(node)));
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", place, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  return tip;
}
