"""Collect metrics for Prometheus.

Each server counts the events of the whole queue since its own start. Use one server or the maximum; never add servers.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inturn.errors import NotFoundError
from inturn.insights import Insights
from inturn.model import DEFAULT_QUEUE, DocumentState, QueueStatus
from inturn.policy.scheduler import LEVELS
from inturn.queue_reader import QueueReader
from inturn.store_answers import WorkLog
from inturn.store_types import WORKER_TIMEOUT, Event, EventKind
from inturn.values import SECOND

OUTCOMES: Final = {
    EventKind.FINISHED: "done",
    EventKind.FAILED: "failed",
    EventKind.CANCELLED: "cancelled",
    EventKind.EXPIRED: "expired",
}
WORK_OUTCOMES: Final = {
    EventKind.FINISHED: "done",
    EventKind.FAILED: "failed",
    EventKind.DELAYED: "retried",
    EventKind.RELEASED: "released",
}
WAIT_BUCKETS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 1_800, 3_600, 7_200, 21_600, 86_400)
ERROR_BUCKETS: Final = (0.001, 1, 5, 15, 60, 300, 900, 3_600)
KNOWN_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
MAX_SAMPLES_PER_SECOND: Final = 50
"""Starts a second whose documents are read for their wait; more starts are sampled evenly."""


class WaitSample(NamedTuple):
    """The wait of a started document, in microseconds."""

    at: int
    level: int
    duration: int
    customer: str


class ServerMetrics:
    """Count events and requests."""

    def __init__(self, queue: QueueReader) -> None:
        self.registry = CollectorRegistry()
        self.wait_listeners: list[Callable[[WaitSample], None]] = []
        self._queue = queue
        self._second = 0
        self._sampled = 0
        self._request_histograms: dict[tuple[str, str, int], Histogram] = {}
        self._submitted = Counter("inturn_submitted", "Documents submitted.", registry=self.registry)
        self._started = Counter("inturn_started", "Documents started.", registry=self.registry)
        self._outcomes = Counter("inturn_outcomes", "Documents ended.", ["outcome"], registry=self.registry)
        self._steps = Counter(
            "inturn_steps_done", "Steps done after which a document goes on.", ["queue"], registry=self.registry
        )
        self._splits = Counter("inturn_splits", "Documents split into parts.", registry=self.registry)
        self._parts = Counter("inturn_parts", "Parts that documents were split into.", registry=self.registry)
        self._retries = Counter("inturn_retries", "Attempts that failed and are tried again.", registry=self.registry)
        self._worker_seconds = Counter(
            "inturn_worker_seconds",
            "Processing time of ended attempts, by what became of them.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in WORK_OUTCOMES.values():
            self._worker_seconds.labels(outcome)
        self._leases_lost = Counter("inturn_leases_lost", "Claims whose lease expired.", registry=self.registry)
        self._waits = Histogram(
            "inturn_wait_seconds",
            "From ready to started, of a sample.",
            ["level"],
            buckets=WAIT_BUCKETS,
            registry=self.registry,
        )
        self._estimate_errors = Histogram(
            "inturn_estimate_error_seconds",
            "Distance of a start from its estimated span.",
            buckets=ERROR_BUCKETS,
            registry=self.registry,
        )
        self.long_polls = Gauge("inturn_long_polls", "Open long polls.", registry=self.registry)
        self._requests = Histogram(
            "inturn_http_seconds", "Requests of this server.", ["method", "route", "status"], registry=self.registry
        )

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Observe the duration of a request."""
        labels = (method if method in KNOWN_METHODS else "other", route, status)
        if labels not in self._request_histograms:
            self._request_histograms[labels] = self._requests.labels(labels[0], route, str(status))
        self._request_histograms[labels].observe(seconds)

    def observe_estimate_error(self, seconds: float) -> None:
        """Observe the error of an estimated start."""
        self._estimate_errors.observe(seconds)

    def on_work(self, log: WorkLog) -> None:
        """Count the worker seconds of ended attempts."""
        for work in log.ended:
            if work.worked and work.ended in WORK_OUTCOMES:
                self._worker_seconds.labels(WORK_OUTCOMES[work.ended]).inc(work.worked / SECOND)

    def on_events(self, events: Sequence[Event]) -> None:
        """Count events by kind, and sample the waits of starts."""
        simple = {
            EventKind.DELAYED: self._retries,
            EventKind.LEASE_LOST: self._leases_lost,
            EventKind.SPLIT: self._splits,
            EventKind.PART_ADDED: self._parts,
        }
        for event in events:
            n = len(event.documents)
            if event.kind is EventKind.SUBMITTED:
                self._submitted.inc(n)
            elif event.kind is EventKind.STARTED:
                self._started.inc(n)
                self._sample(event)
            elif event.kind in OUTCOMES:
                self._outcomes.labels(OUTCOMES[event.kind]).inc(n)
            elif event.kind is EventKind.STEP_DONE:
                self._steps.labels(event.queue or DEFAULT_QUEUE).inc(n)
            elif event.kind in simple:
                simple[event.kind].inc(n)

    def _sample(self, event: Event) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._sampled = second, 0
        left = MAX_SAMPLES_PER_SECOND - self._sampled
        for id_ in event.documents[:: max(1, len(event.documents) // max(1, left))] if left > 0 else ():
            self._sampled += 1
            try:
                document = self._queue.document(id_)
            except NotFoundError:
                continue
            if document.attempt <= 1:  # a later attempt has another ready_at
                duration = max(0, event.at - document.ready_at)
                wait = WaitSample(event.at, document.lane_level, duration, document.customer)
                self._waits.labels(str(wait.level)).observe(wait.duration / SECOND)
                for listener in self.wait_listeners:
                    listener(wait)


class QueueCollector(Collector):
    """Read gauges of the queue at each scrape."""

    def __init__(self, insights: Insights, queue: QueueReader) -> None:
        self._insights = insights
        self._queue = queue

    def collect(self) -> Iterable[Metric]:
        """Read the gauges."""
        overview = self._insights.overview()
        waiting = GaugeMetricFamily("inturn_waiting", "Documents that wait, by level.", labels=["level"])
        for level in LEVELS:
            waiting.add_metric([str(level)], overview.waiting.get(level, 0))
        yield waiting
        running = overview.states.get(DocumentState.RUNNING, 0)
        yield _gauge("inturn_running", "Claimed documents, including prefetched ones.", running)
        alive = [worker for worker in self._queue.workers() if abs(overview.at - worker.seen_at) <= WORKER_TIMEOUT]
        yield _gauge(
            "inturn_slots", "Slots of the workers that are alive.", sum(worker.report.slots for worker in alive)
        )
        busy = sum(worker.report.busy for worker in alive)
        yield _gauge("inturn_busy_slots", "Slots that work on a document, as workers last reported.", busy)
        yield _gauge(
            "inturn_delayed",
            "Documents that wait for their delay to end.",
            overview.states.get(DocumentState.DELAYED, 0),
        )
        oldest = (overview.oldest_wait or 0) / SECOND
        yield _gauge("inturn_oldest_wait_seconds", "The longest wait at the head of an open lane.", oldest)
        yield _gauge("inturn_paused", "1 while all queues are paused.", int(overview.paused is not None))
        yield from _queue_gauges(self._queue.queues())
        uses = sum(self._insights.scheduler_snapshot(overview.at).overdue_uses)
        yield CounterMetricFamily("inturn_overdue_slots", "Starts given to overdue levels.", value=uses)


def _queue_gauges(queues: Iterable[QueueStatus]) -> Iterable[Metric]:
    """Yield the figures of each queue; a store has at most 100."""
    waiting = GaugeMetricFamily("inturn_queue_waiting", "Documents that wait, by queue.", labels=["queue"])
    running = GaugeMetricFamily("inturn_queue_running", "Claimed documents, by queue.", labels=["queue"])
    paused = GaugeMetricFamily("inturn_queue_paused", "1 while this queue itself is paused.", labels=["queue"])
    cap = GaugeMetricFamily("inturn_queue_cap", "Documents that may run at once, by queue.", labels=["queue"])
    for status in queues:
        waiting.add_metric([status.name], status.waiting)
        running.add_metric([status.name], status.running)
        paused.add_metric([status.name], int(status.paused))
        if status.settings.cap is not None:
            cap.add_metric([status.name], status.settings.cap)
    yield from (waiting, running, paused, cap)


def _gauge(name: str, description: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, description, value=value)


def render_metrics(metrics: ServerMetrics, insights: Insights, queue: QueueReader) -> bytes:
    """Render all metrics in Prometheus' text format."""
    queue_registry = CollectorRegistry()
    queue_registry.register(QueueCollector(insights, queue))
    return generate_latest(queue_registry) + generate_latest(metrics.registry)
