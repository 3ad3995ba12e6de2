// One customer: its status, figures, charts, settings and history, and what cannot be undone last.

import { get, ignoreRequestError } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { countdown, duration, durationInWords, number, sharePercent, time } from "../format.js";
import { t } from "../i18n.js";
import { lanesByLevel } from "../lanes.js";
import { check } from "../priority.js";
import { pageUrl } from "../routes.js";
import { mayOperate, seesAll } from "../session.js";
import { levelBadge, levelClass, updateLevelBadge } from "../components/badges.js";
import { counterChart } from "../components/counter_chart.js";
import { panel } from "../components/panel.js";
import { emptyState } from "../components/placeholders.js";
import { relativeTime, updateRelativeTime } from "../components/relative_time.js";
import { largestShare, shareBar } from "../components/share_bar.js";
import { table } from "../components/table.js";
import { actionButtons } from "./customer/actions.js";
import { customerCharts } from "./customer/charts.js";
import { fetchHistory, mergeHistory } from "./customer/history.js";
import { StatusPanel } from "./customer/status.js";

/** @import { View } from "../router.js" */

/** @typedef {Api.CustomerDetail & { skew: number }} Current */
/** @typedef {Omit<Api.Lane, "queue"> & { most: number }} LaneRow */
/** @typedef {HTMLElement & { bar: HTMLElement, sum: HTMLElement }} LaneBar */
/** @typedef {Awaited<ReturnType<typeof fetchHistory>>} Moments */
/** @typedef {ReturnType<typeof mergeHistory>[number]} HistoryEntry */
/** @typedef {HTMLElement & { at: HTMLTimeElement & { at: number }, what: HTMLElement }} EntryNode */
/** @typedef {{ node: HTMLElement, update: (customer: Current, priority: Api.Priority, moments: Moments) => unknown, tick?: (customer: Current) => unknown }} Part */

const SECOND = 1_000_000;
const PREDICTED_DOCUMENTS = 24;
const BAR_HEADROOM = 1.25;
/** @type {("p50" | "p95" | "p99")[]} */
const PERCENTILES = ["p50", "p95", "p99"];
const CHARTS_INTERVAL_MS = 30_000;
const GLOBAL_EVENT_KINDS = new Set(["policy_set", "queue_paused", "queue_resumed"]);

/** @param {View} view */
export async function mount(view) {
  const path = /** @type {const} */ (`/v1/customers/${encodeURIComponent(view.params.name)}`);
  const actions = mayOperate() ? actionButtons(path, () => current, load) : null;
  /** @type {Part[]} */
  const parts = [
    new StatusPanel(actions?.pause ?? null),
    new SummaryCards(),
    new CounterPanel(),
    new LanesPanel(view.params.name),
    new WaitsPanel(),
    new SettingsPanel(actions?.edit ?? null),
    new HistoryPanel(view.params.name),
  ];
  const charts = customerCharts(view);
  const [status, summary, counter, lanes, waits, settings, history] = parts.map((part) => part.node);
  /** @type {Current} */
  let current;

  async function load() {
    const { signal } = view;
    const [customer, priority, moments] = await Promise.all([get(path, { signal }), get("/v1/priority", { signal }), fetchHistory(view.params.name, signal)]);
    const before = /** @type {Current | undefined} */ (current);
    current = { ...customer, skew: customer.at - Date.now() * 1_000 };
    for (const part of parts) part.update(current, priority, moments);
    if (before?.display_name !== current.display_name || before === undefined) view.setTitle(current.display_name ?? current.customer);
    actions?.update(current);
  }

  await load();
  const loadCharts = () => charts.load(serverNow(current));
  await loadCharts();
  view.every(CHARTS_INTERVAL_MS, () => loadCharts().catch(ignoreRequestError)); // the status indicator shows an offline server
  const documents = el("a", { class: "button", href: pageUrl("documents", {}, { customer: view.params.name }) }, t("customer.documents"));
  view.setActions(documents);
  autoRefresh(view, load, { concerns: (event) => GLOBAL_EVENT_KINDS.has(event.kind) || event.customer === undefined || event.customer === view.params.name });
  let wasOver = false;
  view.every(1_000, () => {
    for (const part of parts) part.tick?.(current);
    if (isCounterExpired(current) && !wasOver) load().catch(ignoreRequestError); // the status indicator shows an offline server
    wasOver = isCounterExpired(current);
  });
  fill(
    view.root,
    status,
    summary,
    charts.node,
    el("div", { class: "customer-row customer-wide-left" }, counter, lanes),
    el("div", { class: "customer-row" }, waits, settings),
    history,
    actions !== null && dangerZone(actions.purge),
  );
  return { update: loadCharts };
}

/**
 * What cannot be undone, last on the page.
 * @param {HTMLElement} button
 */
