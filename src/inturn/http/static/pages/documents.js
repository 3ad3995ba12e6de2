// The list of documents, newest or oldest first. Rows are updated in place and never move. New documents are announced
// in a bar; oldest first, they are added at the end.

import { ApiError, get, ignoreRequestError, isAbort } from "../api.js";
import { debounce, el, fill, setProp, setText } from "../dom.js";
import { t } from "../i18n.js";
import { fetchQueues, hasSteps } from "../queues.js";
import { pageUrl } from "../routes.js";
import { mayAct } from "../session.js";
import { icon } from "../components/icons.js";
import { loadMoreButton } from "../components/paging.js";
import { emptyState, errorState } from "../components/placeholders.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { BulkActions } from "./documents/actions.js";
import { columns, processingTimeOf, waitOf } from "./documents/columns.js";
import { Filters, STATES, filtersFromQuery, matchesFilters, sortOf } from "./documents/filters.js";
import { tools } from "./documents/tools.js";

/** @import { View } from "../router.js" */
/** @import { QueueEvent } from "../events.js" */

/** @import { Row } from "./documents/columns.js" */

const PAGE_SIZE = 100;
const MAX_SORTED = 1_000; // no index sorts by wait or processing time: so many of the newest are sorted here
/** @type {Record<string, ((row: Row) => number | null) | undefined>} */
const SORTED_BY = { wait: waitOf, work: processingTimeOf };
/** @type {Record<string, "wait" | "work" | undefined>} */
const SORT_OF_COLUMN = { wait: "wait", took: "work" };
const MAX_AUTO_LOADED_ROWS = 1_000; // further rows come by the button
const MAX_IDS_PER_REQUEST = 100;
const ROW_REFRESH_INTERVAL_MS = 1_500;
const NEW_ROWS_INTERVAL_MS = 2_000;
const COUNTS_INTERVAL_MS = 10_000;
const SNAPSHOT_TTL_MS = 600_000;

/**
 * The list as the user left it, restored by the browser's Back.
 * @type {{ search: string, queues: Api.NamedQueue[], rows: Row[], next: string | null, selection: string[], scroll: number, at: number } | null}
 */
let snapshot = null;
let lastPopstateAt = -Infinity;
window.addEventListener("popstate", () => {
  lastPopstateAt = performance.now();
});

/** @param {View} view */
export async function mount(view) {
  const before = performance.now() - lastPopstateAt < 500 ? snapshot : null;
  snapshot = null;
  const isSame = before !== null && before.search === location.search && Date.now() - before.at < SNAPSHOT_TTL_MS;
  const list = new DocumentList(view, isSame ? before.queues : await fetchQueues(view.signal));
  if (isSame) list.restore(before);
  else await list.load();
  list.begin();
  if (mayAct()) view.setActions(el("a", { class: "button button-primary", href: pageUrl("upload") }, icon("upload"), t("documents.upload")));
  fill(view.root, list.node);
  view.onEnd(() => {
    snapshot = list.takeSnapshot();
  });
  return {
    update: () => list.changed(),
    shown: () => {
      if (isSame) window.scrollTo(0, before.scroll);
    },
  };
}

export class DocumentList {
  /** @type {Row[]} */
  #rows = [];
  /** @type {string | null} */
  #next = null;
  #requestId = 0;
  /** @type {Set<string>} */
  #stale = new Set();
  /** @type {Record<string, number> | null} */
  #counts = null;
  #isBusy = false;
  #scroll = 0;
  search = location.search;
  /** @type {HTMLElement} */
  noneAtAll;
  /** @type {HTMLElement} */
  noMatch;
  /** @type {IntersectionObserver | null} */
  #end = null;

