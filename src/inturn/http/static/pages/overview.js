// The overview: one snapshot of the queue, reloaded after events, at most every two seconds.

import { get } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { ago, duration, durationInWords, number, percent, roundedNumber, sharePercent } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { levelBadge, levelClass, updateLevelBadge } from "../components/badges.js";
import { levelBars, lineChart } from "../components/charts.js";
import { searchField } from "../components/fields.js";
import { card, panel } from "../components/panel.js";
import { banner, emptyState } from "../components/placeholders.js";
import { largestShare, shareBar } from "../components/share_bar.js";
import { stackedBar, updateStackedBar } from "../components/stacked_bar.js";
import { table } from "../components/table.js";

const SECOND = 1_000_000;
const HISTORY_POINTS = 120;
const MAX_DOCUMENTS_PER_WORKER = 4;
const WORKER_SILENT_MICROSECONDS = 60_000_000;

export async function mount(view) {
  const history = new HistoryBuffer();
  const parts = [new SummaryCards(), new WaitChart(), new Levels(), new SharesList(), new Groups(), new Overdue(), new Workers()];
  const customers = new Customers(view);
  const paused = el("div");
  const [figures, chart, levels, shares, groups, overdue, workers] = parts.map((part) => part.node);

  async function load() {
    const overview = await get("/v1/overview", { query: { since: history.last }, signal: view.signal });
    history.add(overview.history);
    for (const part of parts) part.update(overview, history);
    customers.update(overview);
    fill(paused, overview.paused && banner(t("overview.paused", { name: overview.paused.operator, why: overview.paused.why || "–" }), { kind: "warn" }));
  }

  await load();
  await customers.search();
  autoRefresh(view, load);
  fill(
    view.root,
    paused,
    figures,
    el("div", { class: "overview-row overview-charts" }, chart, levels),
    el("div", { class: "overview-row overview-fairness" }, shares, el("div", { class: "overview-stack" }, groups, overdue)),
    workers,
    customers.node,
  );
  return {
    update: () => customers.search(),
  };
}

/** The points of the history received so far. Each load brings only the new ones. */
class HistoryBuffer {
  #columns = {};
  last = 0;

  add(points) {
    const isOther = points.at.length > 0 && points.at[0] <= this.last; // another server answered, or its clock went back
    for (const [name, values] of Object.entries(points)) {
      this.#columns[name] = [...(isOther ? [] : (this.#columns[name] ?? [])), ...values].slice(-HISTORY_POINTS);
    }
    this.last = this.of("at").at(-1) ?? 0;
  }

  of(name) {
    return this.#columns[name] ?? [];
  }
}

class SummaryCards {
  constructor() {
    const documents = (state) => pageUrl("documents", {}, { state });
    this.waiting = card({ label: t("overview.waiting"), href: documents("waiting") });
    this.running = card({ label: t("overview.running"), href: documents("running") });
    this.speed = card({ label: t("overview.per_second"), href: documents("done") });
    this.wait = card({ label: t("overview.wait_p95"), href: documents("waiting") });
    this.customers = card({ label: t("overview.customers_waiting"), href: pageUrl("customers", {}, { waiting: "true" }) });
    this.failed = card({ label: t("overview.failed"), href: documents("failed") });
    this.node = el("div", { class: "cards" }, [this.waiting, this.running, this.speed, this.wait, this.customers, this.failed].map((figure) => figure.node));
  }

  update(overview, history) {
    const { states, waits } = overview;
    this.waiting.update({
      value: number(states.waiting),
      history: history.of("waiting"),
    });
    this.running.update({ value: number(states.running), history: history.of("running") });
    this.speed.update({ value: roundedNumber(overview.per_second), history: history.of("per_second") });
    this.wait.update({
      value: waits === null ? "–" : duration(waits.p95),
      details: waits === null ? [] : [`p50 ${duration(waits.p50)}`, `p99 ${duration(waits.p99)}`],
      history: history.of("p95"),
    });
    this.customers.update({ value: number(overview.customers), history: history.of("customers") });
    this.failed.update({ value: number(states.failed), history: history.of("failed"), kind: states.failed > 0 ? "bad" : null });
  }
}

class WaitChart {
  constructor() {
    const series = ["p50", "p95", "p99"].map((percentile) => ({ key: percentile, label: percentile, className: `series-${percentile}` }));
    this.chart = lineChart({ label: t("overview.wait_over_time"), series, format: duration, isLength: true });
    this.node = panel(t("overview.wait_over_time"), { actions: this.chart.legend }, this.chart.node);
  }

  update(overview, history) {
    this.chart.update({ at: history.of("at"), p50: history.of("p50"), p95: history.of("p95"), p99: history.of("p99") });
  }
}

class Levels {
  constructor() {
    const hrefOf = (level) => pageUrl("documents", {}, level === 0 ? { state: "waiting" } : { state: "waiting", level });
    this.bars = levelBars({ hrefOf });
    this.node = panel(t("overview.by_level"), {}, this.bars.node);
  }

