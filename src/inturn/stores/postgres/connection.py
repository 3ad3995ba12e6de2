"""Connections to the server: one transaction a call, begun anew when another one was first; healed by the pool.

A statement that gets no answer for `PATIENCE` seconds is given up with its connection: a peer that vanished without a
word would be waited for until the end of days.
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
from inturn.stores.postgres.address import Address
from inturn.stores.postgres.rows import adapt
from inturn.stores.postgres.tables import QUERIES, Connection, Row, Tables
from inturn.stores.postgres.trouble import CONTENTION, errors_at_open, errors_of
from inturn.stores.postgres.wire import Asked, PatientConnection, WiredTables, asked

log: Final = logging.getLogger("inturn.postgres")
PATIENCE: Final = 25.0
"""Seconds without any answer; more than the lock_timeout of `settings`."""
CHECK_AFTER: Final = 1.0
"""Seconds after which a connection that lay idle is checked before it is used."""
POOL_TIMEOUT: Final = 20.0
TRIES: Final = 30
END: Final = "commit"
END_SURELY: Final = "flush"
Answer = TypeVar("Answer")
Beginning = tuple["Begin", Mapping[str, Any] | None]


class Begin(StrEnum):
    """Kinds of transactions, by the query that begins them."""

    WRITE = "begin_write"
    MOVES = "begin_moves"
    INTAKE = "begin_intake"
    AT_ONCE = "begin_at_once"
    CLAIM = "begin_claim"
    READ = "begin_read"
    GLANCE = "begin_glance"


class Database:
    """The pool, and the transactions on it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._process = os.getpid()
        with errors_of(address.shown), errors_at_open(address), self.connected() as first:
            self.pooled = is_pooled(first)
            durable = first.execute(QUERIES["synchronous"]).fetchone() or ("on",)
        if self.pooled:
            log.warning(
                "%s is behind a pooler: settings are sent with every transaction, and new documents are found by"
                " looking, not by NOTIFY",
                address.shown,
            )
        self._always_sure = durable[0] == "off"
        self._says_surely = self._always_sure and self.pooled
        """Whether each transaction has to be told to wait for the disk; where sessions are ours, they know."""
        self._scripts = scripts(address.schema, local=self.pooled, sure=self._says_surely)
        self._apart = {name: _statements(script) for name, script in self._scripts.items()}
        self._pool: ConnectionPool[PatientConnection] = ConnectionPool(
            address.conninfo,
            connection_class=PatientConnection,
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=1,
            max_size=address.pool,
            configure=self._configure,
            check=_check,
            timeout=POOL_TIMEOUT,
            reconnect_timeout=4.0,
            name="inturn",
            open=True,
        )

    @contextmanager
    def connected(self, **options: Any) -> Iterator[PatientConnection]:
        """A connection of its own, outside the pool."""
        connection = PatientConnection.connect(self.address.conninfo, autocommit=True, **options)
        connection.patience = PATIENCE
        try:
            adapt(connection)
            yield connection
        finally:
            connection.close()

    def run(
        self,
        begin: Begin,
        work: Callable[[WiredTables], Answer],
        *,
        patient: bool = True,
        flush: bool = False,
        given: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Do the work in one transaction; when this returns, it is committed. Tried again when others were first.

        With `flush`, a commit that does not wait for the disk is followed by one that does: the locks are free by then.
        `given` are the values of the statements that begin it.
        """
        self._same_process()
        with errors_of(self.address.shown):
            for left in range(TRIES, -1, -1):
                try:
                    return self._once((begin, given), work, END_SURELY if flush else END, patient=patient)
                except CONTENTION:
                    if left == 0:
                        raise
                    time.sleep(random.uniform(0, 0.002 * (TRIES - left + 1)))  # noqa: S311 - no secret
        raise AssertionError

    def _once(self, begin: Beginning, work: Callable[[WiredTables], Answer], end: str, *, patient: bool) -> Answer:
        connection, begun = self._begun(*begin)
        ends = self._apart[end] if self._scripts[begin[0]] else ()
        tables = WiredTables(connection, begun, ends)
        try:
            connection.patience = PATIENCE if patient else None
            answer = work(tables)
            if tables.ends:
                connection.execute(self._scripts[end], prepare=False)
        except BaseException:
            _roll_back(connection)
            raise
        finally:
            connection.used_at = time.monotonic()
            self._pool.putconn(connection)
        return answer

    def _begun(self, begin: Begin, given: Mapping[str, Any] | None) -> tuple[PatientConnection, Sequence[Any]]:
        """A connection on which the transaction has begun. One that turns out to be dead is replaced, once or twice."""
        for left in (2, 1, 0):
            connection = self._pool.getconn()
            try:
                connection.patience = PATIENCE
                begun = self._begin(connection, begin, given)
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

    def _begin(self, connection: PatientConnection, begin: Begin, given: Mapping[str, Any] | None) -> Sequence[Any]:
        """What the first words to the server found. A claim's are many: they go in one trip."""
        script = self._scripts[begin]
        if begin is Begin.CLAIM and not self.pooled:
            first: list[Asked] = [(each, [], []) for each in self._apart[begin]]
            queue, folded = connection.ask_all([*first, asked("queue", {}), asked("fold", {})])[-2:]
            return queue[0], folded[0]
        return _run_script(connection, script, given) if script else _look_at(connection)

    def surely(self, tables: Tables) -> None:
        """This transaction's commit returns when it is on the disk, though the server's default may be another."""
        if self._says_surely:
            tables.run("commit_surely")

    def close(self) -> None:
        """Let go of all connections."""
        self._pool.close()

    def _configure(self, connection: PatientConnection) -> None:
        adapt(connection)
        connection.keeps_statements = not self.pooled
        if not self.pooled:
            connection.execute(self._scripts["settings"], prepare=False)
            if self._always_sure:
                connection.execute(b"SET synchronous_commit = on")

    def _same_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.address.shown} was opened before this process was forked; open it again in the child,"
                f" or start children with spawn",
            )


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler stands in between: it answers with a number of its own for the server's process."""
    found = connection.execute(QUERIES["backend"]).fetchone()
    return found is not None and found[0] != connection.info.backend_pid


