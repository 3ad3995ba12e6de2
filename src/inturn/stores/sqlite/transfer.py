"""A SQLite file as one end of a transfer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import apsw

from inturn.clock import SystemClock
from inturn.errors import StoreError, StoreVersionError
from inturn.stores.sql.rows import text_id, text_ids
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
from inturn.stores.sqlite.queries import QUERIES, pack_id, pack_ids
from inturn.stores.transfer import (
    REQUEUED_KIND,
    ClosedMarker,
    QueueRecord,
    Row,
    TransferEndpoint,
    TransferReader,
)

Converter = Callable[[Any], Any]
_IDS_CONVERTERS: Final = (text_ids, pack_ids)
_ID_CONVERTERS: Final = (text_id, pack_id)
_OPTIONAL_ID_CONVERTERS: Final = (
    lambda stored: None if stored is None else text_id(stored),
    lambda id_: None if id_ is None else pack_id(id_),
)
_FLAG_CONVERTERS: Final = (bool, int)
COLUMN_CONVERTERS: Final[dict[str, dict[str, tuple[Converter, Converter]]]] = {
    "customer": {"paused": _FLAG_CONVERTERS, "capped": _FLAG_CONVERTERS, "keeps": _FLAG_CONVERTERS},
    "attempt": {"document": _ID_CONVERTERS},
    "document": {"id": _ID_CONVERTERS, "parent": _OPTIONAL_ID_CONVERTERS},
    "lane": {"scheduled": _FLAG_CONVERTERS},
    "event": {"documents": _IDS_CONVERTERS},
}
"""Columns that are stored in another form than they are transferred in: how they are read, and written."""
TABLES_NOT_COPIED: Final = {
    "closed",
    "queue_state",
    "requeued",
    "search_chunk",
    "search_progress",
    "search_term",
    "worker",
}
"""Tables that are not transferred row by row: workers report for themselves, the others are made from the rest."""
COLUMNS_NOT_COPIED: Final = {"scan_from", "old_result"}
"""In a loaded queue every waiting document counts as requeued, so that no lane has a scan position."""


class SqliteReader(TransferReader):
    """One read transaction."""

    EXPRESSIONS = {("document", "result"): "coalesce(result, old_result)", ("lane_log", "kind"): REQUEUED_KIND}  # noqa: RUF012 - a ClassVar

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__()
        self._connection = connection

    def now(self) -> int:
        return SystemClock().now()

    def queue(self) -> QueueRecord:
        for row in self.select(f"SELECT {', '.join(QueueRecord._fields)} FROM queue_state"):  # noqa: S608 - fields
            return QueueRecord._make(row)
        raise StoreError("the queue has no row; restore a backup")

    def catalog(self) -> dict[str, list[str]]:
        tables = sorted(table_names(self._connection) - TABLES_NOT_COPIED)
        return {
            table: [name for _, name, *_ in self._table_info(table) if name not in COLUMNS_NOT_COPIED]
            for table in tables
        }

    def primary_key(self, table: str) -> list[str]:
        return [name for _, name in sorted((place, name) for _, name, *_, place in self._table_info(table) if place)]

    def select(self, query: str, *values: object) -> Iterator[Row]:
        return self._connection.execute(query, values)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        for batch in super().rows(table, columns):
            yield _convert_rows(table, columns, batch, 0)

    def _table_info(self, table: str) -> Iterator[Row]:
        return self.select(f"PRAGMA table_info({table})")


class SqliteEndpoint(TransferEndpoint):
    """One file; the first transaction that writes creates it."""

    kind = "sqlite"

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
        both_exist = self.path.exists() and other.path.exists()
        return self.path.samefile(other.path) if both_exist else self.path.resolve() == other.path.resolve()

    def closed_marker(self) -> ClosedMarker | None:
        with translate_errors(self.path):
            return read_marker(self._connection)

    def disconnect(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    @contextmanager
    def open_reader(self) -> Iterator[TransferReader]:
        with translate_errors(self.path), closing(connect(self.path, read_only=True)) as connection:
            connection.execute("BEGIN")
            yield SqliteReader(connection)

    def close(self, marker: ClosedMarker) -> None:
        with translate_errors(self.path), transaction(self._connection):
            SqliteReader(self._connection).require_idle(self.display_url)
            write_marker(self._connection, marker, self.display_url)

    def update_marker(self, marker: ClosedMarker) -> None:
        with translate_errors(self.path), transaction(self._connection):
            self.require_token(marker.token)
            write_marker(self._connection, marker, self.display_url)

    def reopen(self) -> None:
        with translate_errors(self.path), transaction(self._connection):
            clear_marker(self._connection)

    def create(self) -> None:
        schema.migrate(self.path, self._connection, SystemClock().now())

    def begin_load(self, marker: ClosedMarker) -> None:
        with translate_errors(self.path), transaction(self._connection):
            write_marker(self._connection, marker, self.display_url)
        with self._fill(marker.run):
            for table in SqliteReader(self._connection).catalog():
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names, values = ", ".join(columns), ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ({values})"  # noqa: S608 - names of the catalog
        with self._fill(run):
            self._connection.executemany(statement, _convert_rows(table, columns, rows, 1))

    def complete(self, run: str, queue: QueueRecord) -> None:
        names = ", ".join(f"{name} = ?" for name in QueueRecord._fields)
        with self._fill(run):
            self._connection.execute(f"UPDATE queue_state SET version = version + 1, {names}", queue)  # noqa: S608 - fields
            self._connection.execute(QUERIES["rebuild_derived_tables"])
            clear_marker(self._connection)

    @contextmanager
    def _fill(self, run: str) -> Iterator[None]:
        with translate_errors(self.path), fill_transaction(self._connection, run, self.path):
            yield


def _convert_rows(table: str, columns: Sequence[str], rows: Sequence[Row], direction: int) -> Sequence[Row]:
    """Convert rows as they are read (direction 0) or written (1)."""
    converters = {columns.index(name): pair[direction] for name, pair in COLUMN_CONVERTERS.get(table, {}).items()}
    if not converters:
        return rows
    result = [list(row) for row in rows]
    for row in result:
        for at, convert in converters.items():
            row[at] = convert(row[at])
    return result
