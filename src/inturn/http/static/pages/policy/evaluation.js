// Evaluate a version of the policy: whether waits changed as a replay predicts.

import { el, fill } from "../../dom.js";
import { number, time } from "../../format.js";
import { t } from "../../i18n.js";
import { groupName, waitChange } from "../../components/comparison.js";
import { panel } from "../../components/panel.js";
import { emptyState, errorState } from "../../components/placeholders.js";
import { progressJob } from "../../components/progress_job.js";
import { staticTable } from "../../components/static_table.js";

/** @import { View } from "../../router.js" */

/**
 * A group of customers: what was to be expected of a policy for its waits, and what happened; null where it is not known.
 * @typedef {{
 *   group: string, verdict: string, expected: Trend | null, happened: Trend | null,
 *   expected_without: MeanWait, expected_with: MeanWait, without: MeanWait, observed: MeanWait,
 * }} JudgedGroup
 * @typedef {{ mean: number }} MeanWait
 */
/** @typedef {"shorter" | "same" | "longer"} Trend */
/** @typedef {{ groups: JudgedGroup[], documents_before: number, documents_since: number, at: number, until: number, is_cut: boolean }} Judgement */

/** From the best to the worst. */
const TRENDS = ["shorter", "same", "longer"];

export class EvaluationPanel {
  /** @param {View} view */
  constructor(view) {
    this.job = progressJob({ label: t("policy.judge"), signal: view.signal });
    this.result = el("div", { class: "evaluation-result", "aria-live": "polite" });
    this.node = el("div", { hidden: true });
  }

  /**
   * Evaluate a version, and move the focus to the panel.
   * @param {number} version
   */
  async evaluate(version) {
    const shown = panel(t("policy.judge_version", { version }), { className: "evaluation", hint: t("policy.judge_hint") }, this.job.node, this.result);
    fill(this.result);
    fill(this.node, shown);
    this.node.hidden = false;
    const heading = /** @type {HTMLElement} */ (shown.querySelector("h2"));
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    shown.scrollIntoView({ block: "nearest" });
    try {
      const result = await this.job.run(`/v1/policy/versions/${version}/judgement`);
      if (shown.parentNode !== this.node) return; // another version was requested meanwhile
      if (result === null) this.node.hidden = true;
      else fill(this.result, renderEvaluation(result.judgement));
    } catch (error) {
      fill(this.result, errorState(error, () => this.evaluate(version)));
    }
    shown.scrollIntoView({ block: "nearest" });
  }
}

/** @param {Judgement} judgement */
function renderEvaluation(judgement) {
  const { documents_before: before, documents_since: since } = judgement;
  const summary = t("policy.judged_by", { before: number(before), since: number(since), from: time(judgement.at), until: time(judgement.until) });
  const words = el("p", { class: "muted" }, summary, judgement.is_cut ? ` ${t("policy.preview_cut")}` : "");
  const missing = before === 0 ? "no_before" : since === 0 ? "no_since" : null;
  if (missing !== null && judgement.groups.length === 0) return [emptyState(t("policy.judged_nothing"), t("policy.judged_nothing_hint"))];
  return [el("p", { class: "evaluation-verdict" }, t(`policy.judged_${missing ?? overallVerdict(judgement.groups)}`)), groupTable(judgement.groups), words];
}

/**
 * Merge the verdicts of all groups into one.
 * @param {JudgedGroup[]} groups
 */
function overallVerdict(groups) {
  const verdicts = new Set(groups.map(groupVerdict));
  if (verdicts.has("better") && !verdicts.has("did_not")) return "better";
  if (verdicts.delete("better")) verdicts.add("came_true"); // better than expected here, and worse elsewhere
  if (verdicts.has("came_true")) return verdicts.has("did_not") ? "partly" : "came_true";
  return verdicts.has("did_not") ? "did_not" : "unknown";
}

/**
 * A group that waits less than was to be expected has a better result, not a wrong one.
 * @param {JudgedGroup} judgedGroup
 */
function groupVerdict({ verdict, expected, happened }) {
  return verdict === "did_not" && happened !== null && expected !== null && TRENDS.indexOf(happened) < TRENDS.indexOf(expected) ? "better" : verdict;
}

/** @param {JudgedGroup[]} groups */
function groupTable(groups) {
  const label = t("policy.preview_groups");
  const heads = ["documents_a_day", "verdict", "expected", "happened"].map((name) => t(`policy.head_${name}`));
  const rows = groups.map((group) => [
    groupName(group.group),
    el("span", { class: `badge verdict-${groupVerdict(group)}` }, t(`policy.verdict_${groupVerdict(group)}`)),
    directionCell(group.expected, group.expected_without, group.expected_with),
    directionCell(group.happened, group.without, group.observed),
  ]);
  return staticTable(label, heads, rows, heads.length);
}

/**
 * @param {Trend | null} which
 * @param {MeanWait} before
 * @param {MeanWait} after
 */
function directionCell(which, before, after) {
  if (which === null) return el("span", { class: "muted" }, t("policy.way_unknown"));
  return el("div", { class: "way" }, t(`policy.way_${which}`), waitChange(before.mean, after.mean));
}
