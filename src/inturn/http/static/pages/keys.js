// The API keys. The text of a key is shown once, when it is created.

import { ApiError, get, ignoreRequestError, notifySignedOut, send } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { ago, durationInWords } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { currentSession, currentUser, mayOperate } from "../session.js";
import { copyText } from "../components/copy_button.js";
import { confirm, openDialog } from "../components/dialog.js";
import { checkbox, readOnlyNote, selectField, textArea, textField } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { banner, emptyState } from "../components/placeholders.js";
import { relativeTime, updateRelativeTime } from "../components/relative_time.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";

/** @import { View } from "../router.js" */
/** @import { Child } from "../dom.js" */

/** @import { Column } from "../components/table.js" */
/** @typedef {Api.ApiKey & { isReplaced: boolean, act: { rotate: (row: Api.ApiKey) => unknown, revoke: (row: Api.ApiKey) => unknown } }} Row */

const HOUR = 3_600_000_000;
const DAY = 24 * HOUR;
const SCOPES = ["customer", "operator", "read-only"];
const LIFETIMES = [7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];
const OVERLAPS = [HOUR, DAY, 7 * DAY];

/** @param {View} view */
export async function mount(view) {
  /** @type {Api.ApiKey[]} */
  let keys = [];
  const ended = checkbox({ label: t("keys.show_ended"), checked: view.query.get("ended") === "true" });
  ended.input.addEventListener("change", () => view.setQuery({ ended: ended.input.checked ? "true" : null }));
  const shown = table({ caption: t("keys.title"), keyOf: (row) => row.id, columns: columns(), empty: emptyState(t("keys.none"), t("keys.none_hint")) });

  function draw() {
    ended.input.checked = view.query.get("ended") === "true";
    const replaced = new Set(keys.filter((key) => key.live).map((key) => key.replaces));
    const rows = keys.filter((key) => key.live || ended.input.checked).reverse();
    shown.update(rows.map((key) => ({ ...key, isReplaced: replaced.has(key.id), act: { rotate, revoke } })));
  }

  async function load() {
    keys = (await get("/v1/keys", { signal: view.signal })).keys;
    draw();
  }

  /** @param {Promise<Api.NewApiKey | null>} pending */
  async function showCreated(pending) {
    const key = await pending;
    if (key === null) return;
    await load();
    await showNewKey(key);
  }

  const rotate = (/** @type {Api.ApiKey} */ row) => showCreated(askForRotation(row));

  /** @param {Api.ApiKey} row */
  async function revoke(row) {
    const isOwn = row.id === currentUser()?.key;
    const words = [isOwn && t("keys.revoke_yours"), t("keys.revoke_text")].filter(Boolean).join(" ");
    const answer = await confirm({ title: t("keys.revoke_named", { name: row.name }), text: words, action: t("keys.revoke"), danger: true });
    if (answer === null) return;
    try {
      await send("DELETE", `/v1/keys/${row.id}`, { query: { why: answer.why } });
      toast(t("keys.revoked", { name: row.name }));
      if (isOwn) notifySignedOut();
      else await load();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  await load();
  view.listen(["key_made", "key_ended", "purged"], () => load().catch(ignoreRequestError), 1_000);
  view.every(30_000, draw);
  if (mayOperate()) view.setActions(el("button", { class: "button button-primary", type: "button", on: { click: () => showCreated(askForKey()) } }, t("keys.new")));
  fill(
    view.root,
    !currentSession().needs_keys && banner(t("keys.open_here"), { kind: "warn" }),
    panel(t("keys.title"), { className: "panel-flush", hint: t("keys.intro"), actions: ended.node }, shown.node),
    !mayOperate() && readOnlyNote(),
  );
  return { update: draw };
}

/** @returns {Column<Row>[]} */
function columns() {
  return [
    { key: "name", label: t("keys.head_name"), value: (row) => row.name, cell: nameCell },
    { key: "opens", label: t("keys.head_opens"), value: scopeText, cell: (row) => (row.customer ? el("a", { href: pageUrl("customer", { name: row.customer }) }, scopeText(row)) : scopeText(row)), className: "keys-opens" },
    { key: "made", label: t("keys.head_made"), className: "wide-only", value: (row) => ago(row.made_at), cell: (row) => relativeTime(row.made_at), update: (node, row) => updateRelativeTime(node, row.made_at) },
    { key: "used", label: t("keys.head_used"), className: "wide-only", value: usedText, cell: (row) => relativeTime(row.used_at, { text: usedText(row) }), update: (node, row) => updateRelativeTime(node, row.used_at, { text: usedText(row) }) },
    { key: "until", label: t("keys.head_until"), className: "wide-only", value: expiryText, cell: (row) => relativeTime(row.expires_at, { text: expiryText(row) }) },
    ...(mayOperate() ? /** @type {Column<Row>[]} */ ([{ key: "actions", label: t("keys.head_actions"), align: "end", value: (row) => `${row.live} ${row.isReplaced}`, cell: actionButtons }]) : []),
  ];
}

/** @param {Api.ApiKey} row */
function nameCell(row) {
  const isOwn = row.id === currentUser()?.key;
  return el("div", { class: row.live ? "keys-name" : "keys-name is-ended" }, el("span", {}, row.name, isOwn && [" ", el("span", { class: "badge badge-own" }, t("keys.yours"))]), el("span", { class: "mono muted" }, row.id), el("span", { class: "muted keys-until" }, expiryText(row)));
}

/** @param {Api.ApiKey} row */
function scopeText(row) {
  if (row.scope === "operator") return t("keys.opens_operator");
  if (row.customer === null) return t("keys.opens_read_only");
  return row.scope === "read-only" ? t("keys.opens_customer_read_only", { customer: row.customer }) : row.customer;
}

/** @param {Api.ApiKey} row */
function usedText(row) {
  return row.used_at === null ? t("keys.never_used") : ago(row.used_at);
}

/** @param {Api.ApiKey} row */
function expiryText(row) {
  if (!row.live) return t("keys.ended", { ago: ago(row.expires_at ?? row.made_at) });
  return row.expires_at === null ? t("keys.until_revoked") : ago(row.expires_at);
}

/** @param {Row} row */
function actionButtons(row) {
  if (!row.live) return el("span");
  const button = (/** @type {string} */ label, /** @type {(row: Api.ApiKey) => unknown} */ call) => el("button", { class: "button button-small", type: "button", "aria-label": `${label}: ${row.name}`, on: { click: () => call(row) } }, label);
  return el("div", { class: "keys-actions" }, !row.isReplaced && button(t("keys.rotate"), row.act.rotate), button(t("keys.revoke"), row.act.revoke));
}

/**
 * Open a dialog with a form that stays open until the server accepts it. Errors are shown in it.
 * @param {string} title
 * @param {Child} nodes
 * @param {string} action
 * @param {() => Promise<any>} call
 */
function submitDialog(title, nodes, action, call) {
  return openDialog(title, (close) => {
    const errorText = el("p", { class: "field-error", role: "alert" });
    const go = el("button", { class: "button button-primary", type: "submit" }, action);
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      go.disabled = true;
      setText(errorText, "");
      try {
        close(await call());
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        setText(errorText, error.code === "illegal_move" ? t("keys.not_rotatable") : error.message);
        go.disabled = false;
      }
    };
    const cancel = el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel"));
    return el("form", { class: "form", on: { submit } }, nodes, errorText, el("div", { class: "dialog-buttons" }, cancel, go));
  });
}

/** @param {string} scope */
function scopeHint(scope) {
  return t(`keys.hint_${scope.replace("-", "_")}`);
}

function askForKey() {
  const name = textField({ label: t("keys.field_name"), hint: t("keys.field_name_hint"), required: true, maxlength: 255, autocomplete: "off" });
  const scope = selectField({ label: t("keys.field_scope"), hint: scopeHint(SCOPES[0]), options: SCOPES.map((value) => [value, t(`keys.scope_${value.replace("-", "_")}`)]) });
  const customer = textField({ label: t("keys.field_customer"), maxlength: 255, autocomplete: "off", required: true });
  const lives = selectField({ label: t("keys.field_until"), options: [["", t("keys.until_revoked")], ...LIFETIMES.map((length) => [String(length), durationInWords(length)])] });
  const why = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
  scope.input.addEventListener("change", () => {
    customer.node.hidden = scope.input.value === "operator";
    setText(/** @type {HTMLElement} */ (scope.node.querySelector(".field-hint")), scopeHint(scope.input.value));
    customer.input.required = scope.input.value === "customer";
  });
  return submitDialog(t("keys.new"), [name, scope, customer, lives, why].map((field) => field.node), t("keys.create"), () => {
    const chosen = scope.input.value;
    const whose = chosen === "operator" ? null : customer.input.value.trim() || null;
    const end = lives.input.value === "" ? null : Date.now() * 1_000 + Number(lives.input.value);
    return send("POST", "/v1/keys", { body: { name: name.input.value.trim(), scope: chosen, customer: whose, expires_at: end }, query: { why: why.input.value.trim() } });
  });
}

/** @param {Api.ApiKey} row */
function askForRotation(row) {
  const overlap = selectField({ label: t("keys.overlap"), value: String(DAY), options: [["0", t("keys.overlap_none")], ...OVERLAPS.map((length) => [String(length), durationInWords(length)])] });
  const why = textArea({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
  const nodes = [el("p", {}, t("keys.rotate_text")), overlap.node, why.node];
  return submitDialog(t("keys.rotate_named", { name: row.name }), nodes, t("keys.rotate"), () =>
    send("POST", `/v1/keys/${row.id}/rotate`, { body: { overlap: Number(overlap.input.value) }, query: { why: why.input.value.trim() } }),
  );
}

/**
 * Show the text of a new key: it cannot be shown again.
 * @param {Api.NewApiKey} key
 */
function showNewKey(key) {
  return openDialog(
    t("keys.made_title"),
    (close) => {
      const shown = textField({ label: key.name, value: key.key, readonly: true, class: "input mono", spellcheck: "false" });
      const copyStatus = el("p", { class: "muted", role: "status" });
      const copy = async () => {
        setText(copyStatus, (await copyText(key.key)) ? t("shell.copied") : t("keys.copy_by_hand"));
        shown.input.select();
      };
      const copyButton = el("button", { class: "button", type: "button", on: { click: copy } }, t("keys.copy"));
      const closeButton = el("button", { class: "button button-primary", type: "button", on: { click: () => close(null) } }, t("keys.kept"));
      return el("div", { class: "form" }, el("p", {}, t("keys.made_text")), shown.node, copyStatus, el("div", { class: "dialog-buttons" }, copyButton, closeButton));
    },
    { persistent: true },
  );
}
