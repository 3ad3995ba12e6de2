// The customers with the most waiting documents, and a search among all.

import { get } from "../../api.js";
import { el, fill, setProp, setText } from "../../dom.js";
import { number, sharePercent } from "../../format.js";
import { t } from "../../i18n.js";
import { waitingByLevel } from "../../lanes.js";
import { pageUrl } from "../../routes.js";
import { levelBadge, updateLevelBadge } from "../../components/badges.js";
import { searchField } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { emptyState } from "../../components/placeholders.js";
import { stackedBar, updateStackedBar } from "../../components/stacked_bar.js";
import { table } from "../../components/table.js";

/** @import { View } from "../../router.js" */
/** @import { Column, Sort } from "../../components/table.js" */

/** @typedef {Omit<Api.BusyCustomer, "share"> & { share: Api.Share | null, most: number }} Row */
/** @typedef {Omit<Row, "most">} CustomerRow */

const MAX_CUSTOMERS = 5;

/** The customers with the most waiting documents. A search asks the server and covers all customers. */
export class Customers {
  #view;
  /** @type {CustomerRow[] | null} */
  #searchResults = null;
  /** @type {Api.Overview | null} */
  #overview = null;

  /** @param {View} view */
  constructor(view) {
    this.#view = view;
    const field = searchField({ label: t("overview.search"), value: view.query.get("q") ?? "", onSearch: (q) => view.setQuery({ q }) });
    this.input = field.input;
    this.empty = el("div");
    this.count = el("p", { class: "muted" });
    const all = el("a", { href: pageUrl("customers") }, t("overview.all_customers"));
    this.table = table({
      caption: t("overview.customers"),
      keyOf: (row) => row.customer,
      hrefOf: (row) => pageUrl("customer", { name: row.customer }),
      sort: { key: "waiting", isDown: true },
      onSort: (sort) => this.#sortBy(sort),
      empty: this.empty,
      columns: columns(),
    });
    this.sort = { key: "waiting", isDown: true };
    this.node = panel(t("overview.customers"), { className: "panel-flush", actions: el("div", { class: "customers-tools" }, field.node, this.count, all) }, this.table.node);
  }

  async search() {
    const q = this.#view.query.get("q") ?? "";
    if (this.input.value.trim() !== q) this.input.value = q;
    if (q === "") this.#searchResults = null;
    else {
      const page = await get("/v1/customers", { query: { text: q, limit: 50 }, signal: this.#view.signal });
      this.#searchResults = page.customers.map((customer) => ({ ...customer, lines: waitingByLevel(customer.lines) }));
    }
    this.#draw();
  }

  /** @param {Api.Overview} overview */
  update(overview) {
    this.#overview = overview;
    this.#draw();
  }

  /** Nobody waits, or nobody has such a name: two different things. */
  #emptyState() {
    if (this.#searchResults === null) return emptyState(t("overview.no_customers"), t("overview.no_customers_hint"));
    return emptyState(t("overview.no_match", { q: this.#view.query.get("q") ?? "" }), t("overview.no_match_hint"));
  }

  /** @param {Sort} sort */
  #sortBy(sort) {
    this.sort = sort;
    this.table.setSort(sort);
    this.#draw();
  }

  #draw() {
    if (this.#overview === null) return;
    const { key, isDown } = this.sort;
    const known = new Map(this.#overview.busiest.map((row) => [row.customer, row]));
    /** @type {CustomerRow[]} */
    const shown = this.#searchResults ?? this.#overview.busiest.slice(0, MAX_CUSTOMERS);
    const most = Math.max(1, ...shown.map((row) => row.waiting));
    const rows = shown.map((row) => ({ ...row, ...known.get(row.customer), most }));
    rows.sort((one, other) => {
      const [a, b] = [sortValue(one, key), sortValue(other, key)];
      return (typeof a === "string" ? a.localeCompare(String(b)) : a - Number(b)) * (isDown ? -1 : 1) || one.customer.localeCompare(other.customer);
    });
    if (rows.length === 0) fill(this.empty, this.#emptyState());
    this.table.update(rows);
    const isPart = this.#overview.customers > rows.length;
    const top = isPart ? t("overview.top", { n: rows.length, total: this.#overview.customers }) : "";
    setText(this.count, this.#searchResults === null ? top : t("overview.found", { n: rows.length }));
  }
}

/**
 * @param {CustomerRow} row
 * @param {string} key
 */
function sortValue(row, key) {
  if (key === "customer") return row.display_name ?? row.customer;
  if (key === "share") return row.share?.received ?? -1;
  return key === "level" ? row.level : key === "running" ? row.running : row.waiting;
}

/** @returns {Column<Row>[]} */
function columns() {
  return [
    { key: "customer", label: t("overview.head_customer"), sortable: true, value: (row) => row.display_name ?? row.customer },
    { key: "level", label: t("overview.head_level"), sortable: true, value: (row) => row.level, cell: (row) => levelBadge(row.level), update: (node, row) => updateLevelBadge(node, row.level) },
    {
      key: "waiting",
      label: t("overview.head_waiting"),
      sortable: true,
      value: (row) => `${row.waiting} ${row.most} ${row.paused} ${row.at_slot_limit} ${JSON.stringify(row.lines)}`,
      cell: (row) => withClosedTitle(stackedBar(row), row),
      update: (node, row) => withClosedTitle(updateStackedBar(node, row), row),
      className: "cell-bar",
    },
    { key: "running", label: t("overview.head_running"), sortable: true, align: "end", className: "wide-only", value: (row) => number(row.running) },
    { key: "share", label: t("overview.head_share"), sortable: true, align: "end", className: "wide-only", value: (row) => sharePercent(row.share?.received ?? null) },
    { key: "due", label: t("overview.head_due"), align: "end", className: "wide-only", value: (row) => sharePercent(row.share?.due ?? null) },
  ];
}

/**
 * @template {HTMLElement} N
 * @param {N} node
 * @param {Row} row
 */
function withClosedTitle(node, row) {
  if (row.paused) setProp(node, "title", t("overview.customer_paused"));
  else if (row.at_slot_limit) setProp(node, "title", t("overview.customer_at_slot_limit"));
  return node;
}
