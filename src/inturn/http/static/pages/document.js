// One document: status, level, timeline, result and details. Reloaded after events of the document; while it waits, its
// position is fetched every POSITION_INTERVAL_MS, since other documents change it without an event.

import { get, send } from "../api.js";
import { el, fill } from "../dom.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayAct, mayOperate } from "../session.js";
import { confirm } from "../components/dialog.js";
import { icon } from "../components/icons.js";
import { emptyState } from "../components/placeholders.js";
import { toast } from "../components/toast.js";
import { DetailsPanel, LevelPanel, MetadataPanel } from "./document/details.js";
import { ResultPanel } from "./document/result.js";
import { StatusPanel } from "./document/status.js";
import { TimelinePanel } from "./document/timeline.js";

const CANCELLABLE = ["waiting", "running", "delayed"];
const RETRYABLE = ["failed", "cancelled", "expired"];
const POSITION_INTERVAL_MS = 5_000;
const PROGRESS_INTERVAL_MS = 2_000;

export async function mount(view) {
  const page = new DocumentPage(view);
  await page.load();
  page.begin();
  fill(view.root, page.node);
  return {};
}

class DocumentPage {
  #view;
  #document = null;
  #why = null;
  #timeline = null;
  #isLoading = false;
  #mustReload = false;

  constructor(view) {
    this.#view = view;
    this.path = `/v1/documents/${encodeURIComponent(view.params.id)}`;
    this.status = new StatusPanel();
    this.level = new LevelPanel();
    this.timeline = new TimelinePanel();
    this.result = new ResultPanel(view, this.path);
    this.details = new DetailsPanel();
    this.metadata = new MetadataPanel();
    this.node = el(
      "div",
      { class: "document-columns" },
      el("div", { class: "document-column" }, this.status.node, this.result.node, this.timeline.node),
      el("div", { class: "document-column" }, this.level.node, this.details.node, this.metadata.node),
    );
  }

  /** Fetch all three parts and show them together. */
  async load() {
    const { signal } = this.#view;
    const [doc, why, timeline] = await Promise.all([get(this.path, { signal }), get(`${this.path}/why`, { signal }), get(`${this.path}/timeline`, { signal })]);
    this.#document = doc;
    this.#why = why;
    this.#timeline = timeline;
    this.#draw();
    await this.result.follow(doc);
  }

  begin() {
    const view = this.#view;
    const isOurs = (event) => event.kind === "reset" || event.documents?.includes(this.#document.id);
    view.listen("*", (events) => {
      if (events.some(isOurs)) this.#reload();
      else if (events.some((event) => ["queue_paused", "queue_resumed", "customer_changed"].includes(event.kind))) this.#fetchWhy();
      else if (events.some((event) => event.kind === "purged" && event.customer === this.#document.customer)) this.#reload();
    });
    view.every(POSITION_INTERVAL_MS, () => {
      if (this.#document.state === "waiting") this.#fetchWhy();
    });
    view.every(PROGRESS_INTERVAL_MS, () => {
      if (this.#document.state === "running") this.#fetchTimeline();
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
      if (error.code === "not_found") this.#showDeleted();
      else if (error.code === undefined && error.name !== "AbortError") throw error; // the status indicator shows an offline server
    } finally {
      this.#isLoading = false;
    }
  }

  async #fetchWhy() {
    await this.#fetchPart("why", (why) => {
      this.#why = why;
    });
  }

  async #fetchTimeline() {
    await this.#fetchPart("timeline", (timeline) => {
      this.#timeline = timeline;
    });
  }

  async #fetchPart(what, take) {
    if (this.#isLoading) return;
    try {
      take(await get(`${this.path}/${what}`, { signal: this.#view.signal }));
      this.#draw();
    } catch (error) {
      if (error.code === undefined && error.name !== "AbortError") throw error;
    }
  }

  #showDeleted() {
    this.#view.setActions();
    fill(this.#view.root, emptyState(t("document.deleted"), t("document.deleted_hint"), el("a", { class: "button", href: pageUrl("documents") }, t("documents.title"))));
  }

  #draw() {
    this.#view.setTitle(this.#document.name);
    this.#actions();
    this.status.update(this.#document, this.#why, this.#timeline);
    this.level.update(this.#document, this.#why);
    this.timeline.update(this.#document, this.#timeline);
    this.details.update(this.#document);
    this.metadata.update(this.#document);
  }

  #actions() {
    const { state, expedited, size, uri, name } = this.#document;
    const key = `${state} ${expedited}`;
    if (key === this.shownActions) return; // redrawing would take the focus from a button
    this.shownActions = key;
    const hadFocus = document.activeElement?.closest?.(".title-actions") !== null && document.activeElement !== null;
    const button = (act, label) => el("button", { class: "button", type: "button", on: { click: () => this.#act(act) } }, label);
    this.#view.setActions(
      size !== null && uri === null && el("a", { class: "button", href: `${this.path}/content`, download: name }, icon("down"), t("document.download")),
      mayOperate() && !expedited && ["waiting", "delayed"].includes(state) && button("expedite", t("document.do_expedite")),
      mayAct() && RETRYABLE.includes(state) && button("retry", t("document.do_retry")),
      mayAct() && CANCELLABLE.includes(state) && button("cancel", t("document.do_cancel")),
    );
    if (hadFocus) document.querySelector(".title-actions button, .title")?.focus({ preventScroll: true });
  }

  async #act(act) {
    const answer = await confirm({ title: t(`document.ask_${act}`), text: t(`document.about_${act}`), action: t(`document.go_${act}`), danger: act === "cancel" });
    if (answer === null) return;
    const query = { why: answer.why };
    try {
      if (act === "cancel") await send("DELETE", this.path, { query });
      else await send("POST", `${this.path}/${act}`, { query });
      toast(t(`document.did_${act}`));
    } catch (error) {
      if (error.code === undefined) throw error;
      toast(error.message, { kind: "error" });
    }
    await this.#reload();
  }
}
