// Who would have waited less, and who more: the documents that really came, played under the policy that was typed.

import { el, fill } from "../../dom.js";
import { duration, number, percent } from "../../format.js";
import { t } from "../../i18n.js";
import { panel } from "../../components/panel.js";
import { pairBar } from "../../components/charts.js";
import { groupName, played, sides, waitingChart } from "../../components/comparison.js";
import { select } from "../../components/fields.js";
import { job } from "../../components/progress_job.js";
import { levelClass, levelName } from "../../components/badges.js";
import { plainTable } from "../../components/static_table.js";
import { banner, failed } from "../../components/placeholders.js";

const SECOND = 1_000_000;
const HOUR = 3_600;
const LENGTHS = { hour: HOUR, quarter: 6 * HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR };

export class Preview {
  #valueOf;
  #played = null;

  /** valueOf() gives the policy that was typed, or null. */
  constructor(view, valueOf) {
    this.#valueOf = valueOf;
    const options = Object.keys(LENGTHS).map((each) => [each, t(`policy.last_${each}`)]);
    this.length = select({ label: t("policy.preview_of"), options, value: "day" });
    this.button = el("button", { class: "button", type: "button", on: { click: () => this.#run() } }, t("policy.preview_run"));
    this.job = job({ label: t("policy.preview"), signal: view.signal });
    this.outdated = el("div", { hidden: true }, banner(t("policy.preview_outdated"), { kind: "warn" }));
    this.result = el("div", { class: "preview-result", "aria-live": "polite" });
    const tools = el("div", { class: "preview-tools" }, this.length.node, this.button, this.job.node);
    this.node = panel(t("policy.preview"), { hint: t("policy.preview_hint") }, tools, this.outdated, this.result);
  }

  /** Something else was typed, or something wrong. */
  changed(policy) {
    this.button.disabled = policy === null;
    this.outdated.hidden = this.#played === null || JSON.stringify(policy) === this.#played;
  }

  async #run() {
    const policy = this.#valueOf();
    const since = Math.max(0, Math.round((Date.now() / 1_000 - LENGTHS[this.length.input.value]) * SECOND));
    this.#played = null;
    this.outdated.hidden = true;
    fill(this.result);
    this.button.disabled = true;
    try {
      const found = await this.job.run("/v1/policy/preview", { policy, since });
      if (found === null) return;
      this.#played = JSON.stringify(policy);
      fill(this.result, comparison(found.comparison));
    } catch (wrong) {
      const isNothing = wrong.detail?.includes("nothing to play") ?? false;
      fill(this.result, isNothing ? el("p", { class: "muted" }, t("policy.preview_nothing")) : failed(wrong, () => this.#run()));
    } finally {
      this.changed(this.#valueOf());
    }
  }
}

function comparison(found) {
  return [
    el("p", {}, played(found), found.is_cut ? ` ${t("policy.preview_cut")}` : ""),
    sides(found),
    groups(found.groups),
    el("div", { class: "preview-sides" }, levels(found), waiting(found)),
  ];
}

function groups(found) {
  const label = t("policy.preview_groups");
  const heads = ["documents_a_day", "customers", "documents", "mean_now", "mean_then", "p95_now", "p95_then"].map((each) => t(`policy.head_${each}`));
  const rows = found.map((each) => {
    const waits = [each.current.mean, each.proposed.mean, each.current.p95, each.proposed.p95].map((wait) => duration(wait * SECOND));
    return [groupName(each.group), number(each.customers), number(each.documents), ...waits];
  });
  return el("section", {}, el("h3", {}, label), plainTable(label, heads, rows));
}

/** How many documents got which level: now above, then below. */
function levels(found) {
  const all = [...new Set([...Object.keys(found.levels_current), ...Object.keys(found.levels_proposed)].map(Number))].sort((one, other) => one - other);
  const most = Math.max(1, ...Object.values(found.levels_current), ...Object.values(found.levels_proposed));
  const rows = all.map((level) => {
    const [now, then] = [found.levels_current[level] ?? 0, found.levels_proposed[level] ?? 0];
    const bar = pairBar();
    bar.update(then / most, now / most);
    return el("li", { class: `preview-level ${levelClass(level)}` }, el("span", {}, levelName(level)), bar.node, el("span", { class: "change" }, percent(now / found.documents), " → ", percent(then / found.documents)));
  });
  return el("section", {}, el("h3", {}, t("policy.preview_levels")), el("ul", { class: "preview-levels" }, rows));
}

function waiting(found) {
  const series = [
    { key: "current", label: t("policy.as_now"), className: "series-now" },
    { key: "proposed", label: t("policy.as_typed"), className: "series-a" },
  ];
  const chart = waitingChart(found, series);
  return el("section", {}, el("div", { class: "preview-head" }, el("h3", {}, t("policy.preview_waiting")), chart.legend), chart.node);
}
