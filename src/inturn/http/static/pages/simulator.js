// Made-up customers, or what really came to this queue, played in other ways. What is chosen stands in the address.

import { get } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { t } from "../i18n.js";
import { mayOperate } from "../session.js";
import { panel } from "../components/panel.js";
import { readOnlyNote, select } from "../components/fields.js";
import { job } from "../components/progress_job.js";
import { empty, failed } from "../components/placeholders.js";
import { OWN, OwnChoice } from "./simulator/replay.js";
import { ScenarioChoice } from "./simulator/scenario.js";

const SCENARIO = "scenario";
const FORGOTTEN = { scenario: null, workers: null, load: null, seed: null, order: null };

export async function mount(view) {
  const { scenarios } = await get("/v1/simulations", { signal: view.signal });
  const choices = { own: new OwnChoice(view), scenario: new ScenarioChoice(view, scenarios) };
  const source = select({ label: t("simulator.source"), options: [SCENARIO, ...OWN].map((each) => [each, t(`simulator.source_${each}`)]), on: { change: chosen } });
  const about = el("p", { class: "panel-hint" });
  const fields = el("div");
  const result = el("div", { class: "simulator-result" });
  const progress = job({ label: t("simulator.playing"), signal: view.signal });
  const button = el("button", { class: "button button-primary", type: "submit" }, t("simulator.run"));
  let choice = null;

  /** As the address says. */
  function read() {
    const wanted = view.query.get("source");
    source.input.value = OWN.includes(wanted) ? wanted : SCENARIO;
    const before = choice;
    choice = OWN.includes(wanted) ? choices.own : choices.scenario;
    choice.read();
    if (choice === before) return;
    setText(about, choice.hint);
    fill(fields, choice.node);
  }

  function chosen() {
    view.setQuery({ ...FORGOTTEN, source: source.input.value === SCENARIO ? null : source.input.value }, { replace: false });
  }

  async function play(event) {
    event?.preventDefault();
    const [mine, asked] = [choice, choice.asked()];
    if (asked === null) return;
    button.disabled = true;
    fill(result);
    try {
      const found = await progress.run(mine.path, asked);
      if (found !== null) fill(result, mine.results(found));
    } catch (wrong) {
      const isNothing = wrong.detail?.includes("nothing to play") ?? false;
      fill(result, el("div", { class: "panel" }, isNothing ? empty(t("simulator.own_nothing"), t("simulator.own_nothing_hint")) : failed(wrong, play)));
    } finally {
      button.disabled = false;
      if (result.childElementCount === 0) fill(result, nothing());
    }
  }

  read();
  const actions = mayOperate() ? el("div", { class: "simulator-actions" }, button, progress.node) : readOnlyNote();
  const form = el("form", { novalidate: true, on: { submit: play } }, el("div", { class: "form" }, source.node), about, fields, actions);
  fill(result, mayOperate() ? nothing() : null);
  fill(view.root, panel(t("simulator.what"), {}, form), result);
  return { update: read };
}

function nothing() {
  return el("div", { class: "panel" }, empty(t("simulator.nothing"), t("simulator.nothing_hint")));
}
