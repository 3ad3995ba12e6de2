// Language and colours, chosen in two places: below the navigation and among the settings. Both show the same.

import { NAMES, chooseLanguage, currentLanguage, t } from "../i18n.js";
import { current } from "../session.js";
import { remember, remembered } from "../preferences.js";

const THEMES = ["system", "light", "dark"];
let restart = async () => {};

/** What draws the whole page anew, for another language. */
export function useRestart(call) {
  restart = call;
}

/** [[value, text], …] and what is chosen now, for a field; `pick` does it. */
export function languageChoice() {
  return {
    value: currentLanguage(),
    options: current().languages.map((each) => [each, NAMES[each]]),
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
    value: remembered("theme") ?? "system",
    options: THEMES.map((each) => [each, t(`shell.theme_${each}`)]),
    pick({ value }) {
      remember("theme", value === "system" ? null : value);
      if (value === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = value;
      for (const each of document.querySelectorAll("[data-choice=theme]")) each.value = value;
    },
  };
}
