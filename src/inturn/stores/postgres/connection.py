"""Connections to the server: one transaction per call, retried on contention; the pool replaces broken connections.

A statement without an answer for `RESPONSE_TIMEOUT_SECONDS` is given up with its connection: TCP alone would wait
for a vanished peer without end.
"""

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from inturn.errors import StoreError
from inturn.stores.postgres.claim_queries import PostgresClaimQueries, start_statements
from inturn.stores.postgres.errors import CONTENTION, translate_connect_errors, translate_errors
from inturn.stores.postgres.libpq import BoundStatement, LibpqQueries, StatementResult, TimeoutConnection, bind
from inturn.stores.postgres.queries import QUERIES, Connection, PostgresQueries, adapt
from inturn.stores.postgres.url import PostgresUrl
from inturn.stores.sql.rows import Row

log: Final = logging.getLogger("inturn.postgres")
RESPONSE_TIMEOUT_SECONDS: Final = 25.0
"""Seconds without any answer; more than the lock_timeout of `settings`."""
IDLE_CHECK_SECONDS: Final = 1.0
"""Seconds after which a connection that lay idle is checked before it is used."""
POOL_TIMEOUT_SECONDS: Final = 20.0
MAX_RETRIES: Final = 30
MAX_DEAD_CONNECTIONS: Final = 2
"""Connections that break before the transaction has begun, and are replaced."""
COMMIT: Final = b"COMMIT"
Answer = TypeVar("Answer")


class TransactionKind(StrEnum):
    """Kinds of transactions, by the query that begins them."""

    WRITE = "begin_write"
    TRANSITIONS = "begin_transitions"
    SUBMIT = "begin_submit"
    SINGLE_WRITE = "begin_single_write"
    CLAIM = "begin_claim"
    READ = "begin_read"
    SINGLE_READ = "begin_single_read"


@dataclass
class SingleWrite:
    """One statement that is a transaction of its own, and its rows once it has been committed."""

    kind: TransactionKind
    statement: BoundStatement
    rows: list[Row] | None = None

    def set_result(self, results: Sequence[StatementResult]) -> None:
        """Take over the results of the statements that began the transaction, of its own, and of the commit."""
        self.rows, _ = results[-2]