  update(overview) {
    const levels = Object.entries(overview.waiting).map(([level, n]) => [Number(level), n]);
    this.bars.update(levels.filter(([level, n]) => level > 0 || n > 0));
  }
}

class SharesList {
  constructor() {
    this.list = el("ul", { class: "shares" });
    this.none = el("p", { class: "muted" }, t("overview.no_work_lately"));
    const legend = el("ul", { class: "legend" }, el("li", { class: "series-a" }, t("overview.received")), el("li", { class: "legend-mark" }, t("overview.due")));
    this.node = panel(t("overview.shares"), { actions: legend, hint: t("overview.shares_hint") }, this.none, this.list);
  }

  update(overview) {
    const rows = overview.top_customers;
    const most = largestShare(rows);
    const update = (node, row) => {
      node.bar.update(row, most);
      setText(node.numbers, t("overview.of_due", { received: sharePercent(row.received), due: sharePercent(row.due) }));
      setText(node.used, t("overview.share_used", { time: duration(row.worker_seconds * SECOND), n: row.documents }));
      setProp(node.over, "hidden", !row.is_over);
    };
    const make = (row) => {
      const bar = shareBar();
      const numbers = el("span", { class: "share-numbers" });
      const used = el("span", { class: "share-used" });
      const over = el("span", { class: "badge share-over", title: t("overview.over_share_hint") }, t("overview.over_share"));
      const link = el("a", { class: "share", href: pageUrl("customer", { name: row.customer }) }, el("bdi", { class: "share-name" }, row.customer), used, bar.node, numbers, over);
      const node = Object.assign(el("li", {}, link), { bar, numbers, used, over });
      update(node, row);
      return node;
    };
    reconcileChildren(this.list, rows, (row) => row.customer, make, update);
    this.none.hidden = rows.length > 0;
  }
}

class Groups {
  constructor() {
    this.rows = ["quiet", "busy"].map((name) => ({ name, cells: [0, 1, 2, 3].map(() => el("td", { class: "cell-end" })), label: el("th", { scope: "row" }) }));
    const heads = ["", "customers", "waiting", "p50", "p95"].map((name) => el("th", { scope: "col", class: name ? "cell-end" : null }, name ? t(`overview.head_${name}`) : el("span", { class: "hidden" }, t("overview.group"))));
    const body = this.rows.map((row) => el("tr", {}, row.label, row.cells));
    const box = el("div", { class: "table-box", role: "region", tabindex: "0", "aria-label": t("overview.quiet_busy") }, el("table", { class: "table table-small" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, body)));
    this.node = panel(t("overview.quiet_busy"), { className: "panel-flush" }, box);
  }

  update(overview) {
    for (const row of this.rows) {
      const group = overview[row.name];
      setText(row.label, t(`overview.${row.name}`, { last: overview.last_level, before: overview.last_level - 1 }));
      const waits = [group.waits?.p50, group.waits?.p95].map((wait) => (wait === undefined ? "–" : duration(wait)));
      [number(group.customers), number(group.waiting), ...waits].forEach((text, index) => setText(row.cells[index], text));
    }
  }
}

class Overdue {
  constructor() {
    this.now = el("p", { class: "overdue-now" });
    this.levels = el("p", { class: "overdue-levels" });
    this.hint = el("p", { class: "muted" });
    this.node = panel(t("overview.overdue"), {}, this.now, this.levels, this.hint);
  }

  update({ overdue }, history) {
    const uses = history.of("overdue_uses");
    const lately = uses.length > 0 ? overdue.uses - uses[0] : 0;
    setText(this.now, overdue.levels.length > 0 ? t("overview.overdue_levels", { n: overdue.levels.length }) : t("overview.overdue_none"));
    fill(this.levels, overdue.levels.map((level) => el("a", { class: "overdue-level", href: pageUrl("documents", {}, { state: "waiting", level }) }, levelBadge(level))));
    setText(this.hint, `${t("overview.overdue_uses", { n: lately })} ${t("overview.overdue_hint", { after: durationInWords(overdue.after), every: overdue.every })}`);
  }
}

class Workers {
  constructor() {
    this.count = el("p", { class: "muted" });
    this.list = el("ul", { class: "workers" });
    this.none = emptyState(t("overview.no_workers"), t("overview.no_workers_hint"));
    this.node = panel(t("overview.workers"), { actions: this.count }, this.none, this.list);
  }

  update(overview) {
    const { workers } = overview;
    this.none.hidden = workers.length > 0;
    const slots = workers.reduce((sum, worker) => sum + worker.slots, 0);
    const busy = workers.reduce((sum, worker) => sum + worker.busy, 0);
    setText(this.count, workers.length > 0 ? t("overview.workers_busy", { n: workers.length, busy, slots }) : "");
    const update = (node, worker) => updateWorker(node, worker, overview.at);
    const make = (worker) => {
      const node = makeWorker(worker);
      update(node, worker);
      return node;
    };
    reconcileChildren(this.list, workers, (worker) => worker.name, make, update);
  }
}

