"""Keeps a queue in order: leases, delays, `start_by`, history, blobs that nobody refers to.

Claims move on what is due by themselves; upkeep helps where nobody claims. Any number of processes may run it at once.
"""

import logging
import threading
import time
from itertools import islice
from typing import Final, NamedTuple

from inturn.blobs import Blobs
from inturn.clock import Clock, SystemClock
from inturn.errors import InturnError
from inturn.model import SECOND
from inturn.queue import Queue
from inturn.store import CustomerFilter, Swept

log: Final = logging.getLogger("inturn.upkeep")
KEEP: Final = 30 * 86_400 * SECOND
"""How long ended documents and events are kept, where nobody said otherwise."""
ORPHAN_AGE: Final = 86_400 * SECOND
"""A blob younger than this may belong to a submit that is under way."""
AT_ONCE: Final = 500
SWEEP_EVERY: Final = 15.0
TIDY_EVERY: Final = 600.0


class Tidied(NamedTuple):
    """What one round did."""

    swept: Swept = Swept()
    documents: int = 0
    events: int = 0
    keys: int = 0
    blobs: int = 0
    orphans: int = 0


class Upkeep:
    """One round at a time."""

    def __init__(
        self, queue: Queue, blobs: Blobs | None = None, *, keep: int | None = KEEP, clock: Clock | None = None
    ) -> None:
        self._queue = queue
        self._blobs = blobs
        self._keep = keep
        self._clock = clock or SystemClock()

    def sweep(self) -> Swept:
        """Move on what is due."""
        return self._queue.store.sweep()

    def round(self) -> Tidied:
        """All of it."""
        swept = self.sweep()
        documents, events, keys, blobs = self._forget()
        return Tidied(swept, documents, events, keys, blobs, self._drop_orphans())

    def _forget(self) -> tuple[int, int, int, int]:
        """History by age: of customers with a time of their own, then of everybody else."""
        now = self._clock.now()
        removed = [self._prune(now - keep, name) for name, keep in self._own_times()]
        if self._keep is not None:
            removed.append(self._prune(now - self._keep, None))
        documents, events, keys, blobs = (sum(each) for each in zip(*removed, strict=True)) if removed else (0,) * 4
        return documents, events, keys, blobs

    def _own_times(self) -> list[tuple[str, int]]:
        found, after = [], None
        while True:
            page = self._queue.customers(CustomerFilter(), limit=1_000, after=after)
            found += [(each.name, each.settings.keep) for each in page.items if each.settings.keep is not None]
            after = page.next
            if after is None:
                return found

    def _prune(self, before: int, customer: str | None) -> tuple[int, int, int, int]:
        total = [0, 0, 0, 0]
        while before > 0:
            removed = self._queue.store.prune(before, limit=AT_ONCE, customer=customer)
            if self._blobs is not None:
                self._blobs.delete(removed.blobs)
            for at, n in enumerate((removed.documents, removed.events, removed.keys, len(removed.blobs))):
                total[at] += n
            if removed.documents < AT_ONCE and removed.events < AT_ONCE:
                break
        return total[0], total[1], total[2], total[3]

    def _drop_orphans(self) -> int:
        if self._blobs is None:
            return 0
        before = self._clock.now() - ORPHAN_AGE
        dropped, keys = self._blobs.tidy(before), iter(self._blobs.keys(before))
        while some := list(islice(keys, AT_ONCE)):
            unknown = self._queue.store.unknown_blobs(some)
            self._blobs.delete(unknown)
            dropped += len(unknown)
        return dropped


class UpkeepThread(threading.Thread):
    """Upkeep beside a worker."""

    def __init__(self, upkeep: Upkeep) -> None:
        super().__init__(name="inturn-upkeep", daemon=True)
        self._upkeep = upkeep
        self._over = threading.Event()

    def run(self) -> None:  # noqa: D102 - a thread's own
        next_tidy = time.monotonic()  # soon: a worker that is restarted often would never get to it
        while not self._over.wait(SWEEP_EVERY):
            try:
                if time.monotonic() >= next_tidy:
                    next_tidy = time.monotonic() + TIDY_EVERY
                    self._upkeep.round()
                else:
                    self._upkeep.sweep()
            except InturnError as wrong:
                log.warning("upkeep failed, trying again: %s", wrong)

    def stop(self) -> None:
        """After the round that is under way."""
        self._over.set()
        self.join()
