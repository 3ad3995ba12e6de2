"""A look into a queue's file behind the store's back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


@contextmanager
def direct(path: Path | str) -> Iterator[apsw.Connection]:
    """A connection of the test's own, which waits for the store's transactions to end."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(60_000)
    try:
        yield connection
    finally:
        connection.close()
