// Reload the data of an open page.

import { ignoreRequestError } from "./api.js";

const MIN_INTERVAL_MS = 2_000;
const MAX_INTERVAL_MS = 10_000;
const COOLDOWN_FACTOR = 5;

/**
 * Call load() after events, and at least every MAX_INTERVAL_MS. One load runs at a time, and the pause after it is
 * COOLDOWN_FACTOR times its duration. `concerns(event)` selects the events; a reset always counts.
 * @param {import("./router.js").View} view
 * @param {() => Promise<unknown>} load
 * @param {{ concerns?: (event: import("./events.js").QueueEvent) => boolean }} options
 */
export function autoRefresh(view, load, { concerns = () => true } = {}) {
  let isLoading = false;
  let isWanted = false;
  let loadedAt = Date.now();
  let interval = MIN_INTERVAL_MS;
  const refresh = async () => {
    if (isLoading || document.hidden || Date.now() - loadedAt < interval) {
      isWanted = true;
      return;
    }
    [isLoading, isWanted] = [true, false];
    const began = Date.now();
    try {
      await load();
    } catch (error) {
      ignoreRequestError(error); // the status indicator shows an offline server
    } finally {
      isLoading = false;
      loadedAt = Date.now();
      interval = Math.max(MIN_INTERVAL_MS, COOLDOWN_FACTOR * (loadedAt - began));
    }
  };
  view.listen("*", (events) => {
    if (events.some((event) => event.kind === "reset" || concerns(event))) void refresh();
  });
  view.every(500, () => {
    if (isWanted || Date.now() - loadedAt >= MAX_INTERVAL_MS) void refresh();
  });
}
