// One document: the answer, timeline, level, result beside a preview, and details. Reloaded after events of the document; while it waits, its
// position is fetched every POSITION_INTERVAL_MS, since other documents change it without an event.

import { ApiError, get, ignoreRequestError, send } from "../api.js";
import { el, fill } from "../dom.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayAct, mayOperate } from "../session.js";
import { confirm } from "../components/dialog.js";
import { icon } from "../components/icons.js";
import { retryStart } from "../components/retry_start.js";
import { emptyState } from "../components/placeholders.js";
import { toast, toastWithUndo } from "../components/toast.js";
import { DetailsPanel, LevelPanel, MetadataPanel } from "./document/details.js";
import { SENT_WINDOW_MICROSECONDS } from "./document/answer.js";
import { PartsPanel } from "./document/parts.js";
import { PreviewPanel } from "./document/preview.js";
import { ResultPanel } from "./document/result.js";
import { StatusPanel } from "./document/status.js";
import { StepsPanel } from "./document/steps.js";
import { TimelinePanel } from "./document/timeline.js";

/** @import { View } from "../router.js" */

/** @import { QueueEvent } from "../events.js" */

const CANCELLABLE = ["waiting", "running", "delayed", "split"];
const RETRYABLE = ["failed", "cancelled", "expired"];
const POSITION_INTERVAL_MS = 5_000;
const PROGRESS_INTERVAL_MS = 2_000;
const PARTS_INTERVAL_MS = 3_000;

/** @param {View} view */
export async function mount(view) {
  const page = new DocumentPage(view);
  await page.load();
  page.begin();
  fill(view.root, page.node);
  return {};
}

class DocumentPage {
  shownActions = "";
  #view;
  /** @type {Api.Document} */
  #document;
  /** @type {Api.Why} */
  #why;
  /** @type {Api.Timeline} */
  #timeline;
  /** @type {Api.Document | null} */
  #whole = null;
  /** @type {number | null} */
  #sent = null;
  #isLoading = false;
  #mustReload = false;

  /** @param {View} view */
  constructor(view) {
    this.#view = view;
    /** @type {`/v1/documents/${string}`} */
    this.path = `/v1/documents/${encodeURIComponent(view.params.id)}`;
    this.status = new StatusPanel();
    this.steps = new StepsPanel();
    this.parts = new PartsPanel(view, view.params.id);
    this.level = new LevelPanel();
    this.timeline = new TimelinePanel();
    this.result = new ResultPanel(view, this.path);
    this.preview = new PreviewPanel(view, this.path);
    this.details = new DetailsPanel();
    this.metadata = new MetadataPanel();
    this.node = el(
      "div",
      { class: "document-parts" },
      this.status.node,
      this.steps.node,
      el("div", { class: "document-row document-wide-left" }, this.timeline.node, this.level.node),
      this.parts.node,
      el("div", { class: "document-row" }, this.result.node, this.preview.node),
      el("div", { class: "document-row document-wide-left" }, this.details.node, this.metadata.node),
    );
  }

