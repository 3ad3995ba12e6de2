// The choices of language and theme, shown in the menu of the top bar and on the settings page.

import { LANGUAGE_NAMES, chooseLanguage, currentLanguage, t } from "../i18n.js";
import { getPreference, setPreference } from "../preferences.js";
import { currentSession } from "../session.js";

const THEMES = ["system", "light", "dark"];
let restart = async () => {};

/**
 * Set the function that redraws the whole page in another language.
 * @param {() => Promise<void>} call
 */
export function setRestartHandler(call) {
  restart = call;
}

/** Both choices: {name, label, options: [[value, text, lang]], value, pick(value)}. */
export function appearanceChoices() {
  return [languageChoice(), themeChoice()];
}

function languageChoice() {
  return {
    name: "language",
    label: t("shell.language"),
    value: currentLanguage(),
    /** @type {string[][]} */
    options: currentSession().languages.map((language) => [language, LANGUAGE_NAMES[language], language]),
    pick(/** @type {string} */ value) {
      chooseLanguage(value);
      return restart();
    },
  };
}

function themeChoice() {
  return {
    name: "theme",
    label: t("shell.theme"),
    value: getPreference("theme") ?? "system",
    /** @type {[string, string][]} */
    options: THEMES.map((theme) => [theme, t(`shell.theme_${theme}`)]),
    async pick(/** @type {string} */ value) {
      setPreference("theme", value === "system" ? null : value);
      if (value === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = value;
      for (const select of /** @type {NodeListOf<HTMLSelectElement>} */ (document.querySelectorAll("[data-choice=theme]"))) select.value = value;
    },
  };
}
