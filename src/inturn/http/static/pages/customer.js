// One customer: its counter and what the next documents would get, its lines, waits, share, settings and history.

import { get } from "../api.js";
import { check } from "../priority.js";
import { el, fill, keyed, setProp, setText } from "../dom.js";
import { countdown, duration, durationInWords, number, percent, time } from "../format.js";
import { t } from "../i18n.js";
import { refresh } from "../auto_refresh.js";
import { to } from "../routes.js";
import { mayOperate, seesAll } from "../session.js";
import { counterDrawing } from "../components/counter_chart.js";
import { panel } from "../components/panel.js";
import { pairBar } from "../components/charts.js";
import { levelBadge, levelClass, updateBadge } from "../components/badges.js";
import { momentAgo, updateMoment } from "../components/relative_time.js";
import { banner, empty } from "../components/placeholders.js";
import { table } from "../components/table.js";
import { buttons } from "./customer/actions.js";
import { history, latest } from "./customer/history.js";

const NEXT = 24;
const OF_ALL = new Set(["policy_set", "queue_paused", "queue_resumed"]);

export async function mount(view) {
  const path = `/v1/customers/${encodeURIComponent(view.params.name)}`;
  const parts = [new Facts(), new CounterPanel(), new Lines(view.params.name), new Waits(), new Settings(), new History(view.params.name)];
  const [facts, counter, lines, waits, settings, past] = parts.map((part) => part.node);
  const paused = el("div", { class: "customer-banner" });
  let shown = null;

  async function look() {
    const { signal } = view;
    const [customer, priority, moments] = await Promise.all([get(path, { signal }), get("/v1/priority", { signal }), latest(view.params.name, signal)]);
    const before = shown;
    shown = { ...customer, skew: customer.at - Date.now() * 1_000 };
    for (const part of parts) part.update(shown, priority, moments);
    if (before?.paused !== shown.paused) fill(paused, shown.paused && banner(t("customer.is_paused_text"), { kind: "warn" }));
    if (before?.display_name !== shown.display_name || before === null) view.setTitle(shown.display_name ?? shown.customer);
    acting?.update(shown);
  }

  const acting = mayOperate() ? buttons(path, () => shown, look) : null;
  await look();
  const documents = el("a", { class: "button", href: to("documents", {}, { customer: view.params.name }) }, t("customer.documents"));
  view.setActions(documents, acting?.nodes ?? null);
  refresh(view, look, { concerns: (event) => OF_ALL.has(event.kind) || event.customer === undefined || event.customer === view.params.name });
  let wasOver = isOver(shown);
  view.every(1_000, () => {
    for (const part of parts) part.tick?.(shown);
    if (isOver(shown) && !wasOver) look().catch(() => {}); // the live mark tells if nobody answers
    wasOver = isOver(shown);
  });
  fill(
    view.root,
    paused,
    facts,
    el("div", { class: "customer-row customer-wide-left" }, counter, lines),
    el("div", { class: "customer-row" }, waits, settings),
    past,
  );
}

function nowOf(customer) {
  return Date.now() * 1_000 + customer.skew;
}

/** Whether more than the interval has passed: the next document starts at 0 again. */
function isOver(customer) {
  return customer.counter === null || nowOf(customer) > customer.counter.resets_after;
}

function leftOf(customer) {
  return customer.counter === null ? "–" : isOver(customer) ? t("customer.reset") : countdown(customer.counter.resets_after - nowOf(customer));
}

