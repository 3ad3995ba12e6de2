"""A file as one end of a move."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import apsw

from inturn.clock import SystemClock
from inturn.errors import IllegalTransitionError, StoreError, StoreVersionError
from inturn.store import Discrepancy
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.closed_marker import (
    clear_marker,
    fill_transaction,
    read_marker,
    table_names,
    transaction,
    write_marker,
)
from inturn.stores.sqlite.connection import connect, translate_errors
from inturn.stores.sqlite.queries import QUERIES, pack_id, pack_ids, unpack_ids
from inturn.stores.sqlite.store import SqliteStore
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

_IDS_CONVERTERS: Final = (lambda stored: list(unpack_ids(stored)), pack_ids)
_ID_CONVERTERS: Final = (lambda stored: unpack_ids(stored)[0], pack_id)
_FLAG_CONVERTERS: Final = (bool, int)
COLUMN_CONVERTERS: Final[dict[str, dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]]] = {
    "customer": {"paused": _FLAG_CONVERTERS, "capped": _FLAG_CONVERTERS, "keeps": _FLAG_CONVERTERS},
    "attempt": {"document": _ID_CONVERTERS},
    "document": {"id": _ID_CONVERTERS},
    "lane": {"scheduled": _FLAG_CONVERTERS},
    "event": {"documents": _IDS_CONVERTERS},
}
"""Columns that are kept in another shape than they are moved in: how they are read, and written."""
TABLES_NOT_COPIED: Final = {"closed", "lane_log", "queue_state", "requeued", "worker"}
"""Tables that are not moved row by row: changes are folded in before, and workers say for themselves how they are."""
COLUMNS_NOT_COPIED: Final = {"scan_from", "leased_at", "doubted_at", "old_result"}
"""Columns that are not moved: in a queue that arrives every document counts as one that came back, and nothing runs."""
COLUMN_EXPRESSIONS: Final = {("document", "result"): "coalesce(result, old_result)"}
"""Columns that are read from several."""


class SqliteEndpoint(TransferEndpoint):
    """One file; made by the first transaction that writes to it, if it is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.display_url = str(self.path)

    @cached_property
    def _connection(self) -> apsw.Connection:
        return connect(self.path)

    def exists(self) -> bool:
        if not self.path.exists() or self.path.stat().st_size == 0:
            return False
        with translate_errors(self.path):
            version = schema.read_version(self.path, self._connection)
        if version < len(schema.MIGRATIONS):
            raise StoreVersionError(
                f"{self.display_url} has schema {version} and this version of Inturn {len(schema.MIGRATIONS)};"
                f" run inturn migrate --store {self.display_url} first"
            )
        return True

    def is_same(self, other: TransferEndpoint) -> bool:
        if not isinstance(other, SqliteEndpoint):
            return False
        both_there = self.path.exists() and other.path.exists()
        return self.path.samefile(other.path) if both_there else self.path.resolve() == other.path.resolve()

    def closed_marker(self) -> ClosedMarker | None:
        with translate_errors(self.path):
            return read_marker(self._connection)

    def tables(self) -> dict[str, list[str]]:
        names = sorted(table_names(self._connection) - TABLES_NOT_COPIED)
        return {
            table: [name for _, name, *_ in _columns(self._connection, table) if name not in COLUMNS_NOT_COPIED]
            for table in names
        }

    def disconnect(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    # -- a source -----------------------------------------------------------------------------------------------------

    def fold_and_recount(self) -> tuple[Discrepancy, ...]:
        with closing(SqliteStore(self.path)) as store:
            return store.recount(repair=False)

    def close(self, marker: ClosedMarker) -> TransferBlockers:
        with translate_errors(self.path), transaction(self._connection):
            busy = SqliteTransferReader(self._connection).blockers()
            if not busy.running and not busy.workers and not busy.has_pending_changes:
                write_marker(self._connection, marker, self.display_url)
            return busy

    def update_marker(self, marker: ClosedMarker) -> None:
        with translate_errors(self.path), transaction(self._connection):
            closed_marker = read_marker(self._connection)
            if closed_marker is None or closed_marker.token != marker.token:
                raise IllegalTransitionError(f"{self.display_url} was opened again meanwhile; run inturn move again")
            write_marker(self._connection, marker, self.display_url)

    def reopen(self) -> None:
        with translate_errors(self.path), transaction(self._connection):
            clear_marker(self._connection)

    @contextmanager
    def open_reader(self) -> Iterator[TransferReader]:
        with translate_errors(self.path), closing(connect(self.path, read_only=True)) as connection:
            connection.execute("BEGIN")
            yield SqliteTransferReader(connection)

    # -- a target -----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        schema.migrate(self.path, self._connection, SystemClock().now())

    def is_used(self) -> bool:
        tables = ("customer", "document", "idempotency_key", "event")
        return any(self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get for table in tables)  # noqa: S608 - our own names

    def begin_load(self, marker: ClosedMarker) -> None:
        with translate_errors(self.path), transaction(self._connection):
            write_marker(self._connection, marker, self.display_url)
        with translate_errors(self.path), fill_transaction(self._connection, marker.run, self.path):
            for table in self.tables():
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        shapes = [(columns.index(name), write) for name, (_, write) in COLUMN_CONVERTERS.get(table, {}).items()]
        names, places = ", ".join(columns), ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - names of the catalog
        with translate_errors(self.path), fill_transaction(self._connection, run, self.path):
            self._connection.executemany(statement, _convert_rows(rows, shapes))

    def counts(self) -> dict[str, int]:
        return {table: SqliteTransferReader(self._connection).count(table) for table in self.tables()}

    def complete(self, run: str, queue: QueueRecord) -> None:
        names = ", ".join(f"{name} = ?" for name in QueueRecord._fields)
        with translate_errors(self.path), fill_transaction(self._connection, run, self.path):
            self._connection.execute(f"UPDATE queue_state SET version = version + 1, {names}", queue)  # noqa: S608 - fields
            self._connection.execute(QUERIES["requeue_all"])
            clear_marker(self._connection)


class SqliteTransferReader(TransferReader):
    """One transaction of a file."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def blockers(self) -> TransferBlockers:
        since = SystemClock().now() - WORKER_TIMEOUT
        workers = self._connection.execute("SELECT name FROM worker WHERE seen_at >= ? ORDER BY name", (since,))
        names = tuple(name for (name,) in workers)
        running = self._connection.execute("SELECT count(*) FROM document WHERE state = 'running'").get
        return TransferBlockers(running, names, bool(self.count("lane_log")))

    def queue(self) -> QueueRecord:
        row = self._connection.execute(f"SELECT {', '.join(QueueRecord._fields)} FROM queue_state").fetchone()  # noqa: S608 - fields
        if row is None:
            raise StoreError("the queue has no row; restore a backup")
        return QueueRecord._make(row)

    def count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608 - our own names

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        shapes = [(columns.index(name), read) for name, (read, _) in COLUMN_CONVERTERS.get(table, {}).items()]
        key = ", ".join(
            name for *_, name in sorted((at, name) for _, name, *_, at in _columns(self._connection, table) if at)
        )
        names = ", ".join(COLUMN_EXPRESSIONS.get((table, name), name) for name in columns)
        cursor = self._connection.execute(f"SELECT {names} FROM {table} ORDER BY {key}")  # noqa: S608 - names of the catalog
        while rows := list(islice(cursor, BATCH_ROWS)):
            yield list(_convert_rows(rows, shapes))

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        yield from self._connection.execute(
            "SELECT blob, max(sha256) FROM (SELECT blob, sha256 FROM document WHERE blob IS NOT NULL"
            " UNION ALL SELECT blob, sha256 FROM file) GROUP BY blob"
        )


def _columns(connection: apsw.Connection, table: str) -> Sequence[Row]:
    """Of each column its name, second, and its place in the primary key, last."""
    return connection.execute(f"PRAGMA table_info({table})").fetchall()


def _convert_rows(rows: Sequence[Row], converters: Sequence[tuple[int, Callable[[Any], Any]]]) -> Iterator[Row]:
    if not converters:
        yield from rows
        return
    for row in rows:
        new = list(row)
        for at, shape in converters:
            new[at] = shape(new[at])
        yield new
