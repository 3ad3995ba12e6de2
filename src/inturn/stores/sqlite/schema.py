"""Migrate a file to the newest schema under the write lock; refuse one that is newer than this code."""

import json
from pathlib import Path
from typing import Final

import apsw

from inturn.errors import StoreCorruptError, StoreVersionError
from inturn.policy import Policy
from inturn.store_types import SYSTEM_OPERATOR
from inturn.stores.sql.loader import migrations
from inturn.stores.sql.scheduler_state import INITIAL_STATE
from inturn.stores.sqlite.connection import enable_wal, translate_errors

APPLICATION_ID: Final = 0x1A7D0C5
"""Marks the file as ours (PRAGMA application_id)."""
MIGRATIONS: Final = migrations("inturn.stores.sqlite")


def migrate(path: Path, connection: apsw.Connection, now: int) -> list[str]:
    """Apply the missing migrations under the write lock; return their names."""
    with translate_errors(path):
        known = read_version(path, connection)
        enable_wal(connection)
        if known == len(MIGRATIONS):
            return []
        connection.execute("BEGIN IMMEDIATE")
        try:
            applied = _apply(path, connection, now)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return applied


def sql() -> str:
    """Return all migrations as one script, for those who review schema changes themselves."""
    return "\n".join(f"-- {migration.name}\n{migration.sql}" for migration in MIGRATIONS)


def _apply(path: Path, connection: apsw.Connection, now: int) -> list[str]:
    version = read_version(path, connection)
    for migration in MIGRATIONS[version:]:
        connection.execute(migration.sql)
    if version == 0:
        _insert_initial_rows(connection, now)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    return [migration.name for migration in MIGRATIONS[version:]]


def read_version(path: Path, connection: apsw.Connection) -> int:
    """Return the number of migrations applied; refuse a newer file, or one of another program."""
    # This is read first: another process may create the schema meanwhile, and commits tables and marks together.
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
    version = int(connection.pragma("user_version"))
    application = int(connection.pragma("application_id"))
    if version > len(MIGRATIONS) and application == APPLICATION_ID:
        raise StoreVersionError(
            f"{path} was made by a newer version of Inturn (schema {version}; this one knows {len(MIGRATIONS)});"
            f" use that version, or restore a backup made before the upgrade",
        )
    if application != APPLICATION_ID and not empty:
        raise StoreCorruptError(f"{path} is an SQLite database, but none of Inturn's; give another path")
    return version if application == APPLICATION_ID else 0


def _insert_initial_rows(connection: apsw.Connection, now: int) -> None:
    connection.execute(
        "INSERT INTO policy (number, settings, at, operator, why) VALUES (1, ?, ?, ?, ?)",
        (json.dumps(Policy().to_dict()), now, *SYSTEM_OPERATOR),
    )
    connection.execute(
        "INSERT INTO queue_state (one, seq, fence, event, policy, ordered, scheduler_state)"
        " VALUES (1, 0, 0, 0, 1, 'fair', ?)",
        (INITIAL_STATE,),
    )
