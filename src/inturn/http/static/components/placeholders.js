// What stands where there is nothing to show: not yet, not at all, or not now.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

/** Nothing here: say why, and what to do. */
export function emptyState(text, hint = null, action = null) {
  return el("div", { class: "state" }, icon("empty"), el("p", { class: "state-text" }, text), hint && el("p", { class: "muted" }, hint), action);
}

/** Appears only after a moment: what comes quickly should not flicker. */
export function loadingState() {
  return el(
    "div",
    { class: "state state-loading", role: "status" },
    el("span", { class: "spinner", "aria-hidden": "true" }),
    el("p", {}, t("shell.loading")),
  );
}

/** Something went wrong; `retry` is called by the button. */
export function errorState(error, retry = null) {
  const isOffline = error.code === "offline";
  const button = retry && el("button", { class: "button", type: "button", on: { click: retry } }, t("shell.retry"));
  return el(
    "div",
    { class: "state", role: "alert" },
    icon(isOffline ? "offline" : "warning"),
    el("p", { class: "state-text" }, error.code === undefined ? t("errors.unexpected") : error.message),
    button,
  );
}

export function notFoundState() {
  const home = el("a", { class: "button", href: "/" }, t("shell.home"));
  return emptyState(t("shell.not_found"), t("shell.not_found_hint"), home);
}

/** A line across the page: paused, offline, read-only. */
export function banner(text, { kind = "info", action = null } = {}) {
  return el("div", { class: `banner banner-${kind}`, role: "status" }, icon(kind === "info" ? "pause" : "warning"), el("p", {}, text), action);
}
