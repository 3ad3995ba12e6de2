// The queues in short, where there is more than one.

import { el, fill } from "../../dom.js";
import { number } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { panel } from "../../components/panel.js";
import { tableBox } from "../../components/table_box.js";

const MAX_SHOWN = 12;

export class Queues {
  #shown = "";

  constructor() {
    this.body = el("tbody", {});
    const heads = [t("queues.head_name"), t("queues.head_waiting"), t("queues.head_running")].map((text, index) => el("th", { scope: "col", class: index > 0 ? "cell-end" : null }, text));
    const all = el("a", { href: pageUrl("queues") }, t("overview.all_queues"));
    const list = el("table", { class: "table table-small" }, el("thead", {}, el("tr", {}, heads)), this.body);
    this.node = panel(t("queues.title"), { className: "panel-flush", actions: all }, tableBox(t("queues.title"), list));
    this.node.hidden = true;
  }

  /** @param {Api.NamedQueue[]} queues */
  update(queues) {
    this.node.hidden = queues.length < 2;
    const rows = [...queues].sort((one, other) => other.waiting + other.running - one.waiting - one.running).slice(0, MAX_SHOWN);
    const shown = JSON.stringify(rows);
    if (shown === this.#shown) return;
    this.#shown = shown;
    fill(this.body, rows.map(makeRow));
  }
}

/** @param {Api.NamedQueue} queue */
function makeRow({ name, waiting, running, cap, paused }) {
  const link = el("a", { href: pageUrl("documents", {}, { queue: name, parts: "include" }) }, name);
  const ofCap = cap !== null && el("span", { class: "muted" }, ` ${t("customer.of_cap", { cap })}`);
  return el("tr", {}, el("th", { scope: "row" }, link, paused !== null && el("span", { class: "badge queue-paused" }, t("queues.status_paused"))), el("td", { class: "cell-end" }, number(waiting)), el("td", { class: "cell-end" }, number(running), ofCap));
}
