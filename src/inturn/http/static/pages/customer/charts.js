// A customer's waits, what it submitted and what became of it, and what waited, over time.

import { duration, number, roundedNumber } from "../../format.js";
import { t } from "../../i18n.js";
import { HistoryPanel, perMinute, readWaits } from "../../components/history_panel.js";

/** @import { HistoryTab } from "../../components/history_panel.js" */
/** @import { View } from "../../router.js" */

/** @param {View} view */
export function customerCharts(view) {
  const tabs = {
    waits: { label: t("customer.tab_waits"), chart: { format: duration, isLength: true }, read: readWaits },
    documents: { label: t("customer.tab_documents"), chart: { format: roundedNumber }, read: readDocuments },
    waiting: { label: t("customer.fact_waiting"), chart: { format: number, isStacked: true }, read: readWaiting },
  };
  return new HistoryPanel(view, tabs, { customer: view.params.name });
}

/** @type {HistoryTab["read"]} */
function readDocuments({ at, step, total }) {
  return {
    series: [
      { key: "in", label: t("customer.kind_submitted"), className: "series-submitted" },
      { key: "done", label: t("customer.kind_done"), className: "series-done" },
      { key: "failed", label: t("customer.kind_failed"), className: "series-failed" },
    ],
    data: { at, in: perMinute(total.submitted, step), done: perMinute(total.done, step), failed: perMinute(total.failed, step) },
  };
}

/** @type {HistoryTab["read"]} */
function readWaiting({ at, total }) {
  return { series: [{ key: "waiting", label: t("customer.fact_waiting"), className: "series-1" }], data: { at, waiting: total.waiting } };
}
