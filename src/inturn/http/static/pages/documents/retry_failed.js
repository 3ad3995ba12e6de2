// "Retry failed …": of a customer or of all, since a time. The number is counted before anything is done.

import { ApiError, send } from "../../api.js";
import { debounce, el, setProp, setText } from "../../dom.js";
import { t } from "../../i18n.js";
import { seesAll } from "../../session.js";
import { combobox, findCustomers } from "../../components/combobox.js";
import { openDialog } from "../../components/dialog.js";
import { selectField, textArea } from "../../components/fields.js";
import { presetOptions, startOf } from "../../components/time_range.js";
import { toast } from "../../components/toast.js";

const RETRY = "/v1/documents/retry";

/**
 * Open the dialog for a customer (null: all). Resolves with the number of retried documents; null if cancelled.
 * @param {string | null} customer
 */
export async function retryFailed(customer) {
  const wanted = await openDialog(t("documents.retry_failed_title"), (close) => form(customer, close));
  if (wanted === null) return null;
  const { why, ...body } = wanted;
  const { documents } = await send("POST", RETRY, { body, query: { why } });
  toast(t("documents.did_retry", { n: documents }));
  return documents;
}

/**
 * @param {string | null} customer
 * @param {(value: Record<string, unknown> | null) => void} close
 */
function form(customer, close) {
  let requestId = 0;
  let counted = "";
  const since = selectField({ label: t("documents.retry_failed_since"), options: [...presetOptions(), ["", t("shell.time_any")]], value: "yesterday", on: { change: () => void count() } });
  const owner = seesAll() ? combobox({ label: t("documents.retry_failed_customer"), value: customer ?? "", find: findCustomers, onChange: () => void count() }) : null;
  owner?.input.addEventListener("input", debounce(() => void count(), 300));
  const reason = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
  const number = el("p", { class: "retry-number", role: "status" });
  const go = el("button", { class: "button button-primary", type: "submit" });

  function body() {
    const name = owner?.input.value.trim();
    const at = startOf(since.input.value);
    return { state: ["failed"], ...(name ? { customer: name } : {}), ...(at === null ? {} : { since: at, time: "ended" }) };
  }

  async function count() {
    const asked = JSON.stringify(body());
    if (asked === counted) return; // a field that loses the focus to the button must not disable it
    counted = asked;
    requestId += 1;
    const ownId = requestId;
    setProp(go, "disabled", true);
    setText(number, t("documents.retry_failed_counting"));
    try {
      const { documents: n } = await send("POST", RETRY, { body: { ...body(), dry_run: true } });
      if (ownId !== requestId) return;
      setText(number, t("documents.retry_failed_n", { n }));
      setText(go, t("documents.retry_failed_go", { n }));
      setProp(go, "disabled", n === 0);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (ownId !== requestId) return;
      setText(number, error.message);
      counted = "";
    }
  }

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    close({ ...body(), why: reason.input.value.trim() });
  };
  setText(go, t("documents.retry_failed_go", { n: 0 }));
  void count();
  const buttons = el("div", { class: "dialog-buttons" }, el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel")), go);
  return el("form", { class: "form", method: "dialog", on: { submit } }, owner?.node, since.node, number, reason.node, buttons);
}
