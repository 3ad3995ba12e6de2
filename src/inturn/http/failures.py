"""Count the failures of the last hour that no operator has acknowledged."""

import threading
from typing import Final, NamedTuple

from inturn.policy.history import HistorySpan
from inturn.queue_reader import QueueReader
from inturn.store_history import HistoryRow, HistoryScope
from inturn.store_types import Event

WINDOW: Final = HistorySpan.HOUR
REFRESH_INTERVAL: Final = HistorySpan.MINUTE // 12
MAX_CUSTOMERS: Final = 3


class RecentFailures(NamedTuple):
    """Failures since a time: an hour ago, or the last acknowledgement if that was later."""

    since: int
    failed: int
    customers: tuple[tuple[str, int], ...] = ()
    """The customers with the most failures of the last hour."""
    acknowledged: Event | None = None


class FailureCounter:
    """Reads the history at most every five seconds, whatever the number of viewers."""

    def __init__(self, queue: QueueReader) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._last: RecentFailures | None = None
        self._read_at = 0

    def current(self) -> RecentFailures:
        """Return the failures of the last hour, as of a few seconds ago."""
        with self._lock:
            now = self._queue.now()
            if self._last is None or not 0 <= now - self._read_at < REFRESH_INTERVAL:
                self._last, self._read_at = self._read(now), now
            return self._last

    def reset(self) -> None:
        """Read again at the next request."""
        with self._lock:
            self._last = None

    def _read(self, now: int) -> RecentFailures:
        event = self._queue.acknowledged_failures()
        if event is not None and event.at > now:  # by a clock that was ahead: it must not hide failures until then
            event = None
        hour_ago = HistorySpan.MINUTE.begin(now) - WINDOW
        since = hour_ago if event is None else max(hour_ago, event.at)
        begin = HistorySpan.MINUTE.begin(since)
        failed = sum(row.figures.failed for row in self._rows(HistoryScope.QUEUE, begin, now))
        if event is not None and event.at == since:
            failed -= event.detail.get("counted", 0)
        if failed <= 0:
            return RecentFailures(since, 0, (), event)
        by_customer: dict[str, int] = {}
        for row in self._rows(HistoryScope.CUSTOMER, begin, now):
            if row.figures.failed and row.key:
                by_customer[row.key] = by_customer.get(row.key, 0) + row.figures.failed
        most = sorted(by_customer.items(), key=lambda item: (-item[1], item[0]))[:MAX_CUSTOMERS]
        return RecentFailures(since, failed, tuple(most), event)

    def _rows(self, scope: HistoryScope, since: int, now: int) -> tuple[HistoryRow, ...]:
        return self._queue.history(HistorySpan.MINUTE, scope, since, now + 1)
