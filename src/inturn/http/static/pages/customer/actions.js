// Actions of operators on a customer: pause, resume, change settings, purge. Each asks for a reason.

import { ApiError, get, send } from "../../api.js";
import { el, fill, setText } from "../../dom.js";
import { t } from "../../i18n.js";
import { confirm, openDialog } from "../../components/dialog.js";
import { numberField, textArea, textField } from "../../components/fields.js";
import { toast, toastWithUndo } from "../../components/toast.js";

const SECOND = 1_000_000;
const DAY = 86_400 * SECOND;

/**
 * shown() returns the customer on the page, reload() fetches it again. Returns the buttons {pause, edit, purge}, and update(customer).
 * @param {string} path
 * @param {() => Api.CustomerDetail} shown
 * @param {() => Promise<unknown>} reload
 */
export function actionButtons(path, shown, reload) {
  const pause = el("button", { class: "button", type: "button", on: { click: () => pauseOrResume(path, shown(), reload) } });
  const edit = el("button", { class: "button button-small", type: "button", on: { click: () => editSettings(path, shown(), reload) } }, t("customer.edit"));
  const purge = el("button", { class: "button button-danger", type: "button", on: { click: () => purgeCustomer(path, shown(), reload) } }, t("customer.purge"));
  return {
    pause,
    edit,
    purge,
    update(/** @type {Api.CustomerDetail} */ customer) {
      setText(pause, t(customer.paused ? "customer.resume" : "customer.pause"));
      pause.classList.toggle("button-primary", customer.paused);
    },
  };
}

/**
 * @param {string} path
 * @param {Api.CustomerDetail} customerDetail
 * @param {() => Promise<unknown>} reload
 */
async function pauseOrResume(path, { paused, customer, display_name: shown }, reload) {
  const name = shown ?? customer;
  const answer = await confirm({
    title: paused ? t("customer.resume_ask", { name }) : t("customer.pause_ask", { name }),
    text: t(paused ? "customer.resume_text" : "customer.pause_text"),
    action: t(paused ? "customer.resume" : "customer.pause"),
  });
  if (answer === null) return;
  await withErrorToast(async () => {
    await send("PATCH", path, { body: { paused: !paused }, query: { why: answer.why } });
    const undo = async () => {
      await send("PATCH", path, { body: { paused, expected: { paused: !paused } } });
      await reload();
    };
    toastWithUndo(t(paused ? "customer.resumed" : "customer.now_paused"), undo);
    await reload();
  });
}

/**
 * @param {string} path
 * @param {Api.CustomerDetail} customerDetail
 * @param {() => Promise<unknown>} reload
 */
async function purgeCustomer(path, { customer }, reload) {
  await withErrorToast(async () => {
    const { documents } = await get("/v1/documents/counts", { query: { customer } });
    const answer = await confirm({
      title: t("customer.purge_ask", { n: documents }),
      text: t("customer.purge_text"),
      action: t("customer.purge"),
      danger: true,
      typed: customer,
    });
    if (answer === null) return;
    const removed = await send("POST", `${path}/purge`, { body: { confirm: customer }, query: { why: answer.why } });
    toast(t("customer.purged", { n: removed.documents }));
    await reload();
  });
}

/** @param {() => Promise<unknown>} act */
async function withErrorToast(act) {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, { kind: "error" });
  }
}

/**
 * Edit all settings in one form. Only changed settings are sent, so that concurrent changes of others survive.
 * @param {string} path
 * @param {Api.CustomerDetail} customer
 * @param {() => Promise<unknown>} reload
 */
async function editSettings(path, customer, reload) {
  /** @type {ReturnType<typeof changedSettings> | null} */
  const changed = await openDialog(t("customer.edit_ask", { name: customer.display_name ?? customer.customer }), (close) => {
    const fields = settingsFields(customer);
    const reason = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
    const errorText = el("p", { class: "field-error", role: "alert" });
    const save = el("button", { class: "button button-primary", type: "submit" }, t("customer.save"));
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const changes = changedSettings(customer, settingsValues(fields));
      if (Object.keys(changes).length === 0) {
        close(null);
        return;
      }
      save.disabled = true;
      try {
        await send("PATCH", path, { body: changes, query: { why: reason.input.value.trim() } });
        close(changes);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        fill(errorText, error.message);
      } finally {
        save.disabled = false;
      }
    };
    const cancel = el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel"));
    const { name, weight, cap, documents, per, keep } = fields;
    const rate = el("fieldset", { class: "pair-fields" }, el("legend", {}, t("customer.edit_rate")), documents.node, per.node);
    return el("form", { class: "form", on: { submit } }, name.node, weight.node, cap.node, rate, keep.node, reason.node, errorText, el("div", { class: "dialog-buttons" }, cancel, save));
  });
  if (changed === null) return;
  const before = Object.fromEntries(Object.keys(changed).map((name) => [name, customer[/** @type {keyof Api.CustomerDetail} */ (name)]]));
  toastWithUndo(t("customer.saved"), async () => {
    await send("PATCH", path, { body: { ...before, expected: changed } });
    await reload();
  });
  await withErrorToast(reload);
}

/** @param {Api.CustomerDetail} customerDetail */
function settingsFields({ display_name: name, weight, cap, rate, keep }) {
  const none = t("customer.edit_none");
  return {
    name: textField({ label: t("customer.edit_name"), value: name ?? "", maxlength: 255, autocomplete: "off" }),
    weight: numberField({ label: t("customer.edit_weight"), hint: t("customer.edit_weight_hint"), value: weight, min: 0.001, max: 1000, step: "any", required: true }),
    cap: numberField({ label: t("customer.edit_cap"), hint: none, value: cap ?? "", min: 1, max: 1_000_000, step: 1 }),
    documents: numberField({ label: t("customer.edit_documents"), hint: none, value: rate?.documents ?? "", min: 1, max: 1_000_000, step: 1 }),
    per: numberField({ label: t("customer.edit_per"), value: rate === null ? "" : rate.per / SECOND, min: 0.001, max: 86_400, step: "any" }),
    keep: numberField({ label: t("customer.edit_keep"), hint: t("customer.edit_keep_hint"), value: keep === null ? "" : keep / DAY, min: 0, step: "any" }),
  };
}

/** @param {ReturnType<typeof settingsFields>} returnType */
function settingsValues({ name, weight, cap, documents, per, keep }) {
  const readNumber = (/** @type {{ input: HTMLInputElement }} */ field, factor = 1) => (field.input.value === "" ? null : Math.round(Number(field.input.value) * factor));
  return {
    display_name: name.input.value.trim() || null,
    weight: Number(weight.input.value),
    cap: readNumber(cap),
    rate: readNumber(documents) === null ? null : { documents: readNumber(documents), per: readNumber(per, SECOND) ?? 60 * SECOND },
    keep: readNumber(keep, DAY),
  };
}

/**
 * @param {Api.CustomerDetail} customer
 * @param {ReturnType<typeof settingsValues>} values
 */
function changedSettings(customer, values) {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(customer[/** @type {keyof typeof values} */ (name)])));
}
