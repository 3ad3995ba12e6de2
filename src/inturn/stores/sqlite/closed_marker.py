"""Close a file during a transfer: a table with the reason, and triggers that refuse every write.

Both are made when they are needed and dropped afterwards. Triggers reach processes that have the file open already.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from inturn.errors import IllegalTransitionError, StoreMovedError
from inturn.stores.transfer import ClosedKind, ClosedMarker

WRITABLE_TABLES: Final = {"closed", "worker"}
"""Workers may still sign off."""
_VERBS: Final = ("INSERT", "UPDATE", "DELETE")
_CREATE_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS closed (one INTEGER PRIMARY KEY CHECK (one = 1), kind TEXT NOT NULL,"
    " peer TEXT NOT NULL, token TEXT NOT NULL, run TEXT NOT NULL, why TEXT NOT NULL, lifted INTEGER NOT NULL) STRICT"
)
_CREATE_TRIGGER: Final = (
    "CREATE TRIGGER IF NOT EXISTS closed_{table}_{verb} BEFORE {verb} ON {table} WHEN (SELECT lifted FROM closed) = 0"
    " BEGIN SELECT RAISE(ABORT, (SELECT why FROM closed)); END"
)


def require_open(connection: apsw.Connection, display_url: str) -> None:
    """Refuse to open a closed queue."""
    mark = read_marker(connection)
    if mark is not None:
        connection.close()
        raise StoreMovedError(mark.describe(display_url))


def table_names(connection: apsw.Connection) -> set[str]:
    """Return every table of the file."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def read_marker(connection: apsw.Connection) -> ClosedMarker | None:
    """Return why the queue is closed."""
    if connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'closed'").get == 0:
        return None
    row = connection.execute("SELECT kind, peer, token, run FROM closed").fetchone()
    return None if row is None else ClosedMarker(ClosedKind(row[0]), *row[1:])


def write_marker(connection: apsw.Connection, marker: ClosedMarker, display_url: str) -> None:
    """Close, inside a transaction."""
    connection.execute(_CREATE_TABLE)
    connection.execute(
        "INSERT INTO closed VALUES (1, ?, ?, ?, ?, ?, 0) ON CONFLICT (one) DO UPDATE SET"
        " kind = excluded.kind, peer = excluded.peer, token = excluded.token, run = excluded.run, why = excluded.why",
        (marker.kind, marker.peer, marker.token, marker.run, marker.describe(display_url)),
    )
    for table in table_names(connection) - WRITABLE_TABLES:
        for verb in _VERBS:
            connection.execute(_CREATE_TRIGGER.format(table=table, verb=verb))


def clear_marker(connection: apsw.Connection) -> None:
    """Open the queue again inside a transaction, leaving no trace in the file."""
    for table in table_names(connection) - WRITABLE_TABLES:
        for verb in _VERBS:
            connection.execute(f"DROP TRIGGER IF EXISTS closed_{table}_{verb}")
    connection.execute("DROP TABLE closed")


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Run a transaction under the write lock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def fill_transaction(connection: apsw.Connection, run: str, path: Path) -> Iterator[None]:
    """Run a transaction that may write to the closed queue which this run fills; other processes never see it open."""
    with transaction(connection):
        mark = read_marker(connection)
        if mark is None or mark.run != run:
            raise IllegalTransitionError(f"another run of inturn move has taken {path} over; leave it to that one")
        connection.execute("UPDATE closed SET lifted = 1")
        yield
        if read_marker(connection) is not None:
            connection.execute("UPDATE closed SET lifted = 0")
