"""The named queries on a connection."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg

from inturn.stores.sql.loader import named_queries

_QUERY_TEXTS: Final = named_queries("inturn.stores.postgres")
QUERIES: Final[Mapping[str, bytes]] = {
    name: text.replace("{checked_counter}", _QUERY_TEXTS["checked_counter"]).encode()
    for name, text in _QUERY_TEXTS.items()
}
Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]
EVENT_COLUMNS: Final = ("kind", "customers", "documents", "operator", "why", "detail")
"""The columns of an event that has no number yet."""
_UNQUOTED_TYPES: Final = frozenset({int, float, bool})
SEPARATOR: Final = "\x1f"
"""Stands between texts that are treated or sent as one. JSON never has it as it is."""


class UuidList(list[str]):
    """Ids of documents, at least one: on connections of ours they are sent as they are kept."""


class Queries:
    """One transaction's queries by name. A list among the values is sent as an array."""

    __slots__ = ("begin_rows", "connection")

    def __init__(self, connection: Connection, begin_rows: Sequence[Any] = ()) -> None:
        self.connection = connection
        self.begin_rows = begin_rows
        """Rows of the statements that began the transaction."""

    def send(self, query: str, values: Mapping[str, Any], *, binary: bool) -> psycopg.Cursor[Row]:
        """Run a query of this name; what has no values and no binary rows may be several statements."""
        return self.connection.execute(QUERIES[query], encode_params(values), binary=binary)

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        """Every row of a query."""
        return self.send(query, values, binary=True).fetchall()

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        """The first row of a query, or None."""
        return self.send(query, values, binary=True).fetchone()

    def execute(self, query: str, /, **values: Any) -> int:
        """Run a statement; how many rows it changed."""
        return self.send(query, values, binary=False).rowcount

    def fetch_final(self, query: str, /, **values: Any) -> list[Row]:
        """Every row of a transaction's last query, which may be committed with it."""
        return self.fetch_all(query, **values)

    def execute_many(self, query: str, names: Sequence[str], rows: Sequence[Sequence[Any]], **values: Any) -> None:
        """Run a statement on several rows at once, which it takes as one array for each column."""
        if rows:
            self.execute(query, **to_columns(names, rows), **values)


def to_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """One list for each column."""
    if not rows:
        return {name: [] for name in names}
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def array_literal(values: Sequence[Any]) -> str:
    """An array as PostgreSQL reads it. Psycopg's own writer takes five times as long, and one value at a time three."""
    if _UNQUOTED_TYPES.issuperset(map(type, values)):
        return f"{{{','.join(map(str, values))}}}"
    if set(map(type, values)) == {str}:
        joined = SEPARATOR.join(values)
        if joined.count(SEPARATOR) == len(values) - 1:
            escaped = joined.replace("\\", "\\\\").replace('"', '\\"').replace(SEPARATOR, '","')
            return f'{{"{escaped}"}}'
    return f"{{{','.join([_array_element(value) for value in values])}}}"


def _array_element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def encode_params(values: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Values as they are sent; None, where there are none."""
    return {name: array_literal(value) if isinstance(value, list) else value for name, value in values.items()} or None
