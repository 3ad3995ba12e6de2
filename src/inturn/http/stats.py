"""Keep statistics of this server in memory: history of the queue, shares of worker seconds, errors of estimates."""

import statistics
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.errors import NotFoundError
from inturn.http import schemas
from inturn.http.metrics import WaitSample
from inturn.insights import (
    SHARE_WINDOW,
    CustomerShare,
    Insights,
    LiveOverview,
    ShareMeter,
    Shares,
    Span,
    Why,
    live_overview,
)
from inturn.model import DocumentState
from inturn.policy.forecasts import MAX_OUTCOMES, Forecast, ForecastOutcome
from inturn.queue_admin import QueueAdmin
from inturn.queue_reader import QueueReader
from inturn.store_answers import WorkLog
from inturn.store_types import Event, EventKind
from inturn.values import SECOND

SAMPLE_INTERVAL: Final = 5 * SECOND
MAX_POINTS: Final = 120
RECENT_WINDOW: Final = 60 * SECOND
HISTORY_WINDOW: Final = SAMPLE_INTERVAL * MAX_POINTS
MAX_WAIT_SAMPLES: Final = 10_000
VIEWER_TIMEOUT: Final = 15 * SECOND
"""An overview counts as being watched for this long after a request."""
VIEWED_REFRESH: Final = (SECOND, 10)
IDLE_REFRESH: Final = (SAMPLE_INTERVAL, 50)
"""The shortest pause between two reads, and the pause in read durations: a large queue is read less often."""
COMMIT_DELAY: Final = 2 * SECOND
"""Work is measured up to this long ago: an outcome may be committed later than its time says."""
MAX_OPEN_ESTIMATES: Final = 10_000
MAX_COMPARED: Final = 1_000
MAX_SAMPLED: Final = 3
"""New documents whose start is estimated in a round, so that forecasts are learned without anyone asking."""
SAMPLE_SECONDS: Final = 10.0
ABANDONED_EVENT_KINDS: Final = frozenset({EventKind.CANCELLED, EventKind.EXPIRED})


class Percentiles(NamedTuple):
    """Percentiles of sampled waits, in microseconds."""

    p50: int
    p95: int
    p99: int


class HistoryPoint(NamedTuple):
    """The figures of the queue at one time."""

    at: int
    waiting: int
    running: int
    per_second: float
    customers: int
    failed: int
    overdue_uses: int
    waits: Percentiles | None


class QueueHistory:
    """The last snapshot of the queue, and one point every five seconds of the last ten minutes.

    The event poller's thread reads the snapshot, so that the number of viewers does not load the store.
    """

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
        self._began_at = clock.now()
        self.read_tasks: list[Callable[[], None]] = []
        """Other reads at the same pace, one caller at a time."""

    def add_wait(self, wait: WaitSample) -> None:
        """Add the wait of a sampled start."""
        with self._lock:
            self._waits.append(wait)

    def current(self) -> LiveOverview:
        """Return the last snapshot; read the store only if it is too old."""
        now = self._viewed_at = self._clock.now()
        interval = self._refresh_interval(VIEWED_REFRESH)
        if self._snapshot is None or now - self._snapshot.live.at > 2 * interval:
            with self._read_lock:  # the first caller reads, the others wait for its snapshot
                if self._snapshot is None or now - self._snapshot.live.at > interval:
                    return self._refresh()
        return self._snapshot

    def points(self, since: int = 0) -> list[HistoryPoint]:
        """Return the points after a time, oldest first."""
        with self._lock:
            return [point for point in self._points if point.at > since]

    def wait_percentiles(
        self, window: int = RECENT_WINDOW, includes_level: Callable[[int], bool] = lambda _: True
    ) -> Percentiles | None:
        """Compute the percentiles of recent starts, of the levels included."""
        since = self._clock.now() - window
        with self._lock:
            return compute_percentiles(
                [wait.duration for wait in self._waits if wait.at >= since and includes_level(wait.level)]
            )

    def wait_percentiles_by_customer(self) -> dict[str, Percentiles]:
        """Compute the percentiles of the last ten minutes' starts for each customer."""
        since = self._clock.now() - HISTORY_WINDOW
        waits: dict[str, list[int]] = {}
        with self._lock:
            for wait in self._waits:
                if wait.at >= since:
                    waits.setdefault(wait.customer, []).append(wait.duration)
        return {
            customer: percentiles
            for customer, durations in waits.items()
            if (percentiles := compute_percentiles(durations)) is not None
        }

    def refresh_if_due(self) -> None:
        """Read the queue again if the snapshot is old; the event poller calls this."""
        now = self._clock.now()
        is_viewed = 0 <= now - self._viewed_at < VIEWER_TIMEOUT
        interval = self._refresh_interval(VIEWED_REFRESH if is_viewed else IDLE_REFRESH)
        if self._snapshot is None and 0 <= now - self._began_at < SAMPLE_INTERVAL:
            return  # the first requests after a start are not delayed by a read that nobody asked for
        if self._snapshot is None or not 0 <= now - self._snapshot.live.at < interval:
            with self._read_lock:
                self._refresh()

    def _refresh_interval(self, refresh: tuple[int, int]) -> int:
        shortest, times = refresh
        return max(shortest, times * self._read_duration)

    def _refresh(self) -> LiveOverview:
        now, began = self._clock.now(), time.monotonic()
        snapshot = self._snapshot = live_overview(self._insights, now)
        for task in self.read_tasks:
            task()
        self._read_duration = round((time.monotonic() - began) * SECOND)
        waits = self.wait_percentiles()
        with self._lock:
            if not self._points or not 0 <= now - self._points[-1].at < SAMPLE_INTERVAL:
                self._points.append(make_history_point(snapshot, waits))
        return snapshot


