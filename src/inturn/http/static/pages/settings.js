// How the page looks, who looks at it, what the server takes, and the switch for the whole queue.

import { get, send } from "../api.js";
import { el, fill } from "../dom.js";
import { bytes, number } from "../format.js";
import { t } from "../i18n.js";
import { to } from "../routes.js";
import { current, mayOperate, seesAll, who } from "../session.js";
import { panel } from "../components/panel.js";
import { languageChoice, themeChoice } from "../components/choices.js";
import { confirm } from "../components/dialog.js";
import { readOnlyNote, select } from "../components/fields.js";
import { toast } from "../components/toast.js";

export async function mount(view) {
  const [{ limits, version }, queue] = await Promise.all([get("/v1/server", { signal: view.signal }), seesAll() ? get("/v1/queue", { signal: view.signal }) : null]);
  const whole = queue === null ? null : new Whole(view, queue);
  fill(view.root, el("div", { class: "settings-column" }, whole?.node, look()), el("div", { class: "settings-column" }, person(), server(version), taken(limits)));
}

function look() {
  const fields = [
    ["language", languageChoice(), t("shell.language")],
    ["theme", themeChoice(), t("shell.theme")],
  ].map(([name, { options, value, pick }, label]) => {
    const field = select({ label, options, value, data: { choice: name } });
    field.input.addEventListener("change", () => pick(field.input));
    return field.node;
  });
  return panel(t("settings.look"), { hint: t("settings.look_hint") }, el("div", { class: "form" }, fields));
}

function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined);
  return el("dl", { class: "settings-facts" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function person() {
  const { name, scope, customer, key } = who();
  const rows = [
    [t("settings.name"), name],
    [t("settings.scope"), t(`shell.scope_${scope.replace("-", "_")}`)],
    [t("settings.customer"), customer && el("a", { href: to("customer", { name: customer }) }, customer)],
    [t("settings.key"), key === null ? t("settings.no_key") : el("span", { class: "mono" }, key)],
  ];
  return panel(t("settings.you"), {}, facts(rows), !who().acts && readOnlyNote());
}

function server(version) {
  const rows = [
    [t("settings.version"), version],
    [t("settings.queue"), current().queue],
    [t("settings.address"), location.origin],
  ];
  return panel(t("settings.server"), {}, facts(rows));
}

/** Limits are set in units of 1,024, and shown as they were set. */
function size(value) {
  return bytes(value * (1_000 / 1_024) ** Math.floor(Math.log2(value) / 10));
}

function taken(limits) {
  const rows = [
    [t("settings.limit_file"), size(limits.file)],
    [t("settings.limit_body"), size(limits.body)],
    [t("settings.limit_files"), number(limits.files)],
    [t("settings.limit_requests"), t("settings.requests", { rate: number(limits.per_second), burst: number(limits.burst) })],
    [t("settings.limit_waiting"), number(limits.waiting)],
    [t("settings.limit_stored"), size(limits.stored)],
  ];
  return panel(t("settings.limits"), { hint: t("settings.limits_hint") }, facts(rows));
}

/** Paused or not, by whom, and the button that changes it. */
class Whole {
  constructor(view, queue) {
    this.view = view;
    this.told = el("div", { class: "form", role: "status" });
    this.button = el("button", { class: "button", type: "button", on: { click: () => this.#change() } });
    this.node = panel(t("settings.whole"), {}, el("div", { class: "form" }, this.told, mayOperate() && el("div", {}, this.button)));
    this.#show(queue);
    view.listen(["queue_paused", "queue_resumed"], () => this.#look(), 200);
  }

  #show({ paused }) {
    this.paused = paused;
    const by = paused && el("p", { class: "settings-paused" }, t("settings.paused_by", { name: paused.operator, why: paused.why || "–" }));
    fill(this.told, by, el("p", {}, paused ? t("settings.paused") : t("settings.runs")));
    this.button.textContent = paused ? t("settings.resume") : t("settings.pause");
  }

  async #look() {
    try {
      this.#show(await get("/v1/queue", { signal: this.view.signal }));
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong; // the live mark tells of the rest
    }
  }

  async #change() {
    const [title, words, verb, done] = this.paused
      ? [t("settings.resume"), t("settings.resume_text"), "resume", t("settings.now_runs")]
      : [t("settings.pause"), t("settings.pause_text"), "pause", t("settings.now_paused")];
    const answer = await confirm({ title, text: words, action: title, danger: verb === "pause" });
    if (answer === null) return;
    try {
      this.#show(await send("POST", `/v1/queue/${verb}`, { query: { why: answer.why } }));
      toast(done);
    } catch (wrong) {
      toast(wrong.message, { kind: "error" });
    }
  }
}
