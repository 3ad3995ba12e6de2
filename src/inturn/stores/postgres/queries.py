"""The named queries on a connection to PostgreSQL."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from inturn.stores.sql.claim_types import QueueState, queue_rows, worker_states
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.lane_log import LaneChange
from inturn.stores.sql.loader import named_queries
from inturn.stores.sql.queries import NewEvent
from inturn.stores.sql.rows import Row, text_id

_PLACEHOLDER: Final = re.compile(r"(?<!:):(\w+)")
_QUERY_TEXTS: Final = {
    **{name: _PLACEHOLDER.sub(r"%(\1)s", text) for name, text in named_queries("inturn.stores.sql").items()},
    **named_queries("inturn.stores.postgres"),
}
QUERIES: Final[Mapping[str, bytes]] = {
    name: text.replace("{checked_counter}", _QUERY_TEXTS["checked_counter"]).encode()
    for name, text in _QUERY_TEXTS.items()
}
Connection = psycopg.Connection[Row]
EVENT_COLUMNS: Final = ("kind", "customers", "documents", "operator", "why", "detail", "queues")
"""The columns of an event that has no number yet."""
_UNQUOTED_TYPES: Final = frozenset({int, float, bool})
SEPARATOR: Final = "\x1f"
"""Stands between texts that are treated or sent as one. JSON never has it as it is."""


class UuidList(list[str]):
    """Ids of documents, at least one: on connections of ours they are sent as they are kept."""


class PostgresQueries:
    """One transaction's queries by name. A list among the values is sent as an array."""

    __slots__ = ("begin_rows", "connection")

    def __init__(self, connection: Connection, begin_rows: Sequence[Any] = ()) -> None:
        self.connection = connection
        self.begin_rows = begin_rows
        """Rows of the statements that began the transaction."""

    def send(self, query: str, values: Mapping[str, Any], *, binary: bool) -> psycopg.Cursor[Row]:
        """Run a query of this name; what has no values and no binary rows may be several statements."""
        return self.connection.execute(QUERIES[query], encode_params(values), binary=binary)

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        return self.send(query, values, binary=True).fetchall()

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        return self.send(query, values, binary=True).fetchone()

    def execute(self, query: str, /, **values: Any) -> int:
        return self.send(query, values, binary=False).rowcount

    def fetch_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> list[Row]:
        return self.fetch_all(query, **to_columns(columns, rows), **values) if rows else []

    def execute_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> None:
        if rows:
            self.execute(query, **to_columns(columns, rows), **values)

    def array(self, values: Sequence[str]) -> list[str]:
        return list(values)

    def add_events(self, now: int, events: Sequence[NewEvent]) -> None:
        self.execute_many("add_events", EVENT_COLUMNS, [event_row(event) for event in events], at=now)

    # -- lanes ----------------------------------------------------------------------------------------------------

    def read_queue(self) -> QueueState:
        (row,) = self.fetch_all("queue")
        return queue_state(row)

    def read_lane_log(self) -> list[LaneChange]:
        return lane_changes(self.fetch_all("lane_log"))


class _IdLoader(Loader):
    """Loads UUIDs as text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        """Text from 16 bytes."""
        return text_id(bytes(data))


def adapt(context: AdaptContext) -> None:
    """Every whole number is a bigint, so that a statement is planned once; ids are text."""
    context.adapters.register_dumper(int, Int8Dumper)
    context.adapters.register_dumper(int, Int8BinaryDumper)
    context.adapters.register_loader("uuid", _IdLoader)


def queue_state(row: Row) -> QueueState:
    """The queue's rows from the query `queue`. After a crash, fences go on behind the last one reserved."""
    policy, ordered, state, deadlines, _, fence, reserved, paused_by, is_alive, has_limits, workers, *more = row
    own = (policy, ordered, state, fence if is_alive else reserved, paused_by, has_limits)
    queues, _, now = more
    known = (*worker_states(json.loads(workers or "[]")), queue_rows(json.loads(queues or "[]")))
    return QueueState(*own, now, Deadlines.from_json(deadlines), *known)


def lane_changes(rows: Sequence[Row]) -> list[LaneChange]:
    """Changes from rows of the lane log, in the order of their numbers."""
    return [LaneChange._make(row[1:]) for row in sorted(rows)]


def event_row(event: NewEvent) -> Row:
    """The columns of an event for the outbox."""
    by, why = event.operator or (None, None)
    queues = None if event.queues is None else array_literal(event.queues)
    arrays = array_literal(event.customers), array_literal(event.documents)
    return str(event.kind), *arrays, by, why, event.detail, queues


def to_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """One list for each column."""
    if not rows:
        return {name: [] for name in names}
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def array_literal(values: Sequence[Any]) -> str:
    """An array as PostgreSQL reads it. Psycopg's own writer takes five times as long, and one value at a time three."""
    if not values:
        return "{}"
    if _UNQUOTED_TYPES.issuperset(map(type, values)):
        return f"{{{','.join(map(str, values))}}}"
    if set(map(type, values)) == {str}:
        joined = SEPARATOR.join(values)
        if joined.count(SEPARATOR) == len(values) - 1:
            return '{"' + _escape(joined).replace(SEPARATOR, '","') + '"}'
    return f"{{{','.join([_array_element(value) for value in values])}}}"


def row_array(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as an array of a composite type (`migrations/0015_row_types.sql`)."""
    texts = [
        ",".join(["" if value is None else _field(value) if isinstance(value, str) else str(value) for value in row])
        for row in rows
    ]
    return '{"(' + ')","('.join(texts) + ')"}' if texts else "{}"


def _field(text: str) -> str:
    """A text in a row in an array: quoted for the row, and all of that once more for the array."""
    return _escape(f'"{_escape(text)}"')


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _array_element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f'"{_escape(value)}"'
    return str(value)


def encode_params(values: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Values as they are sent; None, where there are none."""
    return {name: array_literal(value) if isinstance(value, list) else value for name, value in values.items()} or None
