"""The history of a store: rows and cursor in two tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from inturn.policy.history import MAX_OPEN_CUSTOMERS, Figures, HistorySpan
from inturn.policy.scheduler import LEVELS
from inturn.store_history import FoldResult, History, HistoryCursor, HistoryRow, HistoryScope
from inturn.store_types import STEP_ENDS, Event, EventKind, Operator
from inturn.stores.history import (
    FOLDED,
    AttemptFacts,
    Batch,
    DocumentFacts,
    Rows,
    Sample,
    StateCounts,
    document_facts,
    make_batch,
    make_sample,
    next_events,
)
from inturn.stores.sql.queries import Queries
from inturn.stores.sql.reader import QueueReader
from inturn.stores.sql.rows import Row, event_from_row, text_id
from inturn.stores.sql.transitions import Transitions

if TYPE_CHECKING:
    from inturn.stores.sql.store import SqlStore

STARTED_COLUMN: Final = 2
"""`started_at` in a row of `history_facts`, behind the id."""
ROW_COLUMNS: Final = ("span", "at", "scope", "key")
WORK_ELSEWHERE: Final = frozenset({EventKind.FAILED, EventKind.DELAYED, EventKind.RELEASED, *STEP_ENDS})
"""The processing time of these may stand among the earlier attempts."""
TRACKS_OF_QUEUE: Final = len(LEVELS)

RowKey = tuple[int, int, str, str]


class SqlHistory(History):
    """The history of one store."""

    def __init__(self, store: "SqlStore") -> None:
        self._store = store

    def fold(self, *, limit: int, pause: int = 0, now: int | None = None) -> FoldResult:
        store = self._store
        store.number_events()
        batch = store.read(lambda reader: _read_batch(reader, limit, store.time(reader.queries, now)))
        is_added = store.write(lambda queries: _save(queries, batch, batch.next_cursor(pause)))
        return FoldResult(batch.events if is_added else 0, batch.sample is not None)

    def rows(
        self, span: HistorySpan, scope: HistoryScope, since: int, until: int, *, key: str | None = None
    ) -> tuple[HistoryRow, ...]:
        values = {"span": int(span), "scope": str(scope), "since": since, "until": until}
        query = "history_of"
        if key is not None:
            query, values = "history_of_key", {**values, "key": key}
        rows = self._store.read(lambda reader: reader.queries.fetch_all(query, **values))
        return tuple(HistoryRow(at, name, Figures.from_json(figures)) for at, name, figures in rows)

    def cursor(self) -> HistoryCursor:
        return self._store.read(lambda reader: _read_cursor(reader.queries))

    def acknowledge_failures(self, operator: Operator, *, now: int | None = None) -> None:
        def work(transitions: Transitions) -> None:
            minute = HistorySpan.MINUTE.begin(transitions.now)
            values = {"span": int(HistorySpan.MINUTE), "scope": str(HistoryScope.QUEUE), "key": ""}
            rows = transitions.queries.fetch_all("history_of_key", **values, since=minute, until=minute + 1)
            detail = {"counted": sum(Figures.from_json(figures).failed for _, _, figures in rows)}
            transitions.add_event(EventKind.FAILURES_ACKNOWLEDGED, None, operator, detail)

        self._store.run_transitions(work, now)

    def acknowledged(self) -> Event | None:
        self._store.number_events()
        kind = str(EventKind.FAILURES_ACKNOWLEDGED)
        row = self._store.read(lambda reader: reader.queries.fetch_one("newest_operator_event", kind=kind))
        return None if row is None else event_from_row(row)

    def forget_old(self, *, now: int | None = None) -> int:
        def work(queries: Queries) -> int:
            at = self._store.time(queries, now)
            return sum(
                queries.execute("forget_old_history", span=int(span), before=at - span.retention)
                for span in HistorySpan
            )

        return self._store.write(work)


def _read_cursor(queries: Queries) -> HistoryCursor:
    return HistoryCursor._make(queries.fetch_one("history_cursor") or HistoryCursor())


def _read_batch(reader: QueueReader, limit: int, now: int) -> Batch:
    cursor = _read_cursor(reader.queries)
    events, is_complete = next_events(reader.events, cursor.event, limit)
    sample = _read_sample(reader.queries) if is_complete else None
    return make_batch(cursor, events, _read_facts(reader.queries, events), sample, now)


def _read_facts(queries: Queries, events: Sequence[Event]) -> dict[str, DocumentFacts]:
    ids = dict.fromkeys(id_ for event in events if event.kind in FOLDED for id_ in event.documents)
    rows = queries.fetch_many("history_facts", ("id",), [(id_,) for id_ in ids])
    by_id: dict[str, Row] = {text_id(row[0]): row[1:] for row in rows}
    retried = dict.fromkeys(
        id_
        for event in events
        for id_ in event.documents
        if event.kind in WORK_ELSEWHERE
        or (event.kind is EventKind.STARTED and _has_started_again(by_id, id_, event.at))
    )
    attempts: dict[str, list[AttemptFacts]] = {}
    for id_, *facts in queries.fetch_many("attempt_facts", ("id",), [(id_,) for id_ in retried]):
        attempts.setdefault(text_id(id_), []).append(AttemptFacts._make(facts))
    return {id_: document_facts(attempts.get(id_, ()), *row) for id_, row in by_id.items()}


def _has_started_again(rows: Mapping[str, Row], id_: str, at: int) -> bool:
    """Return whether the start of a document at this time is not the one that its row knows."""
    return id_ in rows and rows[id_][STARTED_COLUMN] != at


def _read_sample(queries: Queries) -> Sample:
    names = {number: name for number, name, *_ in queries.fetch_all("named_queues")}
    queues, levels = Counter[str](), Counter[int]()
    for track, n in queries.fetch_all("sampled_tracks"):
        number, level = divmod(track, TRACKS_OF_QUEUE)
        queues[names[number]] += int(n)
        levels[level] += int(n)
    customers = {name: int(n) for name, n in queries.fetch_all("sampled_customers", limit=MAX_OPEN_CUSTOMERS)}
    running = StateCounts.of(queries.fetch_all("sampled_runs"))
    return make_sample(StateCounts(queues, levels, customers), running)


def _save(queries: Queries, batch: Batch, cursor: HistoryCursor) -> bool:
    """Write rows and cursor; False, and nothing is written, if another process has moved the cursor meanwhile."""
    queries.execute("begin_history")
    if not queries.execute("move_history_cursor", **cursor._asdict(), folded=batch.cursor.event):
        return False
    stored: Rows = {}
    texts: dict[RowKey, str] = {}
    for span, at in batch.spans:
        for scope, key, figures in queries.fetch_all("history_span", span=int(span), at=at):
            stored.setdefault((span, at), {})[HistoryScope(scope), key] = Figures.from_json(figures)
            texts[span, at, scope, key] = figures
    rows = {
        (int(span), at, str(scope), key): figures.to_json()
        for (span, at), series in batch.apply(stored).items()
        for (scope, key), figures in series.items()
    }
    queries.execute_many("forget_history", ROW_COLUMNS, [key for key in texts if key not in rows])
    changed = [(*key, text) for key, text in rows.items() if texts.get(key) != text]
    queries.execute_many("save_history", (*ROW_COLUMNS, "figures"), changed)
    return True
