// The lanes of a customer are those of all queues: one for each queue and level.

/**
 * Waiting documents by level.
 * @param {Api.Lane[]} lanes
 * @returns {Record<string, number>}
 */
export function waitingByLevel(lanes) {
  return Object.fromEntries(lanesByLevel(lanes).map((lane) => [lane.level, lane.waiting]));
}

/**
 * One lane for each level: the sum of all queues, open if one of them is.
 * @param {Api.Lane[]} lanes
 * @returns {Omit<Api.Lane, "queue">[]}
 */
export function lanesByLevel(lanes) {
  /** @type {Map<number, Omit<Api.Lane, "queue">>} */
  const levels = new Map();
  for (const { level, waiting, is_open: isOpen, oldest_wait: oldest } of lanes) {
    const sum = levels.get(level) ?? { level, waiting: 0, is_open: false, oldest_wait: null };
    levels.set(level, { level, waiting: sum.waiting + waiting, is_open: sum.is_open || isOpen, oldest_wait: oldest === null ? sum.oldest_wait : Math.max(oldest, sum.oldest_wait ?? 0) });
  }
  return [...levels.values()].toSorted((a, b) => a.level - b.level);
}
