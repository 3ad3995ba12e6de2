"""Cache the scheduler state of each queue, so that screens and forecasts do not load the store."""

import time
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

from inturn.model import QueueStatus
from inturn.queue_reader import QueueReader
from inturn.store_answers import SchedulerSnapshot
from inturn.values import SECOND

SNAPSHOT_MAX_AGE: Final = SECOND
"""Maximum age of a cached snapshot for places and forecasts."""
SNAPSHOT_AGE_FACTOR: Final = 10
"""For other figures a snapshot may be this many times as old as its read takes."""


class _Cached(NamedTuple):
    """A snapshot, when it was read, and how long that took."""

    at: int
    duration: int
    snapshot: SchedulerSnapshot

    def is_valid(self, now: int, *, is_precise: bool) -> bool:
        age = SNAPSHOT_MAX_AGE if is_precise else max(SNAPSHOT_MAX_AGE, SNAPSHOT_AGE_FACTOR * self.duration)
        return 0 <= now - self.at < age


class Snapshots:
    """The queues of a store and their snapshots, as last read."""

    def __init__(self, queue: QueueReader) -> None:
        self._queue = queue
        self._queues: tuple[int, tuple[QueueStatus, ...]] | None = None
        self._cached: dict[str, _Cached] = {}
        self._merged: tuple[tuple[SchedulerSnapshot, ...], SchedulerSnapshot] | None = None

    def queues(self, now: int, *, fresh: bool = False) -> tuple[QueueStatus, ...]:
        """Return all queues, up to a second old."""
        cached = self._queues
        if cached is None or fresh or not 0 <= now - cached[0] < SNAPSHOT_MAX_AGE:
            cached = self._queues = (now, self._queue.queues())
        return cached[1]

    def of(self, queue: str, now: int, *, fresh: bool = False, is_precise: bool = True) -> SchedulerSnapshot:
        """Return the snapshot of a queue; unless it must be precise, it may be older if its read takes long."""
        cached = self._cached.get(queue)
        if cached is None or fresh or not cached.is_valid(now, is_precise=is_precise):
            began = time.monotonic()
            snapshot = self._queue.scheduler_snapshot(queue)
            cached = self._cached[queue] = _Cached(now, round((time.monotonic() - began) * SECOND), snapshot)
        return cached.snapshot

    def merged(self, now: int, *, is_precise: bool = True) -> SchedulerSnapshot:
        """Return the lanes of all queues and the sums of their counters, queue after queue."""
        snapshots = tuple(self.of(status.name, now, is_precise=is_precise) for status in self.queues(now))
        if len(snapshots) == 1:
            return snapshots[0]
        known = self._merged
        if known is None or len(known[0]) != len(snapshots) or any(map(_differ, known[0], snapshots)):
            known = self._merged = (snapshots, merge_snapshots(snapshots))
        return known[1]


def merge_snapshots(snapshots: Sequence[SchedulerSnapshot]) -> SchedulerSnapshot:
    """Join the lanes of several queues. Virtual times of different queues cannot be compared."""
    return SchedulerSnapshot(
        policy=snapshots[0].policy,
        dispatched=sum(snapshot.dispatched for snapshot in snapshots),
        rotation=snapshots[0].rotation,
        overdue_uses=tuple(map(sum, zip(*(snapshot.overdue_uses for snapshot in snapshots), strict=True))),
        lanes=tuple(chain.from_iterable(snapshot.lanes for snapshot in snapshots)),
        closed=tuple(chain.from_iterable(snapshot.closed for snapshot in snapshots)),
    )


def _differ(one: SchedulerSnapshot, other: SchedulerSnapshot) -> bool:
    return one is not other
