// Light and heavy customers, and the overdue slot.

import { el, fill, setText } from "../../dom.js";
import { duration, durationInWords, number } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { levelBadge } from "../../components/badges.js";
import { panel } from "../../components/panel.js";
import { tableBox } from "../../components/table_box.js";

/** @import { LatelyBuffer } from "../overview.js" */

export class Groups {
  constructor() {
    this.rows = /** @type {const} */ (["quiet", "busy"]).map((name) => ({ name, cells: [0, 1, 2, 3].map(() => el("td", { class: "cell-end" })), label: el("th", { scope: "row" }) }));
    const heads = ["", "customers", "waiting", "p50", "p95"].map((name) => el("th", { scope: "col", class: name ? "cell-end" : null }, name ? t(`overview.head_${name}`) : el("span", { class: "hidden" }, t("overview.group"))));
    const body = this.rows.map((row) => el("tr", {}, row.label, row.cells));
    const box = tableBox(t("overview.quiet_busy"), el("table", { class: "table table-small" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, body)));
    this.node = panel(t("overview.quiet_busy"), { className: "panel-flush" }, box);
  }

  /** @param {Api.Overview} overview */
  update(overview) {
    for (const row of this.rows) {
      const group = overview[row.name];
      setText(row.label, t(`overview.${row.name}`, { last: overview.last_level, before: overview.last_level - 1 }));
      const waits = [group.waits?.p50, group.waits?.p95].map((wait) => (wait === undefined ? "–" : duration(wait)));
      const counts = [heldBeside(group.customers, group.held_customers), heldBeside(group.waiting, group.held)];
      [...counts, ...waits].forEach((text, index) => setText(row.cells[index], text));
    }
  }
}

/**
 * A number, and how many of it are held, if any.
 * @param {number} n
 * @param {number} held
 */
function heldBeside(n, held) {
  return held > 0 ? `${number(n)} (${t("overview.held", { n: held })})` : number(n);
}

export class Overdue {
  constructor() {
    this.now = el("p", { class: "overdue-now" });
    this.levels = el("p", { class: "overdue-levels" });
    this.hint = el("p", { class: "muted" });
    this.node = panel(t("overview.overdue"), {}, this.now, this.levels, this.hint);
  }

  /**
   * @param {Api.Overview} overview
   * @param {LatelyBuffer} history
   */
  update({ overdue }, history) {
    const uses = history.of("overdue_uses");
    const lately = uses.length > 0 ? overdue.uses - uses[0] : 0;
    setText(this.now, overdue.levels.length > 0 ? t("overview.overdue_levels", { n: overdue.levels.length }) : t("overview.overdue_none"));
    fill(this.levels, overdue.levels.map((level) => el("a", { class: "overdue-level", href: pageUrl("documents", {}, { state: "waiting", level }) }, levelBadge(level))));
    setText(this.hint, `${t("overview.overdue_uses", { n: lately })} ${t("overview.overdue_hint", { after: durationInWords(overdue.after), every: overdue.every })}`);
  }
}
