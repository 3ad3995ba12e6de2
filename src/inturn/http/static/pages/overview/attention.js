// What needs attention now, each with a link to where it can be seen to.

import { ApiError, send } from "../../api.js";
import { el, fill, setText } from "../../dom.js";
import { ago, durationInWords, shortTimeOfDay } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { mayOperate } from "../../session.js";
import { levelName } from "../../components/badges.js";
import { confirm } from "../../components/dialog.js";
import { panel } from "../../components/panel.js";
import { toast } from "../../components/toast.js";

/** @typedef {{ kind: string, text: string, href: string, acknowledges?: boolean }} Item */

const WORKER_SILENT_MICROSECONDS = 60_000_000;

export class Attention {
  #reload;
  #shown = "";

  /** @param {() => Promise<void>} reload */
  constructor(reload) {
    this.#reload = reload;
    this.list = el("ul", { class: "attention" });
    this.none = el("p", { class: "muted" }, t("overview.attention_none"));
    this.known = el("p", { class: "muted attention-known" });
    this.node = panel(t("overview.attention"), {}, this.none, this.list, this.known);
  }

  /** @param {Api.Overview} overview */
  update(overview) {
    const items = [...workerItems(overview), ...failureItems(overview), ...overdueItems(overview), ...heldItems(overview)];
    const shown = JSON.stringify(items);
    if (shown !== this.#shown) fill(this.list, items.map((item) => this.#draw(item)));
    this.#shown = shown;
    this.none.hidden = items.length > 0;
    const seen = overview.failures.acknowledged;
    setText(this.known, seen === null ? "" : t("overview.acknowledged_by", { name: seen.operator, ago: ago(seen.at) }));
  }

  /** @param {Item} item */
  #draw({ text, href, kind, acknowledges }) {
    const button = acknowledges && mayOperate() && el("button", { type: "button", class: "button button-small", on: { click: () => void this.#acknowledge() } }, t("overview.acknowledge"));
    return el("li", { class: `attention-${kind}` }, el("a", { href }, text), button);
  }

  async #acknowledge() {
    const answer = await confirm({ title: t("overview.acknowledge"), text: t("overview.acknowledge_text"), action: t("overview.acknowledge") });
    if (answer === null) return;
    try {
      await send("POST", "/v1/failures/acknowledge", { query: { why: answer.why } });
      await this.#reload();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }
}

/**
 * @param {Api.Overview} overview
 * @returns {Item[]}
 */
function workerItems({ workers, states, at }) {
  const silent = workers.filter((worker) => at - worker.seen_at > WORKER_SILENT_MICROSECONDS);
  const hasNoWorker = silent.length === workers.length && states.waiting > 0;
  const href = pageUrl("workers");
  return [
    ...(hasNoWorker ? [{ kind: "bad", text: t("overview.no_worker_waiting", { n: states.waiting }), href }] : []),
    ...silent.map((worker) => ({ kind: "warn", text: t("overview.worker_silent", { name: worker.name, ago: ago(worker.seen_at) }), href })),
  ];
}

/**
 * @param {Api.Overview} overview
 * @returns {Item[]}
 */
function failureItems({ failures }) {
  if (failures.failed === 0) return [];
  const query = { state: "failed", time: "ended", since: new Date(failures.since / 1_000).toISOString() };
  return [
    { kind: "bad", text: failuresText(failures), href: pageUrl("documents", {}, query), acknowledges: true },
    ...failures.customers.map(({ customer, failed }) => ({ kind: "warn", text: t("overview.customer_failing", { customer, n: failed }), href: pageUrl("documents", {}, { ...query, customer }) })),
  ];
}

/** @param {Api.RecentFailures} failures */
function failuresText({ failed, since, acknowledged }) {
  if (acknowledged === null || acknowledged.at < since) return t("overview.failed_in_hour", { n: failed });
  return t("overview.failed_since", { n: failed, time: shortTimeOfDay(since) });
}

/**
 * @param {Api.Overview} overview
 * @returns {Item[]}
 */
function overdueItems({ overdue }) {
  return overdue.levels.map((level) => ({
    kind: "warn",
    text: t("overview.overdue_level", { level: levelName(level), after: durationInWords(overdue.after) }),
    href: pageUrl("documents", {}, { state: "waiting", level, sort: "oldest" }),
  }));
}

/**
 * @param {Api.Overview} overview
 * @returns {Item[]}
 */
function heldItems({ held_customers: customers, held }) {
  if (customers === 0) return [];
  return [{ kind: "info", text: t("overview.held_waiting", { n: customers, documents: held }), href: pageUrl("customers", {}, { waiting: "true" }) }];
}
