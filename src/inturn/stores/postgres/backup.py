"""Back a queue up as a zip of COPY files from one snapshot."""

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from psycopg import sql

from inturn.errors import StoreCorruptError, StoreError, StoreVersionError
from inturn.files import fsync_paths, write_private
from inturn.stores.postgres.queries import PostgresQueries
from inturn.stores.postgres.schema import MIGRATIONS
from inturn.stores.snapshots import SnapshotFile, SnapshotInfo

TABLES: Final = (
    "policy", "customer", "customer_group", "document", "file", "lane", "lane_group", "queue_work", "limits",
    "lane_log", "idempotency_key", "event_outbox", "event", "worker", "queue_state", "scheduler_state",
    "event_sequence", "api_key", "attempt", "history", "history_cursor", "named_queue", "queue_scheduler",
    "queue_rate",
)  # fmt: skip
SKIPPED_COLUMNS: Final = {"xid", "folded", "seen"}
"""Transaction ids, which mean nothing on another server."""
IDENTITY_COLUMNS: Final = (("customer", "id"), ("lane_log", "number"), ("event_outbox", "id"))
MANIFEST: Final = "inturn.json"
COPY_NULL: Final = b"\\N"
"""As COPY writes it."""


def write(queries: PostgresQueries, path: Path) -> None:
    """Write all tables as this transaction sees them."""
    if path.exists():
        raise StoreError(f"{path} exists already; give a new path")
    part = path.with_name(path.name + ".part")
    try:
        with write_private(part) as bare, zipfile.ZipFile(bare, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            columns = {table: _columns(queries, table) for table in TABLES}
            for table in TABLES:
                with file.open(f"{table}.copy", "w", force_zip64=True) as member:
                    _copy_out(queries, table, columns[table], member)
            (seq,) = queries.fetch_one("last_seq") or (1,)
            manifest = {"schema": len(MIGRATIONS), "columns": columns, "seq": seq}
            file.writestr(MANIFEST, json.dumps(manifest))
        fsync_paths(part)
        part.rename(path)
        fsync_paths(path.parent)
    finally:
        part.unlink(missing_ok=True)


def read(queries: PostgresQueries, path: Path) -> None:
    """Fill the tables of an empty queue."""
    with _open_backup(path) as (file, manifest):
        _fill(queries, file, manifest)


@contextmanager
def _open_backup(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any]]]:
    try:
        with zipfile.ZipFile(path) as file:
            manifest = json.loads(file.read(MANIFEST))
            if manifest["schema"] != len(MIGRATIONS):
                raise StoreVersionError(
                    f"{path} has schema {manifest['schema']} and this version of Inturn {len(MIGRATIONS)};"
                    f" restore it with the version that wrote it, then migrate",
                )
            yield file, manifest
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError) as error:
        raise StoreCorruptError(f"{path} is damaged or no backup of a queue in PostgreSQL: {error}") from error


class PostgresSnapshot(SnapshotFile):
    """A queue in a zip."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> SnapshotInfo:
        with _open_backup(self._path) as (file, manifest):
            damaged = file.testzip()
            if damaged is not None:
                raise zipfile.BadZipFile(f"{damaged} has another checksum")
            with file.open("document.copy") as rows:
                return SnapshotInfo(manifest["schema"], sum(1 for _ in rows))

    def references(self) -> Iterator[tuple[str, str | None]]:
        with _open_backup(self._path) as (file, manifest):
            for table in ("document", "file"):
                columns = manifest["columns"][table]
                blob, sha256 = columns.index("blob"), columns.index("sha256")
                with file.open(f"{table}.copy") as rows:
                    for row in rows:
                        values = row.rstrip(b"\n").split(b"\t")  # a tab in a value is written as \t
                        if values[blob] != COPY_NULL:
                            yield (
                                values[blob].decode(),
                                None if values[sha256] == COPY_NULL else values[sha256].decode(),
                            )


def _fill(queries: PostgresQueries, file: zipfile.ZipFile, manifest: dict[str, Any]) -> None:
    if queries.fetch_one("is_used") != (False,):
        raise StoreError("this schema holds a queue that was used already; give another one with ?schema=")
    queries.execute("clear")
    for table in TABLES:
        with file.open(f"{table}.copy") as member:
            _copy_in(queries, table, manifest["columns"][table], member)
    for table, column in IDENTITY_COLUMNS:
        advance_identity(queries, table, column)
    queries.execute("go_on_seq", last=manifest["seq"])
    queries.execute("rebuild_derived_tables")


def advance_identity(queries: PostgresQueries, table: str, column: str) -> None:
    """Advance a table's identity sequence past its last row."""
    queries.execute("go_on", table=table, column=column, last=_next_value(queries, table, column))


def _columns(queries: PostgresQueries, table: str) -> list[str]:
    return [name for (name,) in queries.fetch_all("columns", table=table) if name not in SKIPPED_COLUMNS]


def _copy_out(queries: PostgresQueries, table: str, columns: list[str], member: Any) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(table), names)
    with queries.connection.cursor().copy(statement) as copy:
        for piece in copy:
            member.write(piece)


def _copy_in(queries: PostgresQueries, table: str, columns: list[str], member: Any) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    with queries.connection.cursor().copy(statement) as copy:
        while piece := member.read(1 << 16):
            copy.write(piece)


def _next_value(queries: PostgresQueries, table: str, column: str) -> int:
    statement = sql.SQL("SELECT coalesce(max({}), 0) + 1 FROM {}").format(sql.Identifier(column), sql.Identifier(table))
    row = queries.connection.execute(statement).fetchone()
    return int((row or (1,))[0])