  /**
   * @param {View} view
   * @param {Api.NamedQueue[]} queues
   */
  constructor(view, queues) {
    this.view = view;
    this.queues = queues;
    this.hasSteps = queues.length > 1;
    this.refreshedAt = 0;
    this.newCheckedAt = 0;
    this.filters = new Filters(view, queues);
    const shownColumns = columns();
    this.table = table({
      caption: t("documents.title"),
      keyOf: (row) => row.id,
      hrefOf: (row) => pageUrl("document", { id: row.id }),
      sort: headerSort(view.query),
      onSort: ({ key, isDown }) => this.filters.sortBy(SORT_OF_COLUMN[key] ?? (isDown ? "newest" : "oldest")),
      selectable: mayAct(),
      onSelect: () => this.actions?.update(),
      empty: this.#none(),
      columns: shownColumns,
    });
    this.more = loadMoreButton(() => this.#loadMore());
    this.actions = new BulkActions(this);
    this.news = el("p", {});
    this.newsBar = el(
      "div",
      { class: "documents-new", hidden: true },
      this.news,
      el("button", { class: "button button-small", type: "button", on: { click: () => this.#showNew() } }, icon("up"), t("documents.show_new")),
    );
    this.errorBox = el("div", { class: "documents-error" });
    this.count = el("p", { class: "muted documents-count", role: "status" });
    const news = el("div", { class: "documents-news", role: "status" }, this.newsBar);
    this.body = el("div", { class: "documents-body" }, this.errorBox, this.table.node, this.more.node);
    const head = el("div", { class: "documents-head" }, this.count, this.filters.parts.node);
    this.node = el("section", { class: "panel panel-flush documents" }, el("h2", { class: "hidden" }, t("documents.list")), this.filters.node, news, head, this.actions.node, this.body);
    head.append(tools(this, shownColumns));
  }

  #none() {
    const clear = el("button", { class: "button", type: "button", on: { click: () => this.view.setQuery(this.filters.clearedQuery(), { replace: false }) } }, t("documents.clear"));
    this.noneAtAll = emptyState(t("documents.none"), t("documents.none_hint"), mayAct() ? el("a", { class: "button", href: pageUrl("upload") }, t("documents.upload")) : null);
    this.noMatch = emptyState(t("documents.not_found"), t("documents.not_found_hint"), clear);
    return el("div", {}, this.noneAtAll, this.noMatch);
  }

  // -- loading

  /** Load the first page for the filters of the address. */
  async load() {
    this.#requestId += 1;
    const requestId = this.#requestId;
    const sort = sortOf(this.view.query);
    const valueOf = SORTED_BY[sort];
    const page = await get("/v1/documents", { query: { ...this.#where(), ...(valueOf ? { limit: MAX_SORTED } : { sort, limit: PAGE_SIZE }) }, signal: this.view.signal });
    if (requestId !== this.#requestId) return;
    this.#rows = valueOf ? sortedDown(page.documents, valueOf) : page.documents;
    this.#next = valueOf ? null : page.next;
    this.isCutOff = Boolean(valueOf) && page.next !== null;
    this.#stale.clear();
    this.#announce(0);
    fill(this.errorBox);
    this.#draw();
    void this.#count();
  }

  /** Apply new filters of the address. The old rows stay, dimmed, until the new ones have come. */
  async changed() {
    this.filters.syncFromQuery();
    this.table.setSort(headerSort(this.view.query));
    this.actions.clear();
    setProp(this.body, "aria-busy", "true");
    try {
      await this.load();
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      this.#rows = [];
      this.#next = null;
      this.#draw();
      fill(this.errorBox, errorState(error, () => this.changed()));
    } finally {
      setProp(this.body, "aria-busy", null);
      this.node.classList.toggle("has-error", this.errorBox.childElementCount > 0);
    }
  }

  async #loadMore() {
    if (this.#isBusy || this.#next === null) return;
    this.#isBusy = true;
    const requestId = this.#requestId;
    this.more.update({ hasMore: true, isBusy: true });
    try {
      const page = await get("/v1/documents", { query: { ...this.#where(), sort: sortOf(this.view.query), limit: PAGE_SIZE, after: this.#next }, signal: this.view.signal });
      if (requestId !== this.#requestId) return;
      const known = new Set(this.#rows.map((row) => row.id));
      this.#rows = [...this.#rows, ...page.documents.filter((row) => !known.has(row.id))];
      this.#next = page.next;
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    } finally {
      this.#isBusy = false;
      this.#draw();
    }
  }

  /** @param {NonNullable<typeof snapshot>} before */
  restore(before) {
    this.#rows = before.rows;
    this.#next = before.next;
    for (const id of before.selection) this.table.selection.add(id);
    this.#markAllStale();
    this.#draw();
    void this.#count();
  }

  takeSnapshot() {
    return { search: this.search, queues: this.queues, rows: this.#rows, next: this.#next, selection: [...this.table.selection], scroll: this.#scroll, at: Date.now() };
  }

  #where() {
    this.search = location.search;
    return filtersFromQuery(this.view.query);
  }

  // -- live

  begin() {
    const view = this.view;
    view.listen("*", (events) => this.#onEvents(events));
    view.every(500, () => this.#refreshIfDue());
    view.every(COUNTS_INTERVAL_MS, () => this.#recount());
    view.every(10_000, () => this.table.update(this.#rows)); // relative times go on
    const scrolled = () => {
      this.#scroll = window.scrollY;
    };
    window.addEventListener("scroll", scrolled, { passive: true, signal: view.signal });
    window.addEventListener("scroll", debounce(() => this.#refresh(), 200), { passive: true, signal: view.signal });
    this.#end = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting) && this.#rows.length < MAX_AUTO_LOADED_ROWS) void this.#loadMore();
      },
      { rootMargin: "600px" },
    );
    this.#end.observe(this.more.node);
    view.onEnd(() => this.#end?.disconnect());
  }

  /** @param {QueueEvent[]} events */
  #onEvents(events) {
    if (events.some((event) => event.kind === "reset" || event.kind === "purged")) this.#markAllStale();
    else {
      const shown = new Set(this.#rows.map((row) => row.id));
      for (const event of events) for (const id of event.documents ?? []) if (shown.has(id)) this.#stale.add(id);
    }
    this.mayHaveNew = true;
    this.mustCount = true;
    this.#refreshIfDue();
  }

  /** Refresh stale rows and check for new ones, each at most once per interval. */
  #refreshIfDue() {
    const now = Date.now();
    if (this.#stale.size > 0 && now - this.refreshedAt >= ROW_REFRESH_INTERVAL_MS) void this.#refresh();
    if (this.mayHaveNew && now - this.newCheckedAt >= NEW_ROWS_INTERVAL_MS) void this.#findNew();
  }

  #markAllStale() {
    for (const row of this.#rows) this.#stale.add(row.id);
    this.mayHaveNew = true;
  }

  /** Fetch the stale rows in sight, one request at a time. */
  async #refresh() {
    if (this.isRefreshing || this.#stale.size === 0) return;
    const rowNodes = /** @type {(HTMLElement & { row: Row })[]} */ ([...this.table.node.querySelectorAll("tbody tr")]).filter((tr) => this.#stale.has(tr.row.id));
    const inSight = rowNodes.filter((tr) => {
      const { top, bottom } = tr.getBoundingClientRect();
      return bottom > -200 && top < window.innerHeight + 200;
    });
    const ids = inSight.slice(0, MAX_IDS_PER_REQUEST).map((tr) => tr.row.id);
    if (ids.length === 0) return;
    this.isRefreshing = true;
    this.refreshedAt = Date.now();
    const requestId = this.#requestId;
    try {
      const page = await get("/v1/documents", { query: { id: ids }, signal: this.view.signal });
      if (requestId !== this.#requestId) return;
      for (const id of ids) this.#stale.delete(id);
      const fresh = new Map(page.documents.map((row) => [row.id, row]));
      const where = filtersFromQuery(this.view.query);
      const wanted = new Set(ids);
      this.#rows = this.#rows.flatMap((row) => {
        if (!wanted.has(row.id)) return [row];
        const current = fresh.get(row.id);
        return current === undefined ? [] : [{ ...current, isGone: !matchesFilters(current, where) }];
      });
      this.#draw();
    } catch (error) {
      ignoreRequestError(error); // the status indicator shows an offline server
    } finally {
      this.isRefreshing = false;
    }
  }

  async #findNew() {
    if (!this.mayHaveNew || this.isFindingNew) return;
    this.mayHaveNew = false;
    this.isFindingNew = true;
    this.newCheckedAt = Date.now();
    const requestId = this.#requestId;
    try {
      if (this.#rows.length > 0 && sortOf(this.view.query) === "oldest") await this.#findNewAtEnd(requestId);
      else await this.#countNewAtStart(requestId);
    } catch (error) {
      this.mayHaveNew = true;
      ignoreRequestError(error);
    } finally {
      this.isFindingNew = false;
    }
  }

  /**
   * Announce how many documents of the first two pages are not shown yet.
   * @param {number} requestId
   */
  async #countNewAtStart(requestId) {
    const page = await get("/v1/documents", { query: { ...this.#where(), limit: 2 * PAGE_SIZE }, signal: this.view.signal });
    if (requestId !== this.#requestId) return;
    const known = new Set(this.#rows.map((row) => row.id));
    const reach = this.#next === null ? page.documents.length : page.documents.findLastIndex((row) => known.has(row.id)) + 1 || page.documents.length;
    const n = page.documents.slice(0, reach).filter((row) => !known.has(row.id)).length;
    if (n > 0 && this.#rows.length === 0) await this.load();
    else this.#announce(n, n === 2 * PAGE_SIZE);
  }

  /**
   * Check whether documents follow the last row.
   * @param {number} requestId
   */
  async #findNewAtEnd(requestId) {
    if (this.#next !== null) return;
    const { id } = this.#rows[this.#rows.length - 1];
    const page = await get("/v1/documents", { query: { ...this.#where(), sort: "oldest", limit: 1, after: id }, signal: this.view.signal });
    if (requestId !== this.#requestId || page.documents.length === 0) return;
    this.#next = id;
    this.#draw();
  }

  /** @param {number} n */
  #announce(n, isMore = false) {
    this.newsBar.hidden = n === 0;
    setText(this.news, n === 0 ? "" : isMore ? t("documents.more_new", { n }) : t("documents.new", { n }));
  }

  async #showNew() {
    try {
      await this.load();
      window.scrollTo({ top: 0 });
      this.table.node.focus({ preventScroll: true });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  #recount() {
    if (this.mustCount) void this.#count();
  }

  /** Count the matching documents by state. That is slow in a large queue, so one request runs at a time. */
  async #count() {
    if (this.isCounting) {
      this.mustCount = true;
      return;
    }
    this.isCounting = true;
    this.mustCount = false;
    const { state: _, ...where } = this.#where();
    const requestId = this.#requestId;
    try {
      const answer = await get("/v1/documents/counts", { query: where, signal: this.view.signal });
      if (requestId === this.#requestId) this.#counts = answer.states;
      else this.mustCount = true;
      this.filters.count(this.#counts);
      this.#showCount();
    } catch (error) {
      ignoreRequestError(error);
    } finally {
      this.isCounting = false;
    }
  }

  // -- drawing

  #draw() {
    this.hasSteps ||= this.#rows.some((row) => hasSteps(row) || row.parent !== null || row.state === "split");
    this.node.classList.toggle("has-steps", this.hasSteps);
    this.filters.showSteps(this.hasSteps);
    this.table.update(this.#rows);
    this.more.update({ hasMore: this.#next !== null, isBusy: this.#isBusy });
    this.noneAtAll.hidden = this.filters.isAny();
    this.noMatch.hidden = !this.filters.isAny();
    this.#showCount();
    if (this.#next !== null && this.#end !== null) {
      // The observer fires only on changes; observe again in case the end is still in sight.
      this.#end.unobserve(this.more.node);
      this.#end.observe(this.more.node);
    }
  }

  // -- for BulkActions

  get selection() {
    return this.table.selection;
  }

  get rows() {
    return this.#rows;
  }

  get hasMore() {
    return this.#next !== null;
  }

  unselect() {
    const hadFocus = this.actions.node.contains(document.activeElement);
    this.table.selection.clear();
    this.table.update(this.#rows);
    if (hadFocus) this.table.node.focus({ preventScroll: true });
  }

  async refreshAll() {
    this.#markAllStale();
    await this.#refresh();
    void this.#count();
  }

  /** The number of matching documents by the last count; null before the first count. */
  get matching() {
    if (this.#counts === null) return null;
    const counts = this.#counts;
    const { state } = filtersFromQuery(this.view.query);
    return (state.length > 0 ? state : STATES).reduce((sum, name) => sum + (counts[name] ?? 0), 0);
  }

  #showCount() {
    const n = this.matching;
    const matching = n === null || this.#rows.length === 0 ? "" : t("documents.matching", { n, shown: this.#rows.length });
    setText(this.count, this.isCutOff ? `${matching}. ${t("documents.sorted_of", { n: this.#rows.length })}` : matching);
  }
}

/**
 * The sort for the table's heading.
 * @param {URLSearchParams} query
 */
function headerSort(query) {
  const sort = sortOf(query);
  const key = Object.keys(SORT_OF_COLUMN).find((column) => SORT_OF_COLUMN[column] === sort);
  return { key: key ?? "submitted", isDown: sort !== "oldest" };
}

/**
 * The rows with the highest values first; those without a value last.
 * @param {Row[]} rows
 * @param {(row: Row) => number | null} valueOf
 */
function sortedDown(rows, valueOf) {
  const values = new Map(rows.map((row) => [row, valueOf(row) ?? -1]));
  return rows.toSorted((one, other) => (values.get(other) ?? 0) - (values.get(one) ?? 0));
}
