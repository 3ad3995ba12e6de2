// One document: what it is doing and why, what happened to it, and what came of it. Looked at again when something
// happens to it; while it waits, its place is asked for now and then, since others move it on.

import { get, send } from "../api.js";
import { el, fill } from "../dom.js";
import { t } from "../i18n.js";
import { to } from "../routes.js";
import { mayAct, mayOperate } from "../session.js";
import { confirm } from "../components/dialog.js";
import { icon } from "../components/icons.js";
import { empty } from "../components/placeholders.js";
import { toast } from "../components/toast.js";
import { Facts, LevelPart, Metadata } from "./document/details.js";
import { TimeLine } from "./document/timeline.js";
import { Now } from "./document/status.js";
import { Result } from "./document/result.js";

const CANCELLABLE = ["waiting", "running", "delayed"];
const RETRYABLE = ["failed", "cancelled", "expired"];
const PLACE_EVERY = 5_000;
const PROGRESS_EVERY = 2_000;

export async function mount(view) {
  const page = new DocumentPage(view);
  await page.look();
  page.begin();
  fill(view.root, page.node);
  return {};
}

class DocumentPage {
  #view;
  #found = null;
  #why = null;
  #life = null;
  #isLooking = false;
  #isWanted = false;

  constructor(view) {
    this.#view = view;
    this.path = `/v1/documents/${encodeURIComponent(view.params.id)}`;
    this.now = new Now();
    this.level = new LevelPart();
    this.life = new TimeLine();
    this.result = new Result(view, this.path);
    this.facts = new Facts();
    this.metadata = new Metadata();
    this.node = el(
      "div",
      { class: "document-columns" },
      el("div", { class: "document-column" }, this.now.node, this.result.node, this.life.node),
      el("div", { class: "document-column" }, this.level.node, this.facts.node, this.metadata.node),
    );
  }

  /** Everything at once: the three answers belong together. */
  async look() {
    const { signal } = this.#view;
    const [found, why, life] = await Promise.all([get(this.path, { signal }), get(`${this.path}/why`, { signal }), get(`${this.path}/life`, { signal })]);
    this.#found = found;
    this.#why = why;
    this.#life = life;
    this.#draw();
    await this.result.follow(found);
  }

  begin() {
    const view = this.#view;
    const isOurs = (each) => each.kind === "reset" || each.documents?.includes(this.#found.id);
    view.listen("*", (events) => {
      if (events.some(isOurs)) this.#again();
      else if (events.some((each) => ["queue_paused", "queue_resumed", "customer_changed"].includes(each.kind))) this.#askWhy();
      else if (events.some((each) => each.kind === "purged" && each.customer === this.#found.customer)) this.#again();
    });
    view.every(PLACE_EVERY, () => {
      if (this.#found.state === "waiting") this.#askWhy();
    });
    view.every(PROGRESS_EVERY, () => {
      if (this.#found.state === "running") this.#askLife();
    });
    view.every(1_000, () => this.now.tick());
  }

  /** Once more, and after that once more if something happened meanwhile. */
  async #again() {
    this.#isWanted = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      while (this.#isWanted) {
        this.#isWanted = false;
        await this.look();
      }
    } catch (wrong) {
      if (wrong.code === "not_found") this.#gone();
      else if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong; // the live mark tells of the rest
    } finally {
      this.#isLooking = false;
    }
  }

  async #askWhy() {
    await this.#ask("why", (why) => {
      this.#why = why;
    });
  }

  async #askLife() {
    await this.#ask("life", (life) => {
      this.#life = life;
    });
  }

  async #ask(what, take) {
    if (this.#isLooking) return;
    try {
      take(await get(`${this.path}/${what}`, { signal: this.#view.signal }));
      this.#draw();
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong;
    }
  }

  #gone() {
    this.#view.setActions();
    fill(this.#view.root, empty(t("document.deleted"), t("document.deleted_hint"), el("a", { class: "button", href: to("documents") }, t("documents.title"))));
  }

  #draw() {
    this.#view.setTitle(this.#found.name);
    this.#actions();
    this.now.update(this.#found, this.#why, this.#life);
    this.level.update(this.#found, this.#why);
    this.life.update(this.#found, this.#life);
    this.facts.update(this.#found);
    this.metadata.update(this.#found);
  }

  #actions() {
    const { state, expedited, size, uri, name } = this.#found;
    const key = `${state} ${expedited}`;
    if (key === this.shownActions) return; // a button may have the focus
    this.shownActions = key;
    const acting = document.activeElement?.closest?.(".title-actions") !== null && document.activeElement !== null;
    const button = (act, label) => el("button", { class: "button", type: "button", on: { click: () => this.#act(act) } }, label);
    this.#view.setActions(
      size !== null && uri === null && el("a", { class: "button", href: `${this.path}/content`, download: name }, icon("down"), t("document.download")),
      mayOperate() && !expedited && ["waiting", "delayed"].includes(state) && button("expedite", t("document.do_expedite")),
      mayAct() && RETRYABLE.includes(state) && button("retry", t("document.do_retry")),
      mayAct() && CANCELLABLE.includes(state) && button("cancel", t("document.do_cancel")),
    );
    if (acting) document.querySelector(".title-actions button, .title")?.focus({ preventScroll: true });
  }

  async #act(act) {
    const answer = await confirm({ title: t(`document.ask_${act}`), text: t(`document.about_${act}`), action: t(`document.go_${act}`), danger: act === "cancel" });
    if (answer === null) return;
    const query = { why: answer.why };
    try {
      if (act === "cancel") await send("DELETE", this.path, { query });
      else await send("POST", `${this.path}/${act}`, { query });
      toast(t(`document.did_${act}`));
    } catch (wrong) {
      if (wrong.code === undefined) throw wrong;
      toast(wrong.message, { kind: "error" });
    }
    await this.#again();
  }
}
