// A document that one has taken, beside the form that its queue asks for. What was typed outlives leaving the page, until
// the document is finished, handed back or rejected.

import { ApiError, get, send } from "../api.js";
import { el, fill } from "../dom.js";
import { shortTimeOfDay } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayOperate } from "../session.js";
import { levelBadge } from "../components/badges.js";
import { confirm, openDialog } from "../components/dialog.js";
import { selectField, textArea } from "../components/fields.js";
import { icon } from "../components/icons.js";
import { panel } from "../components/panel.js";
import { emptyState } from "../components/placeholders.js";
import { toast } from "../components/toast.js";
import { MetadataPanel } from "./document/details.js";
import { PreviewPanel } from "./document/preview.js";
import { ResultPanel } from "./document/result.js";
import { AnswerForm } from "./task/answer_form.js";
import { Lease } from "./task/lease.js";
import { takeNext } from "./task/take.js";

/** @import { View } from "../router.js" */
/** @import { QueueEvent } from "../events.js" */

const MAX_LISTED = 100;
/**
 * What was typed and not sent, by the document's id.
 * @type {Map<string, Record<string, string | boolean>>}
 */
const drafts = new Map();
window.addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault(); // the browser asks: closing the tab would lose it
});

/** @param {View} view */
export async function mount(view) {
  /** @type {`/v1/documents/${string}`} */
  const path = `/v1/documents/${encodeURIComponent(view.params.id)}`;
  const doc = await get(path, { signal: view.signal });
  view.setTitle(doc.name);
  view.setTrail([{ text: doc.queue, href: pageUrl("tasks", {}, { queue: doc.queue }) }]);
  const found = doc.state === "running" && mayOperate() ? await findOwn(doc, view.signal) : null;
  if (found === null) {
    fill(view.root, notYours(doc));
    return {};
  }
  const page = new TaskPage(view, path, doc, found);
  await page.load();
  fill(view.root, page.node);
  return { shown: () => page.shown(), mayLeave: () => page.mayLeave() };
}

/**
 * One's own claim of the document, and its queue with the form and the queues that it may go to.
 * @param {Api.Document} doc
 * @param {AbortSignal} signal
 */
async function findOwn(doc, signal) {
  const [listed, { queues }] = await Promise.all([get(`/v1/queues/${encodeURIComponent(doc.queue)}/documents`, { query: { limit: MAX_LISTED }, signal }), get("/v1/queues", { signal })]);
  const fence = listed.taken.find((taken) => taken.document.id === doc.id)?.fence ?? null;
  return fence === null ? null : { fence, form: listed.queue.form, queues: queues.map((queue) => queue.name) };
}

/** @param {Api.Document} doc */
function notYours(doc) {
  const links = el("div", { class: "task-links" }, el("a", { class: "button", href: pageUrl("tasks", {}, { queue: doc.queue }) }, t("tasks.title")), el("a", { class: "button", href: pageUrl("document", { id: doc.id }) }, t("task.show_document")));
  return emptyState(t("task.not_yours"), t("task.not_yours_hint"), links);
}

class TaskPage {
  #view;
  #path;
  #doc;
  #fence;
  #isEnded = false;
  /** @type {Promise<boolean> | null} */
  #asked = null;
  #shownState = "";

