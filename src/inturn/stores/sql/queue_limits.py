"""Caps and rate limits of queues, as the claims of one transaction use them up.

Claims run one by one, so that a limit is exact: running documents are counted in the claim's own transaction, together
with those that it has taken. A run that ends meanwhile still counts until its end is committed.
"""

from collections.abc import Mapping

from inturn.policy import rates
from inturn.stores.sql.claim_types import QueueRow
from inturn.stores.sql.queries import Queries


class QueueLimits:
    """The limits of the queues that are served, and what is left of them."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._limited: dict[int, QueueRow] = {}
        self._counts: dict[str, int] | None = None
        """Running documents by queue, once they were counted."""
        self._running: dict[int, int] = {}
        """Running documents of the queues that have a cap."""
        self._tats: dict[int, int] = {}

    def add(self, queue: QueueRow) -> None:
        """Look at a queue's limits, if it has any."""
        if queue.number in self._limited or (queue.cap is None and queue.rate is None):
            return
        self._limited[queue.number] = queue
        self._tats[queue.number] = queue.tat
        if queue.cap is not None:
            if self._counts is None:
                self._counts = dict(self._queries.fetch_all("running_by_queue"))
            self._running[queue.number] = self._counts.get(queue.name, 0)

    def open(self, weights: Mapping[int, float], now: int) -> Mapping[int, float]:
        """Return the weights without those of queues that their limits close."""
        if not self._limited:
            return weights
        return {number: weight for number, weight in weights.items() if not self._is_closed(number, now)}

    def started(self, number: int, now: int) -> None:
        """Count a document of a queue that starts."""
        queue = self._limited.get(number)
        if queue is None:
            return
        if queue.cap is not None:
            self._running[number] += 1
        if queue.rate is not None:
            self._tats[number] = rates.charged_tat(queue.rate, self._tats[number], now)

    def changed_tats(self) -> list[tuple[int, int]]:
        """Return the numbers of queues whose rate limits were charged, and their new state."""
        return [(number, tat) for number, tat in self._tats.items() if tat != self._limited[number].tat]

    def _is_closed(self, number: int, now: int) -> bool:
        queue = self._limited.get(number)
        if queue is None:
            return False
        is_full = queue.cap is not None and self._running[number] >= queue.cap
        return is_full or (queue.rate is not None and rates.opens_at(queue.rate, self._tats[number]) > now)
