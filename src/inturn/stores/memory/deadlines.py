"""Times at which the memory store has something to do: heaps in which what is no longer true is passed over."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from inturn.stores.memory.rows import DELAYED, RUNNING, WAITING, Row


class Deadline:
    """Documents by one of their times. `time_of` tells a document's present one, or None when it has none."""

    def __init__(self, time_of: Callable[[Row], int | None]) -> None:
        self._heap: list[tuple[int, int, str, Row]] = []
        self.time_of = time_of

    def add(self, at: int, row: Row) -> None:
        """Remember that this document has something to do at a time."""
        heappush(self._heap, (at, row.seq, row.id, row))

    def next(self) -> int | None:
        """The earliest time, if there is one."""
        heap = self._heap
        while heap:
            at, seq, _, row = heap[0]
            true_at = self.time_of(row)
            if true_at == at and seq == row.seq:
                return at
            heappop(heap)
            if true_at is not None and true_at > at:
                self.add(true_at, row)
        return None

    def may_be_due(self, now: int) -> bool:
        """Whether it is worth asking what is due."""
        return bool(self._heap) and self._heap[0][0] <= now

    def due(self, now: int) -> Iterator[Row]:
        """Take out what is due, by time, then by seq. Move each on before asking for the next: entries may repeat."""
        while self.may_be_due(now) and (at := self.next()) is not None and at <= now:
            yield heappop(self._heap)[3]


def lease_of(row: Row) -> int | None:
    """When a running document's lease ends."""
    return row.lease_until if row.state is RUNNING else None


def delay_of(row: Row) -> int | None:
    """When a delayed document waits again."""
    return row.due_at if row.state is DELAYED else None


def start_by_of(row: Row) -> int | None:
    """When a document that never started expires."""
    never_started = row.attempt == 0 and row.state in {WAITING, DELAYED}
    return row.given.start_by if never_started else None
