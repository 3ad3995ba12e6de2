// Explain the receipts: the counts, the levels they gave, and what these mean.

import { el, reconcileChildren, setProp, setText } from "../../dom.js";
import { number } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { seesAll } from "../../session.js";
import { levelBadge } from "../../components/badges.js";
import { describeCounter, describeLevel, levelScale } from "../../components/level_explanation.js";
import { panel } from "../../components/panel.js";
import { uploadQueue } from "./upload_queue.js";

/** @import { ArrivedItem } from "./upload_queue.js" */

export class ReceiptPanel {
  constructor() {
    this.scale = levelScale();
    this.intro = el("p", {});
    this.levels = el("ul", { class: "receipt-levels" });
    this.meaning = el("p", { class: "muted" }, t("upload.meaning"));
    this.counter = el("p", { class: "muted" });
    this.all = el("a", {}, t("upload.see_all"));
    this.none = el("p", { class: "muted" }, t("upload.receipt_none"));
    this.some = el("div", { class: "receipt" }, this.intro, this.scale.node, this.levels, this.meaning, this.counter, el("p", { class: "receipt-links" }, this.all, el("a", { href: pageUrl("priority") }, t("priority.title"))));
    this.node = panel(t("upload.receipt"), { className: "upload-receipt" }, this.none, this.some);
  }

  /** @param {ArrivedItem[]} arrived */
  update(arrived) {
    this.none.hidden = arrived.length > 0;
    this.some.hidden = arrived.length === 0;
    if (arrived.length === 0) return;
    const { customer } = arrived[arrived.length - 1];
    const own = arrived.filter((item) => item.customer === customer);
    /** @type {Map<number, number[]>} */
    const levels = new Map();
    for (const { receipt } of own) levels.set(receipt.level, [...(levels.get(receipt.level) ?? []), receipt.count]);
    const sorted = [...levels].sort(([one], [other]) => one - other);
    setText(this.intro, t("upload.arrived", { n: own.length, name: customer }));
    this.scale.update(sorted.map(([level]) => level));
    const words = (/** @type {[number, number[]]} */ [level, counts]) => {
      const bounds = uploadQueue.bounds.get(`${customer} ${level}`) ?? null;
      if (counts.length === 1) return describeLevel(level, counts[0], bounds);
      return t("upload.several", { n: counts.length, level, first: number(Math.max(...counts)), last: number(Math.min(...counts)) });
    };
    const make = (/** @type {[number, number[]]} */ entry) => {
      const text = el("p", {}, words(entry));
      return Object.assign(el("li", {}, levelBadge(entry[0]), text), { text });
    };
    reconcileChildren(this.levels, sorted, ([level]) => level, make, (node, entry) => setText(node.text, words(entry)));
    const counter = uploadQueue.counters.get(customer);
    setText(this.counter, counter === undefined ? "" : describeCounter(counter));
    setProp(this.all, "href", pageUrl("documents", {}, seesAll() ? { customer } : {}));
  }
}
