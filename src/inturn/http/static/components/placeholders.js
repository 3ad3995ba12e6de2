// Placeholders for empty, loading, failed and missing content, and the banner.

import { ApiError } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

/** @import { Child } from "../dom.js" */

/**
 * An empty list: why it is empty, and what to do.
 * @param {string} text
 * @param {string | null} hint
 * @param {Child} action
 */
export function emptyState(text, hint = null, action = null) {
  return el("div", { class: "state" }, icon("empty"), el("p", { class: "state-text" }, text), hint && el("p", { class: "muted" }, hint), action);
}

/** Appears after 250 ms, so that a fast load does not flicker. */
export function loadingState() {
  return el(
    "div",
    { class: "state state-loading", role: "status" },
    el("span", { class: "spinner", "aria-hidden": "true" }),
    el("p", {}, t("shell.loading")),
  );
}

/**
 * An error with a button that calls retry().
 * @param {unknown} error
 * @param {(() => unknown) | null} retry
 */
export function errorState(error, retry = null) {
  const isOffline = error instanceof ApiError && error.code === "offline";
  const button = retry && el("button", { class: "button", type: "button", on: { click: retry } }, t("shell.retry"));
  return el(
    "div",
    { class: "state", role: "alert" },
    icon(isOffline ? "offline" : "warning"),
    el("p", { class: "state-text" }, error instanceof ApiError ? error.message : t("errors.unexpected")),
    button,
  );
}

export function notFoundState() {
  const home = el("a", { class: "button", href: "/" }, t("shell.home"));
  return emptyState(t("shell.not_found"), t("shell.not_found_hint"), home);
}

/**
 * A bar across the page, such as "paused".
 * @param {string} text
 * @param {{ kind?: "info" | "warn", action?: Child }} options
 */
export function banner(text, { kind = "info", action = null } = {}) {
  return el("div", { class: `banner banner-${kind}`, role: "status" }, icon(kind === "info" ? "pause" : "warning"), el("p", {}, text), action);
}
