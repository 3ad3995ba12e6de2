// What operators do to a customer: pause and resume, change settings, purge. Each with a reason.

import { get, send } from "../../api.js";
import { el, fill, setText } from "../../dom.js";
import { t } from "../../i18n.js";
import { ask, confirm } from "../../components/dialog.js";
import { area, numeric, text as textField } from "../../components/fields.js";
import { toast } from "../../components/toast.js";

const SECOND = 1_000_000;
const DAY = 86_400 * SECOND;

/** `shown()` is the customer as it is on the page, `look` fetches it anew. Gives {nodes, update(customer)}. */
export function buttons(path, shown, look) {
  const pause = el("button", { class: "button", type: "button", on: { click: () => pauseOrResume(path, shown(), look) } });
  const edit = el("button", { class: "button", type: "button", on: { click: () => edited(path, shown(), look) } }, t("customer.edit"));
  const purge = el("button", { class: "button", type: "button", on: { click: () => purged(path, shown(), look) } }, t("customer.purge"));
  return {
    nodes: [pause, edit, purge],
    update: (customer) => setText(pause, t(customer.paused ? "customer.resume" : "customer.pause")),
  };
}

async function pauseOrResume(path, { paused, customer, display_name: shown }, look) {
  const name = shown ?? customer;
  const answer = await confirm({
    title: paused ? t("customer.resume_ask", { name }) : t("customer.pause_ask", { name }),
    text: t(paused ? "customer.resume_text" : "customer.pause_text"),
    action: t(paused ? "customer.resume" : "customer.pause"),
  });
  if (answer === null) return;
  await done(async () => {
    await send("PATCH", path, { body: { paused: !paused }, query: { why: answer.why } });
    toast(t(paused ? "customer.resumed" : "customer.now_paused"));
    await look();
  });
}

async function purged(path, { customer }, look) {
  await done(async () => {
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
    await look();
  });
}

async function done(act) {
  try {
    await act();
  } catch (wrong) {
    if (wrong.code === undefined) throw wrong;
    toast(wrong.message, { kind: "error" });
  }
}

/** All settings in one form; only what was changed is sent, so that nobody undoes what another changed meanwhile. */
async function edited(path, customer, look) {
  const isChanged = await ask(t("customer.edit_ask", { name: customer.display_name ?? customer.customer }), (close) => {
    const fields = fieldsOf(customer);
    const reason = area({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
    const error = el("p", { class: "field-error", role: "alert" });
    const save = el("button", { class: "button button-primary", type: "submit" }, t("customer.save"));
    const submit = async (event) => {
      event.preventDefault();
      const changes = changed(customer, valuesOf(fields));
      if (Object.keys(changes).length === 0) {
        close(null);
        return;
      }
      save.disabled = true;
      try {
        await send("PATCH", path, { body: changes, query: { why: reason.input.value.trim() } });
        close(true);
      } catch (wrong) {
        if (wrong.code === undefined) throw wrong;
        fill(error, wrong.message);
      } finally {
        save.disabled = false;
      }
    };
    const cancel = el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel"));
    const { name, weight, cap, documents, per, keep } = fields;
    const rate = el("fieldset", { class: "pair-fields" }, el("legend", {}, t("customer.edit_rate")), documents.node, per.node);
    return el("form", { class: "form", on: { submit } }, name.node, weight.node, cap.node, rate, keep.node, reason.node, error, el("div", { class: "dialog-buttons" }, cancel, save));
  });
  if (isChanged === null) return;
  toast(t("customer.saved"));
  await done(look);
}

function fieldsOf({ display_name: name, weight, cap, rate, keep }) {
  const none = t("customer.edit_none");
  return {
    name: textField({ label: t("customer.edit_name"), value: name ?? "", maxlength: 255, autocomplete: "off" }),
    weight: numeric({ label: t("customer.edit_weight"), hint: t("customer.edit_weight_hint"), value: weight, min: 0.001, max: 1000, step: "any", required: true }),
    cap: numeric({ label: t("customer.edit_cap"), hint: none, value: cap ?? "", min: 1, max: 1_000_000, step: 1 }),
    documents: numeric({ label: t("customer.edit_documents"), hint: none, value: rate?.documents ?? "", min: 1, max: 1_000_000, step: 1 }),
    per: numeric({ label: t("customer.edit_per"), value: rate === null ? "" : rate.per / SECOND, min: 0.001, max: 86_400, step: "any" }),
    keep: numeric({ label: t("customer.edit_keep"), hint: t("customer.edit_keep_hint"), value: keep === null ? "" : keep / DAY, min: 0, step: "any" }),
  };
}

function valuesOf({ name, weight, cap, documents, per, keep }) {
  const given = (field, factor = 1) => (field.input.value === "" ? null : Math.round(Number(field.input.value) * factor));
  return {
    display_name: name.input.value.trim() || null,
    weight: Number(weight.input.value),
    cap: given(cap),
    rate: given(documents) === null ? null : { documents: given(documents), per: given(per, SECOND) ?? 60 * SECOND },
    keep: given(keep, DAY),
  };
}

function changed(customer, values) {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(customer[name])));
}
