// One customer: counter, levels of the next documents, lanes, waits, share, settings and history.

import { get } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { countdown, duration, durationInWords, number, sharePercent, time } from "../format.js";
import { t } from "../i18n.js";
import { check } from "../priority.js";
import { pageUrl } from "../routes.js";
import { mayOperate, seesAll } from "../session.js";
import { levelBadge, levelClass, updateLevelBadge } from "../components/badges.js";
import { counterChart } from "../components/counter_chart.js";
import { panel } from "../components/panel.js";
import { banner, emptyState } from "../components/placeholders.js";
import { relativeTime, updateRelativeTime } from "../components/relative_time.js";
import { largestShare, shareBar } from "../components/share_bar.js";
import { table } from "../components/table.js";
import { actionButtons } from "./customer/actions.js";
import { fetchHistory, mergeHistory } from "./customer/history.js";

const SECOND = 1_000_000;
const PREDICTED_DOCUMENTS = 24;
const BAR_HEADROOM = 1.25;
const GLOBAL_EVENT_KINDS = new Set(["policy_set", "queue_paused", "queue_resumed"]);

export async function mount(view) {
  const path = `/v1/customers/${encodeURIComponent(view.params.name)}`;
  const parts = [new SummaryCards(), new CounterPanel(), new LanesPanel(view.params.name), new WaitsPanel(), new SettingsPanel(), new HistoryPanel(view.params.name)];
  const [summary, counter, lanes, waits, settings, history] = parts.map((part) => part.node);
  const closed = el("div", { class: "customer-banner" });
  let current = null;

  async function load() {
    const { signal } = view;
    const [customer, priority, moments] = await Promise.all([get(path, { signal }), get("/v1/priority", { signal }), fetchHistory(view.params.name, signal)]);
    const before = current;
    current = { ...customer, skew: customer.at - Date.now() * 1_000 };
    for (const part of parts) part.update(current, priority, moments);
    if (before === null || closedBy(before) !== closedBy(current)) fill(closed, closedBanner(current));
    if (before?.display_name !== current.display_name || before === null) view.setTitle(current.display_name ?? current.customer);
    actions?.update(current);
  }

  const actions = mayOperate() ? actionButtons(path, () => current, load) : null;
  await load();
  const documents = el("a", { class: "button", href: pageUrl("documents", {}, { customer: view.params.name }) }, t("customer.documents"));
  view.setActions(documents, actions?.nodes ?? null);
  autoRefresh(view, load, { concerns: (event) => GLOBAL_EVENT_KINDS.has(event.kind) || event.customer === undefined || event.customer === view.params.name });
  let wasOver = isCounterExpired(current);
  view.every(1_000, () => {
    for (const part of parts) part.tick?.(current);
    if (isCounterExpired(current) && !wasOver) load().catch(() => {}); // the status indicator shows an offline server
    wasOver = isCounterExpired(current);
  });
  fill(
    view.root,
    closed,
    summary,
    el("div", { class: "customer-row customer-wide-left" }, counter, lanes),
    el("div", { class: "customer-row" }, waits, settings),
    history,
  );
}

function serverNow(customer) {
  return Date.now() * 1_000 + customer.skew;
}

/** Whether the reset interval has passed, so that the next document starts at 0 again. */
function isCounterExpired(customer) {
  return customer.counter === null || serverNow(customer) > customer.counter.resets_after;
}

function timeToReset(customer) {
  return customer.counter === null ? "–" : isCounterExpired(customer) ? t("customer.reset") : countdown(customer.counter.resets_after - serverNow(customer));
}

/** The main figures of a customer. */
class SummaryCards {
  constructor() {
    this.values = {};
    const names = ["level", "counter", "reset", "waiting", "running", "wait"];
    this.node = el("dl", { class: "cards customer-cards" }, names.map((name) => this.#fact(name)));
  }

  #fact(name) {
    const value = el("span", name === "reset" ? { role: "timer" } : {});
    const detail = el("span", { class: "card-detail" });
    this.values[name] = { value, detail };
    return el("div", { class: "card" }, el("dt", { class: "card-label" }, t(`customer.fact_${name}`)), el("dd", { class: "card-figures" }, el("span", { class: "card-value" }, value), detail));
  }

  update(customer) {
    const { level, counter, waiting, running, wait } = this.values;
    updateLevelBadge(level.value, customer.level);
    setText(counter.value, number(isCounterExpired(customer) ? 0 : customer.counter.count));
    setText(counter.detail, customer.counter === null ? t("customer.never") : "");
    setText(waiting.value, number(customer.waiting));
    setText(running.value, number(customer.running));
    setText(running.detail, customer.cap === null ? "" : t("customer.of_cap", { cap: customer.cap }));
    setText(wait.value, customer.waits === null ? "–" : duration(customer.waits.p95));
    setText(wait.detail, customer.waits === null ? t("customer.no_starts") : `p50 ${duration(customer.waits.p50)}`);
    this.tick(customer);
  }

  tick(customer) {
    setText(this.values.reset.value, timeToReset(customer));
  }
}

/** The counter in words, and a chart of the levels that a burst of documents would get now. */
class CounterPanel {
  constructor() {
    this.words = el("p");
    this.rule = el("p", { class: "muted" });
    this.drawing = counterChart();
    this.node = panel(t("customer.next"), { hint: t("customer.next_hint", { n: PREDICTED_DOCUMENTS }) }, this.words, this.drawing.node, this.rule);
  }

