// Queues and steps, where several pages speak of them.

import { get } from "./api.js";
import { number } from "./format.js";
import { t } from "./i18n.js";
import { seesAll } from "./session.js";

/** The queue of documents that name none. */
const DEFAULT_QUEUE = "default";

/**
 * The queues of the store; none for a customer, who sees those of its documents alone.
 * @param {AbortSignal} signal
 * @returns {Promise<Api.NamedQueue[]>}
 */
export async function fetchQueues(signal) {
  return seesAll() ? (await get("/v1/queues", { signal })).queues : [];
}

/**
 * Whether a document says more of its queue than that there is one.
 * @param {Api.Document} doc
 */
export function hasSteps(doc) {
  return doc.queue !== DEFAULT_QUEUE || doc.step > 0 || doc.ahead.length > 0;
}

/**
 * Which of its steps a document is at: "2 of 3".
 * @param {Api.Document} doc
 */
export function stepText(doc) {
  return t("shell.step_of", { step: number(doc.step + 1), n: doc.step + 1 + doc.ahead.length });
}
