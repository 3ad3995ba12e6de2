// The policy in force, another one tried on what really came, and the versions before.

import { get, send } from "../api.js";
import { el, fill } from "../dom.js";
import { durationInWords, time } from "../format.js";
import { t } from "../i18n.js";
import { mayOperate } from "../session.js";
import { counterDrawing } from "../components/counter_chart.js";
import { panel } from "../components/panel.js";
import { ask } from "../components/dialog.js";
import { area } from "../components/fields.js";
import { banner } from "../components/placeholders.js";
import { toast } from "../components/toast.js";
import { differenceTable } from "./policy/difference.js";
import { PolicyForm } from "./policy/form.js";
import { Judging } from "./policy/evaluation.js";
import { Preview } from "./policy/preview.js";
import { Versions } from "./policy/versions.js";
import { isSame, sentences } from "./policy/description.js";

const COLUMNS = 60;
const CONFLICT = "version_conflict";

export async function mount(view) {
  const words = new Words();
  const drawing = new LevelsDrawing();
  const judging = new Judging(view);
  const versions = new Versions(view, { onRollBack: (version) => editor.rollBack(version), onJudge: (version) => judging.judge(version) });
  const editor = new Editor(view, drawing, look);
  let found = [];

  async function look() {
    ({ versions: found } = await get("/v1/policy/versions", { signal: view.signal }));
    words.update(found[0]);
    versions.update(found);
    editor.heard(found[0]);
    if (!mayOperate()) drawing.update(found[0].policy);
    return found[0];
  }

  await look();
  view.listen(["policy_set"], () => look().catch(forgiven));
  const sides = mayOperate() ? [editor.node, drawing.node] : [drawing.node];
  fill(view.root, words.node, el("div", { class: "policy-sides" }, sides), mayOperate() && editor.preview.node, versions.node, judging.node);
  return { update: () => versions.compare() };
}

/** The live mark tells that the server does not answer; it will be asked again. */
function forgiven(wrong) {
  if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong;
}

class Words {
  constructor() {
    this.about = el("p", { class: "muted words-about" });
    this.list = el("ul", { class: "words" });
    this.node = panel(t("policy.now"), { actions: this.about }, this.list);
  }

  update(version) {
    const why = version.why ? t("policy.because", { why: version.why }) : "";
    fill(this.about, t("policy.since", { version: version.version, time: time(version.at), operator: version.operator }), why && ` ${why}`);
    fill(this.list, sentences(version.policy).map((each) => el("li", {}, each)));
  }
}

/** A burst, and what comes after a pause. */
class LevelsDrawing {
  constructor() {
    this.drawing = counterDrawing();
    this.node = panel(t("policy.drawing"), { className: "policy-drawing", hint: t("policy.drawing_hint") }, this.drawing.node);
  }

  update({ thresholds, reset_interval: interval }) {
    const depth = 4 - thresholds.at(-1);
    const step = Math.max(1, Math.ceil(depth / COLUMNS));
    const checks = Array.from({ length: Math.floor(depth / step) + 1 }, (_, place) => ({ count: 0 - place * step, isReset: false }));
    const words = durationInWords(interval);
    const summary = t("policy.drawing_summary", { n: 1 - thresholds[0], from: 2 - thresholds.at(-1), last: thresholds.length + 1, interval: words });
    checks.push({ count: 0, isReset: true }, { count: -step, isReset: false });
    this.drawing.update({ checks, thresholds, depth, resetText: t("policy.drawing_reset", { interval: words }), summary });
  }
}

/** What was typed: nothing that happens elsewhere changes it. */
class Editor {
  #look;
  #current = null;
  #began = null;

