// The priority system, as src/inturn/policy/priority.py has it; a test compares the two. Times are microseconds.

/** Level 1, and one more for every threshold that the count is less than. */
export function levelOf(count, thresholds) {
  return 1 + thresholds.filter((threshold) => count < threshold).length;
}

/** A document is looked at. counter: {count, updatedAt}, or null for a customer who is new. */
export function check(counter, now, { reset_interval: interval, thresholds }) {
  const after = decrementOrReset(counter, now, interval);
  return { counter: after, level: levelOf(after.count, thresholds), isReset: counter !== null && after.count === 0 };
}

function decrementOrReset(counter, now, interval) {
  if (counter === null) return { count: 0, updatedAt: now };
  const elapsed = now - counter.updatedAt;
  if (elapsed > interval) return { count: 0, updatedAt: now };
  // A clock that runs backwards moves nothing back, unless it must have been wrong before.
  const isBehind = elapsed < 0 && -elapsed <= interval;
  return { count: counter.count - 1, updatedAt: isBehind ? counter.updatedAt : now };
}

/** For each level the counts from `from` down to `to` that it has; the last one has no end: null. */
export function levelRanges(thresholds) {
  return [...thresholds, null].map((to, index) => ({ level: index + 1, from: index === 0 ? 0 : thresholds[index - 1] - 1, to }));
}
