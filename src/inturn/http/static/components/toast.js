// Short news at the edge of the page, read out by screen readers.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

const LASTS = 6_000;
let shelf = null;

/** toast("Saved"), toast(error.message, {kind: "error"}), toast(text, {action: {text, call}, lasts: 0}) */
export function toast(text, { kind = "info", action = null, lasts = kind === "error" ? 12_000 : LASTS } = {}) {
  if (shelf === null || !shelf.isConnected) {
    shelf = el("div", { class: "toasts", role: "region", "aria-live": "polite", "aria-label": t("shell.news") });
    document.body.append(shelf);
  }
  const close = () => node.remove();
  const button = action && el("button", { class: "button button-small", type: "button", on: { click: action.call } }, action.text);
  const node = el(
    "div",
    { class: `toast toast-${kind}` },
    el("p", {}, text),
    button,
    el("button", { class: "button-icon", type: "button", "aria-label": t("shell.close"), on: { click: close } }, icon("close")),
  );
  shelf.append(node);
  if (lasts > 0) setTimeout(close, lasts);
  return close;
}
