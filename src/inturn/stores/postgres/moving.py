"""A schema as one end of a move."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from typing import Any, Final

import psycopg
from psycopg import sql

from inturn.errors import IllegalMoveError, StoreError, StoreVersionError
from inturn.policy.turns import LEVELS
from inturn.store import Discrepancy
from inturn.stores.moving import BATCH, SILENT_AFTER, Busy, End, Mark, QueueRecord, Reader, Row
from inturn.stores.postgres import backup, schema
from inturn.stores.postgres.address import parse
from inturn.stores.postgres.bounds import KINDS, Bounds
from inturn.stores.postgres.closing import SPARED, lift, mark_of, put_mark, tables_of, take_mark_away
from inturn.stores.postgres.rows import adapt, lower_of
from inturn.stores.postgres.store import PostgresStore
from inturn.stores.postgres.tables import Connection, Tables
from inturn.stores.postgres.trouble import errors_at_open, errors_of

MADE_UP: Final[dict[str, dict[str, Callable[[str], Any] | None]]] = {
    "customer": {"lower_name": lower_of},
    "document": {"lower_name": lower_of, "look_at": None, "lease_until": None, "leased_at": None, "doubted_at": None},
    "line": {"version": None, "front": None},
}
"""Columns that are not moved: made from the name, or of running documents alone, or of no use: in a queue that arrives
every document counts as one that came back."""
OWN: Final = {*SPARED, "ended", "line_change", "news", "numbering", "queue", "returned", "running", "turns"}
"""Tables that are not moved row by row: changes are folded in and events numbered before."""
ANYTHING_MAY_BE_DUE: Final = Bounds(dict.fromkeys(KINDS, 0), [(0, 0) for _ in LEVELS])
"""For a queue whose deadlines nobody has looked at yet; the first claims find out."""
_names: Final = count()


class PostgresEnd(End):
    """One schema. Every transaction names it anew, so that a pooler may stand in between."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.address = parse(url)
        self.shown = self.address.shown

    def _connect(self) -> Connection:
        with errors_of(self.shown), errors_at_open(self.address):
            connection = psycopg.connect(self.address.conninfo, autocommit=True, prepare_threshold=None)
            adapt(connection)
            return connection

    @cached_property
    def _connection(self) -> Connection:
        return self._connect()

    def is_there(self) -> bool:
        with errors_of(self.shown):
            version = schema.version_of(self._connection, self.address)
        if 0 < version < len(schema.MIGRATIONS):
            raise StoreVersionError(
                f"{self.shown} has schema {version} and this version of Inturn {len(schema.MIGRATIONS)};"
                f" run: {self.address.migrate_command}"
            )
        return version > 0

    def is_same(self, other: End) -> bool:
        return isinstance(other, PostgresEnd) and self.shown == other.shown

    def mark(self) -> Mark | None:
        with errors_of(self.shown):
            return mark_of(self._connection, self.address.schema)

    def tables(self) -> dict[str, list[str]]:
        with self.transaction() as tables:
            found = {table: tables.all("columns", table=table) for table in sorted(tables_of(tables) - OWN)}
        return {
            table: [name for (name,) in names if name not in MADE_UP.get(table, {})] for table, names in found.items()
        }

    def let_go(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    @contextmanager
    def transaction(self, run: str | None = None) -> Iterator[Tables]:
        """With a run: one that may write to what it fills."""
        with errors_of(self.shown), self._connection.transaction():
            tables = schema.in_schema(self._connection, self.address)
            tables.run("lose_patience")
            if run is not None:
                lift(tables, run, self.address.schema, self.shown)
            yield tables

    # -- a source -----------------------------------------------------------------------------------------------------

    def settle(self) -> tuple[Discrepancy, ...]:
        with closing(PostgresStore(self._url)) as store:
            found = store.recount(repair=False)
            store.events(0, limit=1)  # whoever asks for one has all of them numbered
            return found

    def close(self, mark: Mark) -> Busy:
        """Making the triggers waits for whoever writes; a queue that is busy after all is rolled back to open."""
        with self.transaction() as tables, self._connection.transaction() as closed:
            put_mark(tables, mark, self.shown)
            busy = PostgresReader(tables).busy()
            if busy.running or busy.workers or busy.unsettled:
                raise psycopg.Rollback(closed)
        return busy

    def remark(self, mark: Mark) -> None:
        with self.transaction() as tables:
            found = mark_of(self._connection, self.address.schema)
            if found is None or found.token != mark.token:
                raise IllegalMoveError(f"{self.shown} was opened again meanwhile; run inturn move again")
            put_mark(tables, mark, self.shown)

    def reopen(self) -> None:
        with self.transaction() as tables:
            take_mark_away(tables)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with closing(self._connect()) as connection, errors_of(self.shown):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                yield PostgresReader(schema.in_schema(connection, self.address))

    # -- a target -----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        with errors_of(self.shown):
            schema.migrate(self._connection, self.address)

    def is_used(self) -> bool:
        with self.transaction() as tables:
            reader = PostgresReader(tables)
            return any(reader.has(table) for table in ("customer", "document", "key", "event", "news"))

    def arrive(self, mark: Mark) -> None:
        with self.transaction() as tables:
            put_mark(tables, mark, self.shown)
        moved = self.tables()
        with self.transaction(mark.run) as tables:
            for table in moved:
                tables.connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(table)))

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        made_up = [(name, make) for name, make in MADE_UP.get(table, {}).items() if make is not None]
        name = columns.index("name") if made_up else 0
        names = sql.SQL(", ").join(map(sql.Identifier, [*columns, *(column for column, _ in made_up)]))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self.transaction(run) as tables, tables.connection.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row([*row, *(make(row[name]) for _, make in made_up)])

    def counts(self) -> dict[str, int]:
        moved = self.tables()
        with self.transaction() as tables:
            reader = PostgresReader(tables)
            return {table: reader.count(table) for table in moved}

    def complete(self, run: str, queue: QueueRecord) -> None:
        with self.transaction(run) as tables:
            tables.run("arrive_queue", policy=queue.policy, by=queue.paused_by, why=queue.paused_why)
            tables.run(
                "arrive_turns",
                ordered=queue.ordered,
                standing=queue.turns,
                bounds=ANYTHING_MAY_BE_DUE.text(),
                fence=queue.fence,
            )
            tables.run("arrive_numbering", last=queue.event)
            tables.one("go_on_seq", last=queue.seq + 1)
            tables.run("file_documents")
            backup.go_on_behind(tables, "customer", "id")
            take_mark_away(tables)


