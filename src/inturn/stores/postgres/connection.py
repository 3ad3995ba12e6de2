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
from enum import StrEnum
from typing import Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from inturn.errors import StoreError
from inturn.stores.postgres.errors import CONTENTION, translate_connect_errors, translate_errors
from inturn.stores.postgres.libpq import BoundStatement, LibpqQueries, TimeoutConnection, bind
from inturn.stores.postgres.queries import QUERIES, Connection, Queries, Row
from inturn.stores.postgres.rows import adapt
from inturn.stores.postgres.url import PostgresUrl

log: Final = logging.getLogger("inturn.postgres")
RESPONSE_TIMEOUT_SECONDS: Final = 25.0
"""Seconds without any answer; more than the lock_timeout of `settings`."""
IDLE_CHECK_SECONDS: Final = 1.0
"""Seconds after which a connection that lay idle is checked before it is used."""
POOL_TIMEOUT_SECONDS: Final = 20.0
MAX_RETRIES: Final = 30
COMMIT: Final = "commit"
COMMIT_AND_FLUSH: Final = "flush"
Answer = TypeVar("Answer")
TransactionStart = tuple["TransactionKind", Mapping[str, Any] | None]


class TransactionKind(StrEnum):
    """Kinds of transactions, by the query that begins them."""

    WRITE = "begin_write"
    TRANSITIONS = "begin_transitions"
    SUBMIT = "begin_submit"
    SINGLE_WRITE = "begin_single_write"
    CLAIM = "begin_claim"
    READ = "begin_read"
    SINGLE_READ = "begin_single_read"


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
        self._scripts = transaction_scripts(
            address.schema, set_local=self.is_behind_pooler, synchronous=self._sets_synchronous
        )
        self._statements_by_script = {name: _split_statements(script) for name, script in self._scripts.items()}
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
        with_timeout: bool = True,
        flush: bool = False,
        params: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Run the work in one transaction and commit it; retry on contention.

        With `flush`, a commit that does not wait for the disk is followed by one that does: the locks are free by then.
        `given` are the values of the statements that begin it.
        """
        self._require_same_process()
        with translate_errors(self.address.display_url):
            for left in range(MAX_RETRIES, -1, -1):
                try:
                    return self._run_once(
                        (kind, params), work, COMMIT_AND_FLUSH if flush else COMMIT, with_timeout=with_timeout
                    )
                except CONTENTION:
                    if left == 0:
                        raise
                    time.sleep(random.uniform(0, 0.002 * (MAX_RETRIES - left + 1)))  # noqa: S311 - no secret
        raise AssertionError

    def _run_once(
        self, start: TransactionStart, work: Callable[[LibpqQueries], Answer], end: str, *, with_timeout: bool
    ) -> Answer:
        connection, begun = self._begin_transaction(*start)
        ends = self._statements_by_script[end] if self._scripts[start[0]] else ()
        queries = LibpqQueries(connection, begun, ends)
        try:
            connection.response_timeout = RESPONSE_TIMEOUT_SECONDS if with_timeout else None
            answer = work(queries)
            if queries.commit_statements:
                connection.execute(self._scripts[end], prepare=False)
        except BaseException:
            _roll_back(connection)
            raise
        finally:
            connection.last_used_at = time.monotonic()
            self._pool.putconn(connection)
        return answer

    def _begin_transaction(
        self, kind: TransactionKind, params: Mapping[str, Any] | None
    ) -> tuple[TimeoutConnection, Sequence[Any]]:
        """Return a connection on which the transaction has begun; a dead one is replaced up to twice."""
        for left in (2, 1, 0):
            connection = self._pool.getconn()
            try:
                connection.response_timeout = RESPONSE_TIMEOUT_SECONDS
                begun = self._send_begin(connection, kind, params)
            except psycopg.OperationalError:
                is_dead = connection.closed
                _roll_back(connection)
                self._pool.putconn(connection)
                if not is_dead or left == 0:
                    raise
            except BaseException:
                _roll_back(connection)
                self._pool.putconn(connection)
                raise
            else:
                return connection, begun
        raise AssertionError

    def _send_begin(
        self, connection: TimeoutConnection, kind: TransactionKind, params: Mapping[str, Any] | None
    ) -> Sequence[Any]:
        """Send the statements that begin the transaction in one trip; return their rows."""
        script = self._scripts[kind]
        if kind is TransactionKind.CLAIM and not self.is_behind_pooler:
            first: list[BoundStatement] = [(content, [], []) for content in self._statements_by_script[kind]]
            queue, folded = connection.query_pipeline([*first, bind("queue", {}), bind("take_lane_log", {})])[-2:]
            return queue[0], folded[0]
        return _run_script(connection, script, params) if script else _check_for_disconnect(connection)

    def require_durable_commit(self, queries: Queries) -> None:
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


def transaction_scripts(schema: str, *, set_local: bool, synchronous: bool) -> dict[str, bytes]:
    """The statements that begin and end transactions. The schema's name is made of letters that need no quoting.

    What is one statement needs no transaction, unless settings have to be sent along.
    """
    settings = (
        QUERIES["settings"].replace(b"{schema}", schema.encode()).replace(b"{local}", b"LOCAL" if set_local else b"")
    )
    content = (settings + b";") if set_local else b""
    surely = (QUERIES["commit_durably"] + b";") if synchronous else b""
    made: dict[str, bytes] = {begin: QUERIES[begin].replace(b"{settings}", content) for begin in TransactionKind}
    for name in ("lock_customer", "policy_and_time"):
        made[TransactionKind.SUBMIT] = made[TransactionKind.SUBMIT].replace(b"{%s}" % name.encode(), QUERIES[name])
    if not set_local:
        made[TransactionKind.SINGLE_READ] = made[TransactionKind.SINGLE_WRITE] = b""
    flush = QUERIES[COMMIT_AND_FLUSH].replace(b"{sure}", surely)
    return {"settings": settings, **made, COMMIT: QUERIES[COMMIT], COMMIT_AND_FLUSH: flush}


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
    status = connection.info.transaction_status
    if status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
        with suppress(psycopg.Error):
            connection.execute(b"ROLLBACK")
            return
    if status is not TransactionStatus.IDLE:
        connection.close()
