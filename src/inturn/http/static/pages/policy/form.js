// The settings as fields. Invalid values are marked while typing; the server validates again.

import { el, fill, newId, setText } from "../../dom.js";
import { bytes, durationInWords } from "../../format.js";
import { t } from "../../i18n.js";
import { checkbox, numberField, radios } from "../../components/fields.js";
import { sharedUnit, slotsOfEight } from "./description.js";

/** @import { Child } from "../../dom.js" */

/** @typedef {ReturnType<typeof numberField>} NumberField */
/** @typedef {"time" | "pages" | "documents"} Unit */
/** @typedef {{ [setting in keyof Api.Policy]: Api.Policy[setting] | null }} DraftPolicy */

const SECOND = 1_000_000;
const MAX_DURATION_SECONDS = 100 * 365 * 86_400;
const MAX_THRESHOLDS = 8;
const MAX_OVERDUE_EVERY = 1_000;
const MAX_COST = 10_000;
const MIN_BYTES_PER_PAGE = 1_000;
const MIN_SHARE_PERCENT = 50;
/** @type {Unit[]} */
const UNITS = ["time", "pages", "documents"];
/** @type {Api.Policy["order"][]} */
const ORDERS = ["fair", "classic"];
/** @type {(keyof Api.Policy)[]} */
const FAIR_ONLY = ["overdue_after", "overdue_every", "max_share", "share_idle_after", "per_document", "per_page", "bytes_per_page"];
const COSTS = { documents: { per_document: 1, per_page: 0 }, pages: { per_document: 0, per_page: 1 } };

export class PolicyForm {
  #onChange;
  /** @type {NumberField[]} */
  #thresholds = [];
  /** @type {Api.Policy["order"]} */
  #order = "fair";
  /** @type {Unit} */
  #unit = "time";
  /** @type {Api.Policy} */
  #initialPolicy;
  /** @type {HTMLElement} */
  list;
  /** @type {HTMLButtonElement} */
  more;
  /** @type {HTMLButtonElement} */
  less;
  /** @type {HTMLElement} */
  costsLegend;
  /** @type {HTMLElement} */
  costsHint;
  /** @type {HTMLElement} */
  costs;
  /** @type {HTMLElement} */
  fairOnly;
  /** @type {{ input: HTMLInputElement, node: HTMLElement }[]} */
  units;
  /** @type {{ input: HTMLInputElement, node: HTMLElement }[]} */
  orders;

