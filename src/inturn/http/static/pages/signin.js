// Sign in with a key. The cookie that the browser gets ends with the key.

import { ApiError } from "../api.js";
import { el, fill } from "../dom.js";
import { t } from "../i18n.js";
import { signIn } from "../session.js";
import { copyable } from "../components/copy_button.js";
import { checkbox, textField } from "../components/fields.js";

/** @import { View } from "../router.js" */

/** @param {View} view */
export async function mount(view) {
  const key = textField({ label: t("signin.key"), hint: t("signin.hint"), type: "password", autocomplete: "current-password", required: true, maxlength: 200, spellcheck: "false", autocapitalize: "off" });
  const shown = checkbox({ label: t("signin.show") });
  const button = el("button", { class: "button button-primary", type: "submit" }, t("signin.submit"));
  shown.input.addEventListener("change", () => {
    key.input.type = shown.input.checked ? "text" : "password";
  });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    key.setError(null);
    try {
      await signIn(key.input.value.trim());
      location.assign(view.query.get("to")?.startsWith("/") ? location.href : "/");
    } catch (error) {
      key.setError(error instanceof ApiError ? error.message : t("errors.unexpected"));
      key.input.focus();
      button.disabled = false;
    }
  };
  const help = el("details", { class: "signin-help" }, el("summary", {}, t("signin.no_key")), el("p", { class: "muted" }, t("signin.no_key_hint")), el("code", { class: "mono" }, copyable("inturn keys create --operator --name anna")));
  const mark = el("p", { class: "signin-mark" }, el("img", { src: new URL("../icon.svg", import.meta.url).href, alt: "", width: 30, height: 30 }), el("span", {}, "Inturn"));
  fill(view.root, el("form", { class: "form panel", on: { submit } }, mark, el("p", {}, t("signin.intro")), key.node, shown.node, button, el("p", { class: "muted" }, t("signin.kept")), help));
  return { shown: () => key.input.focus() };
}