def scripts(schema: str, *, local: bool, sure: bool) -> dict[str, bytes]:
    """The statements that begin and end transactions. The schema's name is made of letters that need no quoting.

    What is one statement needs no transaction, unless settings have to be sent along.
    """
    settings = QUERIES["settings"].replace(b"{schema}", schema.encode()).replace(b"{local}", b"LOCAL" if local else b"")
    each = (settings + b";") if local else b""
    surely = (QUERIES["commit_surely"] + b";") if sure else b""
    made: dict[str, bytes] = {begin: QUERIES[begin].replace(b"{settings}", each) for begin in Begin}
    for name in ("lock_customer", "intake"):
        made[Begin.INTAKE] = made[Begin.INTAKE].replace(b"{%s}" % name.encode(), QUERIES[name])
    if not local:
        made[Begin.GLANCE] = made[Begin.AT_ONCE] = b""
    flush = QUERIES[END_SURELY].replace(b"{sure}", surely)
    return {"settings": settings, **made, END: QUERIES[END], END_SURELY: flush}


def _statements(script: bytes) -> tuple[bytes, ...]:
    """One by one; no text in them has a semicolon."""
    return tuple(each.strip() for each in script.split(b";") if each.strip())


def _run_script(connection: PatientConnection, script: bytes, given: Mapping[str, Any] | None) -> list[Row | None]:
    """Several statements in one round trip; the first row of each that returns rows."""
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(script, given, prepare=False)
    found = []
    while True:
        if cursor.description is not None:
            found.append(cursor.fetchone())
        if not cursor.nextset():
            return found


def _look_at(connection: PatientConnection) -> list[Row | None]:
    """Where nothing begins before the work: a farewell that has come already is better heard now."""
    if connection.is_spoken_to():
        connection.execute(b"")
    return []


def _check(connection: PatientConnection) -> None:
    if time.monotonic() - connection.used_at > CHECK_AFTER:
        connection.patience = PATIENCE
        connection.execute(b"")


def _roll_back(connection: PatientConnection) -> None:
    """Back to where nothing has begun, or closed: the pool then makes another."""
    if connection.closed:
        return
    status = connection.info.transaction_status
    if status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
        with suppress(psycopg.Error):
            connection.execute(b"ROLLBACK")
            return
    if status is not TransactionStatus.IDLE:
        connection.close()