  /**
   * @param {Api.Policy} policy
   * @param {(policy: Api.Policy | null) => unknown} onChange
   */
  constructor(policy, onChange) {
    this.#onChange = onChange;
    const typed = { input: () => this.#changed() };
    const seconds = (/** @type {string} */ label, /** @type {string} */ hint) => numberField({ label, hint, min: "0", step: "any", inputmode: "decimal", required: true, on: typed });
    this.interval = seconds(t("policy.setting_reset_interval"), t("policy.seconds"));
    this.after = seconds(t("policy.setting_overdue_after"), t("policy.seconds"));
    this.every = numberField({ label: t("policy.setting_overdue_every"), min: "2", max: MAX_OVERDUE_EVERY, step: "1", required: true, on: typed });
    this.maxShare = numberField({ label: t("policy.setting_max_share"), hint: t("policy.max_share_hint"), min: MIN_SHARE_PERCENT, max: "100", step: "any", inputmode: "decimal", required: true, on: typed });
    this.idleAfter = seconds(t("policy.setting_share_idle_after"), t("policy.share_idle_after_hint"));
    this.perDocument = numberField({ label: t("policy.setting_per_document"), min: "0", max: MAX_COST, step: "any", required: true, on: typed });
    this.perPage = numberField({ label: t("policy.setting_per_page"), hint: t("policy.per_page_hint"), min: "0", max: MAX_COST, step: "any", required: true, on: typed });
    this.bytes = numberField({ label: t("policy.setting_bytes_per_page"), hint: t("policy.bytes"), min: MIN_BYTES_PER_PAGE, step: "1", required: true, on: typed });
    this.steps = checkbox({ label: t("policy.check_steps"), on: { change: () => this.#changed() } });
    this.node = this.#build();
    this.set(policy);
  }

  #build() {
    const button = (/** @type {string} */ text, /** @type {() => void} */ call) => el("button", { class: "button button-small", type: "button", on: { click: call } }, text);
    this.list = el("ol", { class: "thresholds" });
    this.more = button(t("policy.add_level"), () => this.#add());
    this.less = button(t("policy.remove_level"), () => this.#remove());
    this.orders = radios(newId("order"), ORDERS, (order) => [t(`policy.order_${order}`), t(`policy.order_${order}_hint`)], (order) => this.#choose(order));
    this.units = radios(newId("unit"), UNITS, (unit) => [t(`policy.charge_${unit}`), t(`policy.charge_${unit}_hint`)], (unit) => this.#chooseUnit(unit));
    this.costsLegend = el("legend", {});
    this.costsHint = el("p", { class: "field-hint" }, t("policy.costs_time_hint"));
    this.costs = el("fieldset", {}, this.costsLegend, this.costsHint, el("div", { class: "field-row" }, this.perDocument.node, this.perPage.node, this.bytes.node));
    this.fairOnly = el(
      "div",
      { class: "form" },
      el("fieldset", {}, el("legend", {}, t("policy.setting_charge")), this.units.map((unit) => unit.node)),
      this.costs,
      fieldGroup(t("policy.share"), this.maxShare.node, this.idleAfter.node),
      fieldGroup(t("policy.overdue_slot"), this.after.node, this.every.node),
    );
    return el(
      "div",
      { class: "form policy-form" },
      this.interval.node,
      el("fieldset", {}, el("legend", {}, t("policy.setting_thresholds")), el("p", { class: "field-hint" }, t("policy.thresholds_hint")), this.list, el("div", { class: "threshold-buttons" }, this.more, this.less)),
      el("fieldset", {}, el("legend", {}, t("policy.setting_order")), this.orders.map((order) => order.node)),
      el("fieldset", {}, el("legend", {}, t("policy.setting_check_each_step")), this.steps.node, el("p", { class: "field-hint" }, t("policy.check_steps_hint"))),
      this.fairOnly,
    );
  }

  /**
   * Show a policy and drop typed values.
   * @param {Api.Policy} policy
   */
  set(policy) {
    this.#initialPolicy = policy;
    this.interval.input.value = String(policy.reset_interval / SECOND);
    this.after.input.value = String(policy.overdue_after / SECOND);
    this.every.input.value = String(policy.overdue_every);
    this.maxShare.input.value = String(percentOf(policy.max_share));
    this.idleAfter.input.value = String(policy.share_idle_after / SECOND);
    this.#setCosts(policy);
    this.bytes.input.value = String(policy.bytes_per_page);
    this.steps.input.checked = policy.check_each_step;
    this.#thresholds = policy.thresholds.map((threshold, index) => this.#threshold(threshold, index));
    this.#listThresholds();
    for (const order of this.orders) order.input.checked = order.input.value === policy.order;
    this.#showUnit(sharedUnit(policy));
    this.#choose(policy.order);
  }

  /** Read the fields as a policy; null if a field is invalid. */
  value() {
    /** @type {DraftPolicy} */
    const policy = {
      reset_interval: this.#length(this.interval, MAX_DURATION_SECONDS),
      thresholds: this.#readThresholds(),
      order: this.#order,
      overdue_after: this.#length(this.after, MAX_DURATION_SECONDS),
      overdue_every: this.#whole(this.every, 2, MAX_OVERDUE_EVERY),
      charge: this.#unit === "time" ? "time" : "cost",
      max_share: this.#share(),
      share_idle_after: this.#length(this.idleAfter, MAX_DURATION_SECONDS, { allowsZero: true }),
      per_document: this.#cost(this.perDocument),
      per_page: this.#cost(this.perPage),
      bytes_per_page: this.#whole(this.bytes, MIN_BYTES_PER_PAGE, Number.MAX_SAFE_INTEGER),
      check_each_step: this.steps.input.checked,
    };
    if (policy.per_page === 0 && policy.per_document !== null && policy.per_document !== 1) {
      this.perDocument.setError(t("policy.error_per_document"));
      policy.per_document = null;
    }
    this.#updateHints(policy);
    if (this.#order !== "fair") for (const name of FAIR_ONLY) Object.assign(policy, { [name]: policy[name] ?? this.#initialPolicy[name] }); // hidden fields keep their values
    return Object.values(policy).includes(null) ? null : /** @type {Api.Policy} */ (policy);
  }

  focusFirstInvalid() {
    /** @type {HTMLElement | null} */ (this.node.querySelector("[aria-invalid]"))?.focus();
  }

  #changed() {
    this.#onChange(this.value());
  }

  /** @param {"fair" | "classic"} order */
  #choose(order) {
    this.#order = order;
    this.fairOnly.hidden = order !== "fair";
    this.#changed();
  }

  /**
   * Show a unit; its costs are those of the policy, those typed by page, or the usual ones.
   * @param {"time" | "pages" | "documents"} unit
   */
  #chooseUnit(unit) {
    const initial = this.#initialPolicy;
    if (unit === sharedUnit(initial)) this.#setCosts(initial);
    else if (unit === "documents") this.#setCosts(COSTS.documents);
    else if (!(fieldNumber(this.perPage) > 0)) this.#setCosts(COSTS.pages);
    this.#showUnit(unit);
    this.#changed();
  }

  /** @param {{ per_document: number, per_page: number }} costs */
  #setCosts(costs) {
    this.perDocument.input.value = String(costs.per_document);
    this.perPage.input.value = String(costs.per_page);
  }

  /** @param {"time" | "pages" | "documents"} unit */
  #showUnit(unit) {
    this.#unit = unit;
    for (const choice of this.units) choice.input.checked = choice.input.value === unit;
    this.costs.hidden = unit === "documents";
    this.costsHint.hidden = unit !== "time";
    setText(this.costsLegend, unit === "time" ? t("policy.costs_time") : t("policy.costs"));
  }

  /**
   * @param {number} value
   * @param {number} index
   */
  #threshold(value, index) {
    const field = numberField({ label: t("policy.threshold", { level: index + 2 }), step: "1", max: "-1", required: true, on: { input: () => this.#changed() } });
    field.input.value = String(value);
    return field;
  }

  #listThresholds() {
    fill(this.list, this.#thresholds.map((field, index) => el("li", { class: `level-${index + 2}` }, field.node)));
    this.more.disabled = this.#thresholds.length >= MAX_THRESHOLDS;
    this.less.disabled = this.#thresholds.length <= 1;
  }

  #add() {
    const last = Number(this.#thresholds[this.#thresholds.length - 1].input.value);
    const field = this.#threshold(last - 2, this.#thresholds.length);
    this.#thresholds.push(field);
    this.#listThresholds();
    this.#changed();
    field.input.focus();
  }

  #remove() {
    this.#thresholds.pop();
    this.#listThresholds();
    this.#changed();
    if (this.less.disabled) this.more.focus();
  }

  #readThresholds() {
    let before = 0;
    const values = this.#thresholds.map((field, index) => {
      const value = fieldNumber(field);
      /** @type {string | null} */
      let message = null;
      if (!Number.isSafeInteger(value)) message = t("policy.error_whole");
      else if (value >= before) message = index === 0 ? t("policy.error_below_zero") : t("policy.error_goes_down", { before });
      field.setError(message);
      if (Number.isSafeInteger(value)) before = Math.min(before, value);
      return message === null ? value : null;
    });
    return values.some((value) => value === null) ? null : /** @type {number[]} */ (values);
  }

  /**
   * @param {NumberField} field
   * @param {number} most
   */
  #length(field, most, { allowsZero = false } = {}) {
    const value = fieldNumber(field);
    const isRight = value >= (allowsZero ? 0 : 1 / SECOND) && value <= most;
    field.setError(isRight ? null : allowsZero ? t("policy.error_length_or_none") : t("policy.error_length"));
    return isRight ? Math.round(value * SECOND) : null;
  }

