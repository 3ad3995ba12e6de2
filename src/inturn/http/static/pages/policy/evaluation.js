// Whether a version of the policy did what was to be expected of it.

import { el, fill } from "../../dom.js";
import { number, time } from "../../format.js";
import { t } from "../../i18n.js";
import { panel } from "../../components/panel.js";
import { change, groupName } from "../../components/comparison.js";
import { job } from "../../components/progress_job.js";
import { plainTable } from "../../components/static_table.js";
import { empty, failed } from "../../components/placeholders.js";

export class Judging {
  constructor(view) {
    this.job = job({ label: t("policy.judge"), signal: view.signal });
    this.result = el("div", { class: "judging-result", "aria-live": "polite" });
    this.node = el("div", { hidden: true });
  }

  /** Show what became of a version; the focus goes where it is shown. */
  async judge(version) {
    const shown = panel(t("policy.judge_version", { version }), { className: "judging", hint: t("policy.judge_hint") }, this.job.node, this.result);
    fill(this.result);
    fill(this.node, shown);
    this.node.hidden = false;
    const heading = shown.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    shown.scrollIntoView({ block: "nearest" });
    try {
      const found = await this.job.run(`/v1/policy/versions/${version}/judgement`);
      if (shown.parentNode !== this.node) return; // another version was asked for meanwhile
      if (found === null) this.node.hidden = true;
      else fill(this.result, judged(found.judgement));
    } catch (wrong) {
      fill(this.result, failed(wrong, () => this.judge(version)));
    }
    shown.scrollIntoView({ block: "nearest" });
  }
}

function judged(found) {
  const { documents_before: before, documents_since: since } = found;
  const looked = t("policy.judged_by", { before: number(before), since: number(since), from: time(found.at), until: time(found.until) });
  const words = el("p", { class: "muted" }, looked, found.is_cut ? ` ${t("policy.preview_cut")}` : "");
  const missing = before === 0 ? "no_before" : since === 0 ? "no_since" : null;
  if (missing !== null && found.groups.length === 0) return [empty(t("policy.judged_nothing"), t("policy.judged_nothing_hint"))];
  return [el("p", { class: "judged" }, t(`policy.judged_${missing ?? summary(found.groups)}`)), groups(found.groups), words];
}

/** All that can be told of them, in one word. */
function summary(groups) {
  const verdicts = new Set(groups.map((each) => each.verdict));
  if (verdicts.has("came_true")) return verdicts.has("did_not") ? "partly" : "came_true";
  return verdicts.has("did_not") ? "did_not" : "unknown";
}

function groups(found) {
  const label = t("policy.preview_groups");
  const heads = ["documents_a_day", "verdict", "expected", "happened"].map((each) => t(`policy.head_${each}`));
  const rows = found.map((each) => [
    groupName(each.group),
    el("span", { class: `badge verdict-${each.verdict}` }, t(`policy.verdict_${each.verdict}`)),
    way(each.expected, each.expected_without, each.expected_with),
    way(each.happened, each.without, each.observed),
  ]);
  return plainTable(label, heads, rows, heads.length);
}

function way(which, before, after) {
  if (which === null) return el("span", { class: "muted" }, t("policy.way_unknown"));
  return el("div", { class: "way" }, t(`policy.way_${which}`), change(before.mean, after.mean));
}
