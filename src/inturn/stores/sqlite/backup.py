"""A file as a snapshot, and as a target of a restore."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from inturn.errors import IllegalMoveError, StoreCorruptError, StoreError
from inturn.files import create_private, sync_paths, write_private
from inturn.stores.moving import Mark, MarkKind
from inturn.stores.snapshots import RestoreTarget, SnapshotFacts, SnapshotFile, SnapshotSource
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.closing import mark_of, put_mark, refuse_closed, take_mark_away, transaction
from inturn.stores.sqlite.connection import connect, errors_of, files_of

KIND: Final = "sqlite"
FILLED: Final = "filled"
"""The run of a mark behind which the queue is complete, and only files may be missing."""
_BLOBS: Final = (
    "SELECT blob, sha256 FROM document WHERE blob IS NOT NULL UNION ALL SELECT blob, sha256 FROM file ORDER BY 1"
)


def write_copy(source: Path, path: Path) -> None:
    """Copy a database as of one instant into a new file, whatever its schema is."""
    if path.exists():
        raise StoreError(f"{path} exists already; give a new path")
    with closing(connect(source)) as connection:
        try:
            with errors_of(path):
                create_private(path)
                connection.execute("VACUUM INTO ?", (str(path),))
                sync_paths(path, path.parent)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


class SqliteSource(SnapshotSource):
    """A queue in a file. It is not opened as a store, which would bring it to the newest schema.

    The snapshot is closed: whoever opened it as a store would change it, and its hash.
    """

    kind = KIND
    name = "queue.db"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def write(self, path: Path) -> None:
        with errors_of(self._path), closing(connect(self._path)) as connection:
            schema.version_of(self._path, connection)
            refuse_closed(connection, str(self._path))
        write_copy(self._path, path)
        with errors_of(path), closing(connect(path)) as connection, transaction(connection):
            put_mark(connection, Mark(MarkKind.BACKUP, str(self._path), ""), str(path))
        sync_paths(path)


class SqliteSnapshot(SnapshotFile):
    """A queue in a file that nobody uses."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> SnapshotFacts:
        with errors_of(self._path), closing(_read(self._path)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").get
            if found != "ok":
                raise StoreCorruptError(f"{self._path} is damaged ({found}); use another backup")
            version = schema.version_of(self._path, connection)
            if version == 0:
                raise StoreCorruptError(f"{self._path} holds no queue; use another backup")
            return SnapshotFacts(version, connection.execute("SELECT count(*) FROM document").get)

    def references(self) -> Iterator[tuple[str, str | None]]:
        with errors_of(self._path), closing(_read(self._path)) as connection:
            yield from connection.execute(_BLOBS)


class SqliteTarget(RestoreTarget):
    """A file that is not there yet."""

    kind = KIND

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.shown = str(self._path)

    def is_begun(self, token: str) -> bool:
        if not self._path.exists() or self._path.stat().st_size == 0:
            self._refuse_leftovers()
            return False
        with errors_of(self._path), closing(connect(self._path)) as connection:
            schema.version_of(self._path, connection)
            mark = mark_of(connection)
        if mark is None:
            raise IllegalMoveError(f"there is a queue at {self.shown} already; restore to a path that is not used yet")
        if mark.kind is not MarkKind.RESTORING or mark.token != token:
            raise IllegalMoveError(f"{mark.why(self.shown)}; or restore to a path that is not used yet")
        return True

    def fill(self, snapshot: Path, backup: str, token: str) -> None:
        mark = Mark(MarkKind.RESTORING, backup, token)
        if not self.is_begun(token):
            self._claim(mark)
        elif self._mark().run == FILLED:
            return
        part = self._path.with_name(f"{self._path.name}.restoring")
        try:
            with snapshot.open("rb") as source, write_private(part) as copy:
                shutil.copyfileobj(source, copy)
            with errors_of(part), closing(connect(part)) as connection, transaction(connection):
                put_mark(connection, mark._replace(run=FILLED), self.shown)
            sync_paths(part)
            part.replace(self._path)
            sync_paths(self._path.parent)
        finally:
            part.unlink(missing_ok=True)

    def open(self, token: str) -> None:
        with errors_of(self._path), closing(connect(self._path)) as connection, transaction(connection):
            mark = mark_of(connection)
            if mark is None or mark.token != token:
                raise IllegalMoveError(f"another run of inturn restore has taken {self.shown} over; leave it to that")
            take_mark_away(connection)

    def _claim(self, mark: Mark) -> None:
        """Say what will be here before anybody else makes a queue of this path."""
        with errors_of(self._path), closing(connect(self._path)) as connection, transaction(connection):
            if schema.version_of(self._path, connection) or mark_of(connection) is not None:
                raise IllegalMoveError(f"somebody has made a queue at {self.shown} meanwhile; restore to another path")
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
            put_mark(connection, mark, self.shown)

    def _mark(self) -> Mark:
        with errors_of(self._path), closing(connect(self._path)) as connection:
            mark = mark_of(connection)
            if mark is None:
                raise AssertionError("looked at before")
            return mark

    def _refuse_leftovers(self) -> None:
        """A log left beside the file would be read into the new one and spoil it."""
        if not self._path.parent.is_dir():
            raise StoreError(f"there is no folder {self._path.parent}; make it first")
        for beside in files_of(self._path)[1:]:
            if beside.exists() and not beside.name.endswith("-gate"):
                raise StoreError(f"{beside} was left behind by another queue; move it away first")


def _read(path: Path) -> apsw.Connection:
    """A file as it is: no log is made beside it."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
