// All customers, page by page. The server searches and sorts, so 100,000 customers are as fast as ten.

import { ApiError, get, ignoreRequestError, isAbort } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, setProp, setText } from "../dom.js";
import { countdown, duration, number, sharePercent, time } from "../format.js";
import { t } from "../i18n.js";
import { waitingByLevel } from "../lanes.js";
import { pageUrl } from "../routes.js";
import { levelBadge, updateLevelBadge } from "../components/badges.js";
import { searchField, selectField } from "../components/fields.js";
import { icon } from "../components/icons.js";
import { panel } from "../components/panel.js";
import { emptyState, errorState } from "../components/placeholders.js";
import { stackedBar, updateStackedBar } from "../components/stacked_bar.js";
import { table } from "../components/table.js";

/** @import { View } from "../router.js" */
/** @import { Sort } from "../components/table.js" */

/** @import { Column } from "../components/table.js" */
/** @typedef {Omit<Api.Customer, "lines"> & { lines: Record<string, number>, most: number, isReset: boolean }} Row */
/** @typedef {HTMLElement & { row: Row, isRunning: boolean }} Clock */

const PAGE_SIZE = 50;
const DEFAULT_SORT = "-waiting";
const SORT_KEYS = ["name", "level", "updated", "waiting", "running", "wait", "share"];
/** @type {Record<string, Record<string, string>>} */
const FILTERS = { waiting: { waiting: "true" }, paused: { paused: "true" }, all: {} };

/** @param {View} view */
export async function mount(view) {
  const list = new CustomerList(view);
  await list.load();
  autoRefresh(view, () => list.load());
  view.every(1_000, () => list.tick());
  fill(view.root, list.node);
  return { update: () => list.change() };
}

class CustomerList {
  #view;
  #requestId = 0;
  #skew = 0;
  #isOver = false;

