"""A file as a snapshot, and as a target of a restore."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from inturn.errors import IllegalTransitionError, StoreCorruptError, StoreError
from inturn.files import fsync_paths, touch_private_file, write_private
from inturn.stores.snapshots import RestoreTarget, SnapshotFile, SnapshotInfo, SnapshotSource
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.closed_marker import clear_marker, read_marker, require_open, transaction, write_marker
from inturn.stores.sqlite.connection import connect, database_files, translate_errors
from inturn.stores.transfer import ClosedKind, ClosedMarker

KIND: Final = "sqlite"
FILLED_RUN: Final = "filled"
"""The run of a mark behind which the queue is complete, and only files may be missing."""
_BLOB_QUERY: Final = (
    "SELECT blob, sha256 FROM document WHERE blob IS NOT NULL UNION ALL SELECT blob, sha256 FROM file ORDER BY 1"
)


def write_copy(source: Path, path: Path) -> None:
    """Copy a database as of one instant into a new file, whatever its schema is."""
    if path.exists():
        raise StoreError(f"{path} exists already; give a new path")
    with closing(connect(source)) as connection:
        try:
            with translate_errors(path):
                touch_private_file(path)
                connection.execute("VACUUM INTO ?", (str(path),))
                fsync_paths(path, path.parent)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


class SqliteSource(SnapshotSource):
    """A queue in a file. It is not opened as a store, which would bring it to the newest schema.

    The snapshot is closed: opening it as a store would change it and its hash.
    """

    kind = KIND
    name = "queue.db"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def write(self, path: Path) -> None:
        with translate_errors(self._path), closing(connect(self._path)) as connection:
            schema.read_version(self._path, connection)
            require_open(connection, str(self._path))
        write_copy(self._path, path)
        with translate_errors(path), closing(connect(path)) as connection, transaction(connection):
            write_marker(connection, ClosedMarker(ClosedKind.BACKUP, str(self._path), ""), str(path))
        fsync_paths(path)


class SqliteSnapshot(SnapshotFile):
    """A snapshot file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> SnapshotInfo:
        with translate_errors(self._path), closing(_open_immutable(self._path)) as connection:
            result = connection.execute("PRAGMA integrity_check(1)").get
            if result != "ok":
                raise StoreCorruptError(f"{self._path} is damaged ({result}); use another backup")
            version = schema.read_version(self._path, connection)
            if version == 0:
                raise StoreCorruptError(f"{self._path} holds no queue; use another backup")
            return SnapshotInfo(version, connection.execute("SELECT count(*) FROM document").get)

    def references(self) -> Iterator[tuple[str, str | None]]:
        with translate_errors(self._path), closing(_open_immutable(self._path)) as connection:
            yield from connection.execute(_BLOB_QUERY)


class SqliteTarget(RestoreTarget):
    """A file that is not there yet."""

    kind = KIND

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.display_url = str(self._path)

    def is_begun(self, token: str) -> bool:
        if not self._path.exists() or self._path.stat().st_size == 0:
            self._refuse_leftovers()
            return False
        with translate_errors(self._path), closing(connect(self._path)) as connection:
            schema.read_version(self._path, connection)
            mark = read_marker(connection)
        if mark is None:
            raise IllegalTransitionError(
                f"there is a queue at {self.display_url} already; restore to a path that is not used yet"
            )
        if mark.kind is not ClosedKind.RESTORING or mark.token != token:
            raise IllegalTransitionError(
                f"{mark.describe(self.display_url)}; or restore to a path that is not used yet"
            )
        return True

    def fill(self, snapshot: Path, backup: str, token: str) -> None:
        mark = ClosedMarker(ClosedKind.RESTORING, backup, token)
        if not self.is_begun(token):
            self._reserve_path(mark)
        elif self._require_marker().run == FILLED_RUN:
            return
        part = self._path.with_name(f"{self._path.name}.restoring")
        try:
            with snapshot.open("rb") as source, write_private(part) as copy:
                shutil.copyfileobj(source, copy)
            with translate_errors(part), closing(connect(part)) as connection, transaction(connection):
                write_marker(connection, mark._replace(run=FILLED_RUN), self.display_url)
            fsync_paths(part)
            part.replace(self._path)
            fsync_paths(self._path.parent)
        finally:
            part.unlink(missing_ok=True)

    def open(self, token: str) -> None:
        with translate_errors(self._path), closing(connect(self._path)) as connection, transaction(connection):
            mark = read_marker(connection)
            if mark is None or mark.token != token:
                raise IllegalTransitionError(
                    f"another run of inturn restore has taken {self.display_url} over; leave it to that"
                )
            clear_marker(connection)

    def _reserve_path(self, marker: ClosedMarker) -> None:
        """Reserve the path with a marker, before another process creates a queue there."""
        with translate_errors(self._path), closing(connect(self._path)) as connection, transaction(connection):
            if schema.read_version(self._path, connection) or read_marker(connection) is not None:
                raise IllegalTransitionError(
                    f"somebody has made a queue at {self.display_url} meanwhile; restore to another path"
                )
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
            write_marker(connection, marker, self.display_url)

    def _require_marker(self) -> ClosedMarker:
        with translate_errors(self._path), closing(connect(self._path)) as connection:
            mark = read_marker(connection)
            if mark is None:
                raise AssertionError("looked at before")
            return mark

    def _refuse_leftovers(self) -> None:
        """A log left beside the file would be read into the new one and spoil it."""
        if not self._path.parent.is_dir():
            raise StoreError(f"there is no folder {self._path.parent}; make it first")
        for beside in database_files(self._path)[1:]:
            if beside.exists() and not beside.name.endswith("-gate"):
                raise StoreError(f"{beside} was left behind by another queue; move it away first")


def _open_immutable(path: Path) -> apsw.Connection:
    """A file as it is: no log is made beside it."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
