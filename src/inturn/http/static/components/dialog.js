// Modal dialogs.

import { el, newId } from "../dom.js";
import { t } from "../i18n.js";
import { textArea, textField } from "./fields.js";

/**
 * Open a modal dialog with the content of make(close). Resolves with the argument of close(value), or null after Escape.
 * With `persistent` neither Escape nor a click on the backdrop closes it: for content that cannot be shown again.
 * @template T
 * @param {string} title
 * @param {(close: (value: T | null) => void) => import("../dom.js").Child} make
 * @returns {Promise<T | null>}
 */
export function openDialog(title, make, { persistent = false } = {}) {
  return new Promise((resolve) => {
    const id = newId("dialog");
    /** @type {T | null} */
    let answer = null;
    const close = (/** @type {T | null} */ value) => {
      answer = value;
      node.close();
    };
    const node = el("dialog", { class: "dialog", "aria-labelledby": id }, el("h2", { id }, title), make(close));
    node.addEventListener("close", () => {
      node.remove();
      resolve(answer);
    });
    node.addEventListener("click", (event) => {
      if (event.target === node && !persistent) close(null); // on the backdrop
    });
    node.addEventListener("cancel", (event) => {
      if (persistent) event.preventDefault();
    });
    document.body.append(node);
    node.showModal();
  });
}

/**
 * Confirm an action. `why` asks for a reason, for the audit log. `typed` is a text to type first, for actions that cannot
 * be undone. `dismiss` names the other button where "Cancel" could mean the action. `choice` is a field above the reason.
 * Resolves with {why}, or null if dismissed.
 * @param {{ title: string, text?: string | null, action: string, dismiss?: string, danger?: boolean, why?: boolean, typed?: string | null, choice?: import("../dom.js").Child }} options
 * @returns {Promise<{ why: string } | null>}
 */
export function confirm({ title, text, action, dismiss = t("shell.cancel"), danger = false, why = true, typed = null, choice = null }) {
  return openDialog(title, (close) => {
    const reason = why ? textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 }) : null;
    const repeated = typed === null ? null : textField({ label: t("shell.type_to_confirm", { text: typed }), autocomplete: "off" });
    const go = el("button", { class: `button ${danger ? "button-danger" : "button-primary"}`, type: "submit" }, action);
    if (repeated !== null) {
      go.disabled = true;
      repeated.input.addEventListener("input", () => {
        go.disabled = repeated.input.value !== typed;
      });
    }
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      close({ why: reason?.input.value.trim() ?? "" });
    };
    return el(
      "form",
      { class: "form", method: "dialog", on: { submit } },
      text && el("p", {}, text),
      choice,
      repeated?.node,
      reason?.node,
      el(
        "div",
        { class: "dialog-buttons" },
        el("button", { class: "button", type: "button", on: { click: () => close(null) } }, dismiss),
        go,
      ),
    );
  });
}
