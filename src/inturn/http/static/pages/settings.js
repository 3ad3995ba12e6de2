// The settings page: appearance, account, server, limits, and pausing the whole queue.

import { ApiError, get, ignoreRequestError, send } from "../api.js";
import { el, fill } from "../dom.js";
import { formatLimit, number } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { currentSession, currentUser, mayOperate, seesAll } from "../session.js";
import { appearanceChoices } from "../components/choices.js";
import { confirm } from "../components/dialog.js";
import { readOnlyNote, selectField } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { requireUnchanged, toast, toastWithUndo } from "../components/toast.js";

/** @import { View } from "../router.js" */
/** @import { Child } from "../dom.js" */

/** @import { User } from "../session.js" */

/** @param {View} view */
export async function mount(view) {
  const [{ limits, version }, queue] = await Promise.all([get("/v1/server", { signal: view.signal }), seesAll() ? get("/v1/queue", { signal: view.signal }) : null]);
  const queuePanel = queue === null ? null : new QueuePanel(view, queue);
  fill(view.root, el("div", { class: "settings-column" }, queuePanel?.node, appearancePanel()), el("div", { class: "settings-column" }, accountPanel(), serverPanel(version), limitsPanel(limits)));
}

function appearancePanel() {
  const fields = appearanceChoices().map(({ name, label, options, value, pick }) => {
    const field = selectField({ label, options, value, data: { choice: name } });
    const choose = async () => {
      await pick(field.input.value);
      /** @type {HTMLElement | null} */ (document.querySelector(`.page [data-choice=${name}]`))?.focus(); // another language makes the page anew
    };
    field.input.addEventListener("change", () => void choose());
    return field.node;
  });
  return panel(t("settings.look"), { hint: t("settings.look_hint") }, el("div", { class: "form" }, fields));
}

/** @param {[name: string, value: Child][]} rows */
function definitionList(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined);
  return el("dl", { class: "settings-details" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function accountPanel() {
  const { name, scope, customer, key, acts } = /** @type {User} */ (currentUser());
  /** @type {[string, Child][]} */
  const rows = [
    [t("settings.name"), name],
    [t("settings.scope"), t(`shell.scope_${scope.replace("-", "_")}`)],
    [t("settings.customer"), customer && el("a", { href: pageUrl("customer", { name: customer }) }, customer)],
    [t("settings.key"), key === null ? t("settings.no_key") : el("span", { class: "mono" }, key)],
  ];
  return panel(t("settings.you"), {}, definitionList(rows), !acts && readOnlyNote());
}

/** @param {string | null} version */
function serverPanel(version) {
  /** @type {[string, Child][]} */
  const rows = [
    [t("settings.version"), version],
    [t("settings.queue"), currentSession().queue],
    [t("settings.address"), location.origin],
  ];
  return panel(t("settings.server"), {}, definitionList(rows));
}

/** @param {Api.Limits} limits */
function limitsPanel(limits) {
  /** @type {[string, Child][]} */
  const rows = [
    [t("settings.limit_file"), formatLimit(limits.file)],
    [t("settings.limit_body"), formatLimit(limits.body)],
    [t("settings.limit_files"), number(limits.files)],
    [t("settings.limit_requests"), t("settings.requests", { rate: number(limits.per_second), burst: number(limits.burst) })],
    [t("settings.limit_waiting"), number(limits.waiting)],
    [t("settings.limit_stored"), formatLimit(limits.stored)],
  ];
  return panel(t("settings.limits"), { hint: t("settings.limits_hint") }, definitionList(rows));
}

/** Whether the queue is paused and by whom, and the button to change it. */
class QueuePanel {
  /**
   * @param {View} view
   * @param {Api.Queue} queue
   */
  constructor(view, queue) {
    this.view = view;
    this.statusBox = el("div", { class: "form", role: "status" });
    this.button = el("button", { class: "button", type: "button", on: { click: () => this.#change() } });
    this.node = panel(t("settings.whole"), {}, el("div", { class: "form" }, this.statusBox, mayOperate() && el("div", {}, this.button)));
    this.#show(queue);
    view.listen(["queue_paused", "queue_resumed"], () => this.#reload(), 200);
  }

  /** @param {Api.Queue} queue */
  #show({ paused }) {
    this.paused = paused;
    const by = paused && el("p", { class: "settings-paused" }, t("settings.paused_by", { name: paused.operator, why: paused.why || "–" }));
    fill(this.statusBox, by, el("p", {}, paused ? t("settings.paused") : t("settings.runs")));
    this.button.textContent = paused ? t("settings.resume") : t("settings.pause");
  }

  async #reload() {
    try {
      this.#show(await get("/v1/queue", { signal: this.view.signal }));
    } catch (error) {
      ignoreRequestError(error); // the status indicator shows an offline server
    }
  }

  async #change() {
    const [title, words, verb, done] = this.paused
      ? [t("settings.resume"), t("settings.resume_text"), "resume", t("settings.now_runs")]
      : [t("settings.pause"), t("settings.pause_text"), "pause", t("settings.now_paused")];
    const answer = await confirm({ title, text: words, action: title, danger: verb === "pause" });
    if (answer === null) return;
    const before = this.paused;
    try {
      const left = await send("POST", `/v1/queue/${verb}`, { query: { why: answer.why } });
      this.#show(left);
      toastWithUndo(done, async () => {
        requireUnchanged(await get("/v1/queue"), left);
        this.#show(await (before ? send("POST", "/v1/queue/pause", { query: { why: before.why } }) : send("POST", "/v1/queue/resume")));
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }
}
