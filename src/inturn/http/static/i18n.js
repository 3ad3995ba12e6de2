// Texts by key, in the reader's language. A key is section.key, from the table [page.section] of src/inturn/i18n/<language>.toml.

import { number } from "./format.js";
import { getPreference, setPreference } from "./preferences.js";

/** @type {Record<string, string>} */
export const LANGUAGE_NAMES = { en: "English", de: "Deutsch", es: "Español", pl: "Polski", pt: "Português" };
let language = "en";
/** @type {Record<string, string | Record<string, string>>} */
let entries = {};
let plurals = new Intl.PluralRules("en");

export function currentLanguage() {
  return language;
}

/**
 * The chosen language, else the first of the browser's that is known.
 * @param {readonly string[]} known
 */
export function preferredLanguage(known) {
  const chosen = getPreference("language");
  if (chosen !== null && known.includes(chosen)) return chosen;
  const wanted = navigator.languages.map((code) => code.split("-")[0].toLowerCase());
  return wanted.find((code) => known.includes(code)) ?? "en";
}

/** @param {string} chosen */
export function chooseLanguage(chosen) {
  setPreference("language", chosen);
}

/**
 * Load a language. The address has the build in it, so browsers cache the texts.
 * @param {string} wanted
 */
export async function loadTexts(wanted) {
  const answer = await fetch(new URL(`texts/${wanted}.json`, import.meta.url));
  if (!answer.ok) throw new Error(`texts: ${answer.status}`);
  entries = await answer.json();
  language = wanted;
  plurals = new Intl.PluralRules(wanted);
  document.documentElement.lang = wanted;
}

/**
 * Translate: t("overview.waiting"), t("overview.found", {n: 3}). `n` chooses the plural form; numbers are formatted.
 * @param {string} key
 * @param {Record<string, unknown>} values
 * @returns {string}
 */
export function t(key, values = {}) {
  let entry = entries[key];
  if (entry === undefined) throw new Error(`no text ${key}`);
  if (typeof entry !== "string") entry = entry[plurals.select(Number(values.n))] ?? entry.other;
  return entry.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? number(value) : String(value);
  });
}

/**
 * Whether a text exists, for codes that come from the server.
 * @param {string} key
 */
export function hasText(key) {
  return key in entries;
}
