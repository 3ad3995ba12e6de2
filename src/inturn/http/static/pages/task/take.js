// Take the next document of a queue that people serve.

import { send } from "../../api.js";
import { t } from "../../i18n.js";
import { toast } from "../../components/toast.js";

/**
 * Resolves with the document's id; null if none could be taken, which is then said.
 * @param {string} queue
 */
export async function takeNext(queue) {
  const { taken, waiting } = await send("POST", `/v1/queues/${encodeURIComponent(queue)}/take`);
  if (taken === null) toast(waiting > 0 ? t("tasks.all_held", { n: waiting }) : t("tasks.none"));
  return taken?.document.id ?? null;
}
