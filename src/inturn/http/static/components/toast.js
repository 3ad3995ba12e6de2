// Short messages at the edge of the page, read out by screen readers.

import { ApiError } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

const TOAST_DURATION_MS = 6_000;
const UNDO_DURATION_MS = 12_000;
/** @type {HTMLElement | null} */
let container = null;

/**
 * toast("Saved"), toast(error.message, {kind: "error"}), toast(text, {action: {text, call}, durationMs: 0})
 *
 * A toast stays while the pointer or the focus is on it, and goes when its action is chosen.
 * @param {string} text
 * @param {{ kind?: "info" | "error", action?: { text: string, call: () => unknown } | null, durationMs?: number }} options
 */
export function toast(text, { kind = "info", action = null, durationMs = kind === "error" ? 12_000 : TOAST_DURATION_MS } = {}) {
  if (container === null || !container.isConnected) {
    container = el("div", { class: "toasts", role: "region", "aria-live": "polite", "aria-label": t("shell.news") });
    document.body.append(container);
  }
  const close = () => node.remove();
  const act = () => {
    close();
    return action?.call();
  };
  const button = action && el("button", { class: "button button-small", type: "button", on: { click: act } }, action.text);
  /** @type {HTMLElement} */
  const node = el(
    "div",
    { class: `toast toast-${kind}` },
    el("p", {}, text),
    button,
    el("button", { class: "button-icon", type: "button", "aria-label": t("shell.close"), on: { click: close } }, icon("close")),
  );
  container.append(node);
  const closeUnlessUsed = () => {
    if (node.matches(":hover, :focus-within")) setTimeout(closeUnlessUsed, TOAST_DURATION_MS);
    else close();
  };
  if (durationMs > 0) setTimeout(closeUnlessUsed, durationMs);
  return close;
}

/**
 * Throw a version conflict, as the server does, if a value differs from the one that this operator left.
 * @param {unknown} now
 * @param {unknown} left
 */
export function requireUnchanged(now, left) {
  if (JSON.stringify(now) !== JSON.stringify(left)) throw new ApiError("version_conflict", 409, null);
}

/**
 * Show a message about an action with a button that undoes it. `undo` throws an ApiError if another operator changed it since.
 * @param {string} text
 * @param {() => Promise<unknown>} undo
 */
export function toastWithUndo(text, undo) {
  const call = async () => {
    try {
      await undo();
      toast(t("shell.undone"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  };
  toast(text, { action: { text: t("shell.undo"), call }, durationMs: UNDO_DURATION_MS });
}
