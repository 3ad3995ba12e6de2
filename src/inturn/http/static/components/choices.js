// Language and colours, chosen in two places: below the navigation and among the settings. Both show the same.

import { LANGUAGE_NAMES, chooseLanguage, currentLanguage, t } from "../i18n.js";
import { getPreference, setPreference } from "../preferences.js";
import { currentSession } from "../session.js";

const THEMES = ["system", "light", "dark"];
let restart = async () => {};

/** What draws the whole page anew, for another language. */
export function setRestartHandler(call) {
  restart = call;
}

/** [[value, text], …] and what is chosen now, for a field; `pick` does it. */
export function languageChoice() {
  return {
    value: currentLanguage(),
    options: currentSession().languages.map((language) => [language, LANGUAGE_NAMES[language]]),
    async pick(input) {
      const place = input.closest(".page") ? ".page" : ".side";
      chooseLanguage(input.value);
      await restart();
      document.querySelector(`${place} [data-choice=language]`)?.focus();
    },
  };
}

export function themeChoice() {
  return {
    value: getPreference("theme") ?? "system",
    options: THEMES.map((theme) => [theme, t(`shell.theme_${theme}`)]),
    pick({ value }) {
      setPreference("theme", value === "system" ? null : value);
      if (value === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = value;
      for (const select of document.querySelectorAll("[data-choice=theme]")) select.value = value;
    },
  };
}
