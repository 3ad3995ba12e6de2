"""A look into a queue's file behind the store's back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from inturn.stores.sqlite import SqliteStore


@contextmanager
def direct(path: Path | str) -> Iterator[apsw.Connection]:
    """A connection of the test's own, which waits for the store's transactions to end."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(60_000)
    try:
        yield connection
    finally:
        connection.close()


def writer_of(store: SqliteStore) -> apsw.Connection:
    """The connection that a store writes with, to see what it does there."""
    connection: apsw.Connection = store.write(lambda queries: queries.connection)
    return connection


def reader_of(store: SqliteStore) -> apsw.Connection:
    """The connection that a store reads with."""
    connection: apsw.Connection = store.read(lambda reader: reader.queries.connection)
    return connection
