// The choices of language and theme, shown below the navigation and on the settings page.

import { LANGUAGE_NAMES, chooseLanguage, currentLanguage, t } from "../i18n.js";
import { getPreference, setPreference } from "../preferences.js";
import { currentSession } from "../session.js";

const THEMES = ["system", "light", "dark"];
let restart = async () => {};

/** Set the function that redraws the whole page in another language. */
export function setRestartHandler(call) {
  restart = call;
}

/** The options [[value, text], …] and the current value of a select; pick(input) applies the choice. */
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
