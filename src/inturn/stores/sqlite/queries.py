"""The named queries on a connection to SQLite."""

import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

import apsw

from inturn.clock import Clock
from inturn.store import EventKind
from inturn.stores.sql.claim_window import ClaimWrite, QueueState
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.lane_log import LaneChange
from inturn.stores.sql.lanes import LANE_COLUMNS
from inturn.stores.sql.loader import named_queries
from inturn.stores.sql.queries import NewEvent
from inturn.stores.sql.rows import Row

QUERIES: Final = named_queries("inturn.stores.sqlite")
ALL_ROWS: Final = ":rows"
"""A query with this parameter takes the rows of `fetch_many` at once, as JSON."""
EVENT_COLUMNS: Final = ("number", "at", "kind", "customer", "documents", "operator", "why", "detail")


class SqliteQueries:
    """One connection's queries, by name, in whatever transaction it has begun."""

    def __init__(self, connection: apsw.Connection, clock: Clock) -> None:
        self.connection = connection
        self._clock = clock
        connection.create_scalar_function("lower_case", _lower_case, 1, deterministic=True)

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        return self.connection.execute(QUERIES[query], _encode(values)).fetchall()

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        rows = self.connection.execute(QUERIES[query], _encode(values)).fetchall()
        return rows[0] if rows else None

    def execute(self, query: str, /, **values: Any) -> int:
        self.connection.execute(QUERIES[query], values)
        return self.connection.changes()

    def fetch_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> list[Row]:
        text = QUERIES[query]
        if ALL_ROWS in text:
            return self.connection.execute(text, {**_encode(values), "rows": json.dumps(rows)}).fetchall()
        return self.connection.executemany(text, _bindings(columns, rows, _encode(values))).fetchall()

    def execute_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> None:
        self.fetch_many(query, columns, rows, **values)

    def add_events(self, now: int, events: Sequence[NewEvent]) -> None:
        self._add_events([(now, event) for event in events])

    def _add_events(self, events: Sequence[tuple[int, NewEvent]]) -> None:
        rows = [row for now, event in events for row in _event_rows(now, event)]
        if rows:
            ((last,),) = self.fetch_all("allocate_events", n=len(rows))
            numbered = [(number, *row) for number, row in enumerate(rows, start=last - len(rows) + 1)]
            self.execute_many("add_event", EVENT_COLUMNS, numbered)

    # -- lanes ----------------------------------------------------------------------------------------------------

    def read_queue(self) -> QueueState:
        ((policy, ordered, scheduler_state, fence, paused_by, has_limits, *times),) = self.fetch_all("queue")
        deadlines = Deadlines.of_times(times)
        return QueueState(
            policy, ordered, scheduler_state, fence, paused_by, bool(has_limits), self._clock.now(), deadlines
        )

    def read_lane_log(self) -> list[LaneChange]:
        return [LaneChange._make(row) for row in self.fetch_all("lane_log")]

    def take_lane_log(self, *, whole: bool = False) -> list[LaneChange]:
        del whole  # every row is taken anyway
        changes = self.read_lane_log()
        if changes:
            self.execute("clear_lane_log")
        return changes

    def first_lanes(self) -> list[Row]:
        return []

    def save_claim(self, claim: ClaimWrite, *, is_last: bool) -> list[Row]:
        del is_last  # nothing waits for a server here
        self.execute_many("save_lane", LANE_COLUMNS, [(*row, *sort_key) for row, sort_key, _ in claim.lanes])
        self.execute_many(
            "forget_lane", ("customer", "level"), [(lane.owner, lane.level) for lane in claim.spent_lanes]
        )
        self.execute_many("save_limits", ("customer", "settings", "running", "tat", "rate_closed_until"), claim.limits)
        if claim.has_changes:
            self.execute("save_claim", ordered=claim.ordered, scheduler_state=claim.scheduler_state, fence=claim.fence)
        columns = ("customer", "lane", "seq", "fence", "now", "until", "worker")
        self.execute_many("forget_requeued", columns, claim.claimed)
        rows = self.fetch_many("start_document", columns, claim.claimed)
        if len(rows) != len(claim.claimed):
            raise AssertionError(
                f"of {len(claim.claimed)} documents that head their lanes only {len(rows)} wait;"
                f" run inturn doctor --repair"
            )
        ids = [row[0] for row in rows]
        started = []
        for now, customers, first_fence in claim.started:
            at = first_fence - claim.claimed[0].fence
            started.append((now, NewEvent(EventKind.STARTED, customers, ids[at : at + len(customers)])))
        self._add_events([*claim.events, *started])
        return rows


def _encode(values: dict[str, Any]) -> dict[str, Any]:
    """Values as SQLite takes them: lists as JSON."""
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}


def _bindings(columns: Sequence[str], rows: Sequence[Row], values: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return [{**values, **dict(zip(columns, row, strict=True))} for row in rows]


def _event_rows(now: int, event: NewEvent) -> list[Row]:
    """One row for each customer, without its number, in the order of first documents."""
    by, why = event.operator or (None, None)
    documents: dict[str | None, list[bytes]] = {}
    for customer, id_ in zip_longest(event.customers, event.documents):
        documents.setdefault(customer, []).append(b"" if id_ is None else pack_id(id_))
    return [
        (now, str(event.kind), customer, b"".join(ids), by, why, event.detail) for customer, ids in documents.items()
    ]


def pack_id(id_: str | bytes) -> bytes:
    """An id as it is stored."""
    return id_ if isinstance(id_, bytes) else bytes.fromhex(id_.replace("-", ""))


def pack_ids(ids: Sequence[str]) -> bytes:
    """Several ids as they are stored, one after another."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def _lower_case(*text: Any) -> str:
    """Python's idea of lower case, so that every store finds the same names."""
    return str(text[0]).lower()
