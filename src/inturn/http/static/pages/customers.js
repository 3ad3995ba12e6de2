// All customers, page by page: the server searches and sorts, so a hundred thousand are as quick as ten.

import { get } from "../api.js";
import { el, fill, setProp, setText } from "../dom.js";
import { countdown, duration, number, percent, time } from "../format.js";
import { t } from "../i18n.js";
import { refresh } from "../auto_refresh.js";
import { to } from "../routes.js";
import { panel } from "../components/panel.js";
import { search, select } from "../components/fields.js";
import { icon } from "../components/icons.js";
import { levelBadge, updateBadge } from "../components/badges.js";
import { stack, updateStack } from "../components/stacked_bar.js";
import { empty, failed } from "../components/placeholders.js";
import { table } from "../components/table.js";

const ROWS = 50;
const USUAL = "-waiting";
const SORTS = ["name", "level", "updated", "waiting", "running", "wait", "share"];
const FILTERS = { waiting: { waiting: "true" }, paused: { paused: "true" }, all: {} };

export async function mount(view) {
  const list = new List(view);
  await list.look();
  refresh(view, () => list.look());
  view.every(1_000, () => list.tick());
  fill(view.root, list.node);
  return { update: () => list.change() };
}

class List {
  #view;
  #asked = 0;
  #skew = 0;
  #isOver = false;