  update(customer, priority) {
    const checks = [];
    let counter = customer.counter === null ? null : { count: customer.counter.count, updatedAt: customer.counter.updated_at };
    for (let index = 0; index < PREDICTED_DOCUMENTS; index += 1) {
      const next = check(counter, serverNow(customer), priority);
      counter = next.counter;
      checks.push({ count: counter.count, level: next.level, isReset: false });
    }
    setText(this.words, this.#words(customer, checks[0]));
    setText(this.rule, t("customer.reset_rule", { interval: durationInWords(priority.reset_interval) }));
    this.drawing.update({ checks, thresholds: priority.thresholds, depth: Math.max(-checks.at(-1).count, 4), resetText: "", summary: describeLevels(checks) });
  }

  #words(customer, first) {
    const { level, count } = first;
    if (customer.counter === null) return t("customer.counter_new", { level });
    if (isCounterExpired(customer)) return t("customer.counter_over", { level, time: time(customer.counter.updated_at) });
    return t("customer.counter_runs", { now: number(customer.counter.count), next: number(count), level, time: time(customer.counter.resets_after) });
  }
}

/** Describe the chart for screen readers: level 3: 2, level 4: 2, … */
function describeLevels(checks) {
  const runs = new Map();
  for (const { level } of checks) runs.set(level, (runs.get(level) ?? 0) + 1);
  return t("customer.next_summary", { levels: [...runs].map(([level, n]) => t("customer.next_level", { level, n })).join(", ") });
}

/** What keeps the customer's waiting documents from starting, if it is worth a banner. */
function closedBy(customer) {
  if (customer.paused) return "pause";
  return customer.at_slot_limit && customer.waiting > 0 ? "share" : null;
}

function closedBanner(customer) {
  const reason = closedBy(customer);
  if (reason === null) return null;
  return reason === "pause" ? banner(t("customer.is_paused_text"), { kind: "warn" }) : banner(t("customer.at_slot_limit_text"));
}

class LanesPanel {
  constructor(name) {
    const documents = (row) => pageUrl("documents", {}, row.level === 0 ? { customer: name, state: "waiting" } : { customer: name, state: "waiting", level: row.level });
    this.table = table({
      caption: t("customer.lines"),
      keyOf: (row) => row.level,
      hrefOf: documents,
      empty: emptyState(t("customer.no_lines"), t("customer.no_lines_hint")),
      columns: [
        { key: "level", label: t("customer.head_level"), value: (row) => row.level, cell: (row) => levelBadge(row.level) },
        { key: "waiting", label: t("customer.head_waiting"), className: "lane-waiting", value: (row) => `${row.waiting} ${row.most}`, cell: laneBar, update: updateLaneBar },
        { key: "oldest", label: t("customer.head_oldest"), align: "end", value: (row) => (row.oldest_wait === null ? "–" : duration(row.oldest_wait)) },
        { key: "open", label: t("customer.head_open"), className: "wide-only", value: (row) => t(row.is_open ? "customer.line_open" : "customer.line_closed") },
      ],
    });
    this.node = panel(t("customer.lines"), { className: "panel-flush", hint: t("customer.lines_hint") }, this.table.node);
  }

  update(customer) {
    const lanes = customer.lines.filter((lane) => lane.waiting > 0);
    const most = Math.max(1, ...lanes.map((lane) => lane.waiting));
    this.table.update(lanes.map((lane) => ({ ...lane, most })));
  }
}

function laneBar(row) {
  const bar = el("span", { class: "bar-fill" });
  const sum = el("span", { class: "bar-number" });
  return updateLaneBar(Object.assign(el("span", { class: `lane-bar ${levelClass(row.level)}` }, el("span", { class: "bar-track", "aria-hidden": "true" }, bar), sum), { bar, sum }), row);
}

function updateLaneBar(node, row) {
  node.bar.style.setProperty("--part", String(row.waiting / row.most));
  setText(node.sum, number(row.waiting));
  return node;
}

class WaitsPanel {
  constructor() {
    this.waits = definitionList(["p50", "p95", "p99"].map((percentile) => [percentile, percentile]));
    this.bar = shareBar();
    this.over = el("span", { class: "badge share-over" }, t("customer.over_share"));
    this.overHint = el("p", { class: "share-over-hint" }, t("customer.over_share_hint"));
    this.share = definitionList(["received", "due", "worker_time", "share_documents"].map((name) => [name, t(`customer.${name}`)]));
    this.isShared = seesAll();
    const share = this.isShared && el("div", { class: "customer-share" }, el("h3", {}, t("customer.share"), " ", this.over), el("p", { class: "muted" }, t("customer.share_hint")), this.overHint, this.bar.node, this.share.node);
    this.node = panel(t(this.isShared ? "customer.waits_and_share" : "customer.waits"), {}, el("p", { class: "muted customer-hint" }, t("customer.waits_hint")), this.waits.node, share);
  }

