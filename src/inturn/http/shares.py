"""Who got how much of the last ten minutes' starts, as this server saw them."""

import threading
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from inturn.model import SECOND
from inturn.store import Event, EventKind

MINUTE: Final = 60 * SECOND
SHARE_WINDOW_MINUTES: Final = 10
MAX_CUSTOMERS_PER_MINUTE: Final = 10_000
"""Customers counted in a minute; of more, the busiest."""


class StartShares:
    """Starts by customer and minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: deque[tuple[int, Counter[str]]] = deque(maxlen=SHARE_WINDOW_MINUTES)

    def on_events(self, events: Sequence[Event]) -> None:
        """Count what started."""
        with self._lock:
            for event in events:
                if event.kind is EventKind.STARTED and event.customer is not None:
                    self._counts_of_minute(event.at // MINUTE)[event.customer] += len(event.documents)

    def share_of(self, customer: str, now: int) -> float | None:
        """A customer's part of all starts; None if there were none."""
        with self._lock:
            recent = self._recent(now)
            total = sum(counted.total() for counted in recent)
            return sum(counted[customer] for counted in recent) / total if total else None

    def top_customers(self, now: int, limit: int) -> list[tuple[str, float]]:
        """The customers with the most starts, and their parts of all."""
        with self._lock:
            counted = sum(self._recent(now), Counter[str]())
        return [(customer, starts / counted.total()) for customer, starts in counted.most_common(limit)]

    def by_customer(self, now: int) -> dict[str, float]:
        """The parts of all who had a start."""
        with self._lock:
            counted = sum(self._recent(now), Counter[str]())
        everything = counted.total()
        return {customer: starts / everything for customer, starts in counted.items()}

    def _recent(self, now: int) -> list[Counter[str]]:
        since = now // MINUTE - SHARE_WINDOW_MINUTES
        return [counted for minute, counted in self._minutes if minute > since]

    def _counts_of_minute(self, minute: int) -> Counter[str]:
        if not self._minutes or self._minutes[-1][0] < minute:
            if self._minutes and len(self._minutes[-1][1]) > MAX_CUSTOMERS_PER_MINUTE:
                last, counted = self._minutes[-1]
                self._minutes[-1] = (last, Counter(dict(counted.most_common(MAX_CUSTOMERS_PER_MINUTE))))
            self._minutes.append((minute, Counter()))
        return self._minutes[-1][1]
