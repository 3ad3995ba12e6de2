// A document's level, details and metadata.

import { el, reconcileChildren, setText } from "../../dom.js";
import { bytes, duration, number, time } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { seesAll } from "../../session.js";
import { hasSteps, stepText } from "../../queues.js";
import { copyable } from "../../components/copy_button.js";
import { describeCounter, describeLevel, levelScale } from "../../components/level_explanation.js";
import { panel } from "../../components/panel.js";
import { isRetried } from "./status.js";

/** @import { Child } from "../../dom.js" */
/** @typedef {[name: string, value: string | number | null, make?: (() => Child) | null]} Detail */

/** The count that gave the level, and what the level means. */
export class LevelPanel {
  constructor() {
    this.scale = levelScale();
    this.text = el("p", {});
    this.counter = el("p", { class: "muted" });
    const more = el("a", { href: pageUrl("priority") }, t("priority.title"));
    this.node = panel(t("document.level_heading"), {}, this.scale.node, this.text, this.counter, el("p", { class: "document-more" }, more));
  }

  /**
   * @param {Api.Document} doc
   * @param {Api.Why} why
   */
  update(doc, why) {
    this.scale.update([doc.level]);
    setText(this.text, [describeLevel(doc.level, doc.count, why.bounds), doc.expedited && t("document.expedited_by_hand")].filter(Boolean).join(" "));
    setText(this.counter, why.counter === null ? "" : describeCounter(why.counter));
  }
}

export class DetailsPanel {
  constructor() {
    this.list = el("dl", { class: "details" });
    this.node = panel(t("document.details"), {}, this.list);
  }

  /**
   * @param {Api.Document} doc
   * @param {Api.Timeline} timeline
   */
  update(doc, timeline) {
    const mono = (/** @type {string} */ text) => copyable(el("span", { class: "mono" }, text), text);
    const link = (/** @type {string} */ href, /** @type {Child} */ words) => el("a", { href }, words);
    const began = doc.began_at ?? doc.started_at;
    /** @type {Detail[]} */
    const rows = [
      ["customer", doc.customer, () => copyable(link(pageUrl("customer", { name: doc.customer }), doc.customer), doc.customer)],
      ["submitted", time(doc.submitted_at)],
      ["started", began && time(began)],
      ["finished", doc.finished_at && time(doc.finished_at)],
      ["wait", began && duration(Math.max(0, began - (isRetried(doc, timeline) ? doc.submitted_at : doc.ready_at)))],
      ["took", doc.finished_at && began && duration(Math.max(0, doc.worked ?? doc.finished_at - began))],
      ["attempts", t("document.attempts_of", { n: doc.attempt, most: doc.max_attempts })],
      ["worker", doc.worker, () => mono(doc.worker ?? "")],
      ["batch", doc.batch, () => copyable(link(pageUrl("documents", {}, { batch: doc.batch }), doc.batch), doc.batch ?? "")],
      ["group", doc.group],
      ["queue", hasSteps(doc) ? doc.queue : null, () => (seesAll() ? link(pageUrl("documents", {}, { queue: doc.queue, parts: "include" }), doc.queue) : doc.queue)],
      ["step", hasSteps(doc) ? stepText(doc) : null],
      ["start_by", doc.start_by && time(doc.start_by)],
      ["size", doc.size === null ? null : bytes(doc.size)],
      ["media_type", doc.media_type],
      ["pages", doc.pages === null ? null : number(doc.pages)],
      ["cost", doc.cost === 1 ? null : number(doc.cost, 3)],
      ["uri", doc.uri, () => copyable(doc.uri ?? "")],
      ["sha256", doc.sha256, () => mono(doc.sha256 ?? "")],
      ["id", doc.id, () => mono(doc.id)],
    ];
    const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== 0);
    const make = (/** @type {Detail} */ [name, value, makeValue]) => el("div", {}, el("dt", {}, t(`document.detail_${name}`)), el("dd", {}, makeValue ? makeValue() : value));
    reconcileChildren(this.list, shown, ([name, value]) => `${name} ${value}`, make, () => {});
  }
}

export class MetadataPanel {
  constructor() {
    this.list = el("dl", { class: "details" });
    this.node = panel(t("document.metadata"), {}, this.list);
  }

  /** @param {Api.Document} doc */
  update({ metadata }) {
    const entries = Object.entries(metadata);
    this.node.hidden = entries.length === 0;
    const written = (/** @type {unknown} */ value) => (typeof value === "string" ? value : JSON.stringify(value));
    const make = (/** @type {[string, unknown]} */ [name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: "mono" }, written(value)));
    reconcileChildren(this.list, entries, ([name]) => name, make, () => {});
  }
}
