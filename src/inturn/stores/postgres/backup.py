"""A queue in one file: a zip of its tables as COPY writes them, all of one instant."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any, Final

from psycopg import sql

from inturn.errors import StoreCorruptError, StoreError
from inturn.stores.postgres.schema import MIGRATIONS
from inturn.stores.postgres.tables import Tables

TABLES: Final = (
    "policy", "customer", "document", "file", "line", "limits", "line_change", "key", "news", "event", "worker",
    "queue", "turns", "numbering", "access_key", "attempt",
)  # fmt: skip
LEFT_OUT: Final = {"xid", "folded", "seen"}
"""Numbers of this server's transactions: they mean nothing elsewhere."""
IDENTITIES: Final = (("customer", "id"), ("line_change", "number"), ("news", "id"))
MANIFEST: Final = "inturn.json"


def write(tables: Tables, path: Path) -> None:
    """Write all tables as this transaction sees them."""
    if path.exists():
        raise StoreError(f"{path} exists already; give a new path")
    part = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            columns = {table: _columns(tables, table) for table in TABLES}
            for table in TABLES:
                with file.open(f"{table}.copy", "w", force_zip64=True) as member:
                    _copy_out(tables, table, columns[table], member)
            (seq,) = tables.one("last_seq") or (1,)
            manifest = {"schema": len(MIGRATIONS), "columns": columns, "seq": seq}
            file.writestr(MANIFEST, json.dumps(manifest))
        _sync(part)
        part.rename(path)
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def read(tables: Tables, path: Path) -> None:
    """Fill the tables of an empty queue."""
    try:
        with zipfile.ZipFile(path) as file:
            manifest = json.loads(file.read(MANIFEST))
            if manifest["schema"] != len(MIGRATIONS):
                raise StoreError(
                    f"{path} has schema {manifest['schema']} and this version of Inturn {len(MIGRATIONS)};"
                    f" restore it with the version that wrote it, then migrate",
                )
            _fill(tables, file, manifest)
    except (zipfile.BadZipFile, KeyError, ValueError) as wrong:
        raise StoreCorruptError(f"{path} is damaged or no backup of a queue in PostgreSQL: {wrong}") from wrong


def _fill(tables: Tables, file: zipfile.ZipFile, manifest: dict[str, Any]) -> None:
    if tables.one("is_used") != (False,):
        raise StoreError("this schema holds a queue that was used already; give another one with ?schema=")
    tables.run("clear")
    for table in TABLES:
        with file.open(f"{table}.copy") as member:
            _copy_in(tables, table, manifest["columns"][table], member)
    for table, column in IDENTITIES:
        go_on_behind(tables, table, column)
    tables.run("go_on_seq", last=manifest["seq"])
    tables.run("file_documents")


def go_on_behind(tables: Tables, table: str, column: str) -> None:
    """Let the numbers that a table gives itself go on behind the last one in it."""
    tables.run("go_on", table=table, column=column, last=_last(tables, table, column))


def _columns(tables: Tables, table: str) -> list[str]:
    return [name for (name,) in tables.all("columns", table=table) if name not in LEFT_OUT]


def _copy_out(tables: Tables, table: str, columns: list[str], member: Any) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(table), names)
    with tables.connection.cursor().copy(statement) as copy:
        for piece in copy:
            member.write(piece)


def _copy_in(tables: Tables, table: str, columns: list[str], member: Any) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    with tables.connection.cursor().copy(statement) as copy:
        while piece := member.read(1 << 16):
            copy.write(piece)


def _last(tables: Tables, table: str, column: str) -> int:
    statement = sql.SQL("SELECT coalesce(max({}), 0) + 1 FROM {}").format(sql.Identifier(column), sql.Identifier(table))
    found = tables.connection.execute(statement).fetchone()
    return int((found or (1,))[0])


def _sync(path: Path) -> None:
    """A copy counts once it is on the disk, its name too."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