function dangerZone(button) {
  return panel(t("customer.danger"), { className: "danger-zone", hint: t("customer.purge_text") }, button);
}

/** @param {Current} customer */
function serverNow(customer) {
  return Date.now() * 1_000 + customer.skew;
}

/**
 * Whether the reset interval has passed, so that the next document starts at 0 again.
 * @param {Current} customer
 */
function isCounterExpired(customer) {
  return customer.counter === null || serverNow(customer) > customer.counter.resets_after;
}

/** @param {Current} customer */
function timeToReset(customer) {
  return customer.counter === null ? "–" : isCounterExpired(customer) ? t("customer.reset") : countdown(customer.counter.resets_after - serverNow(customer));
}

/** The main figures of a customer. */
class SummaryCards {
  constructor() {
    /** @type {Record<string, { value: HTMLElement, detail: HTMLElement }>} */
    this.values = {};
    const names = ["level", "counter", "reset", "waiting", "running", "wait"];
    this.node = el("dl", { class: "cards customer-cards" }, names.map((name) => this.#fact(name)));
  }

  /** @param {string} name */
  #fact(name) {
    const value = el("span", name === "reset" ? { role: "timer" } : {});
    const detail = el("span", { class: "card-detail" });
    this.values[name] = { value, detail };
    return el("div", { class: "card" }, el("dt", { class: "card-label" }, t(`customer.fact_${name}`)), el("dd", { class: "card-figures" }, el("span", { class: "card-value" }, value), detail));
  }

  /** @param {Current} customer */
  update(customer) {
    const { level, counter, waiting, running, wait } = this.values;
    updateLevelBadge(level.value, customer.level);
    setText(counter.value, number(customer.counter === null || isCounterExpired(customer) ? 0 : customer.counter.count));
    setText(counter.detail, customer.counter === null ? t("customer.never") : "");
    setText(waiting.value, number(customer.waiting));
    setText(running.value, number(customer.running));
    setText(running.detail, customer.cap === null ? "" : t("customer.of_cap", { cap: customer.cap }));
    setText(wait.value, customer.waits === null ? "–" : duration(customer.waits.p95));
    setText(wait.detail, customer.waits === null ? t("customer.no_starts") : `p50 ${duration(customer.waits.p50)}`);
    this.tick(customer);
  }

  /** @param {Current} customer */
  tick(customer) {
    const { value } = this.values.reset;
    setText(value, timeToReset(customer));
    value.classList.toggle("card-word", customer.counter !== null && isCounterExpired(customer)); // longer than a clock
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

  /**
   * @param {Current} customer
   * @param {Api.Priority} priority
   */
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
    this.drawing.update({ checks, thresholds: priority.thresholds, depth: Math.max(-checks[PREDICTED_DOCUMENTS - 1].count, 4), resetText: "", summary: describeLevels(checks) });
  }

  /**
   * @param {Current} customer
   * @param {Api.Check} first
   */
  #words(customer, first) {
    const { level, count } = first;
    if (customer.counter === null) return t("customer.counter_new", { level });
    if (isCounterExpired(customer)) return t("customer.counter_over", { level, time: time(customer.counter.updated_at) });
    return t("customer.counter_runs", { now: number(customer.counter.count), next: number(count), level, time: time(customer.counter.resets_after) });
  }
}

/**
 * Describe the chart for screen readers: level 3: 2, level 4: 2, …
 * @param {Api.Check[]} checks
 */
function describeLevels(checks) {
  const runs = new Map();
  for (const { level } of checks) runs.set(level, (runs.get(level) ?? 0) + 1);
  return t("customer.next_summary", { levels: [...runs].map(([level, n]) => t("customer.next_level", { level, n })).join(", ") });
}

