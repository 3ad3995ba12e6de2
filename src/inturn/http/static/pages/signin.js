// A key, once; afterwards the browser holds a cookie that ends with the key.

import { el, fill } from "../dom.js";
import { t } from "../i18n.js";
import { signIn } from "../session.js";
import { text } from "../parts/fields.js";

export async function mount(view) {
  const key = text({ label: t("signin.key"), hint: t("signin.hint"), type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const button = el("button", { class: "button button-primary", type: "submit" }, t("signin.submit"));
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    key.setError(null);
    try {
      await signIn(key.input.value.trim());
      location.assign(view.query.get("to")?.startsWith("/") ? location.href : "/");
    } catch (wrong) {
      key.setError(wrong.message);
      key.input.focus();
      button.disabled = false;
    }
  };
  fill(view.root, el("form", { class: "form panel", on: { submit } }, el("p", {}, t("signin.intro")), key.node, button));
  return { shown: () => key.input.focus() };
}
