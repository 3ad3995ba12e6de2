// The policy in tabs: active settings with a form, a preview on real documents, the simulator, and the versions.
// The tab is in the address. All tabs are one page, so that typed values and results stay.

import { get, ignoreRequestError } from "../api.js";
import { el, fill } from "../dom.js";
import { durationInWords, time } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayOperate } from "../session.js";
import { counterChart } from "../components/counter_chart.js";
import { panel } from "../components/panel.js";
import { errorState } from "../components/placeholders.js";
import { tabs } from "../components/tabs.js";
import { describePolicy } from "./policy/description.js";
import { PolicyEditor } from "./policy/editor.js";
import { EvaluationPanel } from "./policy/evaluation.js";
import { Preview } from "./policy/preview.js";
import { Versions } from "./policy/versions.js";
import { createSimulator } from "./simulator/simulator.js";

/** @import { View } from "../router.js" */

const MAX_CHART_COLUMNS = 60;

/** @param {View} view */
export async function mount(view) {
  const summary = new PolicySummary();
  const drawing = new LevelsChart();
  const judging = new EvaluationPanel(view);
  const preview = new Preview(view, () => editor.form.value());
  const versions = new Versions(view, { onRollBack: (version) => editor.rollBack(version), onJudge: (version) => judging.evaluate(version) });
  const editor = new PolicyEditor(drawing, { reload: load, onChange: (policy, base) => preview.changed(policy, base) });
  const simulator = el("div", {});
  /** @type {Awaited<ReturnType<typeof createSimulator>> | null} */
  let simulation = null;

  async function load() {
    const { versions: versionList } = await get("/v1/policy/versions", { signal: view.signal });
    summary.update(versionList[0]);
    versions.update(versionList);
    editor.onVersion(versionList[0]);
    if (!mayOperate()) drawing.update(versionList[0].policy);
    return versionList[0];
  }

  /**
   * The simulator asks for its scenarios when it is opened first.
   * @param {string} name
   */
  async function showTab(name) {
    shown.show(name);
    if (name !== "simulator") return;
    if (simulation !== null) simulation.update();
    else await openSimulator();
  }

  async function openSimulator() {
    try {
      simulation = await createSimulator(view);
      fill(simulator, simulation.node);
    } catch (error) {
      ignoreRequestError(error);
      fill(simulator, errorState(error, openSimulator));
    }
  }

  await load();
  view.listen(["policy_set"], () => load().catch(ignoreRequestError));
  const sides = mayOperate() ? [editor.node, drawing.node] : [drawing.node];
  const shown = tabs(t("policy.title"), [
    { name: "settings", label: t("settings.title"), nodes: [summary.node, el("div", { class: "policy-sides" }, sides)] },
    ...(mayOperate() ? [{ name: "try", label: t("policy.preview"), nodes: [preview.node] }] : []),
    { name: "simulator", label: t("simulator.title"), nodes: [simulator] },
    { name: "versions", label: t("policy.versions"), nodes: [versions.node, judging.node] },
  ].map((tab, index) => ({ ...tab, href: pageUrl("policy", {}, index === 0 ? {} : { tab: tab.name }) })));
  await showTab(tabOf(view.query));
  fill(view.root, shown.node);
  return {
    /** @param {URLSearchParams} query */
    update(query) {
      versions.compare();
      return showTab(tabOf(query));
    },
  };
}

/**
 * Addresses from before there were tabs name versions to compare, and no tab.
 * @param {URLSearchParams} query
 */
function tabOf(query) {
  return query.get("tab") ?? (query.has("from") || query.has("to") ? "versions" : "settings");
}

class PolicySummary {
  constructor() {
    this.about = el("p", { class: "muted words-about" });
    this.list = el("ul", { class: "words" });
    this.node = panel(t("policy.now"), { actions: this.about }, this.list);
  }

  /** @param {Api.PolicyVersion} version */
  update(version) {
    const why = version.why ? t("policy.because", { why: version.why }) : "";
    fill(this.about, t("policy.since", { version: version.version, time: time(version.at), operator: version.operator }), why && ` ${why}`);
    fill(this.list, describePolicy(version.policy).map((sentence) => el("li", {}, sentence)));
  }
}

/** The levels of a burst, and of the first documents after the reset. */
class LevelsChart {
  constructor() {
    this.drawing = counterChart();
    this.node = panel(t("policy.drawing"), { className: "policy-chart", hint: t("policy.drawing_hint") }, this.drawing.node);
  }

  /** @param {Api.Policy} policy */
  update({ thresholds, reset_interval: interval }) {
    const depth = 4 - thresholds[thresholds.length - 1];
    const step = Math.max(1, Math.ceil(depth / MAX_CHART_COLUMNS));
    const checks = Array.from({ length: Math.floor(depth / step) + 1 }, (_, index) => ({ count: 0 - index * step, isReset: false }));
    const words = durationInWords(interval);
    const summary = t("policy.drawing_summary", { n: 1 - thresholds[0], from: 2 - thresholds[thresholds.length - 1], last: thresholds.length + 1, interval: words });
    checks.push({ count: 0, isReset: true }, { count: -step, isReset: false });
    this.drawing.update({ checks, thresholds, depth, resetText: t("policy.drawing_reset", { interval: words }), summary });
  }
}
