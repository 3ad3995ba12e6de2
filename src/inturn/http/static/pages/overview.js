// The overview: what somebody on call wants to know at a glance. One snapshot of the queue, reloaded after events, at most
// every two seconds; what happened before comes from the queue's history twice a minute.

import { get } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill } from "../dom.js";
import { fetchQueues } from "../queues.js";
import { Attention } from "./overview/attention.js";
import { Customers } from "./overview/customers.js";
import { Figures, PAST_RANGE, STEP } from "./overview/figures.js";
import { Groups, Overdue } from "./overview/groups.js";
import { queueHistory } from "./overview/history.js";
import { Queues } from "./overview/queues.js";
import { SharesList } from "./overview/shares.js";

/** @import { View } from "../router.js" */

const HISTORY_POINTS = 120;
const HISTORY_INTERVAL_MS = 30_000;

/** @param {View} view */
export async function mount(view) {
  const lately = new LatelyBuffer();
  const figures = new Figures();
  const history = queueHistory(view);
  const attention = new Attention(load);
  const [shares, groups, overdue] = [new SharesList(), new Groups(), new Overdue()];
  const customers = new Customers(view);
  const queues = new Queues();
  /** The time by the server's clock: the browser's may be wrong. */
  let now = 0;

  async function load() {
    const [overview, named] = await Promise.all([get("/v1/overview", { query: { since: lately.last }, signal: view.signal }), fetchQueues(view.signal)]);
    queues.update(named);
    lately.add(overview.history);
    now = overview.at;
    for (const part of [figures, attention, shares, groups, overdue, customers]) part.update(overview, lately);
  }

  async function loadPast() {
    figures.setPast(await get("/v1/history", { query: { from: Math.max(0, now - PAST_RANGE), step: STEP }, signal: view.signal }));
    await history.load(now);
  }

  await load();
  await loadPast();
  await customers.search();
  autoRefresh(view, load);
  view.every(HISTORY_INTERVAL_MS, () => loadPast().catch(() => {})); // the status indicator shows an offline server
  fill(
    view.root,
    figures.node,
    el("div", { class: "overview-row overview-charts" }, history.node, attention.node),
    el("div", { class: "overview-row overview-fairness" }, shares.node, el("div", { class: "overview-stack" }, queues.node, groups.node, overdue.node)),
    customers.node,
  );
  return {
    update: () => Promise.all([customers.search(), history.load(now)]),
  };
}

/** The points of the last minutes received so far. Each load brings only the new ones. */
export class LatelyBuffer {
  /** @type {Partial<Record<keyof Api.History, any[]>>} */
  #columns = {};
  last = 0;

  /** @param {Api.History} points */
  add(points) {
    const isOther = points.at.length > 0 && points.at[0] <= this.last; // another server answered, or its clock went back
    for (const [name, values] of /** @type {[keyof Api.History, any[]][]} */ (Object.entries(points))) {
      this.#columns[name] = [...(isOther ? [] : (this.#columns[name] ?? [])), ...values].slice(-HISTORY_POINTS);
    }
    this.last = this.of("at").at(-1) ?? 0;
  }

  /** @param {keyof Api.History} name */
  of(name) {
    return this.#columns[name] ?? [];
  }
}
