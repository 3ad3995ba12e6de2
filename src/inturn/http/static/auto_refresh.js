// Looking again while a page is open.

const AT_MOST_EVERY = 2_000;
const AT_LEAST_EVERY = 10_000;
const TIMES = 5;

/**
 * Look again soon after something happened, and now and then anyway; one look at a time, and a rest after each that is
 * several times as long as it took. `concerns(event)` says which events matter; all that missed some do.
 */
export function refresh(view, look, { concerns = () => true } = {}) {
  let isLooking = false;
  let isWanted = false;
  let lookedAt = Date.now();
  let rest = AT_MOST_EVERY;
  const again = async () => {
    if (isLooking || document.hidden || Date.now() - lookedAt < rest) {
      isWanted = true;
      return;
    }
    [isLooking, isWanted] = [true, false];
    const began = Date.now();
    try {
      await look();
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong; // the live mark tells of the rest
    } finally {
      isLooking = false;
      lookedAt = Date.now();
      rest = Math.max(AT_MOST_EVERY, TIMES * (lookedAt - began));
    }
  };
  view.listen("*", (events) => {
    if (events.some((event) => event.kind === "reset" || concerns(event))) again();
  });
  view.every(500, () => {
    if (isWanted || Date.now() - lookedAt >= AT_LEAST_EVERY) again();
  });
}