  /** Fetch what stands in several places of the page, and show it together. */
  async load() {
    const { signal } = this.#view;
    const [doc, why, timeline] = await Promise.all([get(this.path, { signal }), get(`${this.path}/why`, { signal }), get(`${this.path}/timeline`, { signal })]);
    this.#document = doc;
    this.#why = why;
    this.#timeline = timeline;
    await Promise.all([this.#countSent(), this.#fetchWhole(), this.result.follow(doc)]);
    this.#draw();
    await Promise.all([this.preview.follow(doc), this.parts.follow(doc)]);
  }

  /** Count once what the customer sent before a waiting document: the cause of its level. */
  async #countSent() {
    const { state, level, customer, submitted_at: submitted } = this.#document;
    if (this.#sent !== null || state !== "waiting" || level === 1) return;
    const query = { customer, since: Math.max(0, submitted - SENT_WINDOW_MICROSECONDS), until: submitted + 1 };
    const { documents } = await get("/v1/documents/counts", { query, signal: this.#view.signal });
    this.#sent = documents;
  }

  /** Of a part, the document that it is a part of. */
  async #fetchWhole() {
    const { parent } = this.#document;
    if (parent === null || this.#whole !== null) return;
    try {
      this.#whole = await get(`/v1/documents/${parent}`, { signal: this.#view.signal });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "not_found")) throw error; // deleted meanwhile
    }
  }

  begin() {
    const view = this.#view;
    const { customer } = this.#document;
    const whole = this.#whole && [{ text: this.#whole.name, href: pageUrl("document", { id: this.#whole.id }) }];
    view.setTrail([{ text: customer, href: pageUrl("documents", {}, { customer }) }, ...(whole ?? [])]);
    const isOurs = (/** @type {QueueEvent} */ event) => event.kind === "reset" || event.documents?.includes(this.#document.id);
    view.listen("*", (events) => {
      if (events.some(isOurs)) void this.#reload();
      else if (events.some((event) => ["queue_paused", "queue_resumed", "queue_changed", "customer_changed"].includes(event.kind))) void this.#fetchWhy();
      else if (events.some((event) => event.kind === "purged" && event.customer === this.#document.customer)) void this.#reload();
    });
    view.every(POSITION_INTERVAL_MS, () => {
      if (this.#document.state === "waiting") void this.#fetchWhy();
    });
    view.every(PROGRESS_INTERVAL_MS, () => {
      if (this.#document.state === "running") void this.#fetchTimeline();
    });
    view.every(PARTS_INTERVAL_MS, () => {
      if (this.#document.state === "split") void this.#fetchParts();
    });
    view.every(1_000, () => this.status.tick());
  }

  /** Load again, and once more if another event came meanwhile. */
  async #reload() {
    this.#mustReload = true;
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      while (this.#mustReload) {
        this.#mustReload = false;
        await this.load();
      }
    } catch (error) {
      if (error instanceof ApiError && error.code === "not_found") this.#showDeleted();
      else ignoreRequestError(error); // the status indicator shows an offline server
    } finally {
      this.#isLoading = false;
    }
  }

  async #fetchWhy() {
    await this.#fetchPart("why", (why) => {
      this.#why = why;
    });
  }

  async #fetchParts() {
    try {
      await Promise.all([this.parts.follow(this.#document), this.#fetchWhy()]);
    } catch (error) {
      ignoreRequestError(error);
    }
  }

  async #fetchTimeline() {
    await this.#fetchPart("timeline", (timeline) => {
      this.#timeline = timeline;
    });
  }

  /**
   * @template {"why" | "timeline"} Part
   * @param {Part} what
   * @param {(answer: Api.Response<"GET", `/v1/documents/${string}/${Part}`>) => void} take
   */
  async #fetchPart(what, take) {
    if (this.#isLoading) return;
    try {
      take(await get(`${this.path}/${what}`, { signal: this.#view.signal }));
      this.#draw();
    } catch (error) {
      ignoreRequestError(error);
    }
  }

  #showDeleted() {
    this.#view.setActions();
    fill(this.#view.root, emptyState(t("document.deleted"), t("document.deleted_hint"), el("a", { class: "button", href: pageUrl("documents") }, t("documents.title"))));
  }

  #draw() {
    this.#view.setTitle(this.#document.name);
    this.#actions();
    this.status.update(this.#document, this.#why, this.#timeline, this.#sent);
    this.status.showWhole(this.#document, this.#whole);
    this.steps.update(this.#document, this.#timeline);
    this.level.update(this.#document, this.#why);
    this.timeline.update(this.#document, this.#timeline);
    this.details.update(this.#document, this.#timeline);
    this.metadata.update(this.#document);
  }

  #actions() {
    const { state, expedited, has_content: hasContent, name } = this.#document;
    const key = `${state} ${expedited}`;
    if (key === this.shownActions) return; // redrawing would take the focus from a button
    this.shownActions = key;
    const hadFocus = document.activeElement?.closest?.(".title-actions") !== null && document.activeElement !== null;
    const button = (/** @type {string} */ act, /** @type {string} */ label) => el("button", { class: "button", type: "button", on: { click: () => this.#act(act) } }, label);
    this.#view.setActions(
      hasContent && el("a", { class: "button", href: `${this.path}/content`, download: name }, icon("down"), t("document.download")),
      mayOperate() && !expedited && ["waiting", "delayed"].includes(state) && button("expedite", t("document.do_expedite")),
      mayAct() && RETRYABLE.includes(state) && button("retry", t("document.do_retry")),
      mayAct() && CANCELLABLE.includes(state) && button("cancel", t("document.do_cancel")),
    );
    if (hadFocus) /** @type {HTMLElement | null} */ (document.querySelector(".title-actions button, .title"))?.focus({ preventScroll: true });
  }

  async #undoExpedite() {
    await send("POST", `${this.path}/expedite`, { query: { undo: true } });
    await this.#reload();
  }

  async #retry() {
    const { step, queue } = this.#document;
    const start = step > 0 ? retryStart(t("document.from_step", { queue })) : null;
    const answer = await confirm({ title: t("document.ask_retry"), text: t("document.about_retry"), action: t("document.do_retry"), choice: start?.node });
    if (answer === null) return;
    try {
      await send("POST", `${this.path}/retry`, { query: { why: answer.why, from_start: start?.isFromStart() } });
      toast(t("document.did_retry"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
    await this.#reload();
  }

  /** @param {string} act */
  async #act(act) {
    if (act === "retry") return this.#retry();
    const answer = await confirm({ title: t(`document.ask_${act}`), text: t(`document.about_${act}`), action: t(`document.do_${act}`), ...(act === "cancel" && { danger: true, dismiss: t("shell.dont_cancel") }) });
    if (answer === null) return;
    const query = { why: answer.why };
    try {
      if (act === "cancel") await send("DELETE", this.path, { query });
      else await send("POST", `${this.path}/${act}`, { query });
      if (act === "expedite") toastWithUndo(t("document.did_expedite"), () => this.#undoExpedite());
      else toast(t(`document.did_${act}`));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
    await this.#reload();
  }
}
