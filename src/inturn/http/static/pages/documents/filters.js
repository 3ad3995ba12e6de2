// The filters of the list of documents: their values in the address, and the fields.

import { el, setProp, setText } from "../../dom.js";
import { number } from "../../format.js";
import { t } from "../../i18n.js";
import { seesAll } from "../../session.js";
import { levelName } from "../../components/badges.js";
import { combobox, findCustomers } from "../../components/combobox.js";
import { checkbox, searchField, selectField, textField } from "../../components/fields.js";
import { icon } from "../../components/icons.js";
import { rangeFromQuery, timeRange } from "../../components/time_range.js";

/** @import { View } from "../../router.js" */

/** @type {Api.DocumentState[]} */
export const STATES = ["waiting", "running", "delayed", "split", "done", "failed", "cancelled", "expired"];
/** States of documents that pass through steps: their chips are shown where there are any. */
const STEP_STATES = ["split"];
/** @type {[sort: "newest" | "oldest" | "wait" | "work", text: string][]} */
const SORTS = [
  ["newest", "newest_first"],
  ["oldest", "oldest_first"],
  ["wait", "longest_wait"],
  ["work", "longest_work"],
];
const TIMES = ["submitted", "ended"];
const LEVELS = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

/**
 * Read the filters from the query.
 * @param {URLSearchParams} query
 */
export function filtersFromQuery(query) {
  const state = STATES.filter((name) => query.getAll("state").includes(name));
  const wanted = query.get("level");
  const level = wanted !== null && LEVELS.includes(wanted) ? wanted : null;
  const { since, until } = rangeFromQuery(query);
  const time = since === null && until === null ? null : timeOf(query);
  const parent = query.get("parent");
  return { state, level, customer: query.get("customer"), batch: query.get("batch"), queue: query.get("queue"), parent, parts: hasParts(query) ? "include" : "exclude", text: query.get("q"), since, until, time };
}

/**
 * Whether parts of documents are shown: all of them, or those of one document.
 * @param {URLSearchParams} query
 */
function hasParts(query) {
  return query.get("parts") === "include" || query.has("parent");
}

/** @param {URLSearchParams} query */
export function sortOf(query) {
  const wanted = query.get("sort");
  return SORTS.find(([sort]) => sort === wanted)?.[0] ?? "newest";
}

/** @param {URLSearchParams} query */
function timeOf(query) {
  return TIMES.find((time) => time === query.get("time")) ?? TIMES[0];
}

/**
 * Whether a row still matches. A row that does not is dimmed, and stays until the next load.
 * @param {Api.Document} row
 * @param {ReturnType<typeof filtersFromQuery>} filters
 */
export function matchesFilters(row, { state, level, queue }) {
  return (queue === null || row.queue === queue) && (state.length === 0 || state.includes(row.state)) && (level === null || row.level === Number(level));
}

/** The fields; the address holds their values. */
export class Filters {
  #view;

