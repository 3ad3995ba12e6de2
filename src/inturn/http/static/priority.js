// The priority system of src/inturn/policy/priority.py; a test compares the two. Times are microseconds.

/**
 * @typedef {{ count: number, updatedAt: number }} Counter
 * @typedef {Pick<Api.Priority, "reset_interval" | "thresholds">} Rules
 */

/**
 * The level of a count: 1, plus one for each threshold above the count.
 * @param {number} count
 * @param {readonly number[]} thresholds
 */
export function levelOf(count, thresholds) {
  return 1 + thresholds.filter((threshold) => count < threshold).length;
}

/**
 * Check a document. counter: {count, updatedAt}, or null for a new customer.
 * @param {Counter | null} counter
 * @param {number} now
 * @param {Rules} rules
 */
export function check(counter, now, { reset_interval: interval, thresholds }) {
  const after = decrementOrReset(counter, now, interval);
  return { counter: after, level: levelOf(after.count, thresholds), isReset: counter !== null && after.count === 0 };
}

/**
 * @param {Counter | null} counter
 * @param {number} now
 * @param {number} interval
 * @returns {Counter}
 */
function decrementOrReset(counter, now, interval) {
  if (counter === null) return { count: 0, updatedAt: now };
  const elapsed = now - counter.updatedAt;
  if (elapsed > interval) return { count: 0, updatedAt: now };
  // A clock that goes back by at most the interval does not move updatedAt back. Beyond that the old time was wrong.
  const isBehind = elapsed < 0 && -elapsed <= interval;
  return { count: counter.count - 1, updatedAt: isBehind ? counter.updatedAt : now };
}

/**
 * The counts of each level, from `from` down to `to`; `to` is null for the last level.
 * @param {readonly number[]} thresholds
 */
export function levelRanges(thresholds) {
  return [...thresholds, null].map((to, index) => ({ level: index + 1, from: index === 0 ? 0 : thresholds[index - 1] - 1, to }));
}
