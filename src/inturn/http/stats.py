"""The queue now and how it went lately, for overviews: read seldom, by the watcher, however many look at it."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.http.metrics import WaitSample
from inturn.insights import Insights, LiveOverview, live_overview
from inturn.model import SECOND, DocumentState

SAMPLE_INTERVAL: Final = 5 * SECOND
"""Between two points of the history."""
MAX_POINTS: Final = 120
RECENT_WINDOW: Final = 60 * SECOND
HISTORY_WINDOW: Final = SAMPLE_INTERVAL * MAX_POINTS
MAX_WAIT_SAMPLES: Final = 10_000
VIEWER_TIMEOUT: Final = 15 * SECOND
"""How long after a look somebody is thought to go on looking."""
VIEWED_REFRESH: Final = (SECOND, 10)
IDLE_REFRESH: Final = (SAMPLE_INTERVAL, 50)
"""The least rest between two readings, and how many times as long as one takes: a large queue is read less often."""


class Percentiles(NamedTuple):
    """Of a sample of waits, in microseconds."""

    p50: int
    p95: int
    p99: int


class HistoryPoint(NamedTuple):
    """The queue at one time."""

    at: int
    waiting: int
    running: int
    per_second: float
    customers: int
    failed: int
    overdue_uses: int
    waits: Percentiles | None


class QueueHistory:
    """The last board and the points of the last ten minutes, as this server saw them."""

    def __init__(self, insights: Insights, clock: Clock) -> None:
        self._insights = insights
        self._clock = clock
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._points: deque[HistoryPoint] = deque(maxlen=MAX_POINTS)
        self._waits: deque[WaitSample] = deque(maxlen=MAX_WAIT_SAMPLES)
        self._snapshot: LiveOverview | None = None
        self._viewed_at = -VIEWER_TIMEOUT
        self._read_duration = 0

    def add_wait(self, wait: WaitSample) -> None:
        """One more document of the sample has started."""
        with self._lock:
            self._waits.append(wait)

    def current(self) -> LiveOverview:
        """The queue as it was a moment ago."""
        self._viewed_at = self._clock.now()
        if self._snapshot is None or self._viewed_at - self._snapshot.live.at > 2 * self._refresh_interval(
            VIEWED_REFRESH
        ):
            with self._read_lock:  # nobody has read it for long: the first who asks does, the others wait for that
                if self._snapshot is None or self._viewed_at - self._snapshot.live.at > self._refresh_interval(
                    VIEWED_REFRESH
                ):
                    return self._refresh()
        return self._snapshot

    def points(self, since: int = 0) -> list[HistoryPoint]:
        """The points, oldest first."""
        with self._lock:
            return [point for point in self._points if point.at > since]

    def wait_percentiles(
        self, window: int = RECENT_WINDOW, includes_level: Callable[[int], bool] = lambda _: True
    ) -> Percentiles | None:
        """Of documents that started lately, those whose level is meant."""
        since = self._clock.now() - window
        with self._lock:
            return compute_percentiles(
                [wait.duration for wait in self._waits if wait.at >= since and includes_level(wait.level)]
            )

    def wait_percentiles_by_customer(self) -> dict[str, Percentiles]:
        """Of documents that started in the last ten minutes."""
        since = self._clock.now() - HISTORY_WINDOW
        lengths: dict[str, list[int]] = {}
        with self._lock:
            for wait in self._waits:
                if wait.at >= since:
                    lengths.setdefault(wait.customer, []).append(wait.duration)
        return {
            customer: percentiles
            for customer, some in lengths.items()
            if (percentiles := compute_percentiles(some)) is not None
        }

    def refresh_if_due(self) -> None:
        """The watcher's chore: read again if it is time."""
        now = self._clock.now()
        rest = self._refresh_interval(VIEWED_REFRESH if 0 <= now - self._viewed_at < VIEWER_TIMEOUT else IDLE_REFRESH)
        if self._snapshot is None or not 0 <= now - self._snapshot.live.at < rest:
            with self._read_lock:
                self._refresh()

    def _refresh_interval(self, refresh: tuple[int, int]) -> int:
        least, times = refresh
        return max(least, times * self._read_duration)

    def _refresh(self) -> LiveOverview:
        now, began = self._clock.now(), time.monotonic()
        read = self._snapshot = live_overview(self._insights, now)
        self._read_duration = round((time.monotonic() - began) * SECOND)
        waits = self.wait_percentiles()
        with self._lock:
            if not self._points or not 0 <= now - self._points[-1].at < SAMPLE_INTERVAL:
                self._points.append(make_history_point(read, waits))
        return read


def compute_percentiles(durations: list[int]) -> Percentiles | None:
    """Of these; None of none."""
    result = sorted(durations)
    if not result:
        return None
    return Percentiles(*(result[min(len(result) - 1, len(result) * part // 100)] for part in (50, 95, 99)))


def make_history_point(snapshot: LiveOverview, waits: Percentiles | None) -> HistoryPoint:
    """What is kept of a board."""
    live = snapshot.live
    return HistoryPoint(
        at=live.at,
        waiting=live.states.get(DocumentState.WAITING, 0),
        running=live.states.get(DocumentState.RUNNING, 0),
        per_second=live.per_second,
        customers=snapshot.customers,
        failed=live.states.get(DocumentState.FAILED, 0),
        overdue_uses=snapshot.overdue_uses,
        waits=waits,
    )
