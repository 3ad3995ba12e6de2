// The workers: slots, what runs in them, and the operator's switch that lets one take no more documents.

import { ApiError, get, send } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { ago, duration, percent } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayOperate } from "../session.js";
import { levelBadge } from "../components/badges.js";
import { confirm } from "../components/dialog.js";
import { readOnlyNote } from "../components/fields.js";
import { emptyState } from "../components/placeholders.js";
import { relativeTime, updateRelativeTime } from "../components/relative_time.js";
import { requireUnchanged, toast, toastWithUndo } from "../components/toast.js";

/** @import { View } from "../router.js" */
/** @typedef {Api.Worker} Worker */
/** @typedef {Worker["documents"][number]} HeldDocument */

const MAX_DOCUMENTS = 20;

/** @param {View} view */
export async function mount(view) {
  const summary = el("p", { class: "muted" });
  const list = el("ul", { class: "worker-cards" });
  const none = emptyState(t("workers.none"), t("workers.none_hint"));

  /** @param {Api.Workers} answer */
  function draw({ at, workers }) {
    setText(summary, summarize(workers));
    none.hidden = workers.length > 0;
    const update = (/** @type {HTMLElement & { view: WorkerCard }} */ card, /** @type {Worker} */ worker) => card.view.update(worker, at);
    const make = (/** @type {Worker} */ worker) => {
      const card = new WorkerCard(setPaused);
      const node = Object.assign(card.node, { view: card });
      update(node, worker);
      return node;
    };
    reconcileChildren(list, workers, (worker) => worker.name, make, update);
  }

  const load = async () => draw(await get("/v1/workers", { signal: view.signal }));

  /**
   * @param {string} name
   * @param {"pause" | "resume"} action
   * @param {string} why
   */
  async function change(name, action, why) {
    const left = await send("POST", `/v1/workers/${encodeURIComponent(name)}/${action}`, { query: { why } });
    draw(left);
    return left;
  }

  /** @param {Worker} worker */
  async function setPaused(worker) {
    const { name } = worker;
    const answer = worker.paused === null ? await confirm({ title: t("workers.pause_ask", { name }), text: t("workers.pause_text"), action: t("workers.pause"), why: true }) : { why: "" };
    if (answer === null) return;
    const action = worker.paused === null ? "pause" : "resume";
    try {
      const left = await change(name, action, answer.why);
      toastWithUndo(t(action === "pause" ? "workers.now_paused" : "workers.resumed", { name }), async () => {
        requireUnchanged(pauseOf(await get("/v1/workers"), name), pauseOf(left, name));
        await change(name, action === "pause" ? "resume" : "pause", worker.paused?.why ?? "");
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  await load();
  autoRefresh(view, load);
  fill(view.root, summary, !mayOperate() && readOnlyNote(), none, list);
  return {};
}

/**
 * Slots are those of workers that respond: a silent one has none to give.
 * @param {Worker[]} workers
 */
function summarize(workers) {
  const live = workers.filter((worker) => !worker.silent);
  const sum = (/** @type {"busy" | "slots"} */ name) => live.reduce((total, worker) => total + worker[name], 0);
  const silent = workers.length - live.length;
  const parts = [
    live.length > 0 && t("workers.summary", { n: live.length, busy: sum("busy"), slots: sum("slots") }),
    silent > 0 && t("workers.summary_silent", { n: silent }),
  ];
  return parts.filter(Boolean).join(" · ");
}

/**
 * @param {Api.Workers} answer
 * @param {string} name
 */
function pauseOf({ workers }, name) {
  return workers.find((worker) => worker.name === name)?.paused;
}

/** One worker; `switched(worker)` pauses or resumes it. */
class WorkerCard {
  /** @type {Worker} */
  #worker;

  /** @param {(worker: Worker) => unknown} switched */
  constructor(switched) {
    this.name = el("h2", { class: "worker-card-name" });
    this.status = el("span");
    this.slots = el("span", { class: "muted" });
    this.bar = el("span");
    this.meter = el("span", { class: "worker-meter", "aria-hidden": "true" }, this.bar);
    this.button = el("button", { class: "button button-small", type: "button", on: { click: () => switched(this.#worker) } });
    this.note = el("div", { class: "worker-card-note", hidden: true });
    this.documents = el("ul", { class: "worker-card-documents" });
    this.rest = el("p", { class: "muted" });
    this.facts = el("dl", { class: "worker-facts" });
    this.seen = relativeTime(0);
    const head = el("div", { class: "worker-card-head" }, this.name, this.status, mayOperate() && this.button);
    this.node = el("li", { class: "panel worker-card" }, head, el("div", { class: "worker-card-slots" }, this.slots, this.meter), this.note, this.documents, this.rest, this.facts);
  }

  /**
   * @param {Worker} worker
   * @param {number} now
   */
  update(worker, now) {
    this.#worker = worker;
    setText(this.name, worker.name);
    const status = statusOf(worker);
    setProp(this.status, "class", `badge worker-${status}`);
    setText(this.status, t(`workers.${status}`));
    setText(this.slots, t("workers.slots", { busy: worker.busy, slots: worker.slots }));
    this.bar.style.setProperty("--part", String(worker.slots > 0 ? Math.min(1, worker.busy / worker.slots) : 0));
    setText(this.button, t(worker.paused === null ? "workers.pause" : "workers.resume"));
    setProp(this.button, "aria-label", `${this.button.textContent}: ${worker.name}`);
    const notes = notesOf(worker);
    this.note.hidden = notes.length === 0;
    reconcileChildren(this.note, notes.map((words, index) => ({ words, index })), (note) => note.index, (note) => el("p", {}, note.words), (node, note) => setText(node, note.words));
    this.#drawDocuments(worker, now);
    this.#drawFacts(worker);
  }

  /**
   * @param {Worker} worker
   * @param {number} now
   */
  #drawDocuments(worker, now) {
    const update = (/** @type {ReturnType<typeof makeDocument>} */ node, /** @type {HeldDocument} */ doc) => setText(node.note, documentNote(worker, doc, now));
    const make = (/** @type {HeldDocument} */ doc) => {
      const node = makeDocument(doc);
      update(node, doc);
      return node;
    };
    reconcileChildren(this.documents, worker.documents.slice(0, MAX_DOCUMENTS), (doc) => doc.id, make, update);
    const rest = worker.documents.length - MAX_DOCUMENTS;
    const words = [worker.documents.length === 0 && t("workers.idle"), rest > 0 && t("workers.more_documents", { n: rest }), worker.claimed_ahead > 0 && t("workers.claimed_ahead", { n: worker.claimed_ahead })];
    setText(this.rest, words.filter(Boolean).join(" · "));
  }

  /** @param {Worker} worker */
  #drawFacts(worker) {
    const key = [worker.queues, worker.host, worker.process, worker.processor, worker.version, worker.started_at].join(" ");
    if (this.facts.dataset.key !== key) {
      this.facts.dataset.key = key;
      const facts = [["host", worker.host], ["process", String(worker.process)], ["processor", worker.processor], ["queues", worker.queues.join(", ")], ["version", worker.version ?? "–"], ["started", relativeTime(worker.started_at)], ["seen", this.seen]];
      fill(this.facts, facts.map(([name, value]) => el("div", {}, el("dt", {}, t(`workers.fact_${name}`)), el("dd", {}, value))));
    }
    updateRelativeTime(this.seen, worker.seen_at);
  }
}

/** @param {Worker} worker */
function statusOf(worker) {
  if (worker.silent) return "silent";
  if (worker.stopping) return "stopping";
  return worker.paused === null ? "takes" : "paused";
}

/** @param {Worker} worker */
function notesOf(worker) {
  const { paused } = worker;
  return [
    paused && t("workers.paused_by", { operator: paused.operator, ago: ago(paused.at) }),
    paused?.why && t("workers.because", { why: paused.why }),
    worker.silent && t("workers.silent_text", { ago: ago(worker.seen_at) }),
  ].filter((words) => typeof words === "string");
}

/** @param {HeldDocument} doc */
function makeDocument(doc) {
  const note = el("span", { class: "muted worker-card-doing" });
  const name = el("a", { href: pageUrl("document", { id: doc.id }) }, doc.name);
  const customer = el("a", { class: "muted", href: pageUrl("customer", { name: doc.customer }) }, doc.customer);
  return Object.assign(el("li", {}, levelBadge(doc.level), el("span", { class: "worker-card-document" }, name, " ", customer), note), { note });
}

/**
 * How long a document has been running; of a silent worker, what happens to it and when.
 * @param {Worker} worker
 * @param {HeldDocument} doc
 * @param {number} now
 */
function documentNote(worker, doc, now) {
  if (worker.silent && doc.lease_until !== null) {
    const isLast = doc.attempt >= doc.max_attempts;
    const values = { ago: ago(doc.lease_until), attempt: doc.attempt + 1, most: doc.max_attempts };
    return isLast ? t("workers.lease_last", values) : t("workers.lease_again", values);
  }
  const took = doc.started_at === null ? "" : duration(Math.max(0, now - doc.started_at));
  return doc.done === null ? took : `${took} · ${percent(doc.done, 0)}`;
}