class LanesPanel {
  /** @param {string} name */
  constructor(name) {
    const documents = (/** @type {LaneRow} */ row) => pageUrl("documents", {}, row.level === 0 ? { customer: name, state: "waiting" } : { customer: name, state: "waiting", level: row.level });
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

  /** @param {Current} customer */
  update(customer) {
    const lanes = lanesByLevel(customer.lines).filter((lane) => lane.waiting > 0);
    const most = Math.max(1, ...lanes.map((lane) => lane.waiting));
    this.table.update(lanes.map((lane) => ({ ...lane, most })));
  }
}

/** @param {LaneRow} row @returns {LaneBar} */
function laneBar(row) {
  const bar = el("span", { class: "bar-fill" });
  const sum = el("span", { class: "bar-number" });
  return updateLaneBar(Object.assign(el("span", { class: `lane-bar ${levelClass(row.level)}` }, el("span", { class: "bar-track", "aria-hidden": "true" }, bar), sum), { bar, sum }), row);
}

/**
 * @param {LaneBar} node
 * @param {LaneRow} row
 */
function updateLaneBar(node, row) {
  node.bar.style.setProperty("--part", String(row.waiting / row.most));
  setText(node.sum, number(row.waiting));
  return node;
}

class WaitsPanel {
  constructor() {
    this.waits = definitionList(PERCENTILES.map((percentile) => [percentile, percentile]));
    this.bar = shareBar();
    this.over = el("span", { class: "badge share-over" }, t("customer.over_share"));
    this.overHint = el("p", { class: "share-over-hint" }, t("customer.over_share_hint"));
    this.share = definitionList(["received", "due", "worker_time", "share_documents"].map((name) => [name, t(`customer.${name}`)]));
    this.isShared = seesAll();
    const share = this.isShared && el("div", { class: "customer-share" }, el("h3", {}, t("customer.share"), " ", this.over), el("p", { class: "muted" }, t("customer.share_hint")), this.overHint, this.bar.node, this.share.node);
    this.node = panel(t(this.isShared ? "customer.waits_and_share" : "customer.waits"), {}, el("p", { class: "muted customer-hint" }, t("customer.waits_hint")), this.waits.node, share);
  }

  /** @param {Current} customer */
  update(customer) {
    for (const percentile of PERCENTILES) this.waits.set(percentile, customer.waits === null ? "–" : duration(customer.waits[percentile]));
    if (!this.isShared) return;
    const { share } = customer;
    if (share === null) return;
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
  /**
   * `action` is the button that changes them, null for who may not.
   * @param {HTMLElement | null} action
   */
  constructor(action) {
    const names = ["name", "weight", "cap", "rate", "is_paused", "keep"];
    this.list = definitionList(names.map((name) => [name, t(`customer.set_${name}`)]));
    this.node = panel(t("customer.settings"), { actions: action }, this.list.node);
  }

  /** @param {Current} customer */
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

/**
 * Names and values; set(key, text) changes a value.
 * @param {readonly (readonly string[])[]} pairs
 */
function definitionList(pairs) {
  const values = new Map(pairs.map(([key]) => [key, el("dd", {}, "–")]));
  const node = el("dl", { class: "details" }, pairs.map(([key, label]) => el("div", {}, el("dt", {}, label), values.get(key))));
  return { node, set: (/** @type {string} */ key, /** @type {string} */ text) => setText(/** @type {HTMLElement} */ (values.get(key)), text) };
}

class HistoryPanel {
  /** @param {string} name */
  constructor(name) {
    this.list = el("ol", { class: "history" });
    this.none = emptyState(t("customer.no_history"));
    const all = el("a", { href: pageUrl("documents", {}, { customer: name }) }, t("customer.all_documents"));
    this.name = name;
    this.node = panel(t("customer.history"), { actions: all }, this.none, this.list);
  }

  /**
   * @param {Current} _customer
   * @param {Api.Priority} _priority
   * @param {Moments} moments
   */
  update(_customer, _priority, moments) {
    const shown = mergeHistory(moments);
    this.none.hidden = shown.length > 0;
    const update = (/** @type {EntryNode} */ node, /** @type {HistoryEntry} */ entry) => {
      updateRelativeTime(node.at, entry.at);
      setText(node.what, entry.isMore ? t("customer.documents_or_more", { n: entry.documents.length }) : t("customer.some_documents", { n: entry.documents.length }));
    };
    const make = (/** @type {HistoryEntry} */ entry) => this.#makeEntry(entry, update);
    reconcileChildren(this.list, shown, (entry) => entry.key, make, update);
  }

  tick() {
    for (const node of /** @type {Iterable<EntryNode>} */ (this.list.children)) if (node.at.at !== undefined) updateRelativeTime(node.at, node.at.at);
  }

  /**
   * @param {HistoryEntry} entry
   * @param {(node: EntryNode, entry: HistoryEntry) => void} update
   */
  #makeEntry(entry, update) {
    const at = Object.assign(relativeTime(entry.at), { at: entry.at });
    const what = el("span");
    const subject = entry.documents.length === 1 && entry.name !== null ? el("a", { class: "dotted", href: pageUrl("document", { id: entry.documents[0] }) }, el("bdi", {}, entry.name)) : entry.documents.length > 0 ? what : null;
    const who = entry.operator && el("span", { class: "muted history-who" }, t(entry.why ? "customer.by_why" : "customer.by", { name: entry.operator, why: entry.why }));
    const node = el("li", {}, el("span", { class: `badge state-${entry.state}` }, t(`customer.kind_${entry.kind}`)), el("span", { class: "history-what" }, subject, who), at);
    setProp(at, "class", "muted history-at");
    const entryNode = Object.assign(node, { at, what });
    update(entryNode, entry);
    return entryNode;
  }
}
