// The columns of the list of documents.

import { el, setProp, setText } from "../../dom.js";
import { ago, duration, number } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { stepText } from "../../queues.js";
import { seesAll } from "../../session.js";
import { levelBadge, stateBadge, updateLevelBadge } from "../../components/badges.js";
import { relativeTime, updateRelativeTime } from "../../components/relative_time.js";

/** @import { Column } from "../../components/table.js" */
/** @typedef {Api.Document & { isGone?: boolean }} Row */

/** @returns {Column<Row>[]} */
export function columns() {
  return allColumns().map((column) => ({ ...column, className: [column.className, `column-${column.key}`].filter(Boolean).join(" ") }));
}

/** @returns {Column<Row>[]} */
function allColumns() {
  /** @type {Column<Row>} */
  const customer = { key: "customer", label: t("documents.head_customer"), className: "documents-customer", value: (row) => row.customer, cell: (row) => el("a", { href: pageUrl("customer", { name: row.customer }) }, row.customer) };
  return [
    { key: "name", label: t("documents.name"), className: "documents-name", name: (row) => row.name, value: (row) => `${row.name}\n${errorSummary(row) ?? ""}`, cell: nameCell, update: updateNameCell },
    ...(seesAll() ? [customer] : []),
    { key: "state", label: t("documents.head_state"), value: (row) => `${row.state} ${row.isGone ?? false}`, cell: stateCell },
    { key: "queue", label: t("documents.head_queue"), className: "documents-steps", value: (row) => row.queue },
    { key: "step", label: t("documents.head_step"), className: "documents-steps documents-more", value: (row) => (row.step + row.ahead.length > 0 ? stepText(row) : null) },
    {
      key: "level",
      label: t("documents.head_level"),
      value: (row) => (row.expedited ? 0 : row.level),
      cell: (row) => levelBadge(row.expedited ? 0 : row.level),
      update: (node, row) => updateLevelBadge(node, row.expedited ? 0 : row.level),
    },
    { key: "submitted", label: t("documents.head_submitted"), sortable: true, className: "documents-time", value: (row) => ago(row.submitted_at), cell: (row) => relativeTime(row.submitted_at, { inRow: true }), update: (node, row) => updateRelativeTime(node, row.submitted_at, { inRow: true }) },
    { key: "wait", label: t("documents.head_wait"), align: "end", sortable: true, className: "documents-more", value: (row) => durationText(waitOf(row)) },
    { key: "took", label: t("documents.head_took"), align: "end", sortable: true, className: "documents-more", value: (row) => durationText(processingTimeOf(row)) },
    { key: "attempt", label: t("documents.head_attempts"), align: "end", className: "documents-more", value: (row) => (row.attempt === 0 ? null : number(row.attempt)) },
  ];
}

/** @param {Row} row */
function nameCell(row) {
  const node = el("span", {}, el("span", { class: "documents-title" }, row.name), seesAll() && el("span", { class: "muted documents-of" }, row.customer), el("span", { class: "documents-reason" }));
  updateNameCell(node, row);
  return node;
}

/**
 * @param {HTMLElement} node
 * @param {Row} row
 */
function updateNameCell(node, row) {
  const shown = /** @type {HTMLElement} */ (node.querySelector(".documents-reason"));
  const reason = errorSummary(row);
  shown.hidden = reason === null;
  setProp(shown, "title", reason);
  setText(shown, reason ?? "");
}

/**
 * The first line of the error of a failed or delayed document.
 * @param {Row} row
 */
function errorSummary(row) {
  return row.error !== null && ["failed", "delayed"].includes(row.state) ? row.error.split("\n")[0] : null;
}

/** @param {Row} row */
function stateCell(row) {
  return el("span", { class: row.isGone ? "is-gone" : null, title: row.isGone ? t("documents.gone") : null }, stateBadge(row.state));
}

/**
 * The time from ready to the last start, or until now, in microseconds; null if it never started nor waits.
 * @param {Row} row
 */
export function waitOf(row) {
  if (row.state === "waiting") return Math.max(0, Date.now() * 1_000 - row.ready_at);
  const began = row.began_at ?? row.started_at;
  return began === null ? null : Math.max(0, began - row.ready_at);
}

/**
 * The processing time of the last attempt, until now if it runs, in microseconds; null without one.
 * @param {Row} row
 */
export function processingTimeOf(row) {
  if (row.started_at === null || (row.finished_at === null && row.state !== "running")) return null;
  return Math.max(0, row.worked ?? (row.finished_at ?? Date.now() * 1_000) - row.started_at);
}

/** @param {number | null} time */
function durationText(time) {
  return time === null ? null : duration(time);
}
