// Badges for levels and states. A level has one step of the scale everywhere, and its number is always shown too.

import { el, setText } from "../dom.js";
import { t } from "../i18n.js";

/**
 * The CSS class that sets --level and --on-level, from 0 (expedited) to 9.
 * @param {number} level
 */
export function levelClass(level) {
  return `level-${Math.min(9, Math.max(0, level))}`;
}

/** @param {number} level */
export function levelName(level) {
  return level === 0 ? t("shell.expedited") : t("shell.level", { level });
}

/** @param {number} level */
export function levelBadge(level) {
  return updateLevelBadge(el("span"), level);
}

/**
 * @param {HTMLElement} node
 * @param {number} level
 */
export function updateLevelBadge(node, level) {
  node.className = `badge badge-level ${levelClass(level)}`;
  setText(node, levelName(level));
  return node;
}

/** @param {string} state */
export function stateBadge(state) {
  return el("span", { class: `badge state-${state}` }, t(`shell.state_${state}`));
}
