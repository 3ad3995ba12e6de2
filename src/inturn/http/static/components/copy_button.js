// Copy a text, such as an id, a name or a command.

import { el, setProp, setText } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";

/** @import { Child } from "../dom.js" */

const DONE_DURATION_MS = 2_000;

/**
 * Copy to the clipboard; resolves with whether that was possible. Browsers open the clipboard to https and localhost alone.
 * @param {string} text
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const field = el("textarea", { class: "hidden", readonly: true, "aria-hidden": "true", value: text });
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return isCopied;
}

/**
 * `name` stands for the text in the button's label where the text is long.
 * @param {string} text
 */
export function copyButton(text, name = text) {
  const status = el("span", { class: "hidden", role: "status" });
  const button = el("button", { class: "copy", type: "button", "aria-label": t("shell.copy", { text: name }), title: t("shell.copy", { text: name }) }, icon("copy"));
  const copy = async () => {
    const isCopied = await copyText(text);
    setText(status, t(isCopied ? "shell.copied" : "shell.not_copied"));
    setProp(button, "data-state", isCopied ? "done" : "failed");
    button.replaceChildren(icon(isCopied ? "check" : "close"));
    setTimeout(() => {
      setText(status, "");
      setProp(button, "data-state", null);
      button.replaceChildren(icon("copy"));
    }, DONE_DURATION_MS);
  };
  button.addEventListener("click", () => void copy());
  return el("span", { class: "copy-box" }, button, status);
}

/**
 * A text with a button that copies it.
 * @param {Child} content
 * @param {string} text
 */
export function copyable(content, text = String(content)) {
  return el("span", { class: "copyable" }, el("span", {}, content), copyButton(text));
}
