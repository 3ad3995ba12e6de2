// The form that changes the policy. What was typed outlives leaving the page; changes made elsewhere never overwrite it.

import { ApiError, ignoreRequestError, send } from "../../api.js";
import { el, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { mayOperate } from "../../session.js";
import { openDialog } from "../../components/dialog.js";
import { textArea } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { banner } from "../../components/placeholders.js";
import { toast } from "../../components/toast.js";
import { isSame } from "./description.js";
import { differenceTable } from "./difference.js";
import { PolicyForm } from "./form.js";

/** @import { NamedPolicy } from "./difference.js" */

const CONFLICT_CODE = "version_conflict";
/**
 * What was typed and not put in force, {base, policy}: it outlives leaving the page.
 * @type {{ base: Api.PolicyVersion, policy: Api.Policy } | null}
 */
let draft = null;
window.addEventListener("beforeunload", (event) => {
  if (draft !== null) event.preventDefault(); // the browser asks: closing the tab would lose it
});

export class PolicyEditor {
  #reload;
  #onChange;
  /** @type {Api.PolicyVersion} */
  #current;
  /** @type {Api.PolicyVersion} */
  #baseVersion;
  /** @type {PolicyForm} */
  form;

  /**
   * reload() fetches the versions and resolves with the one in force. onChange(policy, base) is called with what is typed, null if
   * it is invalid, and what was in force before.
   * @param {{ update: (policy: Api.Policy) => void }} drawing
   * @param {{ reload: () => Promise<unknown>, onChange: (policy: Api.Policy | null, base: Api.Policy) => void }} handlers
   */
  constructor(drawing, { reload, onChange }) {
    this.#reload = reload;
    this.#onChange = onChange;
    this.drawing = drawing;
    this.conflict = el("div", { "aria-live": "assertive" });
    this.save = el("button", { class: "button button-primary", type: "submit" }, t("policy.save"));
    this.discard = el("button", { class: "button", type: "button", on: { click: () => this.#begin(this.#current) } }, t("policy.discard"));
    this.state = el("p", { class: "muted", role: "status" });
    this.try = el("a", { class: "button", href: pageUrl("policy", {}, { tab: "try" }) }, t("policy.try"));
    this.fields = el("form", { novalidate: true, on: { submit: (event) => this.#submitted(event) } });
    this.node = panel(t("policy.change"), { hint: t("policy.change_hint") }, this.conflict, this.fields);
  }

  /**
   * Take the version in force. An untouched form shows it; an edited form shows the conflict.
   * @param {Api.PolicyVersion} version
   */
  onVersion(version) {
    this.#current = version;
    if (!mayOperate()) return;
    if (this.form === undefined) {
      const kept = draft;
      this.#baseVersion = version;
      this.form = new PolicyForm(version.policy, (policy) => this.#changed(policy));
      fill(this.fields, this.form.node, el("div", { class: "policy-buttons" }, this.save, this.discard, this.try, this.state));
      this.#changed(version.policy);
      if (kept !== null) this.#restore(kept);
    } else if (version.version !== this.#baseVersion.version) {
      const typed = this.form.value();
      if (typed !== null && (isSame(typed, this.#baseVersion.policy) || isSame(typed, version.policy))) this.#begin(version);
      else this.#showConflict(typed);
    }
  }

  /**
   * Put back what was typed before the page was left; a version saved meanwhile is shown as a conflict.
   * @param {NonNullable<typeof draft>} kept
   */
  #restore({ base, policy }) {
    const current = this.#current;
    this.#baseVersion = base;
    this.form.set(policy);
    if (base.version !== current.version) this.onVersion(current);
  }

  /** @param {Api.PolicyVersion} version */
  async rollBack(version) {
    const current = this.#current;
    /** @type {NamedPolicy[]} */
    const columns = [[t("policy.in_force"), current.policy], [t("policy.version", { version: version.version }), version.policy]];
    const why = await askReason(t("policy.roll_back_to", { version: version.version }), columns, t("policy.roll_back"));
    if (why !== null) await this.#put(version.policy, why, current.version);
  }

  /** @param {Api.PolicyVersion} version */
  #begin(version) {
    draft = null;
    this.#baseVersion = version;
    fill(this.conflict);
    this.form.set(version.policy);
  }

  /** @param {Api.Policy | null} policy */
  #changed(policy) {
    if (this.form === undefined) return; // the form is being built
    const hasChanged = policy === null || !isSame(policy, this.#baseVersion.policy);
    this.save.disabled = !hasChanged;
    this.discard.disabled = !hasChanged;
    fill(this.state, policy === null ? t("policy.is_wrong") : hasChanged ? t("policy.is_changed") : "");
    if (policy !== null) {
      draft = hasChanged ? { base: this.#baseVersion, policy } : null;
      this.drawing.update(policy);
    }
    this.#onChange(policy, this.#baseVersion.policy);
  }

  /** @param {Event} event */
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

  /**
   * @param {Api.Policy} policy
   * @param {string} why
   * @param {number} expected
   */
  async #put(policy, why, expected) {
    try {
      const saved = await send("PUT", "/v1/policy", { body: { policy, expected }, query: { why } });
      toast(t("policy.saved", { version: saved.version }));
      await this.#reload().catch(ignoreRequestError);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
      if (error.code === CONFLICT_CODE) await this.#reload().catch(ignoreRequestError);
      return false;
    }
  }

  /**
   * Show the version saved meanwhile beside the typed values, with a button for either.
   * @param {Api.Policy | null} typed
   */
  #showConflict(typed) {
    const [theirs, began] = [this.#current, this.#baseVersion];
    /** @type {NamedPolicy[]} */
    const columns = [[t("policy.began_with", { version: began.version }), began.policy], [t("policy.theirs", { version: theirs.version }), theirs.policy]];
    if (typed !== null) columns.push([t("policy.yours"), typed]);
    const keep = () => {
      this.#baseVersion = this.#current;
      fill(this.conflict);
      this.#changed(this.form.value());
    };
    const button = (/** @type {string} */ text, /** @type {() => unknown} */ call) => el("button", { class: "button button-small", type: "button", on: { click: call } }, text);
    const message = t("policy.conflict", { version: theirs.version, operator: theirs.operator });
    fill(
      this.conflict,
      banner(theirs.why ? `${message} ${t("policy.because", { why: theirs.why })}` : message, { kind: "warn" }),
      differenceTable(t("policy.compare"), columns),
      el("div", { class: "policy-buttons" }, button(t("policy.take_theirs"), () => this.#begin(this.#current)), button(t("policy.keep_mine"), keep)),
    );
  }
}

/**
 * Show the changes and ask for a reason, which is required. Resolves with null if cancelled.
 * @param {string} title
 * @param {NamedPolicy[]} columns
 * @param {string} action
 */
function askReason(title, columns, action) {
  return openDialog(title, (close) => {
    const reason = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000, required: true });
    const submit = (/** @type {Event} */ event) => {
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