def compute_percentiles(durations: list[int]) -> Percentiles | None:
    """Compute p50, p95 and p99; None without durations."""
    ordered = sorted(durations)
    if not ordered:
        return None
    return Percentiles(*(ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (50, 95, 99)))


def make_history_point(snapshot: LiveOverview, waits: Percentiles | None) -> HistoryPoint:
    """Reduce a snapshot to the figures that the history keeps."""
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


class WorkerShares:
    """Measure shares of worker seconds since this server's start, at most of the last ten minutes.

    `QueueHistory` calls `measure` when it reads the queue, so that the number of viewers does not load the store.
    """

    def __init__(self, queue: QueueReader, insights: Insights) -> None:
        self.work_listeners: list[Callable[[WorkLog], None]] = []
        """Called with the work of each new span."""
        self._queue = queue
        self._insights = insights
        self._meter: ShareMeter | None = None
        self._shares: Shares | None = None

    def current(self) -> Shares | None:
        """Return the shares as last measured; None before the first measurement."""
        return self._shares

    def of(self, customer: str) -> CustomerShare | None:
        """Return a customer's share; None if workers did nothing that was measured."""
        return None if self._shares is None else self._shares.of(customer)

    def measure(self) -> None:
        """Add the work since the last measurement. Calls must not overlap."""
        now = self._queue.now()
        until = now - COMMIT_DELAY
        meter = self._meter
        if meter is None or until < meter.until - SHARE_WINDOW:  # the store's clock went far back
            self._meter = ShareMeter(now if meter is None else until)
            return
        if until <= meter.until:
            return
        log = self._queue.work_between(meter.until, until)
        meter.add(log, until, workers=self._queue.workers(), lanes=self._insights.served_lanes(now))
        self._shares = meter.shares()
        for listener in self.work_listeners:
            listener(log)


class EstimateTracker:
    """Compare the first estimated start that a caller got for a document with its real start."""

    def __init__(self) -> None:
        self.comparison_listeners: list[Callable[[float], None]] = []
        """Called with the distance from the estimated span, in seconds."""
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[Span, Forecast]] = OrderedDict()
        self._outcomes: list[ForecastOutcome] = []
        self._submitted: deque[str] = deque(maxlen=MAX_SAMPLED)
        self._sampled_at = 0.0
        self._errors: deque[int] = deque(maxlen=MAX_COMPARED)
        self._inside = self._early = self._late = 0

    def record(self, why: Why) -> None:
        """Remember the estimate for a document, unless there is one already."""
        if why.start is None or why.forecast is None:
            return
        with self._lock:
            self._open.setdefault(why.document.id, (why.start, why.forecast))
            if len(self._open) > MAX_OPEN_ESTIMATES:
                self._open.popitem(last=False)

    def on_events(self, events: Sequence[Event]) -> None:
        """Compare the estimates of started documents; drop those of documents that never start."""
        with self._lock:
            for event in events:
                if event.kind is EventKind.SUBMITTED:
                    self._submitted.extend(event.documents[-1:])
            for event in events if self._open else ():
                for id_ in event.documents:
                    if event.kind is EventKind.STARTED and (estimate := self._open.pop(id_, None)) is not None:
                        self._compare(*estimate, event.at)
                    elif event.kind in ABANDONED_EVENT_KINDS:
                        self._open.pop(id_, None)

    def open_forecasts(self) -> list[Forecast]:
        """Return the forecasts of documents that still wait, the newest."""
        with self._lock:
            return [forecast for _, forecast in islice(reversed(self._open.values()), MAX_OUTCOMES)]

    def learn(self, queue: QueueAdmin, insights: Insights) -> None:
        """Store what became of estimates, and estimate the starts of a few new documents; at most every ten seconds.

        The event poller calls this: later forecasts learn from it, whether or not anyone asks for one.
        """
        now = time.monotonic()
        if now < self._sampled_at + SAMPLE_SECONDS:
            return
        self._sampled_at = now
        with self._lock:
            outcomes, self._outcomes = self._outcomes, []
            ids = list(self._submitted)
            self._submitted.clear()
        if outcomes:
            queue.add_forecasts(outcomes)
        for id_ in ids:
            with suppress(NotFoundError):
                self.record(insights.why(id_))

    def summary(self) -> schemas.Estimates:
        """Summarize how many estimates were right, and the median error."""
        with self._lock:
            return schemas.Estimates(
                open=len(self._open),
                compared=self._inside + self._early + self._late,
                inside=self._inside,
                early=self._early,
                late=self._late,
                median_error=round(statistics.median(self._errors)) if self._errors else None,
            )

    def _compare(self, span: Span, forecast: Forecast, started_at: int) -> None:
        is_held = span.earliest <= started_at <= span.latest
        self._outcomes.append(ForecastOutcome(forecast, max(0, started_at - forecast.at), is_held))
        if started_at < span.earliest:
            self._early += 1
        elif started_at > span.latest:
            self._late += 1
        else:
            self._inside += 1
        error = max(0, span.earliest - started_at, started_at - span.latest)
        self._errors.append(error)
        for listener in self.comparison_listeners:
            listener(error / SECOND)
