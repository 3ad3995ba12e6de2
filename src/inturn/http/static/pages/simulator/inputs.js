// Inputs that scenarios and replays share.

import { t } from "../../i18n.js";

export const ORDERS = ["fair", "classic", "fifo"];
export const MAX_WORKERS = 1_000;

/**
 * Read an integer; null if it is invalid, with an error at the field.
 * @param {ReturnType<typeof import("../../components/fields.js").numberField>} field
 * @param {number} least
 * @param {number} most
 */
export function readInteger(field, least, most) {
  const value = readNumber(field, least, most);
  if (value === null || Number.isInteger(value)) return value;
  field.setError(t("simulator.error_whole"));
  return null;
}

/**
 * @param {ReturnType<typeof import("../../components/fields.js").numberField>} field
 * @param {number} least
 * @param {number} most
 */
export function readNumber(field, least, most) {
  const value = field.input.value.trim() === "" ? NaN : Number(field.input.value);
  const isRight = value >= least && value <= most;
  field.setError(isRight ? null : t("simulator.error_between", { least, most }));
  return isRight ? value : null;
}
