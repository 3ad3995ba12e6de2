// Who may use the servers of this queue. The text of a key is shown once, when it is made.

import { get, send, sessionIsOver } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { ago, durationInWords, time } from "../format.js";
import { t } from "../i18n.js";
import { to } from "../routes.js";
import { current, mayOperate, who } from "../session.js";
import { panel } from "../components/panel.js";
import { ask, confirm } from "../components/dialog.js";
import { area, checkbox, readOnlyNote, select, text } from "../components/fields.js";
import { momentAgo, updateMoment } from "../components/relative_time.js";
import { banner, empty } from "../components/placeholders.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";

const HOUR = 3_600_000_000;
const DAY = 24 * HOUR;
const SCOPES = ["customer", "operator", "read-only"];
const LIVES = [7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];
const OVERLAPS = [HOUR, DAY, 7 * DAY];

export async function mount(view) {
  let keys = [];
  const ended = checkbox({ label: t("keys.show_ended"), checked: view.query.get("ended") === "true" });
  ended.input.addEventListener("change", () => view.setQuery({ ended: ended.input.checked ? "true" : null }));
  const shown = table({ caption: t("keys.title"), keyOf: (row) => row.id, columns: columns(), empty: empty(t("keys.none"), t("keys.none_hint")) });

  function draw() {
    ended.input.checked = view.query.get("ended") === "true";
    const replaced = new Set(keys.filter((each) => each.live).map((each) => each.replaces));
    const rows = keys.filter((each) => each.live || ended.input.checked).reverse();
    shown.update(rows.map((each) => ({ ...each, isReplaced: replaced.has(each.id), act: { rotate, revoke } })));
  }

  async function load() {
    keys = (await get("/v1/keys", { signal: view.signal })).keys;
    draw();
  }

  async function made(call) {
    const key = await call;
    if (key === null) return;
    await load();
    await reveal(key);
  }

  const rotate = (row) => made(askForRotation(row));

  async function revoke(row) {
    const isOwn = row.id === who()?.key;
    const words = [isOwn && t("keys.revoke_yours"), t("keys.revoke_text")].filter(Boolean).join(" ");
    const answer = await confirm({ title: t("keys.revoke_named", { name: row.name }), text: words, action: t("keys.revoke"), danger: true });
    if (answer === null) return;
    try {
      await send("DELETE", `/v1/keys/${row.id}`, { query: { why: answer.why } });
      toast(t("keys.revoked", { name: row.name }));
      if (isOwn) sessionIsOver();
      else await load();
    } catch (wrong) {
      toast(wrong.message, { kind: "error" });
    }
  }

  await load();
  view.listen(["key_made", "key_ended", "purged"], () => load().catch(() => {}), 1_000);
  view.every(30_000, draw);
  if (mayOperate()) view.setActions(el("button", { class: "button button-primary", type: "button", on: { click: () => made(askForKey()) } }, t("keys.new")));
  fill(
    view.root,
    !current().needs_keys && banner(t("keys.open_here"), { kind: "warn" }),
    panel(t("keys.title"), { className: "panel-flush", hint: t("keys.intro"), actions: ended.node }, shown.node),
    !mayOperate() && readOnlyNote(),
  );
  return { update: draw };
}

function columns() {
  return [
    { key: "name", label: t("keys.head_name"), value: (row) => row.name, cell: named },
    { key: "opens", label: t("keys.head_opens"), value: opened, cell: (row) => (row.customer ? el("a", { href: to("customer", { name: row.customer }) }, opened(row)) : opened(row)), className: "keys-opens" },
    { key: "made", label: t("keys.head_made"), className: "wide-only", value: (row) => ago(row.made_at), cell: (row) => momentAgo(row.made_at), update: (node, row) => updateMoment(node, row.made_at) },
    { key: "used", label: t("keys.head_used"), className: "wide-only", value: (row) => (row.used_at === null ? t("keys.never_used") : ago(row.used_at)) },
    { key: "until", label: t("keys.head_until"), className: "wide-only", value: until, cell: (row) => el("span", { title: row.expires_at === null ? null : time(row.expires_at) }, until(row)) },
    ...(mayOperate() ? [{ key: "actions", label: t("keys.head_actions"), align: "end", value: (row) => `${row.live} ${row.isReplaced}`, cell: actions }] : []),
  ];
}

function named(row) {
  const isOwn = row.id === who()?.key;
  return el("div", { class: row.live ? "keys-name" : "keys-name is-ended" }, el("span", {}, row.name, isOwn && [" ", el("span", { class: "badge level-1" }, t("keys.yours"))]), el("span", { class: "mono muted" }, row.id), el("span", { class: "muted keys-until" }, until(row)));
}