function makeWorker(worker) {
  const slots = el("span", { class: "muted" });
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("span"));
  const seen = el("p", { class: "muted worker-note" });
  const documents = el("ul", { class: "worker-documents" });
  const node = el("li", { class: "worker" }, el("div", { class: "worker-head" }, el("span", { class: "worker-name", title: `${worker.host} · ${worker.processor}` }, worker.name), slots), meter, documents, seen);
  return Object.assign(node, { slots, meter, seen, documents });
}

function updateWorker(node, worker, now) {
  setText(node.slots, t("overview.slots", { busy: worker.busy, slots: worker.slots }));
  node.meter.firstChild.style.setProperty("--part", String(worker.slots > 0 ? Math.min(1, worker.busy / worker.slots) : 0));
  const isSilent = now - worker.seen_at > WORKER_SILENT_MICROSECONDS;
  node.classList.toggle("is-silent", isSilent);
  const rest = worker.documents.length - MAX_DOCUMENTS_PER_WORKER;
  const notes = [isSilent && t("overview.silent", { ago: ago(worker.seen_at) }), worker.stopping && t("overview.stopping"), rest > 0 && t("overview.more_documents", { n: rest }), worker.documents.length === 0 && !isSilent && t("overview.idle")];
  setText(node.seen, notes.filter(Boolean).join(" · "));
  const update = (li, doc) => {
    const took = doc.started_at === null ? "" : duration(Math.max(0, now - doc.started_at));
    setText(li.note, doc.done === null ? took : `${took} · ${percent(doc.done, 0)}`);
  };
  const make = (doc) => {
    const note = el("span", { class: "muted worker-document-note" });
    const name = el("a", { href: pageUrl("document", { id: doc.id }) }, doc.name);
    const customer = el("a", { class: "muted", href: pageUrl("customer", { name: doc.customer }) }, doc.customer);
    const li = Object.assign(el("li", { class: levelClass(doc.level) }, el("span", { class: "worker-document-dot", title: t("shell.level", { level: doc.level }) }), el("span", { class: "worker-document-name" }, name, " ", customer), note), { note });
    update(li, doc);
    return li;
  };
  reconcileChildren(node.documents, worker.documents.slice(0, MAX_DOCUMENTS_PER_WORKER), (doc) => doc.id, make, update);
}

/** The customers with the most waiting documents. A search asks the server and covers all customers. */
class Customers {
  #view;
  #searchResults = null;
  #overview = null;

  constructor(view) {
    this.#view = view;
    const field = searchField({ label: t("overview.search"), value: view.query.get("q") ?? "", onSearch: (q) => view.setQuery({ q }) });
    this.input = field.input;
    this.count = el("p", { class: "muted" });
    const all = el("a", { href: pageUrl("customers") }, t("overview.all_customers"));
    this.table = table({
      caption: t("overview.customers"),
      keyOf: (row) => row.customer,
      hrefOf: (row) => pageUrl("customer", { name: row.customer }),
      sort: { key: "waiting", isDown: true },
      onSort: (sort) => this.#sortBy(sort),
      empty: emptyState(t("overview.no_customers"), t("overview.no_customers_hint")),
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
      this.#searchResults = page.customers.map((customer) => ({ ...customer, lines: Object.fromEntries(customer.lines.map((lane) => [lane.level, lane.waiting])) }));
    }
    this.#draw();
  }

  update(overview) {
    this.#overview = overview;
    this.#draw();
  }

  #sortBy(sort) {
    this.sort = sort;
    this.table.setSort(sort);
    this.#draw();
  }

  #draw() {
    if (this.#overview === null) return;
    const { key, isDown } = this.sort;
    const known = new Map(this.#overview.busiest.map((row) => [row.customer, row]));
    const rows = (this.#searchResults ?? this.#overview.busiest).map((row) => known.get(row.customer) ?? row);
    const valueOf = { customer: (row) => row.display_name ?? row.customer, share: (row) => row.share.received ?? -1 }[key] ?? ((row) => row[key]);
    rows.sort((one, other) => {
      const [a, b] = [valueOf(one), valueOf(other)];
      return (typeof a === "string" ? a.localeCompare(b) : a - b) * (isDown ? -1 : 1) || one.customer.localeCompare(other.customer);
    });
    this.most = Math.max(1, ...rows.map((row) => row.waiting));
    for (const row of rows) row.most = this.most;
    this.table.update(rows);
    const isPart = this.#overview.customers > rows.length;
    const top = isPart ? t("overview.top", { n: rows.length, total: this.#overview.customers }) : "";
    setText(this.count, this.#searchResults === null ? top : t("overview.found", { n: rows.length }));
  }
}

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
    { key: "share", label: t("overview.head_share"), sortable: true, align: "end", className: "wide-only", value: (row) => sharePercent(row.share.received) },
    { key: "due", label: t("overview.head_due"), align: "end", className: "wide-only", value: (row) => sharePercent(row.share.due) },
  ];
}

function withClosedTitle(node, row) {
  if (row.paused) setProp(node, "title", t("overview.customer_paused"));
  else if (row.at_slot_limit) setProp(node, "title", t("overview.customer_at_slot_limit"));
  return node;
}
