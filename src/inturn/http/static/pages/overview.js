// The queue at a glance. One snapshot, asked for again when something has happened, at most every two seconds.

import { get } from "../api.js";
import { el, fill, keyed, setProp, setText } from "../dom.js";
import { ago, duration, durationInWords, figure, number, percent } from "../format.js";
import { t } from "../i18n.js";
import { refresh } from "../auto_refresh.js";
import { to } from "../routes.js";
import { card, panel } from "../components/panel.js";
import { levelBars, lineChart, pairBar } from "../components/charts.js";
import { search } from "../components/fields.js";
import { levelBadge, levelClass, updateBadge } from "../components/badges.js";
import { stack, updateStack } from "../components/stacked_bar.js";
import { banner, empty } from "../components/placeholders.js";
import { table } from "../components/table.js";

const POINTS = 120;
const HANDS = 4;
const SILENT = 60_000_000;

export async function mount(view) {
  const course = new CourseKept();
  const parts = [new Figures(), new WaitChart(), new Levels(), new SharesList(), new Groups(), new Overdue(), new Workers()];
  const customers = new Customers(view);
  const paused = el("div");
  const [figures, chart, levels, shares, groups, overdue, workers] = parts.map((part) => part.node);

  async function look() {
    const found = await get("/v1/overview", { query: { since: course.last }, signal: view.signal });
    course.add(found.course);
    for (const part of parts) part.update(found, course);
    customers.update(found);
    fill(paused, found.paused && banner(t("overview.paused", { name: found.paused.operator, why: found.paused.why || "–" }), { kind: "warn" }));
  }

  await look();
  await customers.search();
  refresh(view, look);
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

/** The points heard so far: each look brings only those that are new. */
class CourseKept {
  #columns = {};
  last = 0;

  add(found) {
    const isOther = found.at.length > 0 && found.at[0] <= this.last; // another server, or its clock went back
    for (const [name, values] of Object.entries(found)) {
      this.#columns[name] = [...(isOther ? [] : (this.#columns[name] ?? [])), ...values].slice(-POINTS);
    }
    this.last = this.of("at").at(-1) ?? 0;
  }

  of(name) {
    return this.#columns[name] ?? [];
  }
}

class Figures {
  constructor() {
    const documents = (state) => to("documents", {}, { state });
    this.waiting = card({ label: t("overview.waiting"), href: documents("waiting") });
    this.running = card({ label: t("overview.running"), href: documents("running") });
    this.speed = card({ label: t("overview.per_second"), href: documents("done") });
    this.wait = card({ label: t("overview.wait_p95"), href: documents("waiting") });
    this.customers = card({ label: t("overview.customers_waiting"), href: to("customers", {}, { waiting: "true" }) });
    this.failed = card({ label: t("overview.failed"), href: documents("failed") });
    this.node = el("div", { class: "cards" }, [this.waiting, this.running, this.speed, this.wait, this.customers, this.failed].map((each) => each.node));
  }

  update(found, course) {
    const { states, waits } = found;
    this.waiting.update({
      value: number(states.waiting),
      course: course.of("waiting"),
    });
    this.running.update({ value: number(states.running), course: course.of("running") });
    this.speed.update({ value: figure(found.per_second), course: course.of("per_second") });
    this.wait.update({
      value: waits === null ? "–" : duration(waits.p95),
      details: waits === null ? [] : [`p50 ${duration(waits.p50)}`, `p99 ${duration(waits.p99)}`],
      course: course.of("p95"),
    });
    this.customers.update({ value: number(found.customers), course: course.of("customers") });
    this.failed.update({ value: number(states.failed), course: course.of("failed"), kind: states.failed > 0 ? "bad" : null });
  }
}

class WaitChart {
  constructor() {
    const series = ["p50", "p95", "p99"].map((each) => ({ key: each, label: each, className: `series-${each}` }));
    this.chart = lineChart({ label: t("overview.wait_over_time"), series, format: duration, isLength: true });
    this.node = panel(t("overview.wait_over_time"), { actions: this.chart.legend }, this.chart.node);
  }

  update(found, course) {
    this.chart.update({ at: course.of("at"), p50: course.of("p50"), p95: course.of("p95"), p99: course.of("p99") });
  }
}

class Levels {
  constructor() {
    const hrefOf = (level) => to("documents", {}, level === 0 ? { state: "waiting" } : { state: "waiting", level });
    this.bars = levelBars({ hrefOf });
    this.node = panel(t("overview.by_level"), {}, this.bars.node);
  }

  update(found) {
    const levels = Object.entries(found.waiting).map(([level, n]) => [Number(level), n]);
    this.bars.update(levels.filter(([level, n]) => level > 0 || n > 0));
  }
}

class SharesList {
  constructor() {
    this.list = el("ul", { class: "shares" });
    this.none = el("p", { class: "muted" }, t("overview.no_starts_lately"));
    const legend = el("ul", { class: "legend" }, el("li", { class: "series-a" }, t("overview.received")), el("li", { class: "series-due" }, t("overview.due")));
    this.node = panel(t("overview.shares"), { actions: legend, hint: t("overview.shares_hint") }, this.none, this.list);
  }

  update(found) {
    const rows = found.takers;
    const most = Math.max(0.01, ...rows.flatMap((each) => [each.received, each.due ?? 0]));
    const update = (node, each) => {
      node.bar.update(each.received / most, (each.due ?? 0) / most);
      setText(node.numbers, t("overview.of_due", { received: percent(each.received), due: each.due === null ? "–" : percent(each.due) }));
    };
    const make = (each) => {
      const bar = pairBar();
      const numbers = el("span", { class: "share-numbers" });
      const node = el("li", {}, el("a", { class: "share", href: to("customer", { name: each.customer }) }, el("span", { class: "share-name" }, each.customer), bar.node, numbers));
      Object.assign(node, { bar, numbers });
      update(node, each);
      return node;
    };
    keyed(this.list, rows, (each) => each.customer, make, update);
    this.none.hidden = rows.length > 0;
  }
}

class Groups {
  constructor() {
    this.rows = ["quiet", "busy"].map((name) => ({ name, cells: [0, 1, 2, 3].map(() => el("td", { class: "cell-end" })), label: el("th", { scope: "row" }) }));
    const heads = ["", "customers", "waiting", "p50", "p95"].map((each) => el("th", { scope: "col", class: each ? "cell-end" : null }, each ? t(`overview.head_${each}`) : el("span", { class: "hidden" }, t("overview.group"))));
    const body = this.rows.map((row) => el("tr", {}, row.label, row.cells));
    const box = el("div", { class: "table-box", role: "region", tabindex: "0", "aria-label": t("overview.quiet_busy") }, el("table", { class: "table table-small" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, body)));
    this.node = panel(t("overview.quiet_busy"), { className: "panel-flush" }, box);
  }

  update(found) {
    for (const row of this.rows) {
      const group = found[row.name];
      setText(row.label, t(`overview.${row.name}`, { last: found.last_level, before: found.last_level - 1 }));
      const waits = [group.waits?.p50, group.waits?.p95].map((each) => (each === undefined ? "–" : duration(each)));
      [number(group.customers), number(group.waiting), ...waits].forEach((text, place) => setText(row.cells[place], text));
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

  update({ overdue }, course) {
    const uses = course.of("overdue_uses");
    const lately = uses.length > 0 ? overdue.uses - uses[0] : 0;
    setText(this.now, overdue.levels.length > 0 ? t("overview.overdue_levels", { n: overdue.levels.length }) : t("overview.overdue_none"));
    fill(this.levels, overdue.levels.map((level) => el("a", { class: "overdue-level", href: to("documents", {}, { state: "waiting", level }) }, levelBadge(level))));
    setText(this.hint, `${t("overview.overdue_uses", { n: lately })} ${t("overview.overdue_hint", { after: durationInWords(overdue.after), every: overdue.every })}`);
  }
}

class Workers {
  constructor() {
    this.count = el("p", { class: "muted" });
    this.list = el("ul", { class: "workers" });
    this.none = empty(t("overview.no_workers"), t("overview.no_workers_hint"));
    this.node = panel(t("overview.workers"), { actions: this.count }, this.none, this.list);
  }

  update(found) {
    const { workers } = found;
    this.none.hidden = workers.length > 0;
    const slots = workers.reduce((sum, each) => sum + each.slots, 0);
    const busy = workers.reduce((sum, each) => sum + each.busy, 0);
    setText(this.count, workers.length > 0 ? t("overview.workers_busy", { n: workers.length, busy, slots }) : "");
    const update = (node, worker) => updateWorker(node, worker, found.at);
    const make = (worker) => {
      const node = makeWorker(worker);
      update(node, worker);
      return node;
    };
    keyed(this.list, workers, (each) => each.name, make, update);
  }
}

function makeWorker(worker) {
  const slots = el("span", { class: "muted" });
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("span"));
  const seen = el("p", { class: "muted worker-note" });
  const hands = el("ul", { class: "hands" });
  const node = el("li", { class: "worker" }, el("div", { class: "worker-head" }, el("span", { class: "worker-name", title: `${worker.host} · ${worker.processor}` }, worker.name), slots), meter, hands, seen);
  return Object.assign(node, { slots, meter, seen, hands });
}

function updateWorker(node, worker, now) {
  setText(node.slots, t("overview.slots", { busy: worker.busy, slots: worker.slots }));
  node.meter.firstChild.style.setProperty("--part", String(worker.slots > 0 ? Math.min(1, worker.busy / worker.slots) : 0));
  const isSilent = now - worker.seen_at > SILENT;
  node.classList.toggle("is-silent", isSilent);
  const rest = worker.documents.length - HANDS;
  const notes = [isSilent && t("overview.silent", { ago: ago(worker.seen_at) }), worker.stopping && t("overview.stopping"), rest > 0 && t("overview.more_documents", { n: rest }), worker.documents.length === 0 && !isSilent && t("overview.idle")];
  setText(node.seen, notes.filter(Boolean).join(" · "));
  const update = (hand, each) => {
    const took = each.started_at === null ? "" : duration(Math.max(0, now - each.started_at));
    setText(hand.note, each.done === null ? took : `${took} · ${percent(each.done, 0)}`);
  };
  const make = (each) => {
    const note = el("span", { class: "muted hand-note" });
    const name = el("a", { href: to("document", { id: each.id }) }, each.name);
    const customer = el("a", { class: "muted", href: to("customer", { name: each.customer }) }, each.customer);
    const hand = Object.assign(el("li", { class: levelClass(each.level) }, el("span", { class: "hand-dot", title: t("shell.level", { level: each.level }) }), el("span", { class: "hand-name" }, name, " ", customer), note), { note });
    update(hand, each);
    return hand;
  };
  keyed(node.hands, worker.documents.slice(0, HANDS), (each) => each.id, make, update);
}

/** Those with the most waiting; a search asks the server, among all. */
class Customers {
  #view;
  #found = null;
  #overview = null;

  constructor(view) {
    this.#view = view;
    const field = search({ label: t("overview.search"), value: view.query.get("q") ?? "", onSearch: (q) => view.setQuery({ q }) });
    this.input = field.input;
    this.count = el("p", { class: "muted" });
    const all = el("a", { href: to("customers") }, t("overview.all_customers"));
    this.table = table({
      caption: t("overview.customers"),
      keyOf: (row) => row.customer,
      hrefOf: (row) => to("customer", { name: row.customer }),
      sort: { key: "waiting", isDown: true },
      onSort: (sort) => this.#sorted(sort),
      empty: empty(t("overview.no_customers"), t("overview.no_customers_hint")),
      columns: columns(),
    });
    this.sort = { key: "waiting", isDown: true };
    this.node = panel(t("overview.customers"), { className: "panel-flush", actions: el("div", { class: "customers-tools" }, field.node, this.count, all) }, this.table.node);
  }

  async search() {
    const q = this.#view.query.get("q") ?? "";
    if (this.input.value.trim() !== q) this.input.value = q;
    if (q === "") this.#found = null;
    else {
      const page = await get("/v1/customers", { query: { text: q, limit: 50 }, signal: this.#view.signal });
      this.#found = page.customers.map((each) => ({ ...each, lines: Object.fromEntries(each.lines.map((line) => [line.level, line.waiting])), share: { received: null, due: null } }));
    }
    this.#draw();
  }

  update(found) {
    this.#overview = found;
    this.#draw();
  }

  #sorted(sort) {
    this.sort = sort;
    this.table.setSort(sort);
    this.#draw();
  }

  #draw() {
    if (this.#overview === null) return;
    const { key, isDown } = this.sort;
    const known = new Map(this.#overview.busiest.map((each) => [each.customer, each]));
    const rows = (this.#found ?? this.#overview.busiest).map((each) => known.get(each.customer) ?? each);
    const valueOf = { customer: (row) => row.display_name ?? row.customer, share: (row) => row.share.received ?? -1 }[key] ?? ((row) => row[key]);
    rows.sort((one, other) => {
      const [a, b] = [valueOf(one), valueOf(other)];
      return (typeof a === "string" ? a.localeCompare(b) : a - b) * (isDown ? -1 : 1) || one.customer.localeCompare(other.customer);
    });
    this.most = Math.max(1, ...rows.map((each) => each.waiting));
    for (const row of rows) row.most = this.most;
    this.table.update(rows);
    const isPart = this.#overview.customers > rows.length;
    const top = isPart ? t("overview.top", { n: rows.length, total: this.#overview.customers }) : "";
    setText(this.count, this.#found === null ? top : t("overview.found", { n: rows.length }));
  }
}

function columns() {
  return [
    { key: "customer", label: t("overview.head_customer"), sortable: true, value: (row) => row.display_name ?? row.customer },
    { key: "level", label: t("overview.head_level"), sortable: true, value: (row) => row.level, cell: (row) => levelBadge(row.level), update: (node, row) => updateBadge(node, row.level) },
    {
      key: "waiting",
      label: t("overview.head_waiting"),
      sortable: true,
      value: (row) => `${row.waiting} ${row.most} ${JSON.stringify(row.lines)}`,
      cell: (row) => marked(stack(row), row),
      update: (node, row) => marked(updateStack(node, row), row),
      className: "cell-bar",
    },
    { key: "running", label: t("overview.head_running"), sortable: true, align: "end", className: "wide-only", value: (row) => number(row.running) },
    { key: "share", label: t("overview.head_share"), sortable: true, align: "end", className: "wide-only", value: (row) => (row.share.received === null ? "–" : percent(row.share.received)) },
    { key: "due", label: t("overview.head_due"), align: "end", className: "wide-only", value: (row) => (row.share.due === null ? "–" : percent(row.share.due)) },
  ];
}

function marked(node, row) {
  if (row.paused) setProp(node, "title", t("overview.customer_paused"));
  return node;
}
