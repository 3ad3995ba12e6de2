// All versions of the policy, the difference between any two, and the way back to an older one.

import { el, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { panel } from "../../components/panel.js";
import { select } from "../../components/fields.js";
import { momentAgo } from "../../components/relative_time.js";
import { table } from "../../components/table.js";
import { differenceTable } from "./difference.js";

const SHOWN = 10;

export class Versions {
  #view;
  #versions = [];
  #most = SHOWN;

  /** onRollBack(version) is asked when somebody wants an old one again, onJudge(version) when what became of one. */
  constructor(view, { onRollBack, onJudge }) {
    this.#view = view;
    this.table = table({ caption: t("policy.versions"), keyOf: (row) => row.version, columns: columns(onRollBack, onJudge) });
    this.more = el("button", { class: "button", type: "button", on: { click: () => this.#showMore() } }, t("shell.more"));
    const chosen = { change: () => this.#chosen() };
    this.from = select({ label: t("policy.compare_from"), options: [], on: chosen });
    this.to = select({ label: t("policy.compare_to"), options: [], on: chosen });
    this.difference = el("div", { "aria-live": "polite" });
    const tools = el("div", { class: "compare" }, this.from.node, this.to.node);
    const compare = panel(t("policy.compare"), {}, tools, this.difference);
    const list = panel(t("policy.versions"), { className: "panel-flush" }, this.table.node, el("div", { class: "more" }, this.more));
    this.node = el("div", { class: "policy-versions" }, list, compare);
  }

  update(versions) {
    this.#versions = versions;
    const current = versions[0].version;
    this.table.update(versions.slice(0, this.#most).map((each) => ({ ...each, isCurrent: each.version === current })));
    this.more.parentNode.hidden = versions.length <= this.#most;
    const options = () => versions.map((each) => el("option", { value: each.version }, t("policy.version", { version: each.version })));
    fill(this.from.input, options());
    fill(this.to.input, options());
    this.compare();
  }

  /** As the address says, or the last change. */
  compare() {
    const [newest, before] = this.#versions;
    const [from, until] = [this.#named("from") ?? before ?? newest, this.#named("to") ?? newest];
    this.from.input.value = from.version;
    this.to.input.value = until.version;
    const heading = (each) => t("policy.version", { version: each.version });
    fill(this.difference, differenceTable(t("policy.compare"), [[heading(from), from.policy], [heading(until), until.policy]]));
  }

  #named(name) {
    return this.#versions.find((each) => String(each.version) === this.#view.query.get(name));
  }

  #chosen() {
    this.#view.setQuery({ from: this.from.input.value, to: this.to.input.value });
  }

  #showMore() {
    this.#most += 50;
    this.update(this.#versions);
  }
}

function columns(onRollBack, onJudge) {
  const found = [
    { key: "version", label: t("policy.head_version"), value: (row) => row.version, cell: (row) => el("div", { class: "version" }, t("policy.version", { version: row.version }), el("span", { class: "muted" }, momentAgo(row.at))) },
    { key: "operator", label: t("policy.head_operator"), className: "cell-wrap wide-only", value: (row) => row.operator },
    { key: "why", label: t("policy.head_why"), className: "cell-wrap", value: (row) => row.why || "–" },
  ];
  const button = (text, label, call) => el("button", { class: "button button-small", type: "button", "aria-label": label, on: { click: call } }, text);
  const actions = (row) => [
    row.isCurrent && el("span", { class: "muted" }, t("policy.in_force")),
    mayOperate() && row.version > 1 && button(t("policy.judge"), t("policy.judge_version", { version: row.version }), () => onJudge(row.version)),
    mayOperate() && !row.isCurrent && button(t("policy.roll_back"), t("policy.roll_back_to", { version: row.version }), () => onRollBack(row)),
  ];
  const action = { key: "action", label: "", align: "end", value: (row) => String(row.isCurrent), cell: (row) => el("div", { class: "version-actions" }, actions(row)) };
  return [...found, { ...action, label: el("span", { class: "hidden" }, t("policy.head_action")) }];
}
