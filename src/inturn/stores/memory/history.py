"""The history of the memory store."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from inturn.policy.history import Figures, HistorySpan
from inturn.store_history import FoldResult, History, HistoryCursor, HistoryRow, HistoryScope
from inturn.store_types import ALL_TIME, MAX_SEQ, Event, EventKind, Operator
from inturn.stores.history import (
    AttemptFacts,
    DocumentFacts,
    Rows,
    Sample,
    StateCounts,
    document_facts,
    make_batch,
    make_sample,
    next_events,
)
from inturn.stores.memory.rows import RUNNING, Row
from inturn.stores.memory.state import State


class MemoryHistory(History):
    """Rows by span and series."""

    def __init__(
        self, lock: AbstractContextManager[bool], state: Callable[[], State], time: Callable[[int | None], int]
    ) -> None:
        self._lock = lock
        self._state = state
        self._time = time
        self._rows: Rows = {}
        self._cursor = HistoryCursor()

    def fold(self, *, limit: int, pause: int = 0, now: int | None = None) -> FoldResult:
        with self._lock:
            state, now = self._state(), self._time(now)
            events, is_complete = next_events(state.journal.since, self._cursor.event, limit)
            facts = {
                id_: _facts(state, state.documents[id_])
                for event in events
                for id_ in event.documents
                if id_ in state.documents
            }
            batch = make_batch(self._cursor, events, facts, _sample(state) if is_complete else None, now)
            self._rows.update(batch.apply(self._rows))
            self._cursor = batch.next_cursor(pause)
            return FoldResult(len(events), is_complete)

    def rows(
        self, span: HistorySpan, scope: HistoryScope, since: int, until: int, *, key: str | None = None
    ) -> tuple[HistoryRow, ...]:
        with self._lock:
            return tuple(
                HistoryRow(at, name, Figures.from_json(figures.to_json()))
                for at in sorted(at for kind, at in self._rows if kind is span and since <= at < until)
                for (kind, name), figures in sorted(self._rows[span, at].items())
                if kind is scope and (key is None or name == key)
            )

    def cursor(self) -> HistoryCursor:
        with self._lock:
            return self._cursor

    def acknowledge_failures(self, operator: Operator, *, now: int | None = None) -> None:
        with self._lock:
            now = self._time(now)
            series = self._rows.get((HistorySpan.MINUTE, HistorySpan.MINUTE.begin(now)), {})
            detail = {"counted": series.get((HistoryScope.QUEUE, ""), Figures()).failed}
            self._state().journal.append(EventKind.FAILURES_ACKNOWLEDGED, now, None, operator, detail)

    def acknowledged(self) -> Event | None:
        with self._lock:
            events = self._state().journal.by_operator(MAX_SEQ, None, None, ALL_TIME)
            return next((event for event in events if event.kind is EventKind.FAILURES_ACKNOWLEDGED), None)

    def forget_old(self, *, now: int | None = None) -> int:
        with self._lock:
            now = self._time(now)
            old = [key for key in self._rows if key[1] < now - key[0].retention]
            return sum(len(self._rows.pop(key)) for key in old)


def _facts(state: State, row: Row) -> DocumentFacts:
    attempts = [
        AttemptFacts(attempt.started_at, attempt.ended_at, attempt.worked, attempt.ready_at)
        for attempt in state.attempts.get(row.id, {}).values()
    ]
    return document_facts(attempts, row.lane_level, row.ready_at, row.started_at, row.finished_at, row.worked)


def _sample(state: State) -> Sample:
    names = tuple(state.queues)
    lanes = ((names[lane.queue], lane.customer, lane.level, lane.waiting) for lane in state.lanes.all() if lane.waiting)
    running = ((row.queue, row.customer, row.lane_level, 1) for row in state.documents.values() if row.state is RUNNING)
    return make_sample(StateCounts.of(lanes), StateCounts.of(running))
