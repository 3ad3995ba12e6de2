"""The event log of the memory store."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from inturn.model import NO_METADATA
from inturn.store_types import Event, EventKind, Operator, TimeRange
from inturn.stores.memory.rows import Row


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
        documents: tuple[str, ...] = (),
        operator: Operator | None = None,
        detail: Mapping[str, Any] = NO_METADATA,
    ) -> None:
        self.last = number = self.last + 1
        self.events.append((number, at, kind, customer, documents, operator, detail))

    def append_by_customer(
        self, kind: EventKind, at: int, rows: Sequence[Row], operator: Operator | None = None
    ) -> None:
        """Add one event for each customer, in the order of their first documents."""
        if len(rows) == 1:
            self.append(kind, at, rows[0].customer, (rows[0].id,), operator)
            return
        grouped: dict[str, list[str]] = {}
        for row in rows:
            grouped.setdefault(row.customer, []).append(row.id)
        for customer, documents in grouped.items():
            self.append(kind, at, customer, tuple(documents), operator)

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
