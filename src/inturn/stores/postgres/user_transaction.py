"""Submit inside a transaction of the user's own."""

from collections.abc import Mapping
from typing import Any

from psycopg import Connection as UsersConnection
from psycopg import Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from inturn.errors import InvalidInputError
from inturn.model import Receipt
from inturn.store_types import Submission
from inturn.stores.postgres.queries import QUERIES, PostgresQueries, adapt, encode_params
from inturn.stores.postgres.submit import PostgresSubmitter
from inturn.stores.sql.queries import QueueCache
from inturn.stores.sql.rows import Row


class UserTransactionQueries(PostgresQueries):
    """Named queries on a cursor of the user's connection, whose adapters and row factory stay as they are."""

    __slots__ = ("_cursor",)

    def __init__(self, connection: UsersConnection[Any]) -> None:
        super().__init__(connection)
        self._cursor = connection.cursor(binary=True, row_factory=tuple_row)
        adapt(self._cursor)

    def send(self, query: str, values: Mapping[str, Any], *, binary: bool) -> Cursor[Row]:
        return self._cursor.execute(QUERIES[query], encode_params(values), binary=binary)


def submit_in(
    schema: str, cache: QueueCache, connection: UsersConnection[Any], submission: Submission, now: int | None
) -> tuple[Receipt, ...]:
    """Take in documents on this connection; a call that is refused leaves its transaction as it was."""
    if not isinstance(connection, UsersConnection):
        raise InvalidInputError(f"a connection of psycopg 3 is needed, not {type(connection).__name__}")
    if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
        raise InvalidInputError(
            "this connection is in autocommit and no transaction has begun: write `with connection.transaction():`",
        )
    queries = UserTransactionQueries(connection)
    # The first statement begins the user's transaction where none has begun, so that the block below is a savepoint in
    # it: as the outermost block it would commit.
    (path,) = queries.fetch_one("search_path") or ("",)
    with connection.transaction():
        queries.execute("set_search_path", path=f"{schema}, pg_temp")
        receipts = PostgresSubmitter(queries, cache, now).submit(submission)
        queries.execute("set_search_path", path=path)
    return receipts
