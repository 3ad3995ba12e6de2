// Looking again while a page is open.

const MIN_INTERVAL_MS = 2_000;
const MAX_INTERVAL_MS = 10_000;
const COOLDOWN_FACTOR = 5;

/**
 * Look again soon after something happened, and now and then anyway; one look at a time, and a rest after each that is
 * several times as long as it took. `concerns(event)` says which events matter; all that missed some do.
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
      if (error.code === undefined && error.name !== "AbortError") throw error; // the live mark tells of the rest
    } finally {
      isLoading = false;
      loadedAt = Date.now();
      interval = Math.max(MIN_INTERVAL_MS, COOLDOWN_FACTOR * (loadedAt - began));
    }
  };
  view.listen("*", (events) => {
    if (events.some((event) => event.kind === "reset" || concerns(event))) refresh();
  });
  view.every(500, () => {
    if (isWanted || Date.now() - loadedAt >= MAX_INTERVAL_MS) refresh();
  });
}
