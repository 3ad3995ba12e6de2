// What happened in the queue: waits, throughput by customer, or waiting documents by level.

import { duration, number, roundedNumber } from "../../format.js";
import { t } from "../../i18n.js";
import { levelName } from "../../components/badges.js";
import { HistoryPanel, perMinute, readWaits } from "../../components/history_panel.js";

/** @import { HistoryTab } from "../../components/history_panel.js" */
/** @import { View } from "../../router.js" */

const TOP_CUSTOMERS = 6;
/** As high as a list of what needs attention beside it. */
const CHART_HEIGHT = 250;

/** @param {View} view */
export function queueHistory(view) {
  const height = CHART_HEIGHT;
  return new HistoryPanel(view, {
    waits: { label: t("overview.tab_waits"), chart: { height, format: duration, isLength: true }, read: readWaits },
    throughput: { label: t("overview.tab_throughput"), by: "customer", top: TOP_CUSTOMERS, chart: { height, format: roundedNumber, isStacked: true }, read: readThroughput },
    levels: { label: t("overview.tab_levels"), by: "level", chart: { height, format: number, isStacked: true }, read: readLevels },
  });
}

/** @type {HistoryTab["read"]} */
function readThroughput({ at, step, series }) {
  const columns = series.map((one, index) => /** @type {const} */ ([one.customer === null ? "others" : `c${index}`, one]));
  return {
    series: columns.map(([key, one], index) => ({ key, label: one.customer ?? t("overview.other_customers"), className: one.customer === null ? "series-others" : `series-${index + 1}` })),
    data: { at, ...Object.fromEntries(columns.map(([key, one]) => [key, perMinute(one.done.map((n, index) => (n === null ? null : n + (one.failed[index] ?? 0))), step)])) },
  };
}

/** @type {HistoryTab["read"]} */
function readLevels({ at, series }) {
  return {
    series: series.map(({ level }) => ({ key: `l${level}`, label: levelName(level ?? 0), className: `level-${level} series-level` })),
    data: { at, ...Object.fromEntries(series.map((one) => [`l${one.level}`, one.waiting])) },
  };
}
