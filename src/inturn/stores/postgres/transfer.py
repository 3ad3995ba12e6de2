"""A PostgreSQL schema as one end of a transfer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from typing import Any, Final

import psycopg
from psycopg import sql

from inturn.errors import StoreError, StoreVersionError
from inturn.policy.scheduler import LEVELS
from inturn.stores.postgres import backup, schema
from inturn.stores.postgres.closed_marker import (
    WRITABLE_TABLES,
    allow_writes,
    clear_marker,
    read_marker,
    table_names,
    write_marker,
)
from inturn.stores.postgres.errors import translate_connect_errors, translate_errors
from inturn.stores.postgres.queries import QUERIES, Connection, PostgresQueries, adapt
from inturn.stores.postgres.url import parse_url
from inturn.stores.sql.deadlines import DEADLINE_KINDS, Deadlines
from inturn.stores.sql.submit import search_name
from inturn.stores.transfer import (
    BATCH_ROWS,
    FIRST_USED_TABLES,
    REQUEUED_KIND,
    ClosedMarker,
    QueueRecord,
    Row,
    TransferEndpoint,
    TransferReader,
)

DERIVED_COLUMNS: Final[dict[str, dict[str, Callable[[str], Any] | None]]] = {
    "customer": {"lower_name": search_name},
    "document": {"lower_name": search_name, "lease_check_at": None, "lease_until": None, "unended_parent": None},
    "queue_work": {"version": None},
    "lane": {"version": None, "scan_from": None},
    "lane_group": {"scan_from": None},
    "lane_log": {"xid": None},
}
"""Columns that are not transferred: made from the name or, for leases, from `due_at`; or they begin anew. In a loaded
queue every waiting document counts as requeued, so that no lane has a scan position."""
TABLES_NOT_COPIED: Final = {
    *WRITABLE_TABLES,
    "ended",
    "event_outbox",
    "event_sequence",
    "queue_state",
    "requeued",
    "running",
    "scheduler_state",
    "search_chunk",
    "search_progress",
    "search_term",
}
"""Tables that are not transferred row by row: they are made from the rest."""
UNCHECKED_DEADLINES: Final = Deadlines(dict.fromkeys(DEADLINE_KINDS, 0), dict.fromkeys(LEVELS, (0, 0)))
"""No lower bounds yet; the first claims look for the earliest deadlines."""
_cursor_numbers: Final = count()


class PostgresReader(TransferReader):
    """One transaction, REPEATABLE READ if it is to be one snapshot."""

    SOURCES = {  # noqa: RUF012 - a ClassVar
        "event": f"({QUERIES['read_all_events'].decode()})",
        "lane_log": f"(SELECT * FROM lane_log WHERE kind <> ALL ('{{{','.join(DEADLINE_KINDS)}}}'))",  # noqa: S608
    }
    EXPRESSIONS = {  # noqa: RUF012 - a ClassVar
        ("document", "due_at"): "CASE state WHEN 'running' THEN lease_until ELSE due_at END",
        ("lane_log", "kind"): REQUEUED_KIND,
    }

    def __init__(self, queries: PostgresQueries) -> None:
        super().__init__()
        self._queries = queries

    def now(self) -> int:
        (now,) = self._queries.fetch_one("now") or (0,)
        return int(now)

    def queue(self) -> QueueRecord:
        row = self._queries.fetch_one("read_queue_state")
        if row is None:
            raise StoreError("the queue has no row; restore a backup")
        record = QueueRecord._make(row)
        ((newest,),) = self.select(f"SELECT max(number) FROM {self.SOURCES['event']} AS event")  # noqa: S608 - our own
        return record._replace(event=max(record.event, newest or 0))

    def catalog(self) -> dict[str, list[str]]:
        tables = sorted(table_names(self._queries) - TABLES_NOT_COPIED)
        columns = {table: self._queries.fetch_all("columns", table=table) for table in tables}
        return {
            table: [name for (name,) in names if name not in DERIVED_COLUMNS.get(table, {})]
            for table, names in columns.items()
        }

    def primary_key(self, table: str) -> list[str]:
        return [name for (name,) in self._queries.fetch_all("key_columns", table=table)] or ["number"]

    def select(self, query: str, *values: object) -> Iterator[Row]:
        with self._queries.connection.cursor(f"transfer_{next(_cursor_numbers)}") as cursor:
            cursor.itersize = BATCH_ROWS
            cursor.execute(query.replace("?", "%s").encode(), values or None, binary=True)
            yield from cursor


class PostgresEndpoint(TransferEndpoint):
    """One schema. Every transaction sets its search path anew, so that it works behind a pooler."""

    kind = "postgresql"

    def __init__(self, url: str) -> None:
        self.address = parse_url(url)
        self.display_url = self.address.display_url

    def _connect(self) -> Connection:
        with translate_errors(self.display_url), translate_connect_errors(self.address):
            connection = psycopg.connect(self.address.conninfo, autocommit=True, prepare_threshold=None)
            adapt(connection)
            return connection

    @cached_property
    def _connection(self) -> Connection:
        return self._connect()

    def exists(self) -> bool:
        with translate_errors(self.display_url):
            version = schema.read_version(self._connection, self.address)
        if 0 < version < len(schema.MIGRATIONS):
            raise StoreVersionError(
                f"{self.display_url} has schema {version} and this version of Inturn {len(schema.MIGRATIONS)};"
                f" run: {self.address.migrate_command}"
            )
        return version > 0

    def is_same(self, other: TransferEndpoint) -> bool:
        return isinstance(other, PostgresEndpoint) and self.display_url == other.display_url

    def is_used(self) -> bool:
        with self.open_reader() as reader:
            return reader.has_rows([*FIRST_USED_TABLES, "event_outbox"])

    def closed_marker(self) -> ClosedMarker | None:
        with translate_errors(self.display_url):
            return read_marker(self._connection, self.address.schema)

    def disconnect(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    @contextmanager
    def open_reader(self) -> Iterator[TransferReader]:
        with closing(self._connect()) as connection, translate_errors(self.display_url):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                yield PostgresReader(schema.set_search_path(connection, self.address))

    @contextmanager
    def transaction(self, run: str | None = None) -> Iterator[PostgresQueries]:
        """A transaction of the schema; with a run, one that may write to the queue that this run fills."""
        with translate_errors(self.display_url), self._connection.transaction():
            queries = schema.set_search_path(self._connection, self.address)
            queries.execute("limit_lock_wait")
            if run is not None:
                allow_writes(queries, run, self.address.schema, self.display_url)
            yield queries

    def close(self, marker: ClosedMarker) -> None:
        """Creating the triggers waits for all writers; a queue that is not idle is rolled back to open."""
        with self.transaction() as queries:
            write_marker(queries, marker, self.display_url)
            PostgresReader(queries).require_idle(self.display_url)

    def update_marker(self, marker: ClosedMarker) -> None:
        with self.transaction() as queries:
            self.require_token(marker.token)
            write_marker(queries, marker, self.display_url)

    def reopen(self) -> None:
        with self.transaction() as queries:
            clear_marker(queries)

    def create(self) -> None:
        with translate_errors(self.display_url):
            schema.migrate(self._connection, self.address)

    def begin_load(self, marker: ClosedMarker) -> None:
        with self.transaction() as queries:
            write_marker(queries, marker, self.display_url)
        with self.transaction(marker.run) as queries:
            for table in PostgresReader(queries).catalog():
                queries.connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(table)))

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        derived = [(name, make) for name, make in DERIVED_COLUMNS.get(table, {}).items() if make is not None]
        name = columns.index("name") if derived else 0
        names = sql.SQL(", ").join(map(sql.Identifier, [*columns, *(column for column, _ in derived)]))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self.transaction(run) as queries, queries.connection.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row([*row, *(make(row[name]) for _, make in derived)])

    def complete(self, run: str, queue: QueueRecord) -> None:
        with self.transaction(run) as queries:
            queries.execute("write_queue_state", policy=queue.policy, by=queue.paused_by, why=queue.paused_why)
            queries.execute(
                "write_scheduler_state",
                ordered=queue.ordered,
                scheduler_state=queue.scheduler_state,
                deadlines=UNCHECKED_DEADLINES.to_json(),
                fence=queue.fence,
            )
            queries.execute("write_event_sequence", last=queue.event)
            queries.execute("restore_leases")
            queries.fetch_one("go_on_seq", last=queue.seq + 1)
            queries.execute("rebuild_derived_tables")
            for table, column in (("customer", "id"), ("lane_log", "number")):
                backup.advance_identity(queries, table, column)
            clear_marker(queries)
