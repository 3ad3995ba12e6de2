// Simulate a scenario, or replay this queue's real documents. The inputs are in the address.

import { get } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { t } from "../i18n.js";
import { mayOperate } from "../session.js";
import { readOnlyNote, selectField } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { emptyState, errorState } from "../components/placeholders.js";
import { progressJob } from "../components/progress_job.js";
import { REPLAY_SOURCES, ReplayForm } from "./simulator/replay.js";
import { ScenarioForm } from "./simulator/scenario.js";

const SCENARIO = "scenario";
const CLEARED_QUERY = { scenario: null, workers: null, load: null, seed: null, order: null };

export async function mount(view) {
  const { scenarios } = await get("/v1/simulations", { signal: view.signal });
  const choices = { own: new ReplayForm(view), scenario: new ScenarioForm(view, scenarios) };
  const source = selectField({ label: t("simulator.source"), options: [SCENARIO, ...REPLAY_SOURCES].map((name) => [name, t(`simulator.source_${name}`)]), on: { change: chosen } });
  const about = el("p", { class: "panel-hint" });
  const fields = el("div");
  const result = el("div", { class: "simulator-result" });
  const progress = progressJob({ label: t("simulator.playing"), signal: view.signal });
  const button = el("button", { class: "button button-primary", type: "submit" }, t("simulator.run"));
  let choice = null;

  /** Show the inputs of the address. */
  function read() {
    const wanted = view.query.get("source");
    source.input.value = REPLAY_SOURCES.includes(wanted) ? wanted : SCENARIO;
    const before = choice;
    choice = REPLAY_SOURCES.includes(wanted) ? choices.own : choices.scenario;
    choice.read();
    if (choice === before) return;
    setText(about, choice.hint);
    fill(fields, choice.node);
  }

  function chosen() {
    view.setQuery({ ...CLEARED_QUERY, source: source.input.value === SCENARIO ? null : source.input.value }, { replace: false });
  }

  async function play(event) {
    event?.preventDefault();
    const [submitted, body] = [choice, choice.requestBody()];
    if (body === null) return;
    button.disabled = true;
    fill(result);
    try {
      const answer = await progress.run(submitted.path, body);
      if (answer !== null) fill(result, submitted.results(answer));
    } catch (error) {
      const isNothing = error.detail?.includes("nothing to play") ?? false;
      fill(result, el("div", { class: "panel" }, isNothing ? emptyState(t("simulator.own_nothing"), t("simulator.own_nothing_hint")) : errorState(error, play)));
    } finally {
      button.disabled = false;
      if (result.childElementCount === 0) fill(result, emptyResult());
    }
  }

  read();
  const actions = mayOperate() ? el("div", { class: "simulator-actions" }, button, progress.node) : readOnlyNote();
  const form = el("form", { novalidate: true, on: { submit: play } }, el("div", { class: "form" }, source.node), about, fields, actions);
  fill(result, mayOperate() ? emptyResult() : null);
  fill(view.root, panel(t("simulator.what"), {}, form), result);
  return { update: read };
}

function emptyResult() {
  return el("div", { class: "panel" }, emptyState(t("simulator.nothing"), t("simulator.nothing_hint")));
}
