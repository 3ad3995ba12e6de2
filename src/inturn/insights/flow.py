"""Read what came and what started lately in each queue, from the newest events: the input of forecasts."""

import time
from collections import defaultdict
from collections.abc import Sequence
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
from inturn.model import DocumentState
from inturn.queue_reader import QueueReader
from inturn.store_types import STEP_ENDS, DocumentFilter, Event, EventKind, TimeRange
from inturn.values import SECOND

THROUGHPUT_WINDOW: Final = 600 * SECOND
MEDIUM_WINDOW: Final = 60 * SECOND
SHORT_WINDOW: Final = 10 * SECOND
MIN_FINISHES: Final = MIN_STARTS
MAX_FLOW_EVENTS: Final = 2_000
"""The newest events, from which start rate and arrivals are computed; so many for each queue."""
MAX_FLOW_EVENTS_OF_ALL: Final = 10_000
_FINISHED: Final = frozenset({DocumentState.DONE, DocumentState.FAILED})
_RUN_ENDS: Final = frozenset({EventKind.FINISHED, EventKind.FAILED, *STEP_ENDS})


class RecentFlow(NamedTuple):
    """Recent starts and arrivals of one queue, and when they were read."""

    at: int
    starts: StartTimes
    arrived: RecentArrivals


class RecentEvents(NamedTuple):
    """The newest events by queue, oldest first. A step's end is among those of the queue that the documents went to."""

    since: int
    """When the first one was written; 0 if they are all there are."""
    by_queue: dict[str, list[Event]]
    ends: dict[str, list[Event]]
    """Those that end an attempt with success or for good, of the queue in which it was made."""

    @classmethod
    def of(cls, events: Sequence[Event], *, is_all: bool) -> "RecentEvents":
        """Sort events by queue."""
        by_queue: dict[str, list[Event]] = defaultdict(list)
        ends: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.queue is not None:
                by_queue[event.detail.get("next", event.queue)].append(event)
                if event.kind in _RUN_ENDS:
                    ends[event.queue].append(event)
        return cls(0 if is_all or not events else events[0].at, by_queue, ends)


class FlowReader:
    """The recent flow of each queue, cached for a second, or for ten times as long as its read takes."""

    def __init__(self, queue: QueueReader, snapshots: Snapshots) -> None:
        self._queue = queue
        self._snapshots = snapshots
        self._events: _Cached | None = None
        self._flows: dict[str, RecentFlow] = {}
        self._created_at: int | None = None

    def recent(self, queue: str, now: int) -> RecentFlow:
        """Return recent starts and arrivals of a queue."""
        events = self._recent_events(now)
        flow = self._flows.get(queue)
        if flow is None:
            flow = self._flows[queue] = self._read(queue, events, now)
        return flow

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
        if len(self._snapshots.queues(now)) == 1:
            return self._queue.throughput(since).finished
        ends = self._recent_events(now).ends.get(queue, ())
        steps = sum(len(event.documents) for event in ends if event.at >= since)
        where = DocumentFilter(_FINISHED, queue=queue, ended=TimeRange(since))
        return max(steps, sum(self._queue.counts(where).states.values()))

    def _recent_events(self, now: int) -> RecentEvents:
        cached = self._events
        if cached is None or not 0 <= now - cached.at < cached.max_age:
            began = time.monotonic()
            limit = min(MAX_FLOW_EVENTS * len(self._snapshots.queues(now)), MAX_FLOW_EVENTS_OF_ALL)
            events = self._queue.events(max(0, self._queue.last_event() - limit), limit=limit)
            recent = RecentEvents.of(events, is_all=len(events) < limit)
            duration = round((time.monotonic() - began) * SECOND)
            cached = self._events = _Cached(now, max(SNAPSHOT_MAX_AGE, SNAPSHOT_AGE_FACTOR * duration), recent)
            self._flows = {}
        return cached.events

    def _read(self, queue: str, recent: RecentEvents, now: int) -> RecentFlow:
        waiting = sum(lane.waiting for lane in self._snapshots.of(queue, now).lanes)
        since = max(now - THROUGHPUT_WINDOW, min(self.created_at(), now), recent.since)
        events = recent.by_queue.get(queue, [])
        return RecentFlow(now, start_times_from_events(events, waiting), arrivals_from_events(events, since, now))


class _Cached(NamedTuple):
    at: int
    max_age: int
    events: RecentEvents


def observed_window(window: int, created_at: int, now: int) -> int:
    """Return the part of the last `window` microseconds in which the store existed, at least a second.

    It is the whole window if the store was created in the future, by another clock.
    """
    return window if now < created_at else min(window, max(SECOND, now - created_at))
