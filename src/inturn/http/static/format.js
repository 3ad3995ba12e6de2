// Format numbers, times and durations for the reader's language. Times and durations are microseconds.

import { currentLanguage } from "./i18n.js";

const SECOND = 1_000_000;
const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const SYMBOLS = { day: "d", hour: "h", minute: "min", second: "s" };
const formatters = new Map();

function getFormatter(Kind, options) {
  const key = `${currentLanguage()} ${Kind.name} ${JSON.stringify(options)}`;
  if (!formatters.has(key)) formatters.set(key, new Kind(currentLanguage(), options));
  return formatters.get(key);
}

export function number(value, digits = 0) {
  const most = Number.isInteger(value) ? 0 : Math.max(digits, 1);
  return getFormatter(Intl.NumberFormat, { maximumFractionDigits: most }).format(value);
}

/** Format a number with at most three significant digits if it is below 100, else as an integer. */
export function roundedNumber(value) {
  return getFormatter(Intl.NumberFormat, { maximumSignificantDigits: value < 100 ? 3 : 15, maximumFractionDigits: 2 }).format(
    value < 100 ? value : Math.round(value),
  );
}

export function percent(part, digits = 1) {
  return getFormatter(Intl.NumberFormat, { style: "percent", maximumFractionDigits: digits }).format(part);
}

/** Format Jain's index; null where no two customers had a backlog. */
export function jainText(index) {
  return index === null ? "–" : roundedNumber(index);
}

/** Format a share of worker time: always one decimal, so that shares below each other compare. */
export function sharePercent(part) {
  return part === null ? "–" : getFormatter(Intl.NumberFormat, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(part);
}

export function time(at) {
  return getFormatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "medium" }).format(at / 1_000);
}

export function timeOfDay(at) {
  return getFormatter(Intl.DateTimeFormat, { timeStyle: "medium" }).format(at / 1_000);
}

export function shortTimeOfDay(at) {
  return getFormatter(Intl.DateTimeFormat, { timeStyle: "short" }).format(at / 1_000);
}

/** Format a duration in its two largest units, with symbols that all five languages share: 4.7 s, 1 min 15 s, 3 d 4 h. */
export function duration(length) {
  return formatUnits(length, (name, amount) => `${number(amount, 1)}\u00a0${SYMBOLS[name]}`);
}

/** Format a duration in words, for sentences: 1 minute 15 seconds. */
export function durationInWords(length) {
  const options = { style: "unit", unitDisplay: "long", maximumFractionDigits: 1 };
  return formatUnits(length, (name, amount) => getFormatter(Intl.NumberFormat, { ...options, unit: name }).format(amount));
}

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

/** Format a remaining time as a clock: 24:59 or 1:04:07. */
export function countdown(length) {
  const seconds = Math.max(0, Math.ceil(length / SECOND));
  const parts = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const shown = parts[0] > 0 ? parts : parts.slice(1);
  return shown.map((part, index) => (index === 0 ? String(part) : String(part).padStart(2, "0"))).join(":");
}

/** Format a time relative to the browser's clock: 3 minutes ago. */
export function ago(at, now = Date.now() * 1_000) {
  const seconds = (at - now) / SECOND;
  const [name, size] = UNITS.find(([, unitSeconds]) => Math.abs(seconds) >= unitSeconds) ?? UNITS[3];
  return getFormatter(Intl.RelativeTimeFormat, { numeric: "auto" }).format(Math.round(seconds / size), name);
}

export function bytes(size) {
  const names = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  const step = Math.min(names.length - 1, Math.floor(Math.log10(Math.max(1, size)) / 3));
  const options = { style: "unit", unit: names[step], unitDisplay: step === 0 ? "long" : "short", maximumFractionDigits: 1 };
  return getFormatter(Intl.NumberFormat, options).format(size / 1_000 ** step);
}
