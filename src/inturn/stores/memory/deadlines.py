"""Deadlines of the memory store: heaps whose stale entries are skipped when they come up."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from inturn.stores.memory.rows import DELAYED, RUNNING, WAITING, Row

MIN_COMPACT_SIZE: Final = 1_000


class Deadline:
    """A heap of documents by one of their times. An entry is stale unless it equals `time_of` its row."""

    def __init__(self, time_of: Callable[[Row], int | None]) -> None:
        self._heap: list[tuple[int, int, str, Row]] = []
        self._compact_at = MIN_COMPACT_SIZE
        self.time_of = time_of
        self.earliest: float = inf
        """Lower bound: no entry is due before this."""

    def add(self, at: int, row: Row) -> None:
        heappush(self._heap, (at, row.seq, row.id, row))
        self.earliest = min(self.earliest, at)
        if len(self._heap) > self._compact_at:
            self._compact()

    def next(self) -> int | None:
        """Return the earliest current time."""
        heap = self._heap
        while heap:
            if self._is_current(heap[0]):
                self.earliest = heap[0][0]
                return heap[0][0]
            heappop(heap)
        self.earliest = inf
        return None

    def _compact(self) -> None:
        """Drop stale entries: they would hold every processed document in memory until its lease ends."""
        self._heap = [entry for entry in self._heap if self._is_current(entry)]
        heapify(self._heap)
        self._compact_at = 2 * len(self._heap) + MIN_COMPACT_SIZE

    def _is_current(self, entry: tuple[int, int, str, Row]) -> bool:
        at, seq, _, row = entry
        return seq == row.seq and self.time_of(row) == at

    def rows(self) -> list[Row]:
        """Return the documents with a current entry, by seq."""
        return sorted({entry[1]: entry[3] for entry in self._heap if self._is_current(entry)}.values(), key=_by_seq)

    def due(self, now: int) -> Iterator[Row]:
        """Pop due documents by time, then by seq.

        Change each row before taking the next: a document may have two entries for one time.
        """
        while self.earliest <= now and (at := self.next()) is not None and at <= now:
            yield heappop(self._heap)[3]


def _by_seq(row: Row) -> int:
    return row.seq


def lease_of(row: Row) -> int | None:
    """Return when the lease of a running document ends."""
    return row.lease_until if row.state is RUNNING else None


def delay_of(row: Row) -> int | None:
    """Return when the delay of a delayed document ends."""
    return row.due_at if row.state is DELAYED else None


def start_by_of(row: Row) -> int | None:
    """Return when a document expires that was never started."""
    never_started = row.attempt == 0 and row.state in {WAITING, DELAYED}
    return row.spec.start_by if never_started else None
