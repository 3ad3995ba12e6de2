// Levels have colours of their own, the same everywhere; the number is always written too.

import { el, setText } from "../dom.js";
import { t } from "../i18n.js";

/** The class that sets --level: of level 0 (expedited) to 9. */
export function levelClass(level) {
  return `level-${Math.min(9, Math.max(0, level))}`;
}

export function levelName(level) {
  return level === 0 ? t("shell.expedited") : t("shell.level", { level });
}

export function levelBadge(level) {
  return updateLevelBadge(el("span"), level);
}

export function updateLevelBadge(node, level) {
  node.className = `badge ${levelClass(level)}`;
  setText(node, levelName(level));
  return node;
}

export function stateBadge(state) {
  return el("span", { class: `badge state-${state}` }, t(`shell.state_${state}`));
}
