// Describe a policy in words, and compare two.

import { bytes, durationInWords, number, percent } from "../../format.js";
import { t } from "../../i18n.js";

/** @typedef {keyof Api.Policy} Setting */

/**
 * Describe the whole policy, a sentence per setting.
 * @param {Api.Policy} policy
 */
export function describePolicy(policy) {
  const { thresholds } = policy;
  const sentences = [
    t("policy.words_counter", { interval: durationInWords(policy.reset_interval) }),
    t("policy.words_levels", { n: 1 - thresholds[0], from: 2 - thresholds[thresholds.length - 1], last: thresholds.length + 1 }),
    describeOrder(policy),
  ];
  if (policy.check_each_step) sentences.push(t("policy.words_steps"));
  if (policy.order !== "fair") return sentences;
  const overdue = t("policy.words_overdue", { after: durationInWords(policy.overdue_after), every: policy.overdue_every });
  return [...sentences, describeCharge(policy), describeShare(policy), overdue];
}

/** @param {Api.Policy} policy */
function describeOrder(policy) {
  if (policy.order !== "fair") return t("policy.words_classic");
  return policy.charge === "time" ? t("policy.words_fair_time") : t("policy.words_fair");
}

/** @param {Api.Policy} policy */
function describeCharge(policy) {
  const values = { base: number(policy.per_document, 3), page: number(policy.per_page, 3), size: bytes(policy.bytes_per_page) };
  if (policy.charge === "time") {
    const time = t("policy.words_cost_time");
    return policy.per_page === 0 ? time : `${time} ${t("policy.words_cost_time_pages", values)}`;
  }
  if (policy.per_page === 0) return t("policy.words_cost_one");
  return policy.per_document === 0 ? t("policy.words_cost_page", values) : t("policy.words_cost_pages", values);
}

/** @param {Api.Policy} policy */
function describeShare(policy) {
  if (policy.max_share === 1) return t("policy.words_share_off");
  return t(policy.share_idle_after === 0 ? "policy.words_share" : "policy.words_share_idle", { share: percent(policy.max_share), n: slotsOfEight(policy.max_share), idle: durationInWords(policy.share_idle_after) });
}

/**
 * How many of eight slots a share is: an example for people.
 * @param {number} share
 */
export function slotsOfEight(share) {
  return Math.floor(8 * share);
}

/**
 * What customers of one level share: "time", "pages" or "documents".
 * @param {Api.Policy} policy
 */
export function sharedUnit(policy) {
  if (policy.charge === "time") return "time";
  return policy.per_page === 0 ? "documents" : "pages";
}

/** @type {{ [name in Setting]: (value: any) => string }} */
const FORMATTERS = {
  reset_interval: durationInWords,
  thresholds: (/** @type {number[]} */ value) => value.map((threshold) => number(threshold)).join("  "),
  order: (value) => t(`policy.order_${value}`),
  overdue_after: durationInWords,
  overdue_every: (value) => t("policy.one_in", { every: value }),
  charge: (unit) => t(`policy.charge_${unit}`),
  max_share: (value) => (value === 1 ? t("policy.no_limit") : percent(value)),
  share_idle_after: durationInWords,
  per_document: (value) => number(value, 3),
  per_page: (value) => number(value, 3),
  bytes_per_page: bytes,
  check_each_step: (value) => t(value ? "policy.steps_checked" : "policy.steps_kept"),
};

export const SETTINGS = /** @type {Setting[]} */ (Object.keys(FORMATTERS));

/**
 * @param {Setting} setting
 * @param {Api.Policy} policy
 */
export function formatSetting(setting, policy) {
  return FORMATTERS[setting](settingValue(setting, policy));
}

/**
 * The value that people see: of `charge`, the unit that is shared.
 * @param {Setting} setting
 * @param {Api.Policy} policy
 */
export function settingValue(setting, policy) {
  return setting === "charge" ? sharedUnit(policy) : policy[setting];
}

/**
 * @param {Api.Policy} one
 * @param {Api.Policy} other
 */
export function isSame(one, other) {
  return differingSettings(one, other).length === 0;
}

/**
 * @param {Api.Policy} one
 * @param {Api.Policy} other
 */
function differingSettings(one, other) {
  return SETTINGS.filter((setting) => JSON.stringify(settingValue(setting, one)) !== JSON.stringify(settingValue(setting, other)));
}