  /** look() asks for the versions anew, and gives the one in force. */
  constructor(view, drawing, look) {
    this.#look = look;
    this.drawing = drawing;
    this.conflict = el("div", { "aria-live": "assertive" });
    this.save = el("button", { class: "button button-primary", type: "submit" }, t("policy.save"));
    this.discard = el("button", { class: "button", type: "button", on: { click: () => this.#begin(this.#current) } }, t("policy.discard"));
    this.state = el("p", { class: "muted", role: "status" });
    this.preview = new Preview(view, () => this.form.value());
    this.fields = el("form", { novalidate: true, on: { submit: (event) => this.#submitted(event) } });
    this.node = panel(t("policy.change"), { hint: t("policy.change_hint") }, this.conflict, this.fields);
  }

  /** Versions were asked for: a form that nobody has touched follows, another one asks. */
  heard(version) {
    this.#current = version;
    if (!mayOperate()) return;
    if (this.form === undefined) {
      this.#began = version;
      this.form = new PolicyForm(version.policy, (policy) => this.#changed(policy));
      fill(this.fields, this.form.node, el("div", { class: "policy-buttons" }, this.save, this.discard, this.state));
      this.#changed(version.policy);
    } else if (version.version !== this.#began.version) {
      const typed = this.form.value();
      if (typed !== null && (isSame(typed, this.#began.policy) || isSame(typed, version.policy))) this.#begin(version);
      else this.#tellConflict(typed);
    }
  }

  async rollBack(version) {
    const current = this.#current;
    const columns = [[t("policy.in_force"), current.policy], [t("policy.version", { version: version.version }), version.policy]];
    const why = await askWhy(t("policy.roll_back_to", { version: version.version }), columns, t("policy.roll_back"));
    if (why !== null) await this.#put(version.policy, why, current.version);
  }

  #begin(version) {
    this.#began = version;
    fill(this.conflict);
    this.form.set(version.policy);
  }

  #changed(policy) {
    if (this.form === undefined) return; // its first values
    const hasChanged = policy === null || !isSame(policy, this.#began.policy);
    this.save.disabled = !hasChanged;
    this.discard.disabled = !hasChanged;
    fill(this.state, policy === null ? t("policy.is_wrong") : hasChanged ? t("policy.is_changed") : "");
    if (policy !== null) this.drawing.update(policy);
    this.preview.changed(policy);
  }

  async #submitted(event) {
    event.preventDefault();
    const policy = this.form.value();
    if (policy === null) {
      this.form.focusWrong();
      return;
    }
    const began = this.#began;
    const why = await askWhy(t("policy.save_title"), [[t("policy.in_force"), began.policy], [t("policy.as_typed"), policy]], t("policy.save"));
    if (why !== null && (await this.#put(policy, why, began.version))) this.#begin(this.#current);
  }

  async #put(policy, why, expected) {
    try {
      const made = await send("PUT", "/v1/policy", { body: { policy, expected }, query: { why } });
      toast(t("policy.saved", { version: made.version }));
      await this.#look().catch(forgiven);
      return true;
    } catch (wrong) {
      toast(wrong.message, { kind: "error" });
      if (wrong.code === CONFLICT) await this.#look().catch(forgiven);
      return false;
    }
  }

  /** Somebody else was faster: nothing of theirs or ours is lost without a word. */
  #tellConflict(typed) {
    const [theirs, began] = [this.#current, this.#began];
    const columns = [[t("policy.began_with", { version: began.version }), began.policy], [t("policy.theirs", { version: theirs.version }), theirs.policy]];
    if (typed !== null) columns.push([t("policy.yours"), typed]);
    const keep = () => {
      this.#began = this.#current;
      fill(this.conflict);
      this.#changed(this.form.value());
    };
    const button = (text, call) => el("button", { class: "button button-small", type: "button", on: { click: call } }, text);
    const told = t("policy.conflict", { version: theirs.version, operator: theirs.operator });
    fill(
      this.conflict,
      banner(theirs.why ? `${told} ${t("policy.because", { why: theirs.why })}` : told, { kind: "warn" }),
      differenceTable(t("policy.compare"), columns),
      el("div", { class: "policy-buttons" }, button(t("policy.take_theirs"), () => this.#begin(this.#current)), button(t("policy.keep_mine"), keep)),
    );
  }
}

/** What will change, and why; null if it is not to be done. A policy needs a reason. */
function askWhy(title, columns, action) {
  return ask(title, (close) => {
    const reason = area({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000, required: true });
    const submit = (event) => {
      event.preventDefault();
      const why = reason.input.value.trim();
      if (why !== "") close(why);
      else {
        reason.setError(t("policy.error_why"));
        reason.input.focus();
      }
    };
    const buttons = el(
      "div",
      { class: "dialog-buttons" },
      el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel")),
      el("button", { class: "button button-primary", type: "submit" }, action),
    );
    return el("form", { class: "form", novalidate: true, on: { submit } }, differenceTable(title, columns), reason.node, buttons);
  });
}
