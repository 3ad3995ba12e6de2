// Questions that must be answered before something is done.

import { el, newId } from "../dom.js";
import { t } from "../i18n.js";
import { textArea, textField } from "./fields.js";

/**
 * A dialog with anything in it. Resolves with what `close(value)` was called with; null by Escape or Cancel. With `persistent`
 * neither Escape nor a click beside it closes it: for what cannot be seen again.
 */
export function openDialog(title, make, { persistent = false } = {}) {
  return new Promise((resolve) => {
    const id = newId("dialog");
    let answer = null;
    const close = (value) => {
      answer = value;
      node.close();
    };
    const node = el("dialog", { class: "dialog", "aria-labelledby": id }, el("h2", { id }, title), make(close));
    node.addEventListener("close", () => {
      node.remove();
      resolve(answer);
    });
    node.addEventListener("click", (event) => {
      if (event.target === node && !persistent) close(null); // beside it
    });
    node.addEventListener("cancel", (event) => {
      if (persistent) event.preventDefault();
    });
    document.body.append(node);
    node.showModal();
  });
}

/**
 * Confirm an action. `why` asks for a reason, which the audit log keeps; `typed` must be typed to go on, for what cannot
 * be undone. Resolves with {why}, or null if it is not to be done.
 */
export function confirm({ title, text, action, danger = false, why = true, typed = null }) {
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
    const submit = (event) => {
      event.preventDefault();
      close({ why: reason?.input.value.trim() ?? "" });
    };
    return el(
      "form",
      { class: "form", method: "dialog", on: { submit } },
      text && el("p", {}, text),
      repeated?.node,
      reason?.node,
      el(
        "div",
        { class: "dialog-buttons" },
        el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel")),
        go,
      ),
    );
  });
}
