// Documents, newest or oldest first. What is read stays where it is: rows change in place, and new ones wait behind a
// bar, or, oldest first, at the end.

import { get } from "../api.js";
import { debounced, el, fill, setProp, setText } from "../dom.js";
import { t } from "../i18n.js";
import { to } from "../routes.js";
import { mayAct } from "../session.js";
import { icon } from "../components/icons.js";
import { more } from "../components/paging.js";
import { empty, failed } from "../components/placeholders.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { Acting } from "./documents/actions.js";
import { columns } from "./documents/columns.js";
import { Filters, STATES, asked, matches, sortOf } from "./documents/filters.js";

const PAGE = 100;
const BY_ITSELF = 1_000; // rows that come by scrolling; after that, by the button
const IDS = 100; // asked for at once
const ROWS_EVERY = 1_500;
const NEW_EVERY = 2_000;
const COUNTS_EVERY = 10_000;
const KEPT_FOR = 600_000;

/** The list as it was left, for whoever comes back to it with the browser's Back. */
let kept = null;
let cameBackAt = -Infinity;
window.addEventListener("popstate", () => {
  cameBackAt = performance.now();
});

export async function mount(view) {
  const list = new List(view);
  const before = performance.now() - cameBackAt < 500 ? kept : null;
  kept = null;
  const isSame = before !== null && before.search === location.search && Date.now() - before.at < KEPT_FOR;
  if (isSame) list.restore(before);
  else await list.load();
  list.begin();
  if (mayAct()) view.setActions(el("a", { class: "button button-primary", href: to("upload") }, icon("upload"), t("documents.upload")));
  fill(view.root, list.node);
  view.onEnd(() => {
    kept = list.keep();
  });
  return {
    update: () => list.changed(),
    shown: () => {
      if (isSame) window.scrollTo(0, before.scroll);
    },
  };
}

class List {
  #rows = [];
  #next = null;
  #ticket = 0;
  #stale = new Set();
  #counts = null;
  #isBusy = false;
  #scroll = 0;
  #end = null;

