// Describe a policy in words, and compare two.

import { bytes, durationInWords, number } from "../../format.js";
import { t } from "../../i18n.js";

/** Describe the whole policy, a sentence per setting. */
export function describePolicy(policy) {
  const { thresholds } = policy;
  const sentences = [
    t("policy.words_counter", { interval: durationInWords(policy.reset_interval) }),
    t("policy.words_levels", { n: 1 - thresholds[0], from: 2 - thresholds.at(-1), last: thresholds.length + 1 }),
    policy.order === "fair" ? t("policy.words_fair") : t("policy.words_classic"),
  ];
  if (policy.order === "fair") {
    sentences.push(t("policy.words_overdue", { after: durationInWords(policy.overdue_after), every: policy.overdue_every }));
    sentences.push(policy.per_page === 0 ? t("policy.words_cost_one") : t("policy.words_cost_pages", costValues(policy)));
  }
  return sentences;
}

function costValues(policy) {
  return { base: number(policy.per_document, 3), page: number(policy.per_page, 3), size: bytes(policy.bytes_per_page) };
}

const FORMATTERS = {
  reset_interval: durationInWords,
  thresholds: (value) => value.map((threshold) => number(threshold)).join("  "),
  order: (value) => t(`policy.order_${value}`),
  overdue_after: durationInWords,
  overdue_every: (value) => t("policy.one_in", { every: value }),
  per_document: (value) => number(value, 3),
  per_page: (value) => number(value, 3),
  bytes_per_page: bytes,
};

export const SETTINGS = Object.keys(FORMATTERS);

export function formatSetting(setting, policy) {
  return FORMATTERS[setting](policy[setting]);
}

export function isSame(one, other) {
  return differingSettings(one, other).length === 0;
}

function differingSettings(one, other) {
  return SETTINGS.filter((setting) => JSON.stringify(one[setting]) !== JSON.stringify(other[setting]));
}