  constructor(view) {
    this.#view = view;
    this.field = search({ label: t("customers.search"), value: view.query.get("q") ?? "", onSearch: (q) => this.#ask({ q }) });
    this.filter = select({ label: t("customers.show"), hidden: true, options: Object.keys(FILTERS).reverse().map((each) => [each, t(`customers.show_${each}`)]), value: this.#filter() });
    this.filter.input.addEventListener("change", () => this.#ask({ waiting: null, paused: null, ...FILTERS[this.filter.input.value] }));
    this.count = el("p", { class: "muted customers-count", role: "status" });
    this.table = table({
      caption: t("customers.title"),
      keyOf: (row) => row.customer,
      hrefOf: (row) => to("customer", { name: row.customer }),
      sort: sortOf(view.query),
      onSort: (sort) => this.#ask({ sort: this.#turned(sort) }),
      empty: empty(t("customers.none"), t("customers.none_hint")),
      columns: columns((row, node) => this.#show(row, node)),
    });
    this.pager = new Pager((page) => this.#ask({ page: page > 1 ? page : null }, { isStep: true }));
    this.problem = el("div");
    this.node = panel(t("customers.all"), { className: "panel-flush", actions: el("div", { class: "list-tools" }, this.field.node, this.filter.node, this.count) }, this.problem, this.table.node, this.pager.node);
  }

  /** What the address asks for is fetched and shown; of several looks only the latest counts. */
  async look() {
    this.#asked += 1;
    const mine = this.#asked;
    const { query, signal } = this.#view;
    const sort = sortOf(query);
    const page = Math.max(1, Math.min(1e9, Number.parseInt(query.get("page"), 10) || 1));
    const filter = { text: query.get("q"), waiting: query.get("waiting"), paused: query.get("paused") };
    const found = await get("/v1/customers", { query: { ...filter, sort: sort.key, down: sort.isDown, limit: ROWS, after: (page - 1) * ROWS }, signal });
    if (mine !== this.#asked) return;
    if (found.customers.length === 0 && found.total > 0) {
      this.#view.setQuery({ page: null }); // there were more when this address was made
      return;
    }
    this.#draw(found, page);
  }

  /** Somebody changed the filters: what is typed elsewhere stays, and a failure is told in place of the rows. */
  async change() {
    const q = this.#view.query.get("q") ?? "";
    if (this.field.input.value.trim() !== q) this.field.input.value = q;
    this.filter.input.value = this.#filter();
    this.table.setSort(sortOf(this.#view.query));
    setProp(this.table.node, "aria-busy", "true");
    try {
      await this.look();
    } catch (wrong) {
      if (wrong.name === "AbortError") return;
      if (wrong.code === undefined) throw wrong;
      fill(this.problem, failed(wrong, () => this.change()));
      this.table.node.hidden = true;
    } finally {
      setProp(this.table.node, "aria-busy", null);
    }
  }

  /** The clocks go on between two looks. */
  tick() {
    for (const node of this.table.node.querySelectorAll(".customers-clock")) this.#show(node.row, node);
    if (this.#isOver) {
      this.#isOver = false;
      this.look().catch(() => {}); // somebody is at 0 again: the live mark tells if nobody answers
    }
  }

  #draw(found, page) {
    this.#skew = found.at - Date.now() * 1_000;
    const most = Math.max(1, ...found.customers.map((each) => each.waiting));
    const rows = found.customers.map((each) => ({ ...each, most, isReset: each.counter !== null && found.at > each.counter.resets_after, lines: Object.fromEntries(each.lines.map((line) => [line.level, line.waiting])) }));
    fill(this.problem);
    this.table.node.hidden = false;
    this.table.update(rows);
    setText(this.count, t("customers.found", { n: found.total }));
    this.pager.update(page, rows.length, found.total);
  }

  /** A clock shows what is left, or that the next document starts at 0 again. */
  #show(row, node) {
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
    return Object.keys(FILTERS).find((each) => query.get(each) === "true") ?? "all";
  }

  #ask(changes, { isStep = false } = {}) {
    this.#view.setQuery({ page: null, ...changes }, { replace: !isStep });
  }

  /** Another column begins with its largest, names with the first. */
  #turned({ key, isDown }) {
    const isSame = sortOf(this.#view.query).key === key;
    const wanted = (isSame ? isDown : key !== "name") ? `-${key}` : key;
    return wanted === USUAL ? null : wanted;
  }
}

function sortOf(query) {
  const given = query.get("sort") ?? USUAL;
  const key = given.replace(/^-/, "");
  return SORTS.includes(key) ? { key, isDown: given.startsWith("-") } : { key: USUAL.slice(1), isDown: true };
}

function columns(clock) {
  return [
    { key: "name", label: t("customers.head_name"), sortable: true, value: (row) => `${row.display_name} ${row.paused}`, cell: name },
    { key: "level", label: t("customers.head_level"), sortable: true, value: (row) => row.level, cell: (row) => levelBadge(row.level), update: (node, row) => updateBadge(node, row.level) },
    { key: "counter", label: t("customers.head_counter"), align: "end", className: "from-tablet", value: (row) => (row.counter === null ? "–" : number(row.isReset ? 0 : row.counter.count)) },
    { key: "updated", label: t("customers.head_reset"), sortable: true, align: "end", value: (row) => row.counter?.resets_after ?? null, cell: (row) => clock(row, el("time", { class: "customers-clock" })), update: (node, row) => clock(row, node) },
    { key: "waiting", label: t("customers.head_waiting"), sortable: true, className: "customers-bar", value: (row) => `${row.waiting} ${row.most} ${JSON.stringify(row.lines)}`, cell: stack, update: updateStack },
    { key: "running", label: t("customers.head_running"), sortable: true, align: "end", className: "from-tablet", value: (row) => number(row.running) },
    { key: "wait", label: t("customers.head_wait"), sortable: true, align: "end", className: "from-desk", value: (row) => (row.waits === null ? "–" : `${duration(row.waits.p50)} / ${duration(row.waits.p95)}`) },
    { key: "share", label: t("customers.head_share"), sortable: true, align: "end", className: "from-desk", value: share },
    { key: "weight", label: t("customers.head_weight"), align: "end", className: "from-desk", value: (row) => number(row.weight, 3) },
    { key: "limits", label: t("customers.head_limits"), className: "from-desk customers-limits", value: limits },
  ];
}

function name(row) {
  const shown = row.display_name ?? row.customer;
  return el(
    "span",
    { class: "customers-name" },
    el("bdi", { class: "dotted", title: shown }, shown),
    row.display_name !== null && el("bdi", { class: "dotted muted" }, row.customer),
    row.paused && el("span", { class: "badge state-delayed" }, t("customers.is_paused")),
  );
}

function share({ share: found }) {
  return found === null ? "–" : t("customers.of_due", { received: part(found.received), due: part(found.due) });
}

function part(share) {
  return share === null ? "–" : percent(share, share < 0.001 ? 3 : 1);
}

function limits(row) {
  const cap = row.cap !== null && t("customers.cap", { n: row.cap });
  const rate = row.rate !== null && t("customers.rate", { n: row.rate.documents, per: duration(row.rate.per) });
  return [cap, rate].filter(Boolean).join(" · ") || "–";
}

/** Which part of the list this is, and the way to the others. */
class Pager {
  constructor(open) {
    const button = (label, drawing, page) => el("button", { class: "button button-small", type: "button", "aria-label": t(`customers.page_${label}`), title: t(`customers.page_${label}`), on: { click: () => open(page()) } }, icon(drawing));
    this.before = button("before", "previous", () => this.page - 1);
    this.after = button("after", "next", () => this.page + 1);
    this.text = el("p", { class: "muted" });
    this.node = el("nav", { class: "pager", "aria-label": t("customers.pages") }, this.before, this.text, this.after);
  }

  update(page, rows, total) {
    this.page = page;
    this.node.hidden = page === 1 && total <= ROWS;
    this.before.disabled = page <= 1;
    this.after.disabled = page * ROWS >= total;
    const first = (page - 1) * ROWS + 1;
    setText(this.text, t("customers.part", { first, last: first + rows - 1, n: total }));
  }
}
