// The versions of the policy: compare any two, or roll back to one.

import { el, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { selectField } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { relativeTime } from "../../components/relative_time.js";
import { table } from "../../components/table.js";
import { differenceTable } from "./difference.js";

/** @import { View } from "../../router.js" */

/** @import { Column } from "../../components/table.js" */
/** @typedef {(version: Api.PolicyVersion) => unknown} OnRollBack */
/** @typedef {(version: number) => unknown} OnJudge */
/** @typedef {Api.PolicyVersion & { isCurrent: boolean }} Row */

const INITIAL_ROWS = 10;

export class Versions {
  #view;
  /** @type {Api.PolicyVersion[]} */
  #versions = [];
  #maxRows = INITIAL_ROWS;

  /**
   * onRollBack(version) and onJudge(version) are called by the buttons of a row.
   * @param {View} view
   * @param {{ onRollBack: OnRollBack, onJudge: OnJudge }} actions
   */
  constructor(view, { onRollBack, onJudge }) {
    this.#view = view;
    this.table = table({ caption: t("policy.versions"), keyOf: (row) => row.version, columns: columns(onRollBack, onJudge) });
    this.more = el("button", { class: "button", type: "button", on: { click: () => this.#showMore() } }, t("shell.more"));
    const chosen = { change: () => this.#chosen() };
    this.from = selectField({ label: t("policy.compare_from"), options: [], on: chosen });
    this.to = selectField({ label: t("policy.compare_to"), options: [], on: chosen });
    this.difference = el("div", { "aria-live": "polite" });
    const tools = el("div", { class: "compare" }, this.from.node, this.to.node);
    const compare = panel(t("policy.compare"), {}, tools, this.difference);
    this.moreBox = el("div", { class: "more" }, this.more);
    const list = panel(t("policy.versions"), { className: "panel-flush" }, this.table.node, this.moreBox);
    this.node = el("div", { class: "policy-versions" }, list, compare);
  }

  /** @param {Api.PolicyVersion[]} versions */
  update(versions) {
    this.#versions = versions;
    const current = versions[0].version;
    this.table.update(versions.slice(0, this.#maxRows).map((version) => ({ ...version, isCurrent: version.version === current })));
    this.moreBox.hidden = versions.length <= this.#maxRows;
    const options = () => versions.map((version) => el("option", { value: version.version }, t("policy.version", { version: version.version })));
    fill(this.from.input, options());
    fill(this.to.input, options());
    this.compare();
  }

  /** Compare the versions of the address, or by default the last two. */
  compare() {
    const [newest, before] = this.#versions;
    const [from, until] = [this.#versionFromQuery("from") ?? before ?? newest, this.#versionFromQuery("to") ?? newest];
    this.from.input.value = String(from.version);
    this.to.input.value = String(until.version);
    const heading = (/** @type {Api.PolicyVersion} */ version) => t("policy.version", { version: version.version });
    fill(this.difference, differenceTable(t("policy.compare"), [[heading(from), from.policy], [heading(until), until.policy]]));
  }

  /** @param {string} name */
  #versionFromQuery(name) {
    return this.#versions.find((version) => String(version.version) === this.#view.query.get(name));
  }

  #chosen() {
    this.#view.setQuery({ from: this.from.input.value, to: this.to.input.value });
  }

  #showMore() {
    this.#maxRows += 50;
    this.update(this.#versions);
  }
}

/**
 * @param {OnRollBack} onRollBack
 * @param {OnJudge} onJudge
 * @returns {Column<Row>[]}
 */
function columns(onRollBack, onJudge) {
  /** @type {Column<Row>[]} */
  const dataColumns = [
    { key: "version", label: t("policy.head_version"), value: (row) => row.version, cell: (row) => el("div", { class: "version" }, t("policy.version", { version: row.version }), el("span", { class: "muted" }, relativeTime(row.at))) },
    { key: "operator", label: t("policy.head_operator"), className: "cell-wrap wide-only", value: (row) => row.operator },
    { key: "why", label: t("policy.head_why"), className: "cell-wrap", value: (row) => row.why || "–" },
  ];
  const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => unknown} */ call) => el("button", { class: "button button-small", type: "button", "aria-label": label, on: { click: call } }, text);
  const actions = (/** @type {Row} */ row) => [
    row.isCurrent && el("span", { class: "muted" }, t("policy.in_force")),
    mayOperate() && row.version > 1 && button(t("policy.judge"), t("policy.judge_version", { version: row.version }), () => onJudge(row.version)),
    mayOperate() && !row.isCurrent && button(t("policy.roll_back"), t("policy.roll_back_to", { version: row.version }), () => onRollBack(row)),
  ];
  /** @type {Column<Row>} */
  const action = { key: "action", label: "", align: "end", value: (row) => String(row.isCurrent), cell: (row) => el("div", { class: "version-actions" }, actions(row)) };
  return [...dataColumns, { ...action, label: el("span", { class: "hidden" }, t("policy.head_action")) }];
}
