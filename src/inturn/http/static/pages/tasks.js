// Documents for people: in each queue that people serve, what waits in its order, and who has taken what until when.

import { ApiError, get, send } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { ago, number, timeToTheMinute } from "../format.js";
import { t } from "../i18n.js";
import { personOf } from "../person.js";
import { pageUrl } from "../routes.js";
import { mayOperate } from "../session.js";
import { levelBadge } from "../components/badges.js";
import { readOnlyNote } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { emptyState } from "../components/placeholders.js";
import { relativeTime, updateRelativeTime } from "../components/relative_time.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { takeNext } from "./task/take.js";

/** @import { Column } from "../components/table.js" */
/** @import { View } from "../router.js" */

const MAX_LISTED = 100;

/** @param {View} view */
export async function mount(view) {
  const page = new TasksPage(view);
  await page.load();
  autoRefresh(view, () => page.load());
  fill(view.root, page.node);
  return { update: () => page.load() };
}

class TasksPage {
  #view;
  /** The queue that is shown; null if people serve none. @type {string | null} */
  #queue = null;

  /** @param {View} view */
  constructor(view) {
    this.#view = view;
    this.tabs = el("nav", { class: "tabs", "aria-label": t("queues.title") });
    this.about = el("p", { class: "tasks-about" });
    this.take = el("button", { class: "button button-primary", type: "button", on: { click: () => this.#take() } }, t("tasks.take"));
    this.taken = table({ caption: t("tasks.taken"), keyOf: (row) => row.document.id, hrefOf: hrefOfTaken, columns: takenColumns((row) => this.#handBack(row)), empty: el("p", { class: "muted" }, t("tasks.none_taken")) });
    this.waiting = table({ caption: t("tasks.waiting"), keyOf: (row) => row.document.id, hrefOf: (row) => pageUrl("document", { id: row.document.id }), columns: waitingColumns(), empty: emptyState(t("tasks.none"), t("tasks.none_hint")) });
    this.count = el("p", { class: "muted", role: "status" });
    this.nothing = emptyState(t("tasks.no_queue"), t("tasks.no_queue_hint"), el("a", { class: "button", href: pageUrl("queues") }, t("queues.title")));
    this.lists = el(
      "div",
      { class: "tasks-lists" },
      this.tabs,
      el("div", { class: "tasks-head" }, this.about, mayOperate() && this.take),
      panel(t("tasks.taken"), { className: "panel-flush" }, this.taken.node),
      panel(t("tasks.waiting"), { className: "panel-flush", actions: this.count }, this.waiting.node),
    );
    this.node = el("div", { class: "tasks" }, this.nothing, this.lists, !mayOperate() && readOnlyNote());
  }

  async load() {
    const { signal, query } = this.#view;
    const { queues } = await get("/v1/queues", { signal });
    const manual = queues.filter((queue) => queue.manual);
    const shown = manual.find((queue) => queue.name === query.get("queue")) ?? manual.find((queue) => queue.waiting > 0) ?? manual[0];
    this.nothing.hidden = manual.length > 0;
    this.lists.hidden = manual.length === 0;
    if (shown === undefined) return;
    const listed = await get(`/v1/queues/${encodeURIComponent(shown.name)}/documents`, { query: { limit: MAX_LISTED }, signal });
    this.#queue = shown.name;
    this.#drawTabs(manual);
    setText(this.about, shown.description ?? "");
    setText(this.count, t("tasks.n_waiting", { n: listed.queue.waiting }));
    this.taken.update(listed.taken);
    this.waiting.update(listed.waiting);
  }

  /** @param {Api.NamedQueue[]} queues */
  #drawTabs(queues) {
    this.tabs.hidden = queues.length < 2;
    const update = (/** @type {HTMLElement} */ node, /** @type {Api.NamedQueue} */ queue) => {
      setText(node, t("tasks.tab", { queue: queue.name, waiting: queue.waiting }));
      setProp(node, "aria-current", queue.name === this.#queue ? "page" : null);
    };
    const make = (/** @type {Api.NamedQueue} */ queue) => {
      const node = el("a", { class: "tab", href: pageUrl("tasks", {}, { queue: queue.name }) });
      update(node, queue);
      return node;
    };
    reconcileChildren(this.tabs, queues, (queue) => queue.name, make, update);
  }

  async #take() {
    if (this.#queue === null) return;
    this.take.disabled = true;
    try {
      const id = await takeNext(this.#queue);
      if (id !== null) await this.#view.go("task", { id });
      else await this.load();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    } finally {
      this.take.disabled = false;
    }
  }

  /** @param {Api.TakenDocument} row */
  async #handBack({ document: doc, fence }) {
    try {
      await send("POST", `/v1/documents/${doc.id}/release`, { body: { fence } });
      toast(t("task.handed_back", { name: doc.name }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
    await this.load();
  }
}

/**
 * One's own document is continued; that of another is looked at.
 * @param {Api.TakenDocument} row
 */
function hrefOfTaken({ document: doc, fence }) {
  return pageUrl(fence !== null && mayOperate() ? "task" : "document", { id: doc.id });
}

/**
 * @param {(row: Api.TakenDocument) => unknown} handBack
 * @returns {Column<Api.TakenDocument>[]}
 */
function takenColumns(handBack) {
  return [
    { key: "name", label: t("documents.name"), value: (row) => row.document.name },
    { key: "customer", label: t("documents.head_customer"), value: (row) => row.document.customer, className: "wide-only" },
    { key: "worker", label: t("tasks.head_who"), value: (row) => (row.fence === null ? (personOf(row.worker) ?? row.worker) : t("tasks.you")) },
    { key: "until", label: t("tasks.head_until"), value: (row) => timeToTheMinute(row.lease_until) },
    { key: "actions", label: el("span", { class: "hidden" }, t("queues.head_actions")), align: "end", className: "wide-only", value: (row) => row.fence, cell: (row) => takenActions(row, handBack) },
  ];
}

/**
 * @param {Api.TakenDocument} row
 * @param {(row: Api.TakenDocument) => unknown} handBack
 */
function takenActions(row, handBack) {
  if (row.fence === null || !mayOperate()) return "";
  const back = el("button", { class: "button button-small", type: "button", "aria-label": `${t("task.hand_back")}: ${row.document.name}`, on: { click: () => handBack(row) } }, t("task.hand_back"));
  return el("span", { class: "tasks-actions" }, el("a", { class: "button button-small", href: hrefOfTaken(row), "aria-label": `${t("tasks.continue")}: ${row.document.name}` }, t("tasks.continue")), back);
}

/** @returns {Column<Api.QueuedDocument>[]} */
function waitingColumns() {
  return [
    { key: "name", label: t("documents.name"), value: (row) => row.document.name },
    { key: "place", label: t("tasks.head_ahead"), align: "end", value: (row) => (row.place === null ? t("tasks.held") : number(row.place)) },
    { key: "customer", label: t("documents.head_customer"), value: (row) => row.document.customer },
    { key: "level", label: t("documents.head_level"), value: (row) => (row.document.expedited ? 0 : row.document.level), cell: (row) => levelBadge(row.document.expedited ? 0 : row.document.level) },
    { key: "ready", label: t("tasks.head_since"), className: "wide-only", value: (row) => ago(row.document.ready_at), cell: (row) => relativeTime(row.document.ready_at, { inRow: true }), update: (node, row) => updateRelativeTime(node, row.document.ready_at, { inRow: true }) },
  ];
}