  /** @param {View} view */
  constructor(view) {
    this.#view = view;
    this.field = searchField({ label: t("customers.search"), value: view.query.get("q") ?? "", onSearch: (q) => this.#ask({ q }) });
    this.filter = selectField({ label: t("customers.show"), hidden: true, options: Object.keys(FILTERS).reverse().map((name) => [name, t(`customers.show_${name}`)]), value: this.#filter() });
    this.filter.input.addEventListener("change", () => this.#ask({ waiting: null, paused: null, ...FILTERS[this.filter.input.value] }));
    this.count = el("p", { class: "muted customers-count", role: "status" });
    this.table = table({
      caption: t("customers.title"),
      keyOf: (row) => row.customer,
      hrefOf: (row) => pageUrl("customer", { name: row.customer }),
      sort: sortOf(view.query),
      onSort: (sort) => this.#ask({ sort: this.#toggledSort(sort) }),
      empty: emptyState(t("customers.none"), t("customers.none_hint")),
      columns: columns((row, node) => this.#showReset(row, node)),
    });
    this.pager = new Pager((page) => this.#ask({ page: page > 1 ? page : null }, { isStep: true }));
    this.problem = el("div");
    this.node = panel(t("customers.all"), { className: "panel-flush", actions: el("div", { class: "list-tools" }, this.field.node, this.filter.node, this.count) }, this.problem, this.table.node, this.pager.node);
  }

  /** Fetch the page that the address names. Of concurrent requests only the latest is shown. */
  async load() {
    this.#requestId += 1;
    const requestId = this.#requestId;
    const { query, signal } = this.#view;
    const sort = sortOf(query);
    const page = Math.max(1, Math.min(1e9, Number.parseInt(query.get("page") ?? "", 10) || 1));
    const filter = { text: query.get("q"), waiting: query.get("waiting"), paused: query.get("paused") };
    const answer = await get("/v1/customers", { query: { ...filter, sort: sort.key, down: sort.isDown, limit: PAGE_SIZE, after: (page - 1) * PAGE_SIZE }, signal });
    if (requestId !== this.#requestId) return;
    if (answer.customers.length === 0 && answer.total !== null && answer.total > 0) {
      this.#view.setQuery({ page: null }); // the list has become shorter than the address expects
      return;
    }
    this.#draw(answer, page);
  }

  /** Apply new filters of the address. An error is shown in place of the rows. */
  async change() {
    const q = this.#view.query.get("q") ?? "";
    if (this.field.input.value.trim() !== q) this.field.input.value = q;
    this.filter.input.value = this.#filter();
    this.table.setSort(sortOf(this.#view.query));
    setProp(this.table.node, "aria-busy", "true");
    try {
      await this.load();
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      fill(this.problem, errorState(error, () => this.change()));
      this.table.node.hidden = true;
    } finally {
      setProp(this.table.node, "aria-busy", null);
    }
  }

  /** Update the countdowns between two loads. */
  tick() {
    for (const node of /** @type {NodeListOf<Clock>} */ (this.table.node.querySelectorAll(".customers-clock"))) this.#showReset(node.row, node);
    if (this.#isOver) {
      this.#isOver = false;
      this.load().catch(ignoreRequestError); // a counter was reset; the status indicator shows an offline server
    }
  }

  /**
   * @param {Api.CustomerPage} answer
   * @param {number} page
   */
  #draw(answer, page) {
    this.#skew = answer.at - Date.now() * 1_000;
    const most = Math.max(1, ...answer.customers.map((customer) => customer.waiting));
    const rows = answer.customers.map((customer) => ({ ...customer, most, isReset: customer.counter !== null && answer.at > customer.counter.resets_after, lines: waitingByLevel(customer.lines) }));
    fill(this.problem);
    this.table.node.hidden = false;
    this.table.update(rows);
    setText(this.count, t("customers.found", { n: answer.total }));
    this.pager.update(page, rows.length, answer.total);
  }

  /**
   * Show the time until the counter is reset, or that it was reset.
   * @param {Row} row
   * @param {Clock} node
   */
  #showReset(row, node) {
    const left = row.counter === null ? null : row.counter.resets_after - (Date.now() * 1_000 + this.#skew);
    const isReset = left === null || left < 0;
    if (isReset && node.isRunning) this.#isOver = true;
    Object.assign(node, { row, isRunning: !isReset });
    node.classList.toggle("muted", isReset);
    setText(node, left === null ? "–" : isReset ? t("customers.reset") : countdown(left));
    setProp(node, "title", row.counter === null ? t("customers.never") : t("customers.last_update", { time: time(row.counter.updated_at) }));
    return node;
  }

  #filter() {
    const { query } = this.#view;
    return Object.keys(FILTERS).find((name) => query.get(name) === "true") ?? "all";
  }

  /** @param {Record<string, unknown>} changes */
  #ask(changes, { isStep = false } = {}) {
    this.#view.setQuery({ page: null, ...changes }, { replace: !isStep });
  }

  /**
   * A new column starts with its largest values, names start at A.
   * @param {Sort} sort
   */
  #toggledSort({ key, isDown }) {
    const isSame = sortOf(this.#view.query).key === key;
    const wanted = (isSame ? isDown : key !== "name") ? `-${key}` : key;
    return wanted === DEFAULT_SORT ? null : wanted;
  }
}

/** @param {URLSearchParams} query */
function sortOf(query) {
  const param = query.get("sort") ?? DEFAULT_SORT;
  const key = param.replace(/^-/, "");
  return SORT_KEYS.includes(key) ? { key, isDown: param.startsWith("-") } : { key: DEFAULT_SORT.slice(1), isDown: true };
}

/** @param {(row: Row, node: Clock) => HTMLElement} clock @returns {Column<Row>[]} */
function columns(clock) {
  return [
    { key: "name", label: t("customers.head_name"), sortable: true, value: (row) => `${row.display_name} ${row.paused} ${row.at_slot_limit}`, cell: nameCell },
    { key: "level", label: t("customers.head_level"), sortable: true, value: (row) => row.level, cell: (row) => levelBadge(row.level), update: (node, row) => updateLevelBadge(node, row.level) },
    { key: "counter", label: t("customers.head_counter"), align: "end", className: "from-tablet", value: (row) => (row.counter === null ? "–" : number(row.isReset ? 0 : row.counter.count)) },
    { key: "updated", label: t("customers.head_reset"), sortable: true, align: "end", value: (row) => row.counter?.resets_after ?? null, cell: (row) => clock(row, Object.assign(el("time", { class: "customers-clock" }), { row, isRunning: false })), update: (node, row) => clock(row, node) },
    { key: "waiting", label: t("customers.head_waiting"), sortable: true, className: "customers-bar", value: (row) => `${row.waiting} ${row.most} ${JSON.stringify(row.lines)}`, cell: stackedBar, update: updateStackedBar },
    { key: "running", label: t("customers.head_running"), sortable: true, align: "end", className: "from-tablet", value: (row) => number(row.running) },
    { key: "wait", label: t("customers.head_wait"), sortable: true, align: "end", className: "from-desktop", value: (row) => (row.waits === null ? "–" : `${duration(row.waits.p50)} / ${duration(row.waits.p95)}`) },
    { key: "share", label: t("customers.head_share"), sortable: true, align: "end", className: "from-desktop", value: shareText },
    { key: "weight", label: t("customers.head_weight"), align: "end", className: "from-desktop", value: (row) => number(row.weight, 3) },
    { key: "limits", label: t("customers.head_limits"), className: "from-desktop customers-limits", value: limitsText },
  ];
}

/** @param {Row} row */
function nameCell(row) {
  const shown = row.display_name ?? row.customer;
  return el(
    "span",
    { class: "customers-name" },
    el("bdi", { class: "dotted", title: shown }, shown),
    row.display_name !== null && el("bdi", { class: "dotted muted" }, row.customer),
    row.paused && el("span", { class: "badge state-delayed" }, t("customers.is_paused")),
    row.at_slot_limit && !row.paused && el("span", { class: "badge state-waiting" }, t("customers.at_slot_limit")),
  );
}

/** @param {Pick<Row, "share">} row */
function shareText({ share }) {
  return share === null ? "–" : t("customers.of_due", { received: sharePercent(share.received), due: sharePercent(share.due) });
}

/** @param {Row} row */
function limitsText(row) {
  const cap = row.cap !== null && t("customers.cap", { n: row.cap });
  const rate = row.rate !== null && t("customers.rate", { n: row.rate.documents, per: duration(row.rate.per) });
  return [cap, rate].filter(Boolean).join(" · ") || "–";
}

/** The shown part of the list, and buttons for the next and the previous page. */
class Pager {
  page = 1;

  /** @param {(page: number) => unknown} open */
  constructor(open) {
    const button = (/** @type {string} */ label, /** @type {string} */ drawing, /** @type {() => number} */ page) => el("button", { class: "button button-small", type: "button", "aria-label": t(`customers.page_${label}`), title: t(`customers.page_${label}`), on: { click: () => open(page()) } }, icon(drawing));
    this.before = button("before", "previous", () => this.page - 1);
    this.after = button("after", "next", () => this.page + 1);
    this.text = el("p", { class: "muted" });
    this.node = el("nav", { class: "pager", "aria-label": t("customers.pages") }, this.before, this.text, this.after);
  }

  /**
   * @param {number} page
   * @param {number} rows
   * @param {number | null} total
   */
  update(page, rows, total) {
    this.page = page;
    this.node.hidden = page === 1 && (total ?? 0) <= PAGE_SIZE;
    this.before.disabled = page <= 1;
    this.after.disabled = page * PAGE_SIZE >= (total ?? 0);
    const first = (page - 1) * PAGE_SIZE + 1;
    setText(this.text, t("customers.part", { first, last: first + rows - 1, n: total }));
  }
}
