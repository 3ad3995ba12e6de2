// The policy in force, a form to change it with a preview on real documents, and its versions.

import { get, send } from "../api.js";
import { el, fill } from "../dom.js";
import { durationInWords, time } from "../format.js";
import { t } from "../i18n.js";
import { mayOperate } from "../session.js";
import { counterChart } from "../components/counter_chart.js";
import { openDialog } from "../components/dialog.js";
import { textArea } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { banner } from "../components/placeholders.js";
import { toast } from "../components/toast.js";
import { describePolicy, isSame } from "./policy/description.js";
import { differenceTable } from "./policy/difference.js";
import { EvaluationPanel } from "./policy/evaluation.js";
import { PolicyForm } from "./policy/form.js";
import { Preview } from "./policy/preview.js";
import { Versions } from "./policy/versions.js";

const MAX_CHART_COLUMNS = 60;
const CONFLICT_CODE = "version_conflict";

export async function mount(view) {
  const summary = new PolicySummary();
  const drawing = new LevelsChart();
  const judging = new EvaluationPanel(view);
  const versions = new Versions(view, { onRollBack: (version) => editor.rollBack(version), onJudge: (version) => judging.evaluate(version) });
  const editor = new PolicyEditor(view, drawing, load);
  let versionList = [];

  async function load() {
    ({ versions: versionList } = await get("/v1/policy/versions", { signal: view.signal }));
    summary.update(versionList[0]);
    versions.update(versionList);
    editor.onVersion(versionList[0]);
    if (!mayOperate()) drawing.update(versionList[0].policy);
    return versionList[0];
  }

  await load();
  view.listen(["policy_set"], () => load().catch(ignoreRequestError));
  const sides = mayOperate() ? [editor.node, drawing.node] : [drawing.node];
  fill(view.root, summary.node, el("div", { class: "policy-sides" }, sides), mayOperate() && editor.preview.node, versions.node, judging.node);
  return { update: () => versions.compare() };
}

/** Ignore an API error: the status indicator shows an offline server, and the next event loads again. */
function ignoreRequestError(error) {
  if (error.code === undefined && error.name !== "AbortError") throw error;
}

class PolicySummary {
  constructor() {
    this.about = el("p", { class: "muted words-about" });
    this.list = el("ul", { class: "words" });
    this.node = panel(t("policy.now"), { actions: this.about }, this.list);
  }

  update(version) {
    const why = version.why ? t("policy.because", { why: version.why }) : "";
    fill(this.about, t("policy.since", { version: version.version, time: time(version.at), operator: version.operator }), why && ` ${why}`);
    fill(this.list, describePolicy(version.policy).map((sentence) => el("li", {}, sentence)));
  }
}

/** The levels of a burst, and of the first documents after the reset. */
class LevelsChart {
  constructor() {
    this.drawing = counterChart();
    this.node = panel(t("policy.drawing"), { className: "policy-chart", hint: t("policy.drawing_hint") }, this.drawing.node);
  }

  update({ thresholds, reset_interval: interval }) {
    const depth = 4 - thresholds.at(-1);
    const step = Math.max(1, Math.ceil(depth / MAX_CHART_COLUMNS));
    const checks = Array.from({ length: Math.floor(depth / step) + 1 }, (_, index) => ({ count: 0 - index * step, isReset: false }));
    const words = durationInWords(interval);
    const summary = t("policy.drawing_summary", { n: 1 - thresholds[0], from: 2 - thresholds.at(-1), last: thresholds.length + 1, interval: words });
    checks.push({ count: 0, isReset: true }, { count: -step, isReset: false });
    this.drawing.update({ checks, thresholds, depth, resetText: t("policy.drawing_reset", { interval: words }), summary });
  }
}

/** The form. Changes made elsewhere never overwrite typed values. */
class PolicyEditor {
  #reload;
  #current = null;
  #baseVersion = null;