class Database:
    """The pool, and the transactions on it."""

    def __init__(self, address: PostgresUrl) -> None:
        self.address = address
        self._pid = os.getpid()
        with (
            translate_errors(address.display_url),
            translate_connect_errors(address),
            self.dedicated_connection() as first,
        ):
            self.is_behind_pooler = detect_pooler(first)
            durable = first.execute(QUERIES["synchronous"]).fetchone() or ("on",)
        if self.is_behind_pooler:
            log.warning(
                "%s is behind a pooler: settings are sent with every transaction, and new documents are found by"
                " looking, not by NOTIFY",
                address.display_url,
            )
        self._forces_synchronous = durable[0] == "off"
        self._sets_synchronous = self._forces_synchronous and self.is_behind_pooler
        """Whether each transaction sets synchronous_commit itself; sessions of our own have it set."""
        self._scripts = transaction_scripts(address.schema, set_local=self.is_behind_pooler)
        self._statements_by_kind: Mapping[str, list[BoundStatement]] = {
            kind: [(statement, [], []) for statement in _split_statements(script)]
            for kind, script in self._scripts.items()
        }
        self._pool: ConnectionPool[TimeoutConnection] = ConnectionPool(
            address.conninfo,
            connection_class=TimeoutConnection,
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=1,
            max_size=address.pool_size,
            configure=self._configure,
            check=_check_idle,
            timeout=POOL_TIMEOUT_SECONDS,
            reconnect_timeout=4.0,
            name="inturn",
            open=True,
        )

    @contextmanager
    def dedicated_connection(self, **options: Any) -> Iterator[TimeoutConnection]:
        """A connection of its own, outside the pool."""
        connection = TimeoutConnection.connect(self.address.conninfo, autocommit=True, **options)
        connection.response_timeout = RESPONSE_TIMEOUT_SECONDS
        try:
            adapt(connection)
            yield connection
        finally:
            connection.close()

    def run(
        self,
        kind: TransactionKind,
        work: Callable[[LibpqQueries], Answer],
        *,
        has_timeout: bool = True,
        params: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Run the work in one transaction and commit it; retry on contention.

        `params` are the values of the statements that begin it.
        """

        def transact(connection: TimeoutConnection) -> Answer:
            begun = self._send_begin(connection, kind, params)
            ends = (COMMIT,) if self._scripts[kind] else ()
            return self._work(LibpqQueries(connection, begun, ends), work, has_timeout=has_timeout)

        return self._retry(transact)

    def run_in_one_trip(self, single: "SingleWrite") -> None:
        """Run one statement in a transaction of its own; all of it is sent at once."""

        def transact(connection: TimeoutConnection) -> None:
            (results,) = connection.query_pipeline(self._statements_of(single))
            single.set_result(results)

        self._retry(transact)

    def _statements_of(self, single: "SingleWrite") -> list[BoundStatement]:
        return [*self._statements_by_kind[single.kind], single.statement, (COMMIT, [], [])]

    def run_claim(
        self,
        work: Callable[[PostgresClaimQueries], Answer],
        *,
        limit: int = 0,
        queues: Sequence[str] = (),
        before: "SingleWrite | None" = None,
        has_timeout: bool = True,
    ) -> Answer:
        """Run the work in a transaction that holds the claim lock; it may claim `limit` documents of these queues.

        `before` is committed first, in the same trip.
        """

        def claim(connection: TimeoutConnection) -> Answer:
            statements = start_statements(limit, queues) if limit else ()
            return self._claim(connection, work, (COMMIT,), statements, before, has_timeout=has_timeout)

        return self._retry(claim)

    def run_in_turn(
        self,
        asked: Mapping[str, Any],
        serve: Callable[[PostgresClaimQueries], Answer],
        is_served: Callable[[Sequence[Row]], Answer],
        before: "SingleWrite | None" = None,
    ) -> Answer:
        """Wait for the turn to claim. With it, run `serve` in a transaction that holds the claim lock; or another
        session has claimed for this one meanwhile: then `is_served` gets the rows of the documents.

        `before` is committed first, in the same trip.
        """

        def take_turn(connection: TimeoutConnection) -> Answer:
            turn = [[bind("take_claim_turn", asked)], [bind("served_documents", asked)]]
            ((((has_turn,),), _),), ((rows, _),) = self._query_behind(before, connection, *turn)
            if not has_turn:
                return is_served(rows)
            statements = start_statements(asked["limit"], asked["queues"])
            return self._claim(connection, serve, (COMMIT, QUERIES["end_claim_turn"]), statements)

        return self._retry(take_turn)

    def _query_behind(
        self, before: "SingleWrite | None", connection: TimeoutConnection, *parts: Sequence[BoundStatement]
    ) -> list[list[StatementResult]]:
        """Run parts of a pipeline, behind a write that is committed first, unless that was done before."""
        if before is None or before.rows is not None:
            return connection.query_pipeline(*parts)
        first, *results = connection.query_pipeline(self._statements_of(before), *parts)
        before.set_result(first)
        return results

    def _claim(
        self,
        connection: TimeoutConnection,
        work: Callable[[PostgresClaimQueries], Answer],
        ends: Sequence[bytes],
        statements: Sequence[BoundStatement],
        before: "SingleWrite | None" = None,
        *,
        has_timeout: bool = True,
    ) -> Answer:
        """Run the work under the claim lock. What it reads first, `statements`, goes in the trip that begins it."""
        queries = PostgresClaimQueries(connection, (), ends)
        if self.is_behind_pooler or not statements:
            _run_script(connection, self._scripts[TransactionKind.CLAIM], None)
        else:
            begin = self._statements_by_kind[TransactionKind.CLAIM]
            (results,) = self._query_behind(before, connection, [*begin, *statements])
            queries.begun_with(results[len(begin) :])
        connection.has_begun = True
        return self._work(queries, work, has_timeout=has_timeout)

    def _work(self, queries: Any, work: Callable[[Any], Answer], *, has_timeout: bool) -> Answer:
        """Do the work of a transaction that has begun, and commit it, unless its last query has done so."""
        connection = queries.connection
        connection.response_timeout = RESPONSE_TIMEOUT_SECONDS if has_timeout else None
        answer = work(queries)
        if queries.commit_statements:
            queries.query_final(())
        return answer

    def _retry(self, transact: Callable[[TimeoutConnection], Answer]) -> Answer:
        """Run a transaction on a connection of the pool; on contention, and on a connection that was dead, again."""
        self._require_same_process()
        with translate_errors(self.address.display_url):
            for left in range(MAX_RETRIES, -1, -1):
                connection = self._pool.getconn()
                try:
                    connection.has_begun, connection.response_timeout = False, RESPONSE_TIMEOUT_SECONDS
                    return transact(connection)
                except CONTENTION:
                    _roll_back(connection)
                    if left == 0:
                        raise
                    time.sleep(random.uniform(0, 0.002 * (MAX_RETRIES - left + 1)))  # noqa: S311 - no secret
                except psycopg.OperationalError:
                    was_dead = connection.closed and not connection.has_begun
                    _roll_back(connection)
                    if not was_dead or left <= MAX_RETRIES - MAX_DEAD_CONNECTIONS:
                        raise
                except BaseException:
                    _roll_back(connection)
                    raise
                finally:
                    connection.last_used_at = time.monotonic()
                    self._pool.putconn(connection)
        raise AssertionError

    def _send_begin(
        self, connection: TimeoutConnection, kind: TransactionKind, params: Mapping[str, Any] | None
    ) -> Sequence[Any]:
        """Send the statements that begin the transaction in one trip; return their rows."""
        script = self._scripts[kind]
        begun = _run_script(connection, script, params) if script else _check_for_disconnect(connection)
        connection.has_begun = True
        return begun

    def require_durable_commit(self, queries: PostgresQueries) -> None:
        """Make this transaction's commit wait for the disk, whatever the server's default."""
        if self._sets_synchronous:
            queries.execute("commit_durably")

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _configure(self, connection: TimeoutConnection) -> None:
        adapt(connection)
        connection.can_prepare = not self.is_behind_pooler
        if not self.is_behind_pooler:
            connection.execute(self._scripts["settings"], prepare=False)
            if self._forces_synchronous:
                connection.execute(b"SET synchronous_commit = on")

    def _require_same_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.address.display_url} was opened before this process was forked; open it again in the child,"
                f" or start children with spawn",
            )


def detect_pooler(connection: Connection) -> bool:
    """Detect a pooler: its backend process id differs from the server's."""
    row = connection.execute(QUERIES["backend"]).fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def transaction_scripts(schema: str, *, set_local: bool) -> dict[str, bytes]:
    """The statements that begin transactions. The schema's name is made of letters that need no quoting.

    What is one statement needs no transaction, unless settings have to be sent along.
    """
    settings = (
        QUERIES["settings"].replace(b"{schema}", schema.encode()).replace(b"{local}", b"LOCAL" if set_local else b"")
    )
    content = (settings + b";") if set_local else b""
    made: dict[str, bytes] = {begin: QUERIES[begin].replace(b"{settings}", content) for begin in TransactionKind}
    for name in ("lock_customer", "policy_and_time"):
        made[TransactionKind.SUBMIT] = made[TransactionKind.SUBMIT].replace(b"{%s}" % name.encode(), QUERIES[name])
    if not set_local:
        made[TransactionKind.SINGLE_READ] = made[TransactionKind.SINGLE_WRITE] = b""
    return {"settings": settings, **made}


def _split_statements(script: bytes) -> tuple[bytes, ...]:
    """One by one; no text in them has a semicolon."""
    return tuple(part.strip() for part in script.split(b";") if part.strip())


def _run_script(connection: TimeoutConnection, script: bytes, params: Mapping[str, Any] | None) -> list[Row | None]:
    """Run several statements in one round trip; return the first row of each that has rows."""
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(script, params, prepare=False)
    result = []
    while True:
        if cursor.description is not None:
            result.append(cursor.fetchone())
        if not cursor.nextset():
            return result


def _check_for_disconnect(connection: TimeoutConnection) -> list[Row | None]:
    """Raise now if the server has already sent a disconnect."""
    if connection.has_unread_data():
        connection.execute(b"")
    return []


def _check_idle(connection: TimeoutConnection) -> None:
    if time.monotonic() - connection.last_used_at > IDLE_CHECK_SECONDS:
        connection.response_timeout = RESPONSE_TIMEOUT_SECONDS
        connection.execute(b"")


def _roll_back(connection: TimeoutConnection) -> None:
    """Roll back, or close the connection so that the pool replaces it."""
    if connection.closed:
        return
    with suppress(psycopg.Error):
        if connection.info.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
            connection.execute(b"ROLLBACK")
        if connection.info.transaction_status is TransactionStatus.IDLE:
            connection.execute(QUERIES["end_all_turns"])
            return
    connection.close()
