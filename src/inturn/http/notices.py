"""Read what needs attention at most every two seconds, however many pages ask."""

import threading
from typing import Final

from inturn.clock import Clock
from inturn.http.stats import QueueHistory
from inturn.insights import Insights, Notice, queue_notices
from inturn.values import SECOND

MAX_AGE: Final = 2 * SECOND


class NoticeCache:
    """The notices of the whole queue, as last read."""

    def __init__(self, insights: Insights, history: QueueHistory, clock: Clock) -> None:
        self._insights = insights
        self._history = history
        self._clock = clock
        self._lock = threading.Lock()
        self._notices: tuple[Notice, ...] = ()
        self._read_at: int | None = None

    def current(self, *, fresh: bool = False) -> tuple[Notice, ...]:
        """Return the notices; `fresh` reads them now, after a change."""
        with self._lock:
            now = self._clock.now()
            if fresh or self._read_at is None or not 0 <= now - self._read_at < MAX_AGE:
                self._notices = queue_notices(self._insights, self._history.current())
                self._read_at = now
            return self._notices