  /** reload() fetches the versions and resolves with the one in force. */
  constructor(view, drawing, reload) {
    this.#reload = reload;
    this.drawing = drawing;
    this.conflict = el("div", { "aria-live": "assertive" });
    this.save = el("button", { class: "button button-primary", type: "submit" }, t("policy.save"));
    this.discard = el("button", { class: "button", type: "button", on: { click: () => this.#begin(this.#current) } }, t("policy.discard"));
    this.state = el("p", { class: "muted", role: "status" });
    this.preview = new Preview(view, () => this.form.value());
    this.fields = el("form", { novalidate: true, on: { submit: (event) => this.#submitted(event) } });
    this.node = panel(t("policy.change"), { hint: t("policy.change_hint") }, this.conflict, this.fields);
  }

  /** Take the version in force. An untouched form shows it; an edited form shows the conflict. */
  onVersion(version) {
    this.#current = version;
    if (!mayOperate()) return;
    if (this.form === undefined) {
      this.#baseVersion = version;
      this.form = new PolicyForm(version.policy, (policy) => this.#changed(policy));
      fill(this.fields, this.form.node, el("div", { class: "policy-buttons" }, this.save, this.discard, this.state));
      this.#changed(version.policy);
    } else if (version.version !== this.#baseVersion.version) {
      const typed = this.form.value();
      if (typed !== null && (isSame(typed, this.#baseVersion.policy) || isSame(typed, version.policy))) this.#begin(version);
      else this.#showConflict(typed);
    }
  }

  async rollBack(version) {
    const current = this.#current;
    const columns = [[t("policy.in_force"), current.policy], [t("policy.version", { version: version.version }), version.policy]];
    const why = await askReason(t("policy.roll_back_to", { version: version.version }), columns, t("policy.roll_back"));
    if (why !== null) await this.#put(version.policy, why, current.version);
  }

  #begin(version) {
    this.#baseVersion = version;
    fill(this.conflict);
    this.form.set(version.policy);
  }

  #changed(policy) {
    if (this.form === undefined) return; // the form is being built
    const hasChanged = policy === null || !isSame(policy, this.#baseVersion.policy);
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
      this.form.focusFirstInvalid();
      return;
    }
    const began = this.#baseVersion;
    const why = await askReason(t("policy.save_title"), [[t("policy.in_force"), began.policy], [t("policy.as_typed"), policy]], t("policy.save"));
    if (why !== null && (await this.#put(policy, why, began.version))) this.#begin(this.#current);
  }

  async #put(policy, why, expected) {
    try {
      const saved = await send("PUT", "/v1/policy", { body: { policy, expected }, query: { why } });
      toast(t("policy.saved", { version: saved.version }));
      await this.#reload().catch(ignoreRequestError);
      return true;
    } catch (error) {
      toast(error.message, { kind: "error" });
      if (error.code === CONFLICT_CODE) await this.#reload().catch(ignoreRequestError);
      return false;
    }
  }

  /** Show the version saved meanwhile beside the typed values, with a button for either. */
  #showConflict(typed) {
    const [theirs, began] = [this.#current, this.#baseVersion];
    const columns = [[t("policy.began_with", { version: began.version }), began.policy], [t("policy.theirs", { version: theirs.version }), theirs.policy]];
    if (typed !== null) columns.push([t("policy.yours"), typed]);
    const keep = () => {
      this.#baseVersion = this.#current;
      fill(this.conflict);
      this.#changed(this.form.value());
    };
    const button = (text, call) => el("button", { class: "button button-small", type: "button", on: { click: call } }, text);
    const message = t("policy.conflict", { version: theirs.version, operator: theirs.operator });
    fill(
      this.conflict,
      banner(theirs.why ? `${message} ${t("policy.because", { why: theirs.why })}` : message, { kind: "warn" }),
      differenceTable(t("policy.compare"), columns),
      el("div", { class: "policy-buttons" }, button(t("policy.take_theirs"), () => this.#begin(this.#current)), button(t("policy.keep_mine"), keep)),
    );
  }
}

/** Show the changes and ask for a reason, which is required. Resolves with null if cancelled. */
function askReason(title, columns, action) {
  return openDialog(title, (close) => {
    const reason = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000, required: true });
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
