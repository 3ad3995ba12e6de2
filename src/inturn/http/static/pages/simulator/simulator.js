// Simulate a scenario, or replay this queue's real documents. The inputs are in the address.

import { ApiError, get } from "../../api.js";
import { el, fill, setText } from "../../dom.js";
import { t } from "../../i18n.js";
import { mayOperate } from "../../session.js";
import { readOnlyNote, selectField } from "../../components/fields.js";
import { panel } from "../../components/panel.js";
import { banner, emptyState, errorState } from "../../components/placeholders.js";
import { progressJob } from "../../components/progress_job.js";
import { REPLAY_SOURCES, ReplayForm } from "./replay.js";
import { ScenarioForm } from "./scenario.js";

/** @import { View } from "../../router.js" */

const SCENARIO = "scenario";
const CLEARED_QUERY = { scenario: null, workers: null, load: null, seed: null, order: null };

/**
 * Resolves with {node, update()}; update() reads the inputs of the address.
 * @param {View} view
 */
export async function createSimulator(view) {
  const { scenarios } = await get("/v1/simulations", { signal: view.signal });
  const choices = { own: new ReplayForm(view), scenario: new ScenarioForm(view, scenarios) };
  const source = selectField({ label: t("simulator.source"), options: [SCENARIO, ...REPLAY_SOURCES].map((name) => [name, t(`simulator.source_${name}`)]), on: { change: chosen } });
  const about = el("p", { class: "panel-hint" });
  const fields = el("div");
  const result = el("div", { class: "simulator-result" });
  const progress = progressJob({ label: t("simulator.playing"), signal: view.signal });
  const button = el("button", { class: "button button-primary", type: "submit" }, t("simulator.run"));
  const outdated = el("div", { hidden: true }, banner(t("simulator.outdated"), { kind: "warn" }));
  /** @type {ReplayForm | ScenarioForm | null} */
  let choice = null;
  /** @type {string | null} */
  let played = null; // the inputs of the result that is shown

  const inputs = () => JSON.stringify(/** @type {HTMLInputElement[]} */ ([...form.elements]).filter((field) => field.name !== undefined && field.type !== "submit").map((field) => (field.type === "checkbox" ? field.checked : field.value)));
  const compare = () => {
    outdated.hidden = played === null || played === inputs();
  };

  /** Show the inputs of the address. */
  function read() {
    const wanted = view.query.get("source") ?? "";
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

  /** @param {Event} [event] */
  async function play(event) {
    event?.preventDefault();
    const submitted = choice;
    const body = submitted?.requestBody() ?? null;
    if (submitted === null || body === null) return;
    button.disabled = true;
    const submittedInputs = inputs();
    played = null;
    compare();
    fill(result);
    try {
      const answer = await progress.run(submitted.path, body);
      if (answer !== null) {
        fill(result, submitted.results(answer));
        played = submittedInputs;
      }
    } catch (error) {
      const isNothing = error instanceof ApiError && (error.detail ?? "").includes("nothing to play");
      fill(result, el("div", { class: "panel" }, isNothing ? emptyState(t("simulator.own_nothing"), t("simulator.own_nothing_hint")) : errorState(error, () => play())));
    } finally {
      button.disabled = false;
      compare();
      if (result.childElementCount === 0) fill(result, emptyResult());
    }
  }

  read();
  const actions = mayOperate() ? el("div", { class: "simulator-actions" }, button, progress.node) : readOnlyNote();
  const form = el("form", { novalidate: true, on: { submit: play, input: compare, change: () => queueMicrotask(compare) } }, el("div", { class: "form" }, source.node), about, fields, actions);
  fill(result, mayOperate() ? emptyResult() : null);
  return {
    node: el("div", { class: "simulator" }, panel(t("simulator.what"), {}, form), outdated, result),
    update() {
      read();
      compare();
    },
  };
}

function emptyResult() {
  return el("div", { class: "panel" }, emptyState(t("simulator.nothing"), t("simulator.nothing_hint")));
}