  constructor(view) {
    this.view = view;
    this.refreshedAt = 0;
    this.lookedAt = 0;
    this.filters = new Filters(view);
    this.table = table({
      caption: t("documents.title"),
      keyOf: (row) => row.id,
      hrefOf: (row) => to("document", { id: row.id }),
      sort: headOf(view.query),
      onSort: ({ isDown }) => this.filters.sortBy(isDown ? "newest" : "oldest"),
      selectable: mayAct(),
      onSelect: () => this.acting?.update(),
      empty: this.#none(),
      columns: columns(),
    });
    this.more = more(() => this.#loadMore());
    this.acting = new Acting(this);
    this.news = el("p", {});
    this.newsBar = el(
      "div",
      { class: "documents-new", hidden: true },
      this.news,
      el("button", { class: "button button-small", type: "button", on: { click: () => this.#showNew() } }, icon("up"), t("documents.show_new")),
    );
    this.trouble = el("div", { class: "documents-trouble" });
    this.count = el("p", { class: "muted documents-count", role: "status" });
    const news = el("div", { class: "documents-news", role: "status" }, this.newsBar);
    this.body = el("div", { class: "documents-body" }, this.trouble, this.table.node, this.more.node);
    this.node = el("section", { class: "panel panel-flush documents" }, el("h2", { class: "hidden" }, t("documents.list")), this.filters.node, news, this.count, this.acting.node, this.body);
  }

  #none() {
    const clear = el("button", { class: "button", type: "button", on: { click: () => this.view.setQuery(this.filters.nothing(), { replace: false }) } }, t("documents.clear"));
    this.noneAtAll = empty(t("documents.none"), t("documents.none_hint"), mayAct() ? el("a", { class: "button", href: to("upload") }, t("documents.upload")) : null);
    this.noneFound = empty(t("documents.not_found"), t("documents.not_found_hint"), clear);
    return el("div", {}, this.noneAtAll, this.noneFound);
  }

  // -- loading

  /** The first page of what the address asks for. Throws only if there is nothing yet to go on showing. */
  async load() {
    this.#ticket += 1;
    const mine = this.#ticket;
    const page = await get("/v1/documents", { query: { ...this.#where(), sort: sortOf(this.view.query), limit: PAGE }, signal: this.view.signal });
    if (mine !== this.#ticket) return;
    this.#rows = page.documents;
    this.#next = page.next;
    this.#stale.clear();
    this.#announce(0);
    fill(this.trouble);
    this.#draw();
    this.#count();
  }

  /** The filters changed: the old rows stay, dimmed, until the new ones are there. */
  async changed() {
    this.filters.follow();
    this.table.setSort(headOf(this.view.query));
    this.acting.clear();
    setProp(this.body, "aria-busy", "true");
    try {
      await this.load();
    } catch (wrong) {
      if (wrong.name === "AbortError") return;
      if (wrong.code === undefined) throw wrong;
      this.#rows = [];
      this.#next = null;
      this.#draw();
      fill(this.trouble, failed(wrong, () => this.changed()));
    } finally {
      setProp(this.body, "aria-busy", null);
      this.node.classList.toggle("is-troubled", this.trouble.childElementCount > 0);
    }
  }

  async #loadMore() {
    if (this.#isBusy || this.#next === null) return;
    this.#isBusy = true;
    const mine = this.#ticket;
    this.more.update({ hasMore: true, isBusy: true });
    try {
      const page = await get("/v1/documents", { query: { ...this.#where(), sort: sortOf(this.view.query), limit: PAGE, after: this.#next }, signal: this.view.signal });
      if (mine !== this.#ticket) return;
      const known = new Set(this.#rows.map((row) => row.id));
      this.#rows = [...this.#rows, ...page.documents.filter((row) => !known.has(row.id))];
      this.#next = page.next;
    } catch (wrong) {
      if (wrong.name === "AbortError") return;
      if (wrong.code === undefined) throw wrong;
      toast(wrong.message, { kind: "error" });
    } finally {
      this.#isBusy = false;
      this.#draw();
    }
  }

  restore(before) {
    this.#rows = before.rows;
    this.#next = before.next;
    for (const id of before.selection) this.table.selection.add(id);
    this.#all();
    this.#draw();
    this.#count();
  }

  keep() {
    return { search: this.search, rows: this.#rows, next: this.#next, selection: [...this.table.selection], scroll: this.#scroll, at: Date.now() };
  }

  #where() {
    this.search = location.search;
    return asked(this.view.query);
  }

  // -- live

  begin() {
    const view = this.view;
    view.listen("*", (events) => this.#hear(events));
    view.every(500, () => this.#follow());
    view.every(COUNTS_EVERY, () => this.#recount());
    view.every(10_000, () => this.table.update(this.#rows)); // "3 minutes ago" goes on
    const scrolled = () => {
      this.#scroll = window.scrollY;
    };
    window.addEventListener("scroll", scrolled, { passive: true, signal: view.signal });
    window.addEventListener("scroll", debounced(() => this.#refresh(), 200), { passive: true, signal: view.signal });
    this.#end = new IntersectionObserver(
      (entries) => {
        if (entries.some((each) => each.isIntersecting) && this.#rows.length < BY_ITSELF) this.#loadMore();
      },
      { rootMargin: "600px" },
    );
    this.#end.observe(this.more.node);
    view.onEnd(() => this.#end.disconnect());
  }

  #hear(events) {
    if (events.some((each) => each.kind === "reset" || each.kind === "purged")) this.#all();
    else {
      const shown = new Set(this.#rows.map((row) => row.id));
      for (const each of events) for (const id of each.documents ?? []) if (shown.has(id)) this.#stale.add(id);
    }
    this.mayHaveNew = true;
    this.mustCount = true;
    this.#follow();
  }

  /** At once, if that was not done a moment ago. */
  #follow() {
    const now = Date.now();
    if (this.#stale.size > 0 && now - this.refreshedAt >= ROWS_EVERY) this.#refresh();
    if (this.mayHaveNew && now - this.lookedAt >= NEW_EVERY) this.#lookForNew();
  }

  #all() {
    for (const row of this.#rows) this.#stale.add(row.id);
    this.mayHaveNew = true;
  }

  /** Rows that something happened to, those in sight first; one request at a time. */
  async #refresh() {
    if (this.isRefreshing || this.#stale.size === 0) return;
    const lines = [...this.table.node.querySelectorAll("tbody tr")].filter((line) => this.#stale.has(line.row.id));
    const inSight = lines.filter((line) => {
      const { top, bottom } = line.getBoundingClientRect();
      return bottom > -200 && top < window.innerHeight + 200;
    });
    const ids = inSight.slice(0, IDS).map((line) => line.row.id);
    if (ids.length === 0) return;
    this.isRefreshing = true;
    this.refreshedAt = Date.now();
    const mine = this.#ticket;
    try {
      const page = await get("/v1/documents", { query: { id: ids }, signal: this.view.signal });
      if (mine !== this.#ticket) return;
      for (const id of ids) this.#stale.delete(id);
      const found = new Map(page.documents.map((row) => [row.id, row]));
      const where = asked(this.view.query);
      const wanted = new Set(ids);
      this.#rows = this.#rows.flatMap((row) => {
        if (!wanted.has(row.id)) return [row];
        const now = found.get(row.id);
        return now === undefined ? [] : [{ ...now, isGone: !matches(now, where) }];
      });
      this.#draw();
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong; // the live mark tells of the rest
    } finally {
      this.isRefreshing = false;
    }
  }

  async #lookForNew() {
    if (!this.mayHaveNew || this.isLooking) return;
    this.mayHaveNew = false;
    this.isLooking = true;
    this.lookedAt = Date.now();
    const mine = this.#ticket;
    try {
      if (this.#rows.length > 0 && sortOf(this.view.query) === "oldest") await this.#lookBehind(mine);
      else await this.#lookBefore(mine);
    } catch (wrong) {
      this.mayHaveNew = true;
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong;
    } finally {
      this.isLooking = false;
    }
  }

  /** How many of the first two pages are not shown yet. */
  async #lookBefore(mine) {
    const page = await get("/v1/documents", { query: { ...this.#where(), limit: 2 * PAGE }, signal: this.view.signal });
    if (mine !== this.#ticket) return;
    const known = new Set(this.#rows.map((row) => row.id));
    const reach = this.#next === null ? page.documents.length : page.documents.findLastIndex((row) => known.has(row.id)) + 1 || page.documents.length;
    const n = page.documents.slice(0, reach).filter((row) => !known.has(row.id)).length;
    if (n > 0 && this.#rows.length === 0) await this.load();
    else this.#announce(n, n === 2 * PAGE);
  }

  /** Whether the list goes on behind what was its end. */
  async #lookBehind(mine) {
    if (this.#next !== null) return;
    const { id } = this.#rows.at(-1);
    const page = await get("/v1/documents", { query: { ...this.#where(), sort: "oldest", limit: 1, after: id }, signal: this.view.signal });
    if (mine !== this.#ticket || page.documents.length === 0) return;
    this.#next = id;
    this.#draw();
  }

  #announce(n, isMore = false) {
    this.newsBar.hidden = n === 0;
    setText(this.news, n === 0 ? "" : isMore ? t("documents.more_new", { n }) : t("documents.new", { n }));
  }

  async #showNew() {
    try {
      await this.load();
      window.scrollTo({ top: 0 });
      this.table.node.focus({ preventScroll: true });
    } catch (wrong) {
      if (wrong.code !== undefined) toast(wrong.message, { kind: "error" });
    }
  }

  #recount() {
    if (this.mustCount) this.#count();
  }

  /** Counting all that match can take a while in a large queue: one at a time, seldom, and never in the way. */
  async #count() {
    if (this.isCounting) {
      this.mustCount = true;
      return;
    }
    this.isCounting = true;
    this.mustCount = false;
    const { state: _, ...where } = this.#where();
    const mine = this.#ticket;
    try {
      const found = await get("/v1/documents/counts", { query: where, signal: this.view.signal });
      if (mine === this.#ticket) this.#counts = found.states;
      else this.mustCount = true;
      this.filters.count(this.#counts);
      this.#tell();
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong;
    } finally {
      this.isCounting = false;
    }
  }

  // -- drawing

  #draw() {
    this.table.update(this.#rows);
    this.more.update({ hasMore: this.#next !== null, isBusy: this.#isBusy });
    this.noneAtAll.hidden = this.filters.isAny();
    this.noneFound.hidden = !this.filters.isAny();
    this.#tell();
    if (this.#next !== null && this.#end !== null) {
      // Its place may not have changed: ask again whether the end is in sight.
      this.#end.unobserve(this.more.node);
      this.#end.observe(this.more.node);
    }
  }

  // -- for what acts

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
    const hadFocus = this.acting.node.contains(document.activeElement);
    this.table.selection.clear();
    this.table.update(this.#rows);
    if (hadFocus) this.table.node.focus({ preventScroll: true });
  }

  async lookAgain() {
    this.#all();
    await this.#refresh();
    this.#count();
  }

  /** Those that match, by the last count; null before the first. */
  get matching() {
    if (this.#counts === null) return null;
    const { state } = asked(this.view.query);
    return (state.length > 0 ? state : STATES).reduce((sum, each) => sum + (this.#counts[each] ?? 0), 0);
  }

  #tell() {
    const n = this.matching;
    setText(this.count, n === null || this.#rows.length === 0 ? "" : t("documents.matching", { n, shown: this.#rows.length }));
  }
}

/** The sort as the table's heading shows it. */
function headOf(query) {
  return { key: "submitted", isDown: sortOf(query) === "newest" };
}