/** The figures that a caller on the phone asks for. */
class Facts {
  constructor() {
    this.values = {};
    const names = ["level", "counter", "reset", "waiting", "running", "wait"];
    this.node = el("dl", { class: "cards customer-facts" }, names.map((name) => this.#fact(name)));
  }

  #fact(name) {
    const value = el("span", name === "reset" ? { role: "timer" } : {});
    const detail = el("span", { class: "card-detail" });
    this.values[name] = { value, detail };
    return el("div", { class: "card" }, el("dt", { class: "card-label" }, t(`customer.fact_${name}`)), el("dd", { class: "card-figures" }, el("span", { class: "card-value" }, value), detail));
  }

  update(customer) {
    const { level, counter, waiting, running, wait } = this.values;
    updateBadge(level.value, customer.level);
    setText(counter.value, number(isOver(customer) ? 0 : customer.counter.count));
    setText(counter.detail, customer.counter === null ? t("customer.never") : "");
    setText(waiting.value, number(customer.waiting));
    setText(running.value, number(customer.running));
    setText(running.detail, customer.cap === null ? "" : t("customer.of_cap", { cap: customer.cap }));
    setText(wait.value, customer.waits === null ? "–" : duration(customer.waits.p95));
    setText(wait.detail, customer.waits === null ? t("customer.no_starts") : `p50 ${duration(customer.waits.p50)}`);
    this.tick(customer);
  }

  tick(customer) {
    setText(this.values.reset.value, leftOf(customer));
  }
}

/** The counter in words, and a drawing of the levels that the next documents would get if they came at once. */
class CounterPanel {
  constructor() {
    this.words = el("p");
    this.rule = el("p", { class: "muted" });
    this.drawing = counterDrawing();
    this.node = panel(t("customer.next"), { hint: t("customer.next_hint", { n: NEXT }) }, this.words, this.drawing.node, this.rule);
  }

  update(customer, priority) {
    const kept = customer.counter === null ? null : { count: customer.counter.count, updatedAt: customer.counter.updated_at };
    const checks = [];
    let counter = kept;
    for (let place = 0; place < NEXT; place += 1) {
      const next = check(counter, nowOf(customer), priority);
      counter = next.counter;
      checks.push({ count: counter.count, level: next.level, isReset: false });
    }
    setText(this.words, this.#words(customer, checks[0]));
    setText(this.rule, t("customer.reset_rule", { interval: durationInWords(priority.reset_interval) }));
    this.drawing.update({ checks, thresholds: priority.thresholds, depth: Math.max(-checks.at(-1).count, 4), resetText: "", summary: summary(checks) });
  }

  #words(customer, first) {
    const { level, count } = first;
    if (customer.counter === null) return t("customer.counter_new", { level });
    if (isOver(customer)) return t("customer.counter_over", { level, time: time(customer.counter.updated_at) });
    return t("customer.counter_runs", { now: number(customer.counter.count), next: number(count), level, time: time(customer.counter.resets_after) });
  }
}

/** Runs of one level, read out: level 3: 2, level 4: 2, … */
function summary(checks) {
  const runs = new Map();
  for (const { level } of checks) runs.set(level, (runs.get(level) ?? 0) + 1);
  return t("customer.next_summary", { levels: [...runs].map(([level, n]) => t("customer.next_level", { level, n })).join(", ") });
}

class Lines {
  constructor(name) {
    const documents = (row) => to("documents", {}, row.level === 0 ? { customer: name, state: "waiting" } : { customer: name, state: "waiting", level: row.level });
    this.table = table({
      caption: t("customer.lines"),
      keyOf: (row) => row.level,
      hrefOf: documents,
      empty: empty(t("customer.no_lines"), t("customer.no_lines_hint")),
      columns: [
        { key: "level", label: t("customer.head_level"), value: (row) => row.level, cell: (row) => levelBadge(row.level) },
        { key: "waiting", label: t("customer.head_waiting"), className: "line-waiting", value: (row) => `${row.waiting} ${row.most}`, cell: lineBar, update: updateLineBar },
        { key: "oldest", label: t("customer.head_oldest"), align: "end", value: (row) => (row.oldest_wait === null ? "–" : duration(row.oldest_wait)) },
        { key: "open", label: t("customer.head_open"), className: "wide-only", value: (row) => t(row.is_open ? "customer.line_open" : "customer.line_closed") },
      ],
    });
    this.node = panel(t("customer.lines"), { className: "panel-flush", hint: t("customer.lines_hint") }, this.table.node);
  }

  update(customer) {
    const lines = customer.lines.filter((line) => line.waiting > 0);
    const most = Math.max(1, ...lines.map((line) => line.waiting));
    this.table.update(lines.map((line) => ({ ...line, most })));
  }
}

function lineBar(row) {
  const bar = el("span", { class: "bar-fill" });
  const sum = el("span", { class: "bar-number" });
  return updateLineBar(Object.assign(el("span", { class: `line-bar ${levelClass(row.level)}` }, el("span", { class: "bar-track", "aria-hidden": "true" }, bar), sum), { bar, sum }), row);
}

function updateLineBar(node, row) {
  node.bar.style.setProperty("--part", String(row.waiting / row.most));
  setText(node.sum, number(row.waiting));
  return node;
}

class Waits {
  constructor() {
    this.waits = facts(["p50", "p95", "p99"].map((each) => [each, each]));
    this.bar = pairBar();
    this.share = facts([["received", t("customer.received")], ["due", t("customer.due")]]);
    this.isShared = seesAll();
    const share = this.isShared && el("div", { class: "customer-share" }, el("h3", {}, t("customer.share")), el("p", { class: "muted" }, t("customer.share_hint")), this.bar.node, this.share.node);
    this.node = panel(t(this.isShared ? "customer.waits_and_share" : "customer.waits"), {}, el("p", { class: "muted customer-hint" }, t("customer.waits_hint")), this.waits.node, share);
  }

