// Explain the priority system with the thresholds in force, and a counter to try it. The queue is not changed.

import { get, ignoreRequestError } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { countdown, duration, durationInWords, number } from "../format.js";
import { t } from "../i18n.js";
import { check, levelOf, levelRanges } from "../priority.js";
import { pageUrl } from "../routes.js";
import { seesAll } from "../session.js";
import { levelBadge, levelClass, updateLevelBadge } from "../components/badges.js";
import { counterChart } from "../components/counter_chart.js";
import { panel } from "../components/panel.js";
import { tableBox } from "../components/table_box.js";

/** @import { View } from "../router.js" */

/** @import { Counter, Rules } from "../priority.js" */

const SECOND = 1_000_000;
const MINUTE = 60 * SECOND;
const BURST_SIZE = 10;
const MAX_CHECKS = 40;
const DEFAULT_POLICY = { reset_interval: 1_500 * SECOND, thresholds: [-2, -4, -6, -8, -10, -12, -14, -20] };

/** @param {View} view */
export async function mount(view) {
  const levels = new LevelsTable();
  const trying = new CounterPlayground(view);
  const explained = el("div", { class: "priority-text" });

  async function load() {
    const policy = await get("/v1/priority", { signal: view.signal });
    fill(explained, explanation(policy));
    levels.update(policy);
    trying.use(policy);
  }

  await load();
  if (seesAll()) view.listen(["policy_set"], () => load().catch(ignoreRequestError)); // the status indicator shows an offline server
  fill(view.root, explained, trying.node, levels.node);
}

/** @param {Rules} policy */
function explanation(policy) {
  const interval = durationInWords(policy.reset_interval);
  const last = policy.thresholds.length + 1;
  const isUsual = JSON.stringify(policy) === JSON.stringify(DEFAULT_POLICY);
  const concept = (/** @type {string} */ name, /** @type {string} */ text) => el("div", {}, el("dt", {}, t(`priority.concept_${name}`)), el("dd", {}, text));
  const steps = ["track", "reset", "update", "level"].map((step) => {
    const text = t(`priority.step_${step}_text`, { interval, seconds: policy.reset_interval / SECOND, last });
    return el("li", {}, el("strong", {}, t(`priority.step_${step}`)), " ", text);
  });
  return [
    panel(t("priority.what"), {}, el("p", {}, t("priority.intro")), el("dl", { class: "concepts" }, concept("pending", t("priority.concept_pending_text")), concept("interval", t("priority.concept_interval_text", { interval })))),
    panel(t("priority.how"), {}, el("ol", { class: "steps" }, steps), el("p", { class: "simply" }, t("priority.simply"))),
    !isUsual && el("p", { class: "muted" }, t("priority.unusual"), seesAll() && [" ", el("a", { href: pageUrl("policy") }, t("policy.title"))]),
  ];
}

/** The levels with their counts, and the documents of a burst that get them. */
class LevelsTable {
  constructor() {
    this.body = el("tbody");
    const heads = ["level", "count", "documents"].map((name) => el("th", { scope: "col" }, t(`priority.head_${name}`)));
    const table = el("table", { class: "table" }, el("caption", { class: "hidden" }, t("priority.levels")), el("thead", {}, el("tr", {}, heads)), this.body);
    const box = tableBox(t("priority.levels"), table);
    this.node = panel(t("priority.levels"), { className: "panel-flush priority-levels", hint: t("priority.levels_hint") }, box);
  }

  /** @param {Rules} rules */
  update({ thresholds }) {
    const rows = levelRanges(thresholds).map(({ level, from, to: until }) => {
      const count = level === 1 ? t("priority.count_at_least", { threshold: thresholds[0] }) : t("priority.count_below", { threshold: thresholds[level - 2] });
      const documents = until === null ? t("priority.from_on", { from: 1 - from }) : from === until ? number(1 - from) : t("priority.from_to", { from: 1 - from, to: 1 - until });
      return el("tr", { class: levelClass(level) }, el("th", { scope: "row" }, levelBadge(level)), el("td", {}, count), el("td", {}, documents));
    });
    fill(this.body, rows.reverse());
  }
}

/** A simulated counter with its own clock, which can be stopped and moved forward. */
class CounterPlayground {
  /** @type {Rules} */
  #policy;
  /** @type {Counter | null} */
  #counter = null;
  #now = 0;
  /** @type {{ count: number, isReset: boolean }[]} */
  #checks = [];
  #isRunning = true;