  /**
   * @param {View} view
   * @param {Api.NamedQueue[]} queues
   */
  constructor(view, queues) {
    this.#view = view;
    const { customer, batch, queue, parent, text: q, level } = filtersFromQuery(view.query);
    this.search = searchField({ label: t("documents.search"), value: q ?? "", onSearch: (value) => this.#set({ q: value }, true) });
    this.customer = seesAll() ? combobox({ label: t("documents.head_customer"), value: customer ?? "", find: findCustomers, onChange: (value) => this.#set({ customer: value }) }) : null;
    this.level = selectField({ label: t("documents.head_level"), options: [["", t("documents.any")], ...LEVELS.map((name) => [name, levelName(Number(name))])], value: level ?? "", on: { change: () => this.#set({ level: this.level.input.value }) } });
    this.batch = textField({ label: t("documents.batch"), type: "search", value: batch ?? "", on: { change: () => this.#set({ batch: this.batch.input.value.trim() }) } });
    const names = [...new Set([...queues.map((item) => item.name), ...(queue === null ? [] : [queue])])];
    this.queue = selectField({ label: t("documents.head_queue"), options: [["", t("documents.any")], ...names.map((name) => [name, name])], value: queue ?? "", on: { change: () => this.#set({ queue: this.queue.input.value }) } });
    this.queue.node.hidden = names.length < 2;
    this.parent = textField({ label: t("documents.parent"), type: "search", value: parent ?? "", on: { change: () => this.#set({ parent: this.parent.input.value.trim() }) } });
    this.parts = checkbox({ label: t("documents.include_parts"), on: { change: () => this.#set({ parts: this.parts.input.checked ? "include" : null }) } });
    this.range = timeRange({ query: view.query, onSet: (changes) => this.#set(changes) });
    const times = TIMES.map((time) => [time, t(`documents.time_${time}`)]);
    this.time = selectField({ label: t("documents.time_of"), options: times, value: timeOf(view.query), on: { change: () => this.#set({ time: this.time.input.value === TIMES[0] ? null : this.time.input.value }) } });
    const sorts = SORTS.map(([sort, key]) => /** @type {[string, string]} */ ([sort, t(`documents.${key}`)]));
    this.sort = selectField({ label: t("documents.sort"), options: sorts, value: sortOf(view.query), on: { change: () => this.sortBy(this.sort.input.value) } });
    this.chips = new Map();
    const chips = [null, ...STATES].map((state) => el("li", {}, this.#chip(state)));
    const rest = [this.customer?.node, this.queue.node, this.parent.node, this.level.node, this.batch.node, this.range.node, this.time.node, this.sort.node];
    this.clear = el("button", { class: "button button-small", type: "button", on: { click: () => this.#set(this.clearedQuery()) } }, icon("close"), t("documents.clear"));
    this.node = el(
      "div",
      { class: "documents-filters", role: "search", "aria-label": t("documents.filters") },
      el("div", { class: "documents-fields" }, el("div", { class: "field documents-search" }, el("span", { class: "documents-label", "aria-hidden": "true" }, t("documents.name")), this.search.node), this.#unfold(), rest),
      el("div", { class: "documents-states" }, el("ul", { class: "chips", "aria-label": t("documents.head_state") }, chips), this.clear),
    );
    this.syncFromQuery();
  }

  /** The button that unfolds the other fields on a phone. */
  #unfold() {
    const isOpen = this.#isNarrowed();
    const button = el("button", { class: "button documents-unfold", type: "button", "aria-expanded": String(isOpen) }, t("documents.filters"));
    button.addEventListener("click", () => setProp(button, "aria-expanded", String(button.getAttribute("aria-expanded") !== "true")));
    return button;
  }

  #isNarrowed() {
    const { customer, batch, queue, level, time } = filtersFromQuery(this.#view.query);
    return Boolean(customer || batch || queue || level || time) || sortOf(this.#view.query) !== "newest";
  }

  /** @param {Api.DocumentState | null} state */
  #chip(state) {
    const n = el("span", { class: "chip-number" });
    const on = { click: () => this.#toggle(state) };
    const name = state === null ? t("documents.any") : t(`shell.state_${state}`);
    const button = el("button", { class: `chip ${state === null ? "" : `state-${state}`}`, type: "button", on }, el("span", {}, name), n);
    this.chips.set(state, { button, n });
    return button;
  }

  /** @param {Api.DocumentState | null} state */
  #toggle(state) {
    const { state: now } = filtersFromQuery(this.#view.query);
    if (state === null) this.#set({ state: null });
    else this.#set({ state: now.includes(state) ? now.filter((name) => name !== state) : [...now, state] });
  }

  /** @param {Record<string, unknown>} changes */
  #set(changes, replace = false) {
    const { query } = this.#view;
    const isSame = Object.entries(changes).every(([name, value]) => query.getAll(name).join("\n") === [value ?? ""].flat().join("\n"));
    if (!isSame) this.#view.setQuery(changes, { replace });
  }

  /** @param {string} sort */
  sortBy(sort) {
    this.#set({ sort: sort === "newest" ? null : sort });
  }

  clearedQuery() {
    return { state: null, level: null, customer: null, batch: null, queue: null, parent: null, parts: null, q: null, range: null, since: null, until: null, time: null };
  }

  isAny() {
    const { state, parts: _, ...where } = filtersFromQuery(this.#view.query);
    return state.length > 0 || Object.values(where).some(Boolean);
  }

  /** Show the values of the address. A focused field keeps its text. */
  syncFromQuery() {
    const { state, level, customer, batch, queue, parent, text: q } = filtersFromQuery(this.#view.query);
    const put = (/** @type {HTMLInputElement | HTMLSelectElement} */ input, /** @type {string} */ value) => {
      if (input !== document.activeElement && input.value.trim() !== value) input.value = value;
    };
    put(this.search.input, q ?? "");
    put(this.batch.input, batch ?? "");
    put(this.parent.input, parent ?? "");
    this.parent.node.hidden = parent === null;
    this.queue.input.value = queue ?? "";
    this.parts.input.checked = hasParts(this.#view.query);
    this.parts.input.disabled = parent !== null;
    this.customer?.setValue(customer ?? "");
    this.level.input.value = level ?? "";
    this.sort.input.value = sortOf(this.#view.query);
    this.range.sync(this.#view.query);
    this.time.input.value = timeOf(this.#view.query);
    this.time.node.hidden = filtersFromQuery(this.#view.query).time === null;
    for (const [name, { button }] of this.chips) setProp(button, "aria-pressed", String(name === null ? state.length === 0 : state.includes(name)));
    this.clear.hidden = !this.isAny();
  }

  /**
   * Show what only documents with steps need, once it is known that there are any.
   * @param {boolean} isShown
   */
  showSteps(isShown) {
    for (const state of STEP_STATES) this.chips.get(state).button.parentElement.hidden = !isShown;
    this.parts.node.hidden = !isShown;
  }

  /** @param {Record<string, number> | null} counts */
  count(counts) {
    for (const [state, { n }] of this.chips) {
      const all = counts === null ? null : state === null ? STATES.reduce((sum, name) => sum + (counts[name] ?? 0), 0) : (counts[state] ?? 0);
      setText(n, all === null ? "" : number(all));
    }
  }
}
