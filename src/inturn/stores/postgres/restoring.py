"""A schema as the source of a backup, and as the target of a restore."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from inturn.errors import IllegalMoveError
from inturn.stores.moving import Mark, MarkKind
from inturn.stores.postgres import backup
from inturn.stores.postgres.address import parse
from inturn.stores.postgres.closing import lift, mark_of, put_mark, take_mark_away
from inturn.stores.postgres.moving import PostgresEnd
from inturn.stores.postgres.store import PostgresStore
from inturn.stores.snapshots import RestoreTarget, SnapshotSource

KIND: Final = "postgresql"


class PostgresSource(SnapshotSource):
    """A queue in a schema."""

    kind = KIND
    name = "queue.zip"

    def __init__(self, url: str) -> None:
        self._url = url

    def write(self, path: Path) -> None:
        with closing(PostgresStore(self._url)) as store:
            store.backup(path)


class PostgresTarget(RestoreTarget):
    """A schema that is not there yet, or holds a queue that was never used.

    Mark and rows come in one transaction: a schema that is marked is filled.
    """

    kind = KIND

    def __init__(self, url: str) -> None:
        self._url = url
        self.shown = parse(url).shown

    def is_begun(self, token: str) -> bool:
        with self._opened() as end:
            return self._is_begun(end, token)

    def fill(self, snapshot: Path, backup_: str, token: str) -> None:
        with self._opened() as end:
            if self._is_begun(end, token):
                return
            end.make()
            with end.transaction() as tables:
                put_mark(tables, Mark(MarkKind.RESTORING, backup_, token, token), self.shown)
                lift(tables, token, end.address.schema, self.shown)
                backup.read(tables, snapshot)

    def open(self, token: str) -> None:
        with self._opened() as end, end.transaction() as tables:
            mark = mark_of(tables.connection, end.address.schema)
            if mark is None or mark.token != token:
                raise IllegalMoveError(f"another run of inturn restore has taken {self.shown} over; leave it to that")
            take_mark_away(tables)

    def _is_begun(self, end: PostgresEnd, token: str) -> bool:
        if not end.is_there():
            return False
        mark = end.mark()
        if mark is None:
            if end.is_used():
                raise IllegalMoveError(f"{self.shown} holds a queue that was used; restore to another ?schema=")
            return False
        if mark.kind is not MarkKind.RESTORING or mark.token != token:
            raise IllegalMoveError(f"{mark.why(self.shown)}; or restore to another ?schema=")
        return True

    @contextmanager
    def _opened(self) -> Iterator[PostgresEnd]:
        end = PostgresEnd(self._url)
        try:
            yield end
        finally:
            end.let_go()
