"""The named queries on a connection to SQLite."""

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Final

import apsw

from inturn.clock import Clock
from inturn.model import DEFAULT_QUEUE
from inturn.store_types import EventKind
from inturn.stores.sql.claim_types import ClaimWrite, QueueState, queue_rows, worker_states
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.lane_log import LaneChange
from inturn.stores.sql.lanes import LANE_COLUMNS
from inturn.stores.sql.loader import named_queries
from inturn.stores.sql.queries import NewEvent
from inturn.stores.sql.rows import Row

QUERIES: Final = {**named_queries("inturn.stores.sql"), **named_queries("inturn.stores.sqlite")}
ALL_ROWS: Final = ":rows"
"""A query with this parameter takes the rows of `fetch_many` at once, as JSON."""
_PARAMETER: Final = re.compile(r":(\w+)")
WORK_COLUMNS: Final = ("customer", "queue", "unit_time", "in_flight")
EVENT_COLUMNS: Final = ("number", "at", "kind", "customer", "documents", "operator", "why", "detail", "queue")


class SqliteQueries:
    """One connection's queries, by name, in whatever transaction it has begun."""

    def __init__(self, connection: apsw.Connection, clock: Clock) -> None:
        self.connection = connection
        self._clock = clock
        self._has_changes = True
        """Whether the lane log had any rows when the queue was read."""
        connection.create_scalar_function("lower_case", _lower_case, 1, deterministic=True)

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        return self.connection.execute(QUERIES[query], values).fetchall()

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        rows = self.connection.execute(QUERIES[query], values).fetchall()
        return rows[0] if rows else None

    def execute(self, query: str, /, **values: Any) -> int:
        self.connection.execute(QUERIES[query], values)
        return self.connection.changes()

    def fetch_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> list[Row]:
        if not rows:
            return []
        text = QUERIES[query]
        if ALL_ROWS in text:
            return self.connection.execute(text, {**values, "rows": json.dumps(rows)}).fetchall()
        order = _parameter_order(query, tuple(columns), tuple(values))
        if order is None:
            bindings: Sequence[Any] = [{**values, **dict(zip(columns, row, strict=True))} for row in rows]
        else:
            more = tuple(values.values())
            bindings = [order((*row, *more)) for row in rows]
        return self.connection.executemany(text, bindings).fetchall()

    def execute_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> None:
        if rows:
            self.fetch_many(query, columns, rows, **values)

    def array(self, values: Sequence[str]) -> str:
        return json.dumps(values)

    def add_events(self, now: int, events: Sequence[NewEvent]) -> None:
        rows = [row for event in events for row in _event_rows(now, event)]
        if rows:
            ((last,),) = self.fetch_all("allocate_events", n=len(rows))
            self._insert_events(last, rows)

    def _insert_events(self, last: int, rows: Sequence[Row]) -> None:
        """Insert events up to the number `last`."""
        numbered = [(number, *row) for number, row in enumerate(rows, start=last - len(rows) + 1)]
        self.execute_many("add_event", EVENT_COLUMNS, numbered)

    # -- lanes ----------------------------------------------------------------------------------------------------

    def read_queue(self) -> QueueState:
        (row,) = self.fetch_all("queue")
        policy, ordered, state, fence, paused_by, has_limits, self._has_changes, workers, queues, *times = row
        own = (policy, ordered, state, fence, paused_by, bool(has_limits), self._clock.now(), Deadlines.of_times(times))
        return QueueState(*own, *worker_states(json.loads(workers)), queue_rows(json.loads(queues)))

    def read_lane_log(self) -> list[LaneChange]:
        return [LaneChange._make(row) for row in self.fetch_all("lane_log")]

    def take_lane_log(self, *, whole: bool = False) -> list[LaneChange]:
        del whole  # every row is taken anyway
        if not self._has_changes:
            return []
        changes = self.read_lane_log()
        self.execute("clear_lane_log")
        return changes

    def logged_lanes(self) -> list[Row]:
        return []

    def first_lanes(self) -> list[Row]:
        return []

    def save_claim(self, claim: ClaimWrite, *, is_last: bool) -> list[Row]:
        del is_last  # nothing waits for a server here
        self.execute_many("save_lane", LANE_COLUMNS, [(*row, *sort_key) for row, sort_key, _ in claim.lanes])
        self.execute_many(
            "forget_lane", ("customer", "level"), [(lane.owner, lane.track) for lane in claim.spent_lanes]
        )
        claim.groups.write(self)
        self.execute_many("save_limits", ("customer", "settings", "running", "tat", "rate_closed_until"), claim.limits)
        self.execute_many("save_work", WORK_COLUMNS, [row for row, _ in claim.work])
        self.execute_many("save_queue_scheduler", ("queue", "state"), claim.queue_states)
        columns = ("customer", "lane", "seq", "fence", "now", "until", "worker", "charged")
        self.execute_many("forget_requeued", columns, claim.claimed)
        rows = self.fetch_many("start_document", columns, claim.claimed)
        if len(rows) != len(claim.claimed):
            raise AssertionError(
                f"of {len(claim.claimed)} documents that head their lanes only {len(rows)} wait;"
                f" run inturn doctor --repair"
            )
        events = [row for now, event in claim.events for row in _event_rows(now, event)]
        for now, customers, first_fence, queues in claim.started:
            first = first_fence - claim.claimed[0].fence
            ids = [row[0] for row in rows[first : first + len(customers)]]
            events += _event_rows(now, NewEvent(EventKind.STARTED, customers, ids, queues=queues))
        if claim.has_changes:
            state = {"ordered": claim.ordered, "scheduler_state": claim.scheduler_state, "fence": claim.fence}
            ((last_event,),) = self.fetch_all("save_claim", events=len(events), **state)
            self._insert_events(last_event, events)
        return rows


@cache
def _parameter_order(query: str, columns: tuple[str, ...], values: tuple[str, ...]) -> "itemgetter[Any] | None":
    """Put columns and values in the order of a query's parameters: a mapping for each row takes four times as long.

    Each of several statements takes its own parameters, one statement after another. None if there is a single one.
    """
    names = (*columns, *values)
    parameters = [name for text in QUERIES[query].split(";") for name in dict.fromkeys(_PARAMETER.findall(text))]
    return None if len(parameters) == 1 else itemgetter(*[names.index(name) for name in parameters])


def _event_rows(now: int, event: NewEvent) -> list[Row]:
    """One row for each customer and queue, without its number, in the order of first documents."""
    by, why = event.operator or (None, None)
    documents: dict[tuple[str | None, str | None], list[bytes]] = {}
    for customer, id_, queue in zip_longest(event.customers, event.documents, event.queues or ()):
        documents.setdefault((customer, queue), []).append(b"" if id_ is None else pack_id(id_))
    rows: list[Row] = []
    for (customer, queue), ids in documents.items():
        name = None if queue == DEFAULT_QUEUE else queue
        rows.append((now, str(event.kind), customer, b"".join(ids), by, why, event.detail, name))
    return rows


def pack_id(id_: str | bytes) -> bytes:
    """An id as it is stored."""
    return id_ if isinstance(id_, bytes) else bytes.fromhex(id_.replace("-", ""))


def pack_ids(ids: Sequence[str]) -> bytes:
    """Several ids as they are stored, one after another."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def _lower_case(*text: Any) -> str:
    """Python's idea of lower case, so that every store finds the same names."""
    return str(text[0]).lower()
