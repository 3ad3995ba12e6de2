"""A schema as one end of a move."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from typing import Any, Final

import psycopg
from psycopg import sql

from inturn.errors import IllegalTransitionError, StoreError, StoreVersionError
from inturn.policy.scheduler import LEVELS
from inturn.store import Discrepancy
from inturn.stores.postgres import backup, schema
from inturn.stores.postgres.closed_marker import (
    WRITABLE_TABLES,
    allow_writes,
    clear_marker,
    read_marker,
    table_names,
    write_marker,
)
from inturn.stores.postgres.deadlines import DEADLINE_KINDS, Deadlines
from inturn.stores.postgres.errors import translate_connect_errors, translate_errors
from inturn.stores.postgres.queries import Connection, Queries
from inturn.stores.postgres.rows import adapt, search_name
from inturn.stores.postgres.store import PostgresStore
from inturn.stores.postgres.url import parse_url
from inturn.stores.transfer import (
    BATCH_ROWS,
    WORKER_TIMEOUT,
    ClosedMarker,
    QueueRecord,
    Row,
    TransferBlockers,
    TransferEndpoint,
    TransferReader,
)

DERIVED_COLUMNS: Final[dict[str, dict[str, Callable[[str], Any] | None]]] = {
    "customer": {"lower_name": search_name},
    "document": {
        "lower_name": search_name,
        "lease_check_at": None,
        "lease_until": None,
        "leased_at": None,
        "doubted_at": None,
    },
    "lane": {"version": None, "scan_from": None},
}
"""Columns that are not moved: made from the name, or of running documents alone, or of no use: in a queue that arrives
every document counts as one that came back."""
TABLES_NOT_COPIED: Final = {
    *WRITABLE_TABLES,
    "ended",
    "event_outbox",
    "event_sequence",
    "lane_log",
    "queue_state",
    "requeued",
    "running",
    "scheduler_state",
}
"""Tables that are not moved row by row: changes are folded in and events numbered before."""
UNCHECKED_DEADLINES: Final = Deadlines(dict.fromkeys(DEADLINE_KINDS, 0), [(0, 0) for _ in LEVELS])
"""For a queue whose deadlines nobody has looked at yet; the first claims find out."""
_cursor_numbers: Final = count()


class PostgresEndpoint(TransferEndpoint):
    """One schema. Every transaction names it anew, so that a pooler may stand in between."""

    def __init__(self, url: str) -> None:
        self._url = url
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

    def closed_marker(self) -> ClosedMarker | None:
        with translate_errors(self.display_url):
            return read_marker(self._connection, self.address.schema)

    def tables(self) -> dict[str, list[str]]:
        with self.transaction() as tables:
            result = {
                table: tables.fetch_all("columns", table=table)
                for table in sorted(table_names(tables) - TABLES_NOT_COPIED)
            }
        return {
            table: [name for (name,) in names if name not in DERIVED_COLUMNS.get(table, {})]
            for table, names in result.items()
        }

    def disconnect(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    @contextmanager
    def transaction(self, run: str | None = None) -> Iterator[Queries]:
        """With a run: one that may write to what it fills."""
        with translate_errors(self.display_url), self._connection.transaction():
            tables = schema.set_search_path(self._connection, self.address)
            tables.execute("lose_patience")
            if run is not None:
                allow_writes(tables, run, self.address.schema, self.display_url)
            yield tables

    # -- a source -----------------------------------------------------------------------------------------------------

    def fold_and_recount(self) -> tuple[Discrepancy, ...]:
        with closing(PostgresStore(self._url)) as store:
            discrepancies = store.recount(repair=False)
            store.events(0, limit=1)  # whoever asks for one has all of them numbered
            return discrepancies

    def close(self, marker: ClosedMarker) -> TransferBlockers:
        """Making the triggers waits for whoever writes; a queue that is busy after all is rolled back to open."""
        with self.transaction() as tables, self._connection.transaction() as closed:
            write_marker(tables, marker, self.display_url)
            busy = PostgresTransferReader(tables).blockers()
            if busy.running or busy.workers or busy.has_pending_changes:
                raise psycopg.Rollback(closed)
        return busy

    def update_marker(self, marker: ClosedMarker) -> None:
        with self.transaction() as tables:
            closed_marker = read_marker(self._connection, self.address.schema)
            if closed_marker is None or closed_marker.token != marker.token:
                raise IllegalTransitionError(f"{self.display_url} was opened again meanwhile; run inturn move again")
            write_marker(tables, marker, self.display_url)

    def reopen(self) -> None:
        with self.transaction() as tables:
            clear_marker(tables)

    @contextmanager
    def open_reader(self) -> Iterator[TransferReader]:
        with closing(self._connect()) as connection, translate_errors(self.display_url):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                yield PostgresTransferReader(schema.set_search_path(connection, self.address))

    # -- a target -----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        with translate_errors(self.display_url):
            schema.migrate(self._connection, self.address)

    def is_used(self) -> bool:
        with self.transaction() as tables:
            reader = PostgresTransferReader(tables)
            return any(
                reader.has_rows(table) for table in ("customer", "document", "idempotency_key", "event", "event_outbox")
            )

    def begin_load(self, marker: ClosedMarker) -> None:
        with self.transaction() as tables:
            write_marker(tables, marker, self.display_url)
        moved = self.tables()
        with self.transaction(marker.run) as tables:
            for table in moved:
                tables.connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(table)))

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        made_up = [(name, make) for name, make in DERIVED_COLUMNS.get(table, {}).items() if make is not None]
        name = columns.index("name") if made_up else 0
        names = sql.SQL(", ").join(map(sql.Identifier, [*columns, *(column for column, _ in made_up)]))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self.transaction(run) as tables, tables.connection.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row([*row, *(make(row[name]) for _, make in made_up)])

    def counts(self) -> dict[str, int]:
        moved = self.tables()
        with self.transaction() as tables:
            reader = PostgresTransferReader(tables)
            return {table: reader.count(table) for table in moved}

    def complete(self, run: str, queue: QueueRecord) -> None:
        with self.transaction(run) as tables:
            tables.execute("arrive_queue", policy=queue.policy, by=queue.paused_by, why=queue.paused_why)
            tables.execute(
                "arrive_scheduler_state",
                ordered=queue.ordered,
                scheduler_state=queue.scheduler_state,
                deadlines=UNCHECKED_DEADLINES.to_json(),
                fence=queue.fence,
            )
            tables.execute("arrive_event_sequence", last=queue.event)
            tables.fetch_one("go_on_seq", last=queue.seq + 1)
            tables.execute("file_documents")
            backup.advance_identity(tables, "customer", "id")
            clear_marker(tables)


class PostgresTransferReader(TransferReader):
    """One transaction of a schema."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def blockers(self) -> TransferBlockers:
        (now,) = self._queries.fetch_one("now") or (0,)
        cursor = self._queries.connection.execute(
            "SELECT name FROM worker WHERE seen_at >= %s ORDER BY name", (now - WORKER_TIMEOUT,)
        )
        (running,) = self._fetch_one("SELECT count(*) FROM document WHERE state = 'running'")
        return TransferBlockers(
            running, tuple(name for (name,) in cursor), self.has_rows("lane_log") or self.has_rows("event_outbox")
        )

    def queue(self) -> QueueRecord:
        row = self._queries.fetch_one("leave_queue")
        if row is None:
            raise StoreError("the queue has no row; restore a backup")
        return QueueRecord._make(row)

    def has_rows(self, table: str) -> bool:
        """Whether there are any rows."""
        return bool(self._fetch_one("SELECT EXISTS (SELECT 1 FROM {})", table)[0])

    def count(self, table: str) -> int:
        return int(self._fetch_one("SELECT count(*) FROM {}", table)[0])

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        key = [name for (name,) in self._queries.fetch_all("key_columns", table=table)]
        names, by = (sql.SQL(", ").join(map(sql.Identifier, item)) for item in (columns, key))
        query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(names, sql.Identifier(table), by)
        with self._queries.connection.cursor(f"moving_{next(_cursor_numbers)}") as cursor:
            cursor.execute(query, binary=True)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield list(rows)

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        with self._queries.connection.cursor(f"moving_{next(_cursor_numbers)}") as cursor:
            cursor.itersize = BATCH_ROWS
            cursor.execute(
                "SELECT blob, max(sha256) FROM (SELECT blob, sha256 FROM document WHERE blob IS NOT NULL"
                " UNION ALL SELECT blob, sha256 FROM file) AS kept GROUP BY blob"
            )
            yield from cursor

    def _fetch_one(self, query: Any, *tables: str) -> Row:
        row = self._queries.connection.execute(sql.SQL(query).format(*map(sql.Identifier, tables))).fetchone()
        return row or (0,)
