// Short messages at the edge of the page, read out by screen readers.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

const TOAST_DURATION_MS = 6_000;
/** @type {HTMLElement | null} */
let container = null;

/**
 * toast("Saved"), toast(error.message, {kind: "error"}), toast(text, {action: {text, call}, durationMs: 0})
 * @param {string} text
 * @param {{ kind?: "info" | "error", action?: { text: string, call: () => unknown } | null, durationMs?: number }} options
 */
export function toast(text, { kind = "info", action = null, durationMs = kind === "error" ? 12_000 : TOAST_DURATION_MS } = {}) {
  if (container === null || !container.isConnected) {
    container = el("div", { class: "toasts", role: "region", "aria-live": "polite", "aria-label": t("shell.news") });
    document.body.append(container);
  }
  const close = () => node.remove();
  const button = action && el("button", { class: "button button-small", type: "button", on: { click: action.call } }, action.text);
  /** @type {HTMLElement} */
  const node = el(
    "div",
    { class: `toast toast-${kind}` },
    el("p", {}, text),
    button,
    el("button", { class: "button-icon", type: "button", "aria-label": t("shell.close"), on: { click: close } }, icon("close")),
  );
  container.append(node);
  if (durationMs > 0) setTimeout(close, durationMs);
  return close;
}
