"""The named queries on a connection."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import psycopg

from inturn.stores._sql import named_queries

QUERIES: Final[Mapping[str, bytes]] = {
    name: text.encode() for name, text in named_queries("inturn.stores.postgres").items()
}
Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]


class Tables:
    """One transaction's queries by name."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def all(self, query: str, /, **values: Any) -> list[Row]:
        """Every row of a query."""
        return self.connection.execute(QUERIES[query], values, binary=True).fetchall()

    def one(self, query: str, /, **values: Any) -> Row | None:
        """The first row of a query, or None."""
        return self.connection.execute(QUERIES[query], values, binary=True).fetchone()

    def run(self, query: str, /, **values: Any) -> int:
        """Run a statement; how many rows it changed."""
        return self.connection.execute(QUERIES[query], values or None).rowcount

    def many(self, query: str, names: Sequence[str], rows: Iterable[Sequence[Any]], **values: Any) -> None:
        """Run a statement on several rows at once, which it takes as one array for each column."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        if columns:
            self.run(query, **dict(zip(names, columns, strict=True)), **values)