  update(customer) {
    for (const percentile of ["p50", "p95", "p99"]) this.waits.set(percentile, customer.waits === null ? "–" : duration(customer.waits[percentile]));
    if (!this.isShared) return;
    const { share } = customer;
    this.bar.update(share, largestShare([share]) * BAR_HEADROOM);
    this.bar.node.hidden = !share.received && !share.due;
    this.over.hidden = this.overHint.hidden = !share.is_over;
    this.share.set("received", sharePercent(share.received));
    this.share.set("due", sharePercent(share.due));
    this.share.set("worker_time", duration(share.worker_seconds * SECOND));
    this.share.set("share_documents", number(share.documents));
  }
}

class SettingsPanel {
  constructor() {
    const names = ["name", "weight", "cap", "rate", "is_paused", "keep"];
    this.list = definitionList(names.map((name) => [name, t(`customer.set_${name}`)]));
    this.node = panel(t("customer.settings"), {}, this.list.node);
  }

  update(customer) {
    const { cap, rate, keep } = customer;
    const none = t("customer.none");
    this.list.set("name", customer.display_name === null ? customer.customer : `${customer.display_name} (${customer.customer})`);
    this.list.set("weight", number(customer.weight, 3));
    this.list.set("cap", cap === null ? none : t("customer.cap", { n: cap }));
    this.list.set("rate", rate === null ? none : t("customer.rate", { n: rate.documents, per: durationInWords(rate.per) }));
    this.list.set("is_paused", t(customer.paused ? "customer.yes" : "customer.no"));
    this.list.set("keep", keep === null ? t("customer.as_all") : durationInWords(keep));
  }
}

/** Names and values; set(key, text) changes a value. */
function definitionList(pairs) {
  const values = new Map(pairs.map(([key]) => [key, el("dd", {}, "–")]));
  const node = el("dl", { class: "details" }, pairs.map(([key, label]) => el("div", {}, el("dt", {}, label), values.get(key))));
  return { node, set: (key, text) => setText(values.get(key), text) };
}

class HistoryPanel {
  constructor(name) {
    this.list = el("ol", { class: "history" });
    this.none = emptyState(t("customer.no_history"));
    const all = el("a", { href: pageUrl("documents", {}, { customer: name }) }, t("customer.all_documents"));
    this.name = name;
    this.node = panel(t("customer.history"), { actions: all }, this.none, this.list);
  }

  update(customer, priority, moments) {
    const shown = mergeHistory(moments);
    this.none.hidden = shown.length > 0;
    const update = (node, entry) => {
      updateRelativeTime(node.at, entry.at);
      setText(node.what, entry.isMore ? t("customer.documents_or_more", { n: entry.documents.length }) : t("customer.some_documents", { n: entry.documents.length }));
    };
    const make = (entry) => this.#makeEntry(entry, update);
    reconcileChildren(this.list, shown, (entry) => entry.key, make, update);
  }

  tick() {
    for (const node of this.list.children) if (node.at.at !== undefined) updateRelativeTime(node.at, node.at.at);
  }

  #makeEntry(entry, update) {
    const at = Object.assign(relativeTime(entry.at), { at: entry.at });
    const what = el("span");
    const subject = entry.documents.length === 1 && entry.name !== null ? el("a", { class: "dotted", href: pageUrl("document", { id: entry.documents[0] }) }, el("bdi", {}, entry.name)) : entry.documents.length > 0 ? what : null;
    const who = entry.operator && el("span", { class: "muted history-who" }, t(entry.why ? "customer.by_why" : "customer.by", { name: entry.operator, why: entry.why }));
    const node = el("li", {}, el("span", { class: `badge state-${entry.state}` }, t(`customer.kind_${entry.kind}`)), el("span", { class: "history-what" }, subject, who), at);
    setProp(at, "class", "muted history-at");
    Object.assign(node, { at, what });
    update(node, entry);
    return node;
  }
}
