// Actions on the selected documents, or on all that match. A dry run counts them, then a dialog asks.

import { ApiError, send } from "../../api.js";
import { el, fill } from "../../dom.js";
import { time } from "../../format.js";
import { t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { levelName } from "../../components/badges.js";
import { confirm } from "../../components/dialog.js";
import { retryStart } from "../../components/retry_start.js";
import { toast, toastWithUndo } from "../../components/toast.js";
import { filtersFromQuery } from "./filters.js";

/** @type {Api.DocumentState[]} */
const CANCELLABLE = ["waiting", "running", "delayed", "split"];
/** @type {Api.DocumentState[]} */
const RETRYABLE = ["failed", "expired", "cancelled"];
const MAX_IDS_PER_REQUEST = 1_000;
const TYPED_CONFIRMATION_THRESHOLD = 100; // cancelling so many documents needs their number typed

/** list: {view, selection, rows, hasMore, matching, unselect(), refreshAll()} */
export class BulkActions {
  #list;
  #isAll = false;

  /** @param {import("../documents.js").DocumentList} list */
  constructor(list) {
    this.#list = list;
    this.node = el("div", { class: "documents-bar" });
  }

  clear() {
    this.#isAll = false;
    this.#list.unselect();
  }

  /** Redraw after a change of the selection or the rows. */
  update() {
    const { selection, rows, hasMore, matching } = this.#list;
    const { size } = selection;
    if (size === 0 || size < rows.length) this.#isAll = false;
    const canBeAll = !this.#isAll && size === rows.length && hasMore;
    const key = `${size} ${this.#isAll} ${canBeAll} ${matching}`;
    if (key === this.node.dataset.key) return; // redrawing would take the focus from a button
    const focused = /** @type {HTMLElement | null} */ (this.node.querySelector(":focus"));
    this.node.dataset.key = key;
    fill(this.node, size > 0 && this.#actions(size, canBeAll, matching));
    if (focused?.dataset.act) /** @type {HTMLElement | null} */ (this.node.querySelector(`[data-act="${focused.dataset.act}"]`))?.focus();
  }

  /**
   * @param {number} size
   * @param {boolean} canBeAll
   * @param {number | null} matching
   */
  #actions(size, canBeAll, matching) {
    const button = (/** @type {string} */ act, /** @type {string} */ label, props = {}) => el("button", { class: "button button-small", type: "button", data: { act }, ...props, on: { click: () => this.#act(act) } }, label);
    const all = () => {
      this.#isAll = true;
      this.update();
    };
    const what = this.#isAll ? t("documents.all_selected", { n: matching ?? size }) : t("documents.selected", { n: size });
    return el(
      "div",
      { class: "documents-actions", role: "group", "aria-label": t("documents.actions") },
      el("p", { role: "status" }, what),
      canBeAll && el("button", { class: "button button-small", type: "button", data: { act: "all" }, on: { click: all } }, matching === null ? t("documents.select_matching") : t("documents.select_all", { n: matching })),
      el(
        "div",
        { class: "documents-buttons" },
        button("retry", t("documents.do_retry")),
        mayOperate() && !this.#isAll && button("expedite", t("documents.do_expedite")),
        button("cancel", t("documents.do_cancel")),
        el("button", { class: "button button-small", type: "button", data: { act: "none" }, on: { click: () => this.clear() } }, t("documents.unselect")),
      ),
    );
  }

  /** @param {string} act */
  async #act(act) {
    /** @type {Api.BulkFilter[]} */
    const groups = this.#isAll ? [this.#filter(act)] : chunks([...this.#list.selection], MAX_IDS_PER_REQUEST).map((ids) => ({ ids }));
    try {
      const n = await this.#countFor(act, groups);
      if (n === 0) {
        toast(t(`documents.none_to_${act}`));
        return;
      }
      const start = act === "retry" && this.#list.rows.some((row) => row.step > 0) ? retryStart(t("documents.from_step")) : null;
      const answer = await confirm({
        title: t(`documents.ask_${act}`, { n }),
        text: this.#describeScope(act, n),
        action: t(`documents.do_${act}`),
        ...(act === "cancel" && { danger: true, dismiss: t("shell.dont_cancel") }),
        choice: start?.node,
        typed: act === "cancel" && n >= TYPED_CONFIRMATION_THRESHOLD ? String(n) : null,
      });
      if (answer === null) return;
      const moved = this.#expeditable();
      let done = 0;
      const more = start?.isFromStart() ? { from_start: true } : {};
      for (const body of groups) done += (await send("POST", `/v1/documents/${act}`, { body: { ...body, ...more }, query: { why: answer.why } })).documents;
      const text = t(`documents.did_${act}`, { n: done });
      if (act === "expedite") toastWithUndo(text, () => this.#undoExpedite(moved));
      else toast(text);
      this.clear();
      await this.#list.refreshAll();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  /**
   * The server's filter for "all that match", limited to the states that allow the action.
   * @param {string} act
   * @returns {Omit<Api.BulkFilter, "state"> & { state: Api.DocumentState[] }}
   */
  #filter(act) {
    const { state, level, ...where } = filtersFromQuery(this.#list.view.query);
    const filters = Object.fromEntries(Object.entries(where).filter(([, value]) => value));
    const can = act === "cancel" ? CANCELLABLE : RETRYABLE;
    const usual = act === "retry" ? can.filter((name) => name !== "cancelled") : can;
    const states = state.length > 0 ? state.filter((name) => can.includes(name)) : usual;
    return { ...filters, ...(level === null ? {} : { level: Number(level) }), state: states };
  }

  /**
   * @param {string} act
   * @param {Api.BulkFilter[]} groups
   */
  async #countFor(act, groups) {
    if (act === "expedite") return this.#expeditable().length;
    let n = 0;
    for (const group of groups) {
      if (group.state?.length === 0) continue;
      n += (await send("POST", `/v1/documents/${act}`, { body: { ...group, dry_run: true } })).documents;
    }
    return n;
  }

  /** The ids of the chosen documents that can be moved to the front. */
  #expeditable() {
    const rows = this.#list.rows.filter((row) => this.#list.selection.has(row.id) && !row.expedited && ["waiting", "delayed"].includes(row.state));
    return rows.map((row) => row.id);
  }

  /** @param {string[]} moved */
  async #undoExpedite(moved) {
    for (const ids of chunks(moved, MAX_IDS_PER_REQUEST)) await send("POST", "/v1/documents/expedite", { body: { ids, undo: true } });
    await this.#list.refreshAll();
  }

  /**
   * Describe the affected documents, for the dialog.
   * @param {string} act
   * @param {number} n
   */
  #describeScope(act, n) {
    const about = t(`documents.about_${act}`);
    if (!this.#isAll) {
      const rest = this.#list.selection.size - n;
      return rest > 0 ? `${about} ${t("documents.passed_over", { n: rest })}` : about;
    }
    const where = this.#filter(act);
    const parts = [
      [t("documents.head_state"), where.state.map((state) => t(`shell.state_${state}`)).join(", ")],
      [t("documents.head_level"), where.level && levelName(where.level)],
      [t("documents.head_customer"), where.customer],
      [t("documents.head_queue"), where.queue],
      [t("documents.parent"), where.parent],
      [t("documents.batch"), where.batch],
      [t("documents.name_has"), where.text],
      [where.time && t(`documents.time_${where.time}`), where.time && rangeText(where)],
    ];
    const named = parts.filter(([, value]) => value).map(([label, value]) => `${label}: ${value}`);
    return `${about} ${t("documents.all_matching", { filters: named.join(" · ") })}`;
  }
}

/** @param {{ since?: number | null, until?: number | null }} range */
function rangeText({ since = null, until = null }) {
  return [since, until].map((at) => (at === null ? "…" : time(at))).join(" – ");
}

/**
 * @param {string[]} items
 * @param {number} size
 */
function chunks(items, size) {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) => items.slice(index * size, (index + 1) * size));
}