  /** Read the share. An untouched field keeps the exact value, of which it shows a rounded one. */
  #share() {
    const value = fieldNumber(this.maxShare);
    const isRight = value >= MIN_SHARE_PERCENT && value <= 100;
    this.maxShare.setError(isRight ? null : t("policy.error_share", { least: MIN_SHARE_PERCENT }));
    if (!isRight) return null;
    const { max_share: initial } = this.#initialPolicy;
    return value === percentOf(initial) ? initial : value / 100;
  }

  /**
   * @param {NumberField} field
   * @param {number} least
   * @param {number} most
   */
  #whole(field, least, most) {
    const value = fieldNumber(field);
    const isRight = Number.isInteger(value) && value >= least && value <= most;
    const upper = most === Number.MAX_SAFE_INTEGER ? t("policy.error_whole_from", { least }) : t("policy.error_whole_between", { least, most });
    field.setError(isRight ? null : upper);
    return isRight ? value : null;
  }

  /** @param {NumberField} field */
  #cost(field) {
    const value = fieldNumber(field);
    const isRight = value >= 0 && value <= MAX_COST;
    field.setError(isRight ? null : t("policy.error_cost", { most: MAX_COST }));
    return isRight ? value : null;
  }

  /** @param {DraftPolicy} policy */
  #updateHints(policy) {
    const setHint = (/** @type {NumberField} */ field, /** @type {string} */ text) => setText(/** @type {HTMLElement} */ (field.node.querySelector(".field-hint")), text);
    setHint(this.interval, secondsHint(policy.reset_interval));
    setHint(this.after, secondsHint(policy.overdue_after));
    setHint(this.maxShare, policy.max_share === null ? t("policy.max_share_hint") : t("policy.max_share_words", { n: slotsOfEight(policy.max_share) }));
    setHint(this.idleAfter, policy.share_idle_after === null ? t("policy.share_idle_after_hint") : t("policy.share_idle_after_words", { words: durationInWords(policy.share_idle_after) }));
    setHint(this.bytes, policy.bytes_per_page === null ? t("policy.bytes") : t("policy.bytes_words", { words: bytes(policy.bytes_per_page) }));
  }
}

/** @param {number | null} length */
function secondsHint(length) {
  return length === null ? t("policy.seconds") : t("policy.seconds_words", { words: durationInWords(length) });
}

/**
 * Read the number of a field; NaN if there is none.
 * @param {NumberField} field
 */
function fieldNumber(field) {
  return field.input.value.trim() === "" ? NaN : Number(field.input.value);
}

/** @param {number} part */
function percentOf(part) {
  return Number((100 * part).toFixed(6));
}

/**
 * @param {string} legend
 * @param {Child[]} fields
 */
function fieldGroup(legend, ...fields) {
  return el("fieldset", {}, el("legend", {}, legend), el("div", { class: "field-row" }, fields));
}
