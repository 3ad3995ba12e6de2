// A table of the settings in which policies differ.

import { el } from "../../dom.js";
import { t } from "../../i18n.js";
import { tableBox } from "../../components/table_box.js";
import { SETTINGS, formatSetting, settingValue } from "./description.js";

/** @typedef {[heading: string, policy: Api.Policy]} NamedPolicy */

/**
 * columns: [[heading, policy], …]; values that differ from the first policy are bold.
 * @param {string} label
 * @param {NamedPolicy[]} columns
 */
export function differenceTable(label, columns) {
  const first = columns[0][1];
  const texts = (/** @type {import("./description.js").Setting} */ setting) => columns.map(([, policy]) => JSON.stringify(settingValue(setting, policy)));
  const rows = SETTINGS.filter((setting) => new Set(texts(setting)).size > 1);
  if (rows.length === 0) return el("p", { class: "muted difference-none" }, t("policy.no_difference"));
  const head = el("tr", {}, el("th", { scope: "col" }, t("policy.setting")), columns.map(([heading]) => el("th", { scope: "col" }, heading)));
  const body = rows.map((setting) => {
    const cells = columns.map(([, policy]) => {
      const isOther = JSON.stringify(settingValue(setting, policy)) !== JSON.stringify(settingValue(setting, first));
      return el("td", {}, isOther ? el("strong", {}, formatSetting(setting, policy)) : formatSetting(setting, policy));
    });
    return el("tr", {}, el("th", { scope: "row" }, t(`policy.setting_${setting}`)), cells);
  });
  const table = el("table", { class: "table difference" }, el("caption", { class: "hidden" }, label), el("thead", {}, head), el("tbody", {}, body));
  return tableBox(label, table);
}
