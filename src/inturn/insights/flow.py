"""Read what came and what started lately in one queue: the input of forecasts.

Events name no queue. With one queue they are counted from the newest events; with several, from the documents.
"""

import time
from collections.abc import Iterable
from itertools import chain
from typing import Final, NamedTuple

from inturn.insights.forecast import (
    MIN_STARTS,
    RecentArrivals,
    Speed,
    StartTimes,
    arrivals_from_events,
    start_times_from_events,
)
from inturn.insights.snapshots import SNAPSHOT_AGE_FACTOR, SNAPSHOT_MAX_AGE, Snapshots
from inturn.model import Document, DocumentState
from inturn.queue_reader import QueueReader
from inturn.store_types import DocumentFilter, Event, EventKind, TimeRange
from inturn.values import SECOND

THROUGHPUT_WINDOW: Final = 600 * SECOND
MEDIUM_WINDOW: Final = 60 * SECOND
SHORT_WINDOW: Final = 10 * SECOND
MIN_FINISHES: Final = MIN_STARTS
MAX_FLOW_EVENTS: Final = 2_000
"""The newest events, from which start rate and arrivals are computed."""
MAX_FLOW_DOCUMENTS: Final = 1_000
"""The newest documents of each kind that are read of one of several queues."""
_FINISHED: Final = frozenset({DocumentState.DONE, DocumentState.FAILED})


class RecentFlow(NamedTuple):
    """Recent starts and arrivals of one queue, and when they were read."""

    at: int
    starts: StartTimes
    arrived: RecentArrivals


class FlowReader:
    """The recent flow of each queue, cached for a second, or for ten times as long as its read takes."""

    def __init__(self, queue: QueueReader, snapshots: Snapshots) -> None:
        self._queue = queue
        self._snapshots = snapshots
        self._cached: dict[str, tuple[int, RecentFlow]] = {}
        """With how long each stays valid."""
        self._created_at: int | None = None

    def recent(self, queue: str, now: int) -> RecentFlow:
        """Return recent starts and arrivals of a queue."""
        cached = self._cached.get(queue)
        if cached is None or not 0 <= now - cached[1].at < cached[0]:
            began = time.monotonic()
            flow = self._read(queue, now)
            duration = round((time.monotonic() - began) * SECOND)
            cached = self._cached[queue] = (max(SNAPSHOT_MAX_AGE, SNAPSHOT_AGE_FACTOR * duration), flow)
        return cached[1]

    def finish_speed(self, queue: str, now: int) -> Speed | None:
        """Measure the speed by recent finishes, where too few starts were under load."""
        for window in (MEDIUM_WINDOW, THROUGHPUT_WINDOW):
            finished = self._finished(queue, now - window, now)
            if finished >= MIN_FINISHES:
                gap = observed_window(window, self.created_at(), now) / finished
                return Speed(gap, gap, is_loaded=False)
        return None

    def created_at(self) -> int:
        """Return when the store was created: the time of its first policy version."""
        if self._created_at is None:
            self._created_at = self._queue.policies()[-1].at
        return self._created_at

    def _finished(self, queue: str, since: int, now: int) -> int:
        if self._is_only_queue(now):
            return self._queue.throughput(since).finished
        where = DocumentFilter(_FINISHED, queue=queue, ended=TimeRange(since))
        return sum(self._queue.counts(where).states.values())

    def _is_only_queue(self, now: int) -> bool:
        return len(self._snapshots.queues(now)) == 1

    def _read(self, queue: str, now: int) -> RecentFlow:
        waiting = sum(lane.waiting for lane in self._snapshots.of(queue, now).lanes)
        since = max(now - THROUGHPUT_WINDOW, min(self.created_at(), now))
        if self._is_only_queue(now):
            events = self._queue.events(max(0, self._queue.last_event() - MAX_FLOW_EVENTS), limit=MAX_FLOW_EVENTS)
            since = max(since, events[0].at if len(events) == MAX_FLOW_EVENTS else 0)
            starts = start_times_from_events(events, waiting)
            return RecentFlow(now, starts, arrivals_from_events(events, since, now))
        submitted = self._queue.documents(
            DocumentFilter(queue=queue, submitted=TimeRange(now - THROUGHPUT_WINDOW)), limit=MAX_FLOW_DOCUMENTS
        )
        known_since = submitted.items[-1].submitted_at if submitted.next is not None else 0
        arrivals = _events(submitted.items, known_since)
        started, started_since = self._read_started(queue, now)
        changes = _events(chain(started, submitted.items), max(known_since, started_since))
        return RecentFlow(
            now,
            start_times_from_events(changes, waiting),
            arrivals_from_events(arrivals, max(since, known_since), now),
        )

    def _read_started(self, queue: str, now: int) -> tuple[list[Document], int]:
        """Return the documents of a queue that started lately, and since when these are all."""
        documents: list[Document] = []
        complete_since = now
        for window in (SHORT_WINDOW, MEDIUM_WINDOW, THROUGHPUT_WINDOW):
            where = DocumentFilter(queue=queue, ended=TimeRange(now - window))
            page = self._queue.documents(where, limit=MAX_FLOW_DOCUMENTS)
            if page.next is not None:
                break
            documents, complete_since = [*page.items], now - window
        running = DocumentFilter(frozenset({DocumentState.RUNNING}), queue=queue)
        page = self._queue.documents(running, limit=MAX_FLOW_DOCUMENTS)
        return [*documents, *page.items], complete_since


def observed_window(window: int, created_at: int, now: int) -> int:
    """Return the part of the last `window` microseconds in which the store existed, at least a second.

    It is the whole window if the store was created in the future, by another clock.
    """
    return window if now < created_at else min(window, max(SECOND, now - created_at))


def _events(documents: Iterable[Document], since: int) -> list[Event]:
    """Return the submissions and the last starts of documents since a time as events, oldest first."""
    events = [
        Event(0, at, kind, document.customer, (document.id,))
        for document in {document.id: document for document in documents}.values()
        for kind, at in ((EventKind.SUBMITTED, document.submitted_at), (EventKind.STARTED, document.started_at))
        if at is not None and at >= since
    ]
    return sorted(events, key=lambda event: (event.at, event.kind is EventKind.STARTED))
