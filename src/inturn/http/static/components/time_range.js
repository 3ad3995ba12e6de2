// A range of time as a filter: since a while ago, or between two instants. It is in the address as `range`, or as
// `since` and `until` in UTC, so that it means the same in every zone.

import { el } from "../dom.js";
import { t } from "../i18n.js";
import { selectField, textField } from "./fields.js";

/** @type {Record<string, number | undefined>} */
const SECONDS = { "15m": 900, "1h": 3_600, "24h": 86_400, "7d": 604_800 };
const PRESETS = ["15m", "1h", "24h", "7d", "yesterday"];
const EXACT = "exact";
const NO_RANGE = { range: null, since: null, until: null };

/**
 * Read {since, until} of an address, in microseconds; null is open.
 * @param {URLSearchParams} query
 * @returns {{ since: number | null, until: number | null }}
 */
export function rangeFromQuery(query) {
  const range = query.get("range");
  if (range !== null) return { since: startOf(range), until: null };
  return { since: instantOf(query.get("since")), until: instantOf(query.get("until")) };
}

/**
 * The begin of a preset, in microseconds; null for any other name.
 * @param {string} range
 */
export function startOf(range) {
  if (range === "yesterday") {
    const now = new Date();
    return new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1).getTime() * 1_000;
  }
  const seconds = SECONDS[range];
  return seconds === undefined ? null : (Math.floor(Date.now() / 1_000) - seconds) * 1_000_000;
}

/** @returns {[string, string][]} */
export function presetOptions() {
  return PRESETS.map((range) => [range, t(`shell.time_${range}`)]);
}

/** @param {string | null} text */
function instantOf(text) {
  const at = text === null ? NaN : Date.parse(text);
  return Number.isNaN(at) ? null : at * 1_000;
}

/**
 * onSet(changes) puts changes into the address. Returns {node, sync(query)}.
 * @param {{ query: URLSearchParams, onSet: (changes: Record<string, string | null>) => void }} props
 */
export function timeRange({ query, onSet }) {
  /** @type {[string, string][]} */
  const options = [["", t("shell.time_any")], ...presetOptions(), [EXACT, t("shell.time_exact")]];
  const choice = selectField({ label: t("shell.time"), options, on: { change: choose } });
  const since = textField({ label: t("shell.time_since"), type: "datetime-local", on: { change: setExact } });
  const until = textField({ label: t("shell.time_until"), type: "datetime-local", on: { change: setExact } });
  const exact = el("div", { class: "time-exact" }, since.node, until.node);
  const node = el("div", { class: "time-range" }, choice.node, exact);

  function choose() {
    const { value } = choice.input;
    if (value === EXACT) onSet({ ...NO_RANGE, since: addressTime(new Date(Date.now() - 3_600_000)) });
    else onSet({ ...NO_RANGE, range: value || null });
  }

  function setExact() {
    const [from, to] = [since, until].map(({ input }) => (input.value === "" ? null : addressTime(new Date(input.value))));
    onSet({ ...NO_RANGE, since: from, until: to });
  }

  /** @param {URLSearchParams} current */
  function sync(current) {
    const range = rangeFromQuery(current);
    const isExact = current.get("range") === null && (range.since !== null || range.until !== null);
    const preset = current.get("range") ?? "";
    choice.input.value = isExact ? EXACT : PRESETS.includes(preset) ? preset : "";
    exact.hidden = !isExact;
    show(since.input, isExact ? range.since : null);
    show(until.input, isExact ? range.until : null);
  }

  /**
   * A focused field keeps what is typed.
   * @param {HTMLInputElement} input
   * @param {number | null} at
   */
  function show(input, at) {
    if (at === null) input.value = "";
    else if (input !== document.activeElement) input.value = inputTime(new Date(at / 1_000));
  }

  sync(query);
  return { node, sync };
}

/**
 * To the minute, as 2026-11-18T09:00Z.
 * @param {Date} date
 */
function addressTime(date) {
  return `${date.toISOString().slice(0, 16)}Z`;
}

/**
 * As a field for local times takes it.
 * @param {Date} date
 */
function inputTime(date) {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
