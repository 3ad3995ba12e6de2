"""The queue now and how it went lately, for overviews: read seldom, by the watcher, however many look at it."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.http.metrics import Wait
from inturn.insights import Board, Insights, board
from inturn.model import SECOND, DocumentState

EVERY: Final = 5 * SECOND
"""Between two points of the course."""
POINTS: Final = 120
LATELY: Final = 60 * SECOND
OVER: Final = EVERY * POINTS
MOST_WAITS: Final = 10_000
LOOKED_AT: Final = 15 * SECOND
"""How long after a look somebody is thought to go on looking."""
WATCHED: Final = (SECOND, 10)
UNWATCHED: Final = (EVERY, 50)
"""The least rest between two readings, and how many times as long as one takes: a large queue is read less often."""


class Percentiles(NamedTuple):
    """Of a sample of waits, in microseconds."""

    p50: int
    p95: int
    p99: int


class Point(NamedTuple):
    """The queue at one time of its course."""

    at: int
    waiting: int
    running: int
    per_second: float
    customers: int
    failed: int
    overdue_uses: int
    waits: Percentiles | None


class Course:
    """The last board and the points of the last ten minutes, as this server saw them."""

    def __init__(self, insights: Insights, clock: Clock) -> None:
        self._insights = insights
        self._clock = clock
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._waits: deque[Wait] = deque(maxlen=MOST_WAITS)
        self._board: Board | None = None
        self._looked_at = -LOOKED_AT
        self._took = 0

    def hear(self, wait: Wait) -> None:
        """One more document of the sample has started."""
        with self._lock:
            self._waits.append(wait)

    def now(self) -> Board:
        """The queue as it was a moment ago."""
        self._looked_at = self._clock.now()
        if self._board is None or self._looked_at - self._board.live.at > 2 * self._rest(WATCHED):
            with self._reading:  # nobody has read it for long: the first who asks does, the others wait for that
                if self._board is None or self._looked_at - self._board.live.at > self._rest(WATCHED):
                    return self._read()
        return self._board

    def points(self, since: int = 0) -> list[Point]:
        """The course, oldest first."""
        with self._lock:
            return [point for point in self._points if point.at > since]

    def waits(self, within: int = LATELY, is_of: Callable[[int], bool] = lambda _: True) -> Percentiles | None:
        """Of documents that started lately, those whose level is meant."""
        since = self._clock.now() - within
        with self._lock:
            return percentiles([wait.length for wait in self._waits if wait.at >= since and is_of(wait.level)])

    def waits_by_customer(self) -> dict[str, Percentiles]:
        """Of documents that started in the last ten minutes."""
        since = self._clock.now() - OVER
        lengths: dict[str, list[int]] = {}
        with self._lock:
            for wait in self._waits:
                if wait.at >= since:
                    lengths.setdefault(wait.customer, []).append(wait.length)
        return {customer: found for customer, some in lengths.items() if (found := percentiles(some)) is not None}

    def look(self) -> None:
        """The watcher's chore: read again if it is time."""
        now = self._clock.now()
        rest = self._rest(WATCHED if 0 <= now - self._looked_at < LOOKED_AT else UNWATCHED)
        if self._board is None or not 0 <= now - self._board.live.at < rest:
            with self._reading:
                self._read()

    def _rest(self, pace: tuple[int, int]) -> int:
        least, times = pace
        return max(least, times * self._took)

    def _read(self) -> Board:
        now, began = self._clock.now(), time.monotonic()
        read = self._board = board(self._insights, now)
        self._took = round((time.monotonic() - began) * SECOND)
        waits = self.waits()
        with self._lock:
            if not self._points or not 0 <= now - self._points[-1].at < EVERY:
                self._points.append(point(read, waits))
        return read


def percentiles(lengths: list[int]) -> Percentiles | None:
    """Of these; None of none."""
    found = sorted(lengths)
    if not found:
        return None
    return Percentiles(*(found[min(len(found) - 1, len(found) * part // 100)] for part in (50, 95, 99)))


def point(read: Board, waits: Percentiles | None) -> Point:
    """What is kept of a board."""
    live = read.live
    return Point(
        at=live.at,
        waiting=live.states.get(DocumentState.WAITING, 0),
        running=live.states.get(DocumentState.RUNNING, 0),
        per_second=live.per_second,
        customers=read.customers,
        failed=live.states.get(DocumentState.FAILED, 0),
        overdue_uses=read.overdue_uses,
        waits=waits,
    )