function opened(row) {
  if (row.scope === "operator") return t("keys.opens_operator");
  if (row.customer === null) return t("keys.opens_read_only");
  return row.scope === "read-only" ? t("keys.opens_customer_read_only", { customer: row.customer }) : row.customer;
}

function until(row) {
  if (!row.live) return t("keys.ended", { ago: ago(row.expires_at) });
  return row.expires_at === null ? t("keys.until_revoked") : ago(row.expires_at);
}

function actions(row) {
  if (!row.live) return el("span");
  const button = (label, call) => el("button", { class: "button button-small", type: "button", "aria-label": `${label}: ${row.name}`, on: { click: () => call(row) } }, label);
  return el("div", { class: "keys-actions" }, !row.isReplaced && button(t("keys.rotate"), row.act.rotate), button(t("keys.revoke"), row.act.revoke));
}

/** A form in a dialog that stays open until the server has taken it; what is wrong is told in it. */
function askAndSend(title, nodes, action, call) {
  return ask(title, (close) => {
    const wrong = el("p", { class: "field-error", role: "alert" });
    const go = el("button", { class: "button button-primary", type: "submit" }, action);
    const submit = async (event) => {
      event.preventDefault();
      go.disabled = true;
      setText(wrong, "");
      try {
        close(await call());
      } catch (refused) {
        setText(wrong, refused.code === "illegal_move" ? t("keys.not_rotatable") : refused.message);
        go.disabled = false;
      }
    };
    const cancel = el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel"));
    return el("form", { class: "form", on: { submit } }, nodes, wrong, el("div", { class: "dialog-buttons" }, cancel, go));
  });
}

function hintOf(scope) {
  return t(`keys.hint_${scope.replace("-", "_")}`);
}

function askForKey() {
  const name = text({ label: t("keys.field_name"), hint: t("keys.field_name_hint"), required: true, maxlength: 255, autocomplete: "off" });
  const scope = select({ label: t("keys.field_scope"), hint: hintOf(SCOPES[0]), options: SCOPES.map((each) => [each, t(`keys.scope_${each.replace("-", "_")}`)]) });
  const customer = text({ label: t("keys.field_customer"), maxlength: 255, autocomplete: "off", required: true });
  const lives = select({ label: t("keys.field_until"), options: [["", t("keys.until_revoked")], ...LIVES.map((each) => [String(each), durationInWords(each)])] });
  const why = area({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
  scope.input.addEventListener("change", () => {
    customer.node.hidden = scope.input.value === "operator";
    setText(scope.node.querySelector(".field-hint"), hintOf(scope.input.value));
    customer.input.required = scope.input.value === "customer";
  });
  return askAndSend(t("keys.new"), [name, scope, customer, lives, why].map((each) => each.node), t("keys.create"), () => {
    const chosen = scope.input.value;
    const whose = chosen === "operator" ? null : customer.input.value.trim() || null;
    const end = lives.input.value === "" ? null : Date.now() * 1_000 + Number(lives.input.value);
    return send("POST", "/v1/keys", { body: { name: name.input.value.trim(), scope: chosen, customer: whose, expires_at: end }, query: { why: why.input.value.trim() } });
  });
}

function askForRotation(row) {
  const overlap = select({ label: t("keys.overlap"), value: String(DAY), options: [["0", t("keys.overlap_none")], ...OVERLAPS.map((each) => [String(each), durationInWords(each)])] });
  const why = area({ label: t("shell.why"), hint: t("shell.why_hint"), rows: 2, maxlength: 1000 });
  const nodes = [el("p", {}, t("keys.rotate_text")), overlap.node, why.node];
  return askAndSend(t("keys.rotate_named", { name: row.name }), nodes, t("keys.rotate"), () =>
    send("POST", `/v1/keys/${row.id}/rotate`, { body: { overlap: Number(overlap.input.value) }, query: { why: why.input.value.trim() } }),
  );
}

/** The one time that the text of a key can be seen. */
function reveal(key) {
  return ask(
    t("keys.made_title"),
    (close) => {
      const shown = text({ label: key.name, value: key.key, readonly: true, class: "input mono", spellcheck: "false" });
      const told = el("p", { class: "muted", role: "status" });
      const copy = async () => {
        shown.input.select();
        try {
          await navigator.clipboard.writeText(key.key);
          setText(told, t("keys.copied"));
        } catch {
          setText(told, t("keys.copy_by_hand")); // without https browsers keep the clipboard to themselves
        }
      };
      const copying = el("button", { class: "button", type: "button", on: { click: copy } }, t("keys.copy"));
      const kept = el("button", { class: "button button-primary", type: "button", on: { click: () => close(null) } }, t("keys.kept"));
      return el("div", { class: "form" }, el("p", {}, t("keys.made_text")), shown.node, told, el("div", { class: "dialog-buttons" }, copying, kept));
    },
    { stays: true },
  );
}
