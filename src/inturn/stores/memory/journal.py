"""The event log of the memory store."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from inturn.model import NO_METADATA
from inturn.store_types import Event, EventKind, Operator, TimeRange
from inturn.stores.memory.rows import Row


class Change(NamedTuple):
    """What happened to a document, and in which queue."""

    kind: EventKind
    row: Row
    queue: str
    next: str | None = None
    """The queue that it goes to, after a step."""


class Journal:
    """Events in the order of their numbers."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        """Tuples of the fields of `Event`. Events are built on reading, because most are never read."""
        self.last = 0

    def append(
        self,
        kind: EventKind,
        at: int,
        customer: str | None,
        operator: Operator | None = None,
        detail: Mapping[str, Any] = NO_METADATA,
    ) -> None:
        """Add an event that names no document."""
        self._append(at, kind, customer, (), operator, detail, None)

    def _append(self, *fields: Any) -> None:
        self.last = number = self.last + 1
        self.events.append((number, *fields))

    def append_grouped(self, kind: EventKind, at: int, rows: Sequence[Row], operator: Operator | None = None) -> None:
        """Add one event for each customer and queue of documents, in the order of their first documents."""
        self.append_changes(kind, at, [Change(kind, row, row.queue) for row in rows], operator)

    def append_changes(
        self, kind: EventKind, at: int, changes: Sequence[Change], operator: Operator | None = None
    ) -> None:
        """Add those of the changes that are of this kind, grouped in the same way, and by `next` first."""
        grouped: dict[str | None, dict[tuple[str, str], list[str]]] = {}
        for change in changes:
            if change.kind is kind:
                series = grouped.setdefault(change.next, {})
                series.setdefault((change.row.customer, change.queue), []).append(change.row.id)
        for after, by_customer in grouped.items():
            detail = NO_METADATA if after is None else {"next": after}
            for (customer, queue), documents in by_customer.items():
                self._append(at, kind, customer, tuple(documents), operator, detail, queue)

    def since(self, after: int, limit: int) -> tuple[Event, ...]:
        start = bisect_right(self.events, after, key=itemgetter(0))
        return tuple(map(Event._make, self.events[start : start + limit]))

    def by_operator(self, limit: int, before: int | None, customer: str | None, within: TimeRange) -> tuple[Event, ...]:
        """Return up to `limit` events with an operator, newest first."""
        events = (
            event
            for event in reversed(self.events)
            if event[5] is not None
            and (before is None or event[0] < before)
            and (customer is None or event[3] == customer)
            and within.contains(event[1])
        )
        return tuple(map(Event._make, islice(events, limit)))

    def prune(self, before: int, limit: int) -> int:
        """Delete up to `limit` events older than `before` that have no operator; return how many."""
        remaining, dropped = [], 0
        for event in self.events:
            if event[1] < before and event[5] is None and dropped < limit:
                dropped += 1
            else:
                remaining.append(event)
        if dropped:
            self.events = remaining
        return dropped