  update(customer) {
    for (const each of ["p50", "p95", "p99"]) this.waits.set(each, customer.waits === null ? "–" : duration(customer.waits[each]));
    if (!this.isShared) return;
    const { received, due } = customer.share;
    const most = Math.max(0.001, received ?? 0, due ?? 0);
    this.bar.update((received ?? 0) / most, (due ?? 0) / most);
    this.bar.node.hidden = !received && !due;
    this.share.set("received", received === null ? "–" : percent(received, 2));
    this.share.set("due", due === null ? t("customer.nothing_due") : percent(due, 2));
  }
}

class Settings {
  constructor() {
    const names = ["name", "weight", "cap", "rate", "is_paused", "keep"];
    this.facts = facts(names.map((name) => [name, t(`customer.set_${name}`)]));
    this.node = panel(t("customer.settings"), {}, this.facts.node);
  }

  update(customer) {
    const { cap, rate, keep } = customer;
    const none = t("customer.none");
    this.facts.set("name", customer.display_name === null ? customer.customer : `${customer.display_name} (${customer.customer})`);
    this.facts.set("weight", number(customer.weight, 3));
    this.facts.set("cap", cap === null ? none : t("customer.cap", { n: cap }));
    this.facts.set("rate", rate === null ? none : t("customer.rate", { n: rate.documents, per: durationInWords(rate.per) }));
    this.facts.set("is_paused", t(customer.paused ? "customer.yes" : "customer.no"));
    this.facts.set("keep", keep === null ? t("customer.as_all") : durationInWords(keep));
  }
}

/** Names and values; set(key, text) changes one. */
function facts(pairs) {
  const values = new Map(pairs.map(([key]) => [key, el("dd", {}, "–")]));
  const node = el("dl", { class: "facts" }, pairs.map(([key, label]) => el("div", {}, el("dt", {}, label), values.get(key))));
  return { node, set: (key, text) => setText(values.get(key), text) };
}

class History {
  constructor(name) {
    this.list = el("ol", { class: "past" });
    this.none = empty(t("customer.no_history"));
    const all = el("a", { href: to("documents", {}, { customer: name }) }, t("customer.all_documents"));
    this.name = name;
    this.node = panel(t("customer.history"), { actions: all }, this.none, this.list);
  }

  update(customer, priority, moments) {
    const shown = history(moments);
    this.none.hidden = shown.length > 0;
    const update = (node, each) => {
      updateMoment(node.at, each.at);
      setText(node.what, each.isMore ? t("customer.documents_or_more", { n: each.documents.length }) : t("customer.some_documents", { n: each.documents.length }));
    };
    const make = (each) => this.#made(each, update);
    keyed(this.list, shown, (each) => each.key, make, update);
  }

  tick() {
    for (const node of this.list.children) if (node.at.at !== undefined) updateMoment(node.at, node.at.at);
  }

  #made(each, update) {
    const at = Object.assign(momentAgo(each.at), { at: each.at });
    const what = el("span");
    const subject = each.documents.length === 1 && each.name !== null ? el("a", { class: "dotted", href: to("document", { id: each.documents[0] }) }, el("bdi", {}, each.name)) : each.documents.length > 0 ? what : null;
    const who = each.operator && el("span", { class: "muted past-who" }, t(each.why ? "customer.by_why" : "customer.by", { name: each.operator, why: each.why }));
    const node = el("li", {}, el("span", { class: `badge state-${each.state}` }, t(`customer.kind_${each.kind}`)), el("span", { class: "past-what" }, subject, who), at);
    setProp(at, "class", "muted past-at");
    Object.assign(node, { at, what });
    update(node, each);
    return node;
  }
}