  /** @param {View} view */
  constructor(view) {
    this.count = el("span", { class: "card-value" }, "–");
    this.level = el("span");
    this.next = el("p", { class: "muted" });
    this.clock = el("time", { class: "card-value", role: "timer" });
    this.clockNote = el("p", { class: "muted" });
    this.statusText = el("p", { class: "playground-status", role: "status" });
    this.drawing = counterChart();
    const button = (/** @type {string} */ text, /** @type {() => void} */ call, kind = "") => el("button", { class: `button ${kind}`, type: "button", on: { click: call } }, text);
    this.run = button("", () => this.#runOrStop(), "button-small");
    this.jumps = el("div", { class: "jumps", role: "group", "aria-label": t("priority.let_pass") });
    const figure = (/** @type {string} */ label, /** @type {HTMLElement[]} */ ...shown) => el("div", { class: "card" }, el("p", { class: "card-label" }, label), shown);
    this.node = panel(
      t("priority.try"),
      { hint: t("priority.try_hint") },
      el("div", { class: "cards playground-figures" }, figure(t("priority.count"), this.count), figure(t("priority.level"), el("p", { class: "playground-level" }, this.level), this.next), figure(t("priority.resets_in"), this.clock, this.clockNote)),
      el("div", { class: "playground-buttons" }, button(t("priority.submit"), () => this.#submit(1), "button-primary"), button(t("priority.submit_many", { n: BURST_SIZE }), () => this.#submit(BURST_SIZE)), button(t("priority.again"), () => this.#restart())),
      el("div", { class: "playground-buttons" }, el("span", { class: "muted" }, t("priority.let_pass")), this.jumps, this.run),
      this.statusText,
      this.drawing.node,
    );
    view.every(1_000, () => {
      if (this.#isRunning && this.#counter !== null) this.#advanceClock(SECOND, { isTick: true });
    });
  }

  /**
   * Apply another policy to the same counter.
   * @param {Rules} policy
   */
  use(policy) {
    this.#policy = policy;
    const jump = (/** @type {number} */ length, /** @type {string} */ text) => el("button", { class: "button button-small", type: "button", on: { click: () => this.#advanceClock(length) } }, text);
    const interval = policy.reset_interval;
    const jumps = [SECOND, MINUTE, 10 * MINUTE].filter((length) => length < interval);
    fill(this.jumps, jumps.map((length) => jump(length, `+ ${duration(length)}`)), jump(interval, t("priority.whole_interval", { interval: duration(interval) })));
    this.#show();
  }

  /** @param {number} n */
  #submit(n) {
    for (let index = 0; index < n; index += 1) {
      const result = check(this.#counter, this.#now, this.#policy);
      this.#counter = result.counter;
      this.#checks.push({ count: result.counter.count, isReset: result.isReset });
    }
    const { count } = this.#checks[this.#checks.length - 1];
    const level = levelOf(count, this.#policy.thresholds);
    const { isReset } = this.#checks[this.#checks.length - n];
    this.#checks = this.#checks.slice(-MAX_CHECKS);
    this.#show();
    if (n > 1) setText(this.statusText, t("priority.went_down_many", { n, count, level }));
    else if (isReset) setText(this.statusText, t("priority.was_reset", { count, level }));
    else setText(this.statusText, this.#checks.length === 1 ? t("priority.was_first", { count, level }) : t("priority.went_down", { count, level }));
  }

  /** @param {number} length */
  #advanceClock(length, { isTick = false } = {}) {
    this.#now += length;
    this.#show();
    if (!isTick) setText(this.statusText, this.#counter === null ? t("priority.nothing_yet") : t("priority.passed", { length: durationInWords(length) }));
  }

  #runOrStop() {
    this.#isRunning = !this.#isRunning;
    this.#show();
  }

  #restart() {
    this.#counter = null;
    this.#checks = [];
    this.#show();
    setText(this.statusText, t("priority.nothing_yet"));
  }

  #show() {
    const { thresholds, reset_interval: interval } = this.#policy;
    const left = this.#counter === null ? null : this.#counter.updatedAt + interval - this.#now;
    setText(this.count, this.#counter === null ? "–" : number(this.#counter.count));
    if (this.#counter === null) fill(this.level, "–").className = "card-value";
    else updateLevelBadge(this.level, levelOf(this.#counter.count, thresholds));
    setText(this.next, t("priority.next_gets", { level: check(this.#counter, this.#now, this.#policy).level }));
    setText(this.clock, left === null ? "–" : countdown(left));
    setText(this.clockNote, left === null ? t("priority.clock_new") : left < 0 ? t("priority.clock_over") : left === 0 ? t("priority.clock_exactly") : t("priority.clock_runs"));
    setText(this.run, this.#isRunning ? t("priority.stop_clock") : t("priority.run_clock"));
    const depth = Math.max(4 - thresholds[thresholds.length - 1], ...this.#checks.map((entry) => 1 - entry.count));
    const summary = this.#counter === null ? t("priority.nothing_yet") : t("priority.drawing_summary", { counts: this.#checks.slice(-BURST_SIZE).map((entry) => number(entry.count)).join(" ") });
    this.drawing.update({ checks: this.#checks, thresholds, depth: Math.min(depth, 1_000), resetText: "", summary });
  }
}
