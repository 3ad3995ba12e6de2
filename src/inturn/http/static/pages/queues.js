// The queues: what waits and runs in each, who serves it, its limits, its pause, and its settings.

import { ApiError, get, send } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, setProp, setText } from "../dom.js";
import { durationInWords, number } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayOperate } from "../session.js";
import { confirm } from "../components/dialog.js";
import { readOnlyNote } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { table } from "../components/table.js";
import { requireUnchanged, toast, toastWithUndo } from "../components/toast.js";
import { editQueue, newQueue } from "./queues/settings.js";

/** @import { Column } from "../components/table.js" */
/** @import { View } from "../router.js" */
/** @typedef {Api.NamedQueue & { workers: string[] }} Row */

/** @param {View} view */
export async function mount(view) {
  const list = table({ caption: t("queues.title"), keyOf: (row) => row.name, columns: columns(setPaused, (row) => editQueue(row, load)) });

  async function load() {
    const [{ queues }, { workers }] = await Promise.all([get("/v1/queues", { signal: view.signal }), get("/v1/workers", { signal: view.signal })]);
    const serving = (/** @type {string} */ name) => workers.filter((worker) => !worker.silent && !worker.stopping && worker.queues.includes(name));
    list.update(queues.map((queue) => ({ ...queue, workers: serving(queue.name).map((worker) => worker.name) })));
  }

  /** @param {Row} row */
  async function setPaused({ name, paused }) {
    const action = paused === null ? "pause" : "resume";
    const answer = await confirm({ title: t(`queues.${action}_ask`, { name }), text: t(`queues.${action}_text`), action: t(`queues.${action}`) });
    if (answer === null) return;
    const path = /** @type {const} */ (`/v1/queues/${encodeURIComponent(name)}`);
    try {
      const left = await send("POST", `${path}/${action}`, { query: { why: answer.why } });
      toastWithUndo(t(`queues.did_${action}`, { name }), async () => {
        const { queues } = await get("/v1/queues");
        requireUnchanged(queues.find((queue) => queue.name === name)?.paused, left.paused);
        await send("POST", `${path}/${action === "pause" ? "resume" : "pause"}`, { query: { why: paused?.why ?? "" } });
        await load();
      });
      await load();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  await load();
  autoRefresh(view, load);
  if (mayOperate()) view.setActions(el("button", { class: "button", type: "button", on: { click: () => newQueue(load) } }, t("queues.new")));
  fill(view.root, panel(t("queues.title"), { className: "panel-flush", hint: t("queues.intro") }, list.node), !mayOperate() && readOnlyNote());
}

/**
 * @param {(row: Row) => unknown} setPaused
 * @param {(row: Row) => unknown} edit
 * @returns {Column<Row>[]}
 */
function columns(setPaused, edit) {
  /** @type {Column<Row>} */
  const actions = { key: "actions", label: t("queues.head_actions"), align: "end", value: (row) => JSON.stringify(row), cell: (row) => makeActions(row, setPaused, edit), update: updateActions };
  return [
    { key: "name", label: t("queues.head_name"), name: (row) => row.name, value: (row) => JSON.stringify([row.name, row.description]), cell: nameCell },
    { key: "waiting", label: t("queues.head_waiting"), align: "end", value: (row) => row.waiting, cell: (row) => countLink(row, "waiting") },
    { key: "running", label: t("queues.head_running"), align: "end", value: (row) => `${row.running} ${row.cap}`, cell: runningCell },
    { key: "status", label: t("queues.head_status"), value: (row) => JSON.stringify([row.paused, statusOf(row)]), cell: statusCell },
    { key: "served", label: t("queues.head_served"), value: (row) => JSON.stringify([row.manual, row.workers]), cell: servedCell },
    { key: "rate", label: t("customer.set_rate"), className: "wide-only", value: (row) => (row.rate === null ? null : t("customer.rate", { n: row.rate.documents, per: durationInWords(row.rate.per) })) },
    { key: "weight", label: t("customer.set_weight"), align: "end", className: "wide-only", value: (row) => number(row.weight, 3) },
    ...(mayOperate() ? [actions] : []),
  ];
}

/** @param {Row} row */
function nameCell({ name, description }) {
  return el("span", { class: "queue-name" }, el("a", { href: pageUrl("documents", {}, { queue: name, parts: "include" }) }, name), description && el("span", { class: "muted" }, description));
}

/** @param {Row} row */
function statusOf({ paused, manual, workers, cap, running, waiting }) {
  if (paused !== null) return "paused";
  if (!manual && workers.length === 0) return waiting > 0 ? "unserved" : "idle";
  return cap !== null && running >= cap ? "full" : "open";
}

/** @param {Row} row */
function statusCell(row) {
  const { paused } = row;
  const status = statusOf(row);
  const by = paused && t(paused.why ? "customer.paused_by_why" : "customer.paused_by", { name: paused.operator, why: paused.why });
  return el("span", { class: "queue-status" }, el("span", { class: `badge queue-${status}` }, t(`queues.status_${status}`)), by && el("span", { class: "muted" }, by));
}

/**
 * @param {Row} row
 * @param {"waiting" | "running"} state
 */
function countLink(row, state) {
  return el("a", { href: pageUrl("documents", {}, { queue: row.name, state, parts: "include" }), "aria-label": t(`queues.show_${state}`, { n: row[state], queue: row.name }) }, number(row[state]));
}

/** @param {Row} row */
function runningCell(row) {
  return el("span", {}, countLink(row, "running"), row.cap !== null && el("span", { class: "muted" }, ` ${t("customer.of_cap", { cap: row.cap })}`));
}

/** @param {Row} row */
function servedCell({ name, manual, workers }) {
  const people = manual && el("a", { href: pageUrl("tasks", {}, { queue: name }) }, t("queues.people"));
  const some = workers.length > 0 && el("a", { href: pageUrl("workers"), title: workers.join(", ") }, t("queues.workers", { n: workers.length }));
  return people || some ? el("span", { class: "queue-served" }, people, some) : "–";
}

/** @typedef {HTMLElement & { row: Row, pause: HTMLButtonElement, edit: HTMLButtonElement }} Actions */

/**
 * @param {Row} row
 * @param {(row: Row) => unknown} setPaused
 * @param {(row: Row) => unknown} change
 */
function makeActions(row, setPaused, change) {
  const pause = el("button", { class: "button button-small", type: "button", on: { click: () => setPaused(node.row) } });
  const edit = el("button", { class: "button button-small", type: "button", on: { click: () => change(node.row) } }, t("queues.edit"));
  /** @type {Actions} */
  const node = Object.assign(el("div", { class: "queue-actions" }, pause, edit), { row, pause, edit });
  updateActions(node, row);
  return node;
}

/**
 * @param {Actions} node
 * @param {Row} row
 */
function updateActions(node, row) {
  node.row = row;
  setText(node.pause, t(row.paused === null ? "queues.pause" : "queues.resume"));
  for (const button of [node.pause, node.edit]) setProp(button, "aria-label", `${button.textContent}: ${row.name}`);
}
