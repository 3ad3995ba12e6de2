// The row above the list: retry what failed, choose columns, save views. Columns and views are kept in this browser; a
// view's filters are in its address too.

import { ApiError } from "../../api.js";
import { el, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { getPreference, setPreference } from "../../preferences.js";
import { mayAct } from "../../session.js";
import { openDialog } from "../../components/dialog.js";
import { checkbox, textField } from "../../components/fields.js";
import { icon } from "../../components/icons.js";
import { toast } from "../../components/toast.js";
import { retryFailed } from "./retry_failed.js";

/** @import { Column } from "../../components/table.js" */
/** @import { DocumentList } from "../documents.js" */
/** @import { Row } from "./columns.js" */
/** @typedef {{ name: string, search: string }} SavedView */

const HIDDEN_COLUMNS = "documents.hidden_columns";
const VIEWS = "documents.views";
const ALWAYS_SHOWN = "name";

/**
 * columns are those of the table. Returns the node.
 * @param {DocumentList} list
 * @param {Column<Row>[]} columns
 */
export function tools(list, columns) {
  const retry = mayAct() && el("button", { class: "button button-small", type: "button", on: { click: () => void retryAndRefresh(list) } }, t("documents.retry_failed"));
  return el("div", { class: "documents-tools" }, retry, columnChoice(list, columns), savedViews());
}

/** @param {DocumentList} list */
async function retryAndRefresh(list) {
  try {
    const n = await retryFailed(list.filters.customer?.input.value.trim() || null);
    if (n !== null) await list.refreshAll();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, { kind: "error" });
  }
}

/**
 * A button that unfolds a panel; Escape and a click elsewhere fold it.
 * @param {string} label
 * @param {Node[]} content
 */
function unfolding(label, content) {
  const summary = el("summary", { class: "button button-small" }, label, icon("down"));
  const node = el("details", { class: "unfolding" }, summary, el("div", { class: "unfolding-panel" }, content));
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !node.open) return;
    node.open = false;
    summary.focus();
    event.stopPropagation();
  });
  node.addEventListener("focusout", (event) => {
    if (event.relatedTarget instanceof Node && !node.contains(event.relatedTarget)) node.open = false;
  });
  return node;
}

/**
 * @param {DocumentList} list
 * @param {Column<Row>[]} columns
 */
function columnChoice(list, columns) {
  const hidden = new Set((getPreference(HIDDEN_COLUMNS) ?? "").split(",").filter((key) => key !== ALWAYS_SHOWN));
  const apply = () => {
    for (const { key } of columns) list.node.classList.toggle(`hides-${key}`, hidden.has(key));
  };
  const boxes = columns
    .filter(({ key }) => key !== ALWAYS_SHOWN)
    .map(({ key, label, className = "" }) => {
      const box = checkbox({ label, checked: !hidden.has(key) });
      box.node.classList.toggle("documents-steps", className.includes("documents-steps"));
      box.input.addEventListener("change", () => {
        if (box.input.checked) hidden.delete(key);
        else hidden.add(key);
        setPreference(HIDDEN_COLUMNS, [...hidden].join(",") || null);
        apply();
      });
      return box.node;
    });
  apply();
  return unfolding(t("documents.columns"), boxes);
}

/** @returns {SavedView[]} */
function readViews() {
  try {
    const views = JSON.parse(getPreference(VIEWS) ?? "[]");
    return Array.isArray(views) ? views.filter((view) => typeof view?.name === "string" && typeof view.search === "string") : [];
  } catch {
    return [];
  }
}

function savedViews() {
  const items = el("ul", { class: "views" });
  const save = el("button", { class: "button button-small", type: "button", on: { click: () => void saveView() } }, t("documents.view_save"));
  const node = unfolding(t("documents.views"), [items, save]);

  function draw() {
    const views = readViews();
    items.hidden = views.length === 0;
    fill(items, views.map(makeItem));
  }

  /** @param {SavedView} view */
  function makeItem({ name, search }) {
    const link = el("a", { href: `/documents${search}`, on: { click: () => (node.open = false) } }, name);
    const remove = el("button", { class: "button-icon", type: "button", "aria-label": t("documents.view_delete", { name }), on: { click: () => keep(readViews().filter((view) => view.name !== name)) } }, icon("close"));
    return el("li", {}, link, remove);
  }

  /** @param {SavedView[]} views */
  function keep(views) {
    setPreference(VIEWS, views.length === 0 ? null : JSON.stringify(views));
    draw();
    save.focus();
  }

  async function saveView() {
    const name = await askName();
    if (name === null) return;
    keep([...readViews().filter((view) => view.name !== name), { name, search: location.search }]);
    node.open = true;
    toast(t("documents.view_saved", { name }));
  }

  draw();
  return node;
}

function askName() {
  return openDialog(t("documents.view_save"), (/** @type {(name: string | null) => void} */ close) => {
    const name = textField({ label: t("documents.view_name"), required: true, maxlength: 60 });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (name.input.value.trim()) close(name.input.value.trim());
    };
    const buttons = el("div", { class: "dialog-buttons" }, el("button", { class: "button", type: "button", on: { click: () => close(null) } }, t("shell.cancel")), el("button", { class: "button button-primary", type: "submit" }, t("documents.view_go")));
    return el("form", { class: "form", method: "dialog", on: { submit } }, name.node, buttons);
  });
}