  /**
   * @param {View} view
   * @param {`/v1/documents/${string}`} path
   * @param {Api.Document} doc
   * @param {NonNullable<Awaited<ReturnType<typeof findOwn>>>} own
   */
  constructor(view, path, doc, { fence, form, queues }) {
    this.#view = view;
    this.#path = path;
    this.#doc = doc;
    this.#fence = fence;
    this.lease = new Lease(view, path, fence, () => this.#drawLease());
    this.answer = new AnswerForm(form, drafts.get(doc.id) ?? null);
    this.preview = new PreviewPanel(view, path);
    this.result = new ResultPanel(view, path);
    this.metadata = new MetadataPanel();
    this.status = el("div", { class: "task-lease", role: "status" });
    this.next = selectField({ label: t("task.next"), options: nextOptions(doc, queues), value: "" });
    this.problem = el("p", { class: "field-error", role: "alert" });
    this.buttons = this.#buttons();
    this.form = el("form", { class: "form", novalidate: true, on: { submit: (event) => this.#submitted(event), input: () => this.#keep(), keydown: (event) => this.#pressed(event) } }, this.answer.node, this.next.node, this.problem, this.buttons);
    const facts = el("p", { class: "task-facts" }, levelBadge(doc.expedited ? 0 : doc.level), el("a", { href: pageUrl("customer", { name: doc.customer }) }, doc.customer), el("a", { href: pageUrl("document", { id: doc.id }) }, t("task.show_document")));
    const side = el("div", { class: "task-side" }, panel(t("task.form"), { className: "task-form" }, this.status, this.form));
    this.node = el("div", { class: "task" }, el("div", { class: "task-document" }, facts, this.#content(), this.preview.node, this.result.node, this.metadata.node), side);
    view.listen("*", (events) => {
      if (events.some((event) => this.#concerns(event))) void this.lease.renew();
    });
    view.onEnd(() => this.#keep());
  }

  async load() {
    await this.lease.renew();
    this.metadata.update(this.#doc);
    await Promise.all([this.preview.follow(this.#doc), this.result.follow(this.#doc)]);
  }

  shown() {
    if (matchMedia("(min-width: 860px)").matches) this.answer.focus();
  }

  /** Asked once, however often one tries to leave. */
  async mayLeave() {
    if (this.#isEnded || !this.answer.isDirty) return true;
    this.#asked ??= confirm({ title: t("task.leave_ask"), text: t(this.lease.isLost ? "task.leave_lost" : "task.leave_text"), action: t("task.leave"), dismiss: t("task.stay"), why: false }).then((answer) => answer !== null);
    const isLeaving = await this.#asked;
    this.#asked = null;
    return isLeaving;
  }

  /** @param {QueueEvent} event */
  #concerns({ kind, documents }) {
    return !this.#isEnded && (kind === "reset" || Boolean(documents?.includes(this.#doc.id)));
  }

  #content() {
    const { has_content: hasContent, uri, name } = this.#doc;
    if (hasContent) return el("a", { class: "button", href: `${this.#path}/content`, download: name }, icon("down"), t("document.download"));
    return uri === null ? null : el("p", { class: "muted mono" }, uri);
  }

  #buttons() {
    const button = (/** @type {string} */ text, /** @type {() => unknown} */ call) => el("button", { class: "button", type: "button", on: { click: call } }, text);
    return el(
      "div",
      { class: "task-buttons" },
      el("button", { class: "button button-primary", type: "submit", data: { then: "next" } }, t("task.finish_next")),
      el("button", { class: "button", type: "submit" }, t("task.finish")),
      button(t("task.hand_back"), () => this.#handBack()),
      button(t("task.reject"), () => this.#reject()),
    );
  }

  /** Ctrl+Enter sends the form from any field. */
  #pressed(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.form.requestSubmit(/** @type {HTMLElement | null} */ (this.buttons.querySelector("button")));
  }

  /** Keep what was typed for as long as it can still be saved. */
  #keep() {
    if (!this.#isEnded && !this.lease.isLost && this.answer.isDirty) drafts.set(this.#doc.id, this.answer.typed());
    else drafts.delete(this.#doc.id);
  }

  /** @param {SubmitEvent} event */
  async #submitted(event) {
    event.preventDefault();
    const answer = this.answer.value();
    if (!answer.ok) return;
    const isMore = event.submitter?.dataset.then === "next";
    const body = { fence: this.#fence, result: answer.result, ...(this.next.input.value === "" ? {} : { next: this.next.input.value }) };
    if (await this.#send("finish", body, t("task.finished", { name: this.#doc.name }))) await this.#goOn(isMore);
  }

  async #handBack() {
    if (this.answer.isDirty && (await confirm({ title: t("task.hand_back_ask"), text: t("task.hand_back_text"), action: t("task.hand_back"), why: false })) === null) return;
    if (await this.#send("release", { fence: this.#fence }, t("task.handed_back", { name: this.#doc.name }))) await this.#goOn(false);
  }

  async #reject() {
    const reason = await askReason();
    if (reason !== null && (await this.#send("reject", { fence: this.#fence, reason }, t("task.rejected", { name: this.#doc.name })))) await this.#goOn(false);
  }

  /**
   * @param {"finish" | "release" | "reject"} action
   * @param {Record<string, unknown>} body
   * @param {string} done
   */
  async #send(action, body, done) {
    this.#setBusy(true);
    fill(this.problem);
    try {
      await send("POST", `${this.#path}/${action}`, { body });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(this.problem, error.message);
      if (error.code === "stale_fence") {
        this.lease.isLost = true;
        this.#drawLease();
      }
      return false;
    } finally {
      this.#setBusy(false);
    }
    this.#isEnded = true;
    this.lease.end();
    this.#keep();
    toast(done);
    return true;
  }

  /**
   * Open the next document of the queue if it is wanted and there is one, otherwise the list.
   * @param {boolean} isMore
   */
  async #goOn(isMore) {
    const { queue } = this.#doc;
    try {
      const id = isMore ? await takeNext(queue) : null;
      await (id === null ? this.#view.go("tasks", {}, { queue }) : this.#view.go("task", { id }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
      await this.#view.go("tasks", {}, { queue });
    }
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (this.buttons.querySelectorAll("button"))) button.disabled = isBusy || this.lease.isLost;
  }

  #drawLease() {
    const { state } = this.lease;
    const text = t(`task.lease_${state}`, { time: shortTimeOfDay(this.lease.until) });
    if (`${state} ${text}` === this.#shownState) return;
    this.#shownState = `${state} ${text}`;
    this.status.className = `task-lease task-lease-${state}`;
    const keep = (state === "ending" || state === "over") && el("button", { class: "button button-small", type: "button", on: { click: () => this.lease.renew() } }, t("task.keep"));
    const back = state === "lost" && el("a", { class: "button button-small", href: pageUrl("tasks", {}, { queue: this.#doc.queue }) }, t("tasks.title"));
    fill(this.status, el("p", {}, text), keep, back);
    this.answer.setReadOnly(state === "lost");
    this.#setBusy(false);
  }
}

/**
 * Where the document goes: by itself to the next of its steps, or where a person sends it.
 * @param {Api.Document} doc
 * @param {string[]} queues
 */
function nextOptions({ ahead, queue }, queues) {
  const planned = ahead.length > 0 ? t("task.next_planned", { queue: ahead[0] }) : t("task.next_none");
  return [["", planned], ...queues.filter((name) => name !== queue && name !== ahead[0]).map((name) => [name, t("task.next_other", { queue: name })])];
}

/** Resolves with the reason, which is required; null if dismissed. */
function askReason() {
  return openDialog(t("task.reject_ask"), (/** @type {(reason: string | null) => void} */ close) => {
    const reason = textArea({ label: t("shell.why"), hint: t("task.reject_hint"), rows: 3, maxlength: 1000, required: true });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = reason.input.value.trim();
      if (text !== "") close(text);
      else {
        reason.setError(t("task.error_required"));
        reason.input.focus();
      }
    };
    const buttons = el("div", { class: "dialog-buttons" }, el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel")), el("button", { class: "button button-danger", type: "submit" }, t("task.reject")));
    return el("form", { class: "form", novalidate: true, on: { submit } }, el("p", {}, t("task.reject_text")), reason.node, buttons);
  });
}
