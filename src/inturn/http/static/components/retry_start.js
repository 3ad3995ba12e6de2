// Where a retry begins: with the step that failed, or with the first one.

import { el, newId } from "../dom.js";
import { t } from "../i18n.js";
import { radios } from "./fields.js";

/**
 * Two radio buttons; `failed` names the first.
 * @param {string} failed
 */
export function retryStart(failed) {
  const name = newId("from");
  const texts = { step: [failed, t("shell.from_step_hint")], start: [t("shell.from_start"), t("shell.from_start_hint")] };
  const [step, start] = radios(name, /** @type {("step" | "start")[]} */ (["step", "start"]), (choice) => texts[choice], () => {});
  step.input.checked = true;
  return {
    node: el("fieldset", { class: "choice" }, el("legend", {}, t("shell.retry_from")), step.node, start.node),
    isFromStart: () => start.input.checked,
  };
}
