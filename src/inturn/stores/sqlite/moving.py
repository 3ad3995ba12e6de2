"""A file as one end of a move."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import apsw

from inturn.clock import SystemClock
from inturn.errors import IllegalMoveError, StoreError, StoreVersionError
from inturn.store import Discrepancy
from inturn.stores.moving import BATCH, SILENT_AFTER, Busy, End, Mark, QueueRecord, Reader, Row
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.closing import lifted, mark_of, put_mark, tables_of, take_mark_away, transaction
from inturn.stores.sqlite.connection import connect, errors_of
from inturn.stores.sqlite.store import SqliteStore
from inturn.stores.sqlite.tables import QUERIES, packed, packed_all, unpacked_all

_ids: Final = (lambda kept: list(unpacked_all(kept)), packed_all)
_id: Final = (lambda kept: unpacked_all(kept)[0], packed)
_flag: Final = (bool, int)
SHAPES: Final[dict[str, dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]]] = {
    "customer": {"paused": _flag, "capped": _flag, "keeps": _flag},
    "attempt": {"document": _id},
    "document": {"id": _id},
    "line": {"filed": _flag},
    "event": {"documents": _ids},
}
"""Columns that are kept in another shape than they are moved in: how they are read, and written."""
OWN: Final = {"closed", "line_change", "queue", "returned", "worker"}
"""Tables that are not moved row by row: changes are folded in before, and workers say for themselves how they are."""
NOT_MOVED: Final = {"front", "leased_at", "doubted_at", "old_result"}
"""Columns that are not moved: in a queue that arrives every document counts as one that came back, and nothing runs."""
MOVED_AS: Final = {("document", "result"): "coalesce(result, old_result)"}
"""Columns that are read from several."""


class SqliteEnd(End):
    """One file; made by the first transaction that writes to it, if it is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.shown = str(self.path)

    @cached_property
    def _connection(self) -> apsw.Connection:
        return connect(self.path)

    def is_there(self) -> bool:
        if not self.path.exists() or self.path.stat().st_size == 0:
            return False
        with errors_of(self.path):
            version = schema.version_of(self.path, self._connection)
        if version < len(schema.MIGRATIONS):
            raise StoreVersionError(
                f"{self.shown} has schema {version} and this version of Inturn {len(schema.MIGRATIONS)};"
                f" run inturn migrate --store {self.shown} first"
            )
        return True

    def is_same(self, other: End) -> bool:
        if not isinstance(other, SqliteEnd):
            return False
        both_there = self.path.exists() and other.path.exists()
        return self.path.samefile(other.path) if both_there else self.path.resolve() == other.path.resolve()

    def mark(self) -> Mark | None:
        with errors_of(self.path):
            return mark_of(self._connection)

    def tables(self) -> dict[str, list[str]]:
        names = sorted(tables_of(self._connection) - OWN)
        return {
            table: [name for _, name, *_ in _columns(self._connection, table) if name not in NOT_MOVED]
            for table in names
        }

    def let_go(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    # -- a source -----------------------------------------------------------------------------------------------------

    def settle(self) -> tuple[Discrepancy, ...]:
        with closing(SqliteStore(self.path)) as store:
            return store.recount(repair=False)

    def close(self, mark: Mark) -> Busy:
        with errors_of(self.path), transaction(self._connection):
            busy = SqliteReader(self._connection).busy()
            if not busy.running and not busy.workers and not busy.unsettled:
                put_mark(self._connection, mark, self.shown)
            return busy

    def remark(self, mark: Mark) -> None:
        with errors_of(self.path), transaction(self._connection):
            found = mark_of(self._connection)
            if found is None or found.token != mark.token:
                raise IllegalMoveError(f"{self.shown} was opened again meanwhile; run inturn move again")
            put_mark(self._connection, mark, self.shown)

    def reopen(self) -> None:
        with errors_of(self.path), transaction(self._connection):
            take_mark_away(self._connection)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with errors_of(self.path), closing(connect(self.path, read_only=True)) as connection:
            connection.execute("BEGIN")
            yield SqliteReader(connection)

    # -- a target -----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        schema.migrate(self.path, self._connection, SystemClock().now())

    def is_used(self) -> bool:
        tables = ("customer", "document", "key", "event")
        return any(self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {each})").get for each in tables)  # noqa: S608 - our own names

    def arrive(self, mark: Mark) -> None:
        with errors_of(self.path), transaction(self._connection):
            put_mark(self._connection, mark, self.shown)
        with errors_of(self.path), lifted(self._connection, mark.run, self.path):
            for table in self.tables():
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        shapes = [(columns.index(name), write) for name, (_, write) in SHAPES.get(table, {}).items()]
        names, places = ", ".join(columns), ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - names of the catalog
        with errors_of(self.path), lifted(self._connection, run, self.path):
            self._connection.executemany(statement, _shaped(rows, shapes))

    def counts(self) -> dict[str, int]:
        return {table: SqliteReader(self._connection).count(table) for table in self.tables()}

    def complete(self, run: str, queue: QueueRecord) -> None:
        names = ", ".join(f"{name} = ?" for name in QueueRecord._fields)
        with errors_of(self.path), lifted(self._connection, run, self.path):
            self._connection.execute(f"UPDATE queue SET version = version + 1, {names}", queue)  # noqa: S608 - fields
            self._connection.execute(QUERIES["return_all"])
            take_mark_away(self._connection)


class SqliteReader(Reader):
    """One transaction of a file."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def busy(self) -> Busy:
        since = SystemClock().now() - SILENT_AFTER
        workers = self._connection.execute("SELECT name FROM worker WHERE seen_at >= ? ORDER BY name", (since,))
        names = tuple(name for (name,) in workers)
        running = self._connection.execute("SELECT count(*) FROM document WHERE state = 'running'").get
        return Busy(running, names, bool(self.count("line_change")))

    def queue(self) -> QueueRecord:
        found = self._connection.execute(f"SELECT {', '.join(QueueRecord._fields)} FROM queue").fetchone()  # noqa: S608 - fields
        if found is None:
            raise StoreError("the queue has no row; restore a backup")
        return QueueRecord._make(found)

    def count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608 - our own names

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        shapes = [(columns.index(name), read) for name, (read, _) in SHAPES.get(table, {}).items()]
        key = ", ".join(
            name for *_, name in sorted((at, name) for _, name, *_, at in _columns(self._connection, table) if at)
        )
        names = ", ".join(MOVED_AS.get((table, name), name) for name in columns)
        found = self._connection.execute(f"SELECT {names} FROM {table} ORDER BY {key}")  # noqa: S608 - names of the catalog
        while rows := list(islice(found, BATCH)):
            yield list(_shaped(rows, shapes))

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        yield from self._connection.execute(
            "SELECT blob, max(sha256) FROM (SELECT blob, sha256 FROM document WHERE blob IS NOT NULL"
            " UNION ALL SELECT blob, sha256 FROM file) GROUP BY blob"
        )


def _columns(connection: apsw.Connection, table: str) -> Sequence[Row]:
    """Of each column its name, second, and its place in the primary key, last."""
    return connection.execute(f"PRAGMA table_info({table})").fetchall()


def _shaped(rows: Sequence[Row], shapes: Sequence[tuple[int, Callable[[Any], Any]]]) -> Iterator[Row]:
    if not shapes:
        yield from rows
        return
    for row in rows:
        new = list(row)
        for at, shape in shapes:
            new[at] = shape(new[at])
        yield new
