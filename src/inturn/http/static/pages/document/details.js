// What a document is and was submitted with, and which counter gave it its level.

import { el, keyed, setText } from "../../dom.js";
import { bytes, duration, number, time } from "../../format.js";
import { t } from "../../i18n.js";
import { to } from "../../routes.js";
import { panel } from "../../components/panel.js";
import { counterWords, levelScale, levelWords } from "../../components/level_explanation.js";

/** Which counter gave the level, and what the level means. */
export class LevelPart {
  constructor() {
    this.scale = levelScale();
    this.text = el("p", {});
    this.counter = el("p", { class: "muted" });
    const more = el("a", { href: to("priority") }, t("priority.title"));
    this.node = panel(t("document.level_heading"), {}, this.scale.node, this.text, this.counter, el("p", { class: "document-more" }, more));
  }

  update(found, why) {
    this.scale.update([found.level]);
    setText(this.text, [levelWords(found.level, found.count, why.bounds), found.expedited && t("document.expedited_by_hand")].filter(Boolean).join(" "));
    setText(this.counter, why.counter === null ? "" : counterWords(why.counter));
  }
}

export class Facts {
  constructor() {
    this.list = el("dl", { class: "facts" });
    this.node = panel(t("document.facts"), {}, this.list);
  }

  update(found) {
    const link = (href, words) => el("a", { href }, words);
    const began = found.began_at ?? found.started_at;
    const rows = [
      ["customer", found.customer, () => link(to("customer", { name: found.customer }), found.customer)],
      ["submitted", time(found.submitted_at)],
      ["started", began && time(began)],
      ["finished", found.finished_at && time(found.finished_at)],
      ["wait", began && duration(Math.max(0, began - found.ready_at))],
      ["took", found.finished_at && began && duration(Math.max(0, found.worked ?? found.finished_at - began))],
      ["attempts", t("document.attempts_of", { n: found.attempt, most: found.max_attempts })],
      ["worker", found.worker, () => el("span", { class: "mono" }, found.worker)],
      ["batch", found.batch, () => link(to("documents", {}, { batch: found.batch }), found.batch)],
      ["start_by", found.start_by && time(found.start_by)],
      ["size", found.size === null ? null : bytes(found.size)],
      ["media_type", found.media_type],
      ["pages", found.pages === null ? null : number(found.pages)],
      ["cost", found.cost === 1 ? null : number(found.cost, 3)],
      ["uri", found.uri],
      ["sha256", found.sha256, () => el("span", { class: "mono" }, found.sha256)],
      ["id", found.id, () => el("span", { class: "mono" }, found.id)],
    ];
    const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== 0);
    const make = ([name, value, made]) => el("div", {}, el("dt", {}, t(`document.fact_${name}`)), el("dd", {}, made ? made() : value));
    keyed(this.list, shown, ([name, value]) => `${name} ${value}`, make, () => {});
  }
}

export class Metadata {
  constructor() {
    this.list = el("dl", { class: "facts" });
    this.node = panel(t("document.metadata"), {}, this.list);
  }

  update({ metadata }) {
    const entries = Object.entries(metadata);
    this.node.hidden = entries.length === 0;
    const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    const make = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: "mono" }, written(value)));
    keyed(this.list, entries, ([name]) => name, make, () => {});
  }
}
