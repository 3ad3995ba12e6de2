// Format numbers, times and durations for the reader's language. Times and durations are microseconds.

import { currentLanguage } from "./i18n.js";

const SECOND = 1_000_000;
/** @typedef {"day" | "hour" | "minute" | "second"} Unit */
/** @type {[Unit, number][]} */
const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
/**
 * Units of a span: its seconds, the step that ends are rounded to, and the longest span in seconds.
 * @type {[unit: Unit, size: number, step: number, most: number][]}
 */
const RANGE_UNITS = [
  ["second", 1, 5, 90],
  ["minute", 60, 1, 1_200],
  ["minute", 60, 5, 5_400],
  ["hour", 3_600, 0.5, 43_200],
  ["hour", 3_600, 1, 129_600],
  ["day", 86_400, 0.5, Infinity],
];
const SYMBOLS = { day: "d", hour: "h", minute: "min", second: "s" };
const formatters = new Map();

/**
 * @template F
 * @param {new (language: string, options: any) => F} Kind
 * @param {object} options
 * @returns {F}
 */
function getFormatter(Kind, options) {
  const key = `${currentLanguage()} ${Kind.name} ${JSON.stringify(options)}`;
  if (!formatters.has(key)) formatters.set(key, new Kind(currentLanguage(), options));
  return formatters.get(key);
}

/** @param {number} value */
export function number(value, digits = 0) {
  const most = Number.isInteger(value) ? 0 : Math.max(digits, 1);
  return getFormatter(Intl.NumberFormat, { maximumFractionDigits: most }).format(value);
}

/**
 * Format a number with at most three significant digits if it is below 100, else as an integer.
 * @param {number} value
 */
export function roundedNumber(value) {
  return getFormatter(Intl.NumberFormat, { maximumSignificantDigits: value < 100 ? 3 : 15, maximumFractionDigits: 2 }).format(
    value < 100 ? value : Math.round(value),
  );
}

/** @param {number} part */
export function percent(part, digits = 1) {
  return getFormatter(Intl.NumberFormat, { style: "percent", maximumFractionDigits: digits }).format(part);
}

/**
 * Format Jain's index; null where no two customers had a backlog.
 * @param {number | null} index
 */
export function jainText(index) {
  return index === null ? "–" : roundedNumber(index);
}

/**
 * Format a share of worker time: always one decimal, so that shares below each other compare.
 * @param {number | null} part
 */
export function sharePercent(part) {
  return part === null ? "–" : getFormatter(Intl.NumberFormat, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(part);
}

/** @param {number} at */
export function time(at) {
  return getFormatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "medium" }).format(at / 1_000);
}

/**
 * Format a time with its zone, to the second.
 * @param {number} at
 */
export function exactTime(at) {
  const options = { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
  return getFormatter(Intl.DateTimeFormat, options).format(at / 1_000);
}

/** @param {number} at */
export function timeOfDay(at) {
  return getFormatter(Intl.DateTimeFormat, { timeStyle: "medium" }).format(at / 1_000);
}

/**
 * Format a time to the minute: the time of day, with the date if it is not today.
 * @param {number} at
 */
export function timeToTheMinute(at) {
  const isToday = new Date(at / 1_000).toDateString() === new Date().toDateString();
  return isToday ? shortTimeOfDay(at) : getFormatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "short" }).format(at / 1_000);
}

/** @param {number} at */
export function shortTimeOfDay(at) {
  return getFormatter(Intl.DateTimeFormat, { timeStyle: "short" }).format(at / 1_000);
}

/** @param {number} at */
export function shortDate(at) {
  return getFormatter(Intl.DateTimeFormat, { day: "numeric", month: "short" }).format(at / 1_000);
}

/**
 * Format a duration in its two largest units, with symbols that all five languages share: 4.7 s, 1 min 15 s, 3 d 4 h.
 * @param {number} length
 */
export function duration(length) {
  return formatUnits(length, (name, amount) => `${number(amount, 1)}\u00a0${SYMBOLS[name]}`);
}

/**
 * Format a duration in words, for sentences: 1 minute 15 seconds.
 * @param {number} length
 */
export function durationInWords(length) {
  const options = { style: "unit", unitDisplay: "long", maximumFractionDigits: 1 };
  return formatUnits(length, (name, amount) => getFormatter(Intl.NumberFormat, { ...options, unit: name }).format(amount));
}

/**
 * @param {number} length
 * @param {(unit: Unit, amount: number) => string} write
 */
function formatUnits(length, write) {
  const seconds = Math.max(0, length / SECOND);
  if (seconds < 9.95) return write("second", Math.round(seconds * 10) / 10);
  let left = Math.round(seconds);
  const parts = [];
  for (const [name, size] of UNITS) {
    const amount = Math.floor(left / size);
    left -= amount * size;
    if (amount > 0 || parts.length > 0) parts.push(amount > 0 ? write(name, amount) : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}

/**
 * Format a span of durations, rounded to what can be known of it: 8–14 min. `isFromNow`: it begins at once, and only its end is written.
 * @param {number} shortest
 * @param {number} longest
 */
export function durationRange(shortest, longest) {
  const seconds = longest / SECOND;
  const [unit, size, step] = RANGE_UNITS.find(([, , , most]) => seconds < most) ?? RANGE_UNITS[RANGE_UNITS.length - 1];
  const toSteps = (/** @type {number} */ length, /** @type {(value: number) => number} */ round) => (round(length / SECOND / size / step) * step);
  const [first, last] = [toSteps(Math.max(0, shortest), Math.floor), Math.max(step, toSteps(longest, Math.ceil))];
  const formatter = getFormatter(Intl.NumberFormat, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 });
  const isFromNow = first === 0;
  return { text: isFromNow || first === last ? formatter.format(last) : formatter.formatRange(first, last), isFromNow };
}

/**
 * Format a remaining time as a clock: 24:59 or 1:04:07.
 * @param {number} length
 */
export function countdown(length) {
  const seconds = Math.max(0, Math.ceil(length / SECOND));
  const parts = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const shown = parts[0] > 0 ? parts : parts.slice(1);
  return shown.map((part, index) => (index === 0 ? String(part) : String(part).padStart(2, "0"))).join(":");
}

/**
 * Format a time relative to the browser's clock: 3 minutes ago.
 * @param {number} at
 */
export function ago(at, now = Date.now() * 1_000) {
  const seconds = (at - now) / SECOND;
  const [name, size] = UNITS.find(([, unitSeconds]) => Math.abs(seconds) >= unitSeconds) ?? UNITS[3];
  return getFormatter(Intl.RelativeTimeFormat, { numeric: "auto" }).format(Math.round(seconds / size), name);
}

/** @param {number} size */
export function bytes(size) {
  const names = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const step = Math.min(names.length - 1, Math.floor(Math.log10(Math.max(1, size)) / 3));
  const options = { style: "unit", unit: names[step], unitDisplay: step === 0 ? "long" : "short", maximumFractionDigits: 1 };
  return getFormatter(Intl.NumberFormat, options).format(size / 1_000 ** step);
}

/**
 * Format a limit, or a size beside one. Limits are set in units of 1,024 and shown in the same units: 50 MB is 50 MB everywhere.
 * @param {number} size
 */
export function formatLimit(size) {
  return bytes(size * (1_000 / 1_024) ** Math.floor(Math.log2(Math.max(1, size)) / 10));
}