class PostgresReader(Reader):
    """One transaction of a schema."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def busy(self) -> Busy:
        (now,) = self._tables.one("now") or (0,)
        found = self._tables.connection.execute(
            "SELECT name FROM worker WHERE seen_at >= %s ORDER BY name", (now - SILENT_AFTER,)
        )
        (running,) = self._one("SELECT count(*) FROM document WHERE state = 'running'")
        return Busy(running, tuple(name for (name,) in found), self.has("line_change") or self.has("news"))

    def queue(self) -> QueueRecord:
        found = self._tables.one("leave_queue")
        if found is None:
            raise StoreError("the queue has no row; restore a backup")
        return QueueRecord._make(found)

    def has(self, table: str) -> bool:
        """Whether there are any rows."""
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM {})", table)[0])

    def count(self, table: str) -> int:
        return int(self._one("SELECT count(*) FROM {}", table)[0])

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        key = [name for (name,) in self._tables.all("key_columns", table=table)]
        names, by = (sql.SQL(", ").join(map(sql.Identifier, each)) for each in (columns, key))
        query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(names, sql.Identifier(table), by)
        with self._tables.connection.cursor(f"moving_{next(_names)}") as cursor:
            cursor.execute(query, binary=True)
            while rows := cursor.fetchmany(BATCH):
                yield list(rows)

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        with self._tables.connection.cursor(f"moving_{next(_names)}") as cursor:
            cursor.itersize = BATCH
            cursor.execute(
                "SELECT blob, max(sha256) FROM (SELECT blob, sha256 FROM document WHERE blob IS NOT NULL"
                " UNION ALL SELECT blob, sha256 FROM file) AS kept GROUP BY blob"
            )
            yield from cursor

    def _one(self, query: Any, *tables: str) -> Row:
        found = self._tables.connection.execute(sql.SQL(query).format(*map(sql.Identifier, tables))).fetchone()
        return found or (0,)
