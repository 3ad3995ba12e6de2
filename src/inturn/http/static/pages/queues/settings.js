// The dialog with a queue's settings. Only what was changed is sent, so that concurrent changes of others survive.

import { ApiError, send } from "../../api.js";
import { el, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { openDialog } from "../../components/dialog.js";
import { checkbox, numberField, textArea, textField } from "../../components/fields.js";
import { toast, toastWithUndo } from "../../components/toast.js";
import { FormEditor } from "./form_editor.js";

const SECOND = 1_000_000;
const NAME = String.raw`[A-Za-z0-9][A-Za-z0-9._\-]{0,62}`;

/** @typedef {Pick<Api.NamedQueue, "description" | "weight" | "cap" | "rate" | "manual" | "form">} Settings */
/** @typedef {{ name: string, changes: Partial<Settings> }} Saved */

/** @type {Settings} */
const NEW_QUEUE = { description: null, weight: 1, cap: null, rate: null, manual: false, form: null };

/**
 * @param {Api.NamedQueue} queue
 * @param {() => Promise<unknown>} reload
 */
export async function editQueue(queue, reload) {
  const saved = await openDialog(t("queues.edit_ask", { name: queue.name }), (/** @type {(saved: Saved | null) => void} */ close) => settingsForm(queue, queue.name, close));
  if (saved === null) return;
  const before = Object.fromEntries(Object.keys(saved.changes).map((name) => [name, queue[/** @type {keyof Settings} */ (name)]]));
  toastWithUndo(t("customer.saved"), async () => {
    await send("PATCH", pathOf(queue.name), { body: before });
    await reload();
  });
  await reload();
}

/** @param {() => Promise<unknown>} reload */
export async function newQueue(reload) {
  const saved = await openDialog(t("queues.new"), (/** @type {(saved: Saved | null) => void} */ close) => settingsForm(NEW_QUEUE, null, close));
  if (saved === null) return;
  toast(t("queues.made", { name: saved.name }));
  await reload();
}

/**
 * @param {string} name
 * @returns {`/v1/queues/${string}`}
 */
function pathOf(name) {
  return `/v1/queues/${encodeURIComponent(name)}`;
}

/**
 * `name` is null for a new queue: it is asked for.
 * @param {Settings} settings
 * @param {string | null} name
 * @param {(saved: Saved | null) => void} close
 */
function settingsForm(settings, name, close) {
  const given = name === null ? textField({ label: t("queues.head_name"), hint: t("queues.name_hint"), required: true, pattern: NAME, maxlength: 63, autocomplete: "off" }) : null;
  const fields = settingsFields(settings);
  const reason = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
  const problem = el("p", { class: "field-error", role: "alert" });
  const save = el("button", { class: "button button-primary", type: "submit" }, t("customer.save"));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const values = readSettings(fields);
    if (values === null) return;
    const changes = Object.fromEntries(Object.entries(values).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(settings[/** @type {keyof Settings} */ (key)])));
    if (name !== null && Object.keys(changes).length === 0) {
      close(null);
      return;
    }
    save.disabled = true;
    try {
      const target = name ?? given?.input.value.trim() ?? "";
      await send("PATCH", pathOf(target), { body: changes, query: { why: reason.input.value.trim() } });
      close({ name: target, changes });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(problem, error.message);
    } finally {
      save.disabled = false;
    }
  };
  const { description, weight, cap, documents, per, manual, form } = fields;
  const rate = el("fieldset", { class: "pair-fields" }, el("legend", {}, t("customer.edit_rate")), documents.node, per.node);
  const people = el("div", { class: "choice" }, manual.node, el("p", { class: "field-hint" }, t("queues.manual_hint")));
  const buttons = el("div", { class: "dialog-buttons" }, el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel")), save);
  return el("form", { class: "form queue-form", on: { submit } }, given?.node, description.node, weight.node, cap.node, rate, people, form.node, reason.node, problem, buttons);
}

/** @param {Settings} settings */
function settingsFields({ description, weight, cap, rate, manual, form }) {
  const none = t("customer.edit_none");
  const editor = new FormEditor(form ?? []);
  const people = checkbox({ label: t("queues.manual"), checked: manual });
  const show = () => {
    editor.node.hidden = !people.input.checked;
  };
  people.input.addEventListener("change", show);
  show();
  return {
    description: textField({ label: t("queues.description"), value: description ?? "", maxlength: 255, autocomplete: "off" }),
    weight: numberField({ label: t("customer.edit_weight"), hint: t("queues.weight_hint"), value: weight, min: 0.001, max: 1000, step: "any", required: true }),
    cap: numberField({ label: t("customer.edit_cap"), hint: none, value: cap ?? "", min: 1, max: 1_000_000, step: 1 }),
    documents: numberField({ label: t("customer.edit_documents"), hint: none, value: rate?.documents ?? "", min: 1, max: 1_000_000, step: 1 }),
    per: numberField({ label: t("customer.edit_per"), value: rate === null ? "" : rate.per / SECOND, min: 0.001, max: 86_400, step: "any" }),
    manual: people,
    form: editor,
  };
}

/**
 * @param {ReturnType<typeof settingsFields>} fields
 * @returns {Partial<Settings> | null} null if a field of the form is not right
 */
function readSettings({ description, weight, cap, documents, per, manual, form }) {
  const readNumber = (/** @type {{ input: HTMLInputElement }} */ field, factor = 1) => (field.input.value === "" ? null : Math.round(Number(field.input.value) * factor));
  const rate = readNumber(documents);
  const written = manual.input.checked ? form.value() : undefined; // hidden, the form stays as it is
  if (written === null) return null;
  return {
    description: description.input.value.trim() || null,
    weight: Number(weight.input.value),
    cap: readNumber(cap),
    rate: rate === null ? null : { documents: rate, per: readNumber(per, SECOND) ?? 60 * SECOND },
    manual: manual.input.checked,
    ...(written === undefined ? {} : { form: written.length === 0 ? null : written }),
  };
}
