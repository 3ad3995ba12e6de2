"""Connections to the server: one transaction a call, begun anew when another one was first; healed by the pool.

A statement that gets no answer for `PATIENCE` seconds is given up with its connection: a peer that vanished without a
word would be waited for until the end of days.
"""

import logging
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from inturn.errors import StoreError
from inturn.stores.postgres.address import Address
from inturn.stores.postgres.rows import adapt
from inturn.stores.postgres.tables import QUERIES, Connection, Row, Tables
from inturn.stores.postgres.trouble import CONTENTION, errors_of

log: Final = logging.getLogger("inturn.postgres")
PATIENCE: Final = 25.0
"""Seconds without any answer; more than the lock_timeout of `settings`."""
CHECK_AFTER: Final = 1.0
"""Seconds after which a connection that lay idle is checked before it is used."""
POOL_TIMEOUT: Final = 20.0
TRIES: Final = 30
END: Final = "end"
END_SURELY: Final = "end surely"
Answer = TypeVar("Answer")
Returned = TypeVar("Returned")
Beginning = tuple["Begin", Mapping[str, Any] | None]


class Begin(StrEnum):
    """Kinds of transactions, by the query that begins them."""

    WRITE = "begin_write"
    MOVES = "begin_moves"
    INTAKE = "begin_intake"
    CLAIM = "begin_claim"
    READ = "begin_read"
    GLANCE = "begin_glance"


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up when the other side says nothing for too long."""

    patience: float | None = PATIENCE
    used_at: float = 0.0

    def wait(self, gen: PQGen[Returned], *args: Any, **options: Any) -> Returned:
        """Psycopg's own, with patience."""
        if self.patience is not None:
            gen = _patient(gen, time.monotonic() + self.patience)
        return super().wait(gen, *args, **options)


def _patient(gen: PQGen[Returned], until: float) -> Generator[Any, Any, Returned]:
    """Hand everything through; a turn in which nothing was ready is when the clock is looked at."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                raise psycopg.OperationalError("the server said nothing for too long")
            wanted = gen.send(ready)
    except StopIteration as over:
        returned: Returned = over.value
        return returned


class Database:
    """The pool, and the transactions on it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._process = os.getpid()
        with errors_of(address.shown), self.connected() as first:
            self.pooled = is_pooled(first)
            durable = first.execute(QUERIES["synchronous"]).fetchone() or ("on",)
        if self.pooled:
            log.warning(
                "%s is behind a pooler: settings are sent with every transaction, and new documents are found by"
                " looking, not by NOTIFY",
                address.shown,
            )
        self._always_sure = durable[0] == "off"
        self._scripts = scripts(address.schema, local=self.pooled, sure=self._always_sure)
        self._pool: ConnectionPool[PatientConnection] = ConnectionPool(
            address.conninfo,
            connection_class=PatientConnection,
            kwargs={"autocommit": True, "prepare_threshold": None if self.pooled else 2},
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
        try:
            adapt(connection)
            yield connection
        finally:
            connection.close()

    def run(
        self,
        begin: Begin,
        work: Callable[[Tables], Answer],
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

    def _once(self, begin: Beginning, work: Callable[[Tables], Answer], end: str, *, patient: bool) -> Answer:
        connection, begun = self._begun(*begin)
        try:
            connection.patience = PATIENCE if patient else None
            answer = work(Tables(connection, begun))
            if begin[0] is not Begin.GLANCE or self.pooled:
                connection.execute(self._scripts[end], prepare=False)
        except BaseException:
            _roll_back(connection)
            raise
        finally:
            connection.used_at = time.monotonic()
            self._pool.putconn(connection)
        return answer

    def _begun(self, begin: Begin, given: Mapping[str, Any] | None) -> tuple[PatientConnection, list[Row | None]]:
        """A connection on which the transaction has begun. One that turns out to be dead is replaced, once or twice."""
        script = self._scripts[begin]
        for left in (2, 1, 0):
            connection = self._pool.getconn()
            try:
                connection.patience = PATIENCE
                begun = _run_script(connection, script, given)
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

    def surely(self, tables: Tables) -> None:
        """This transaction's commit returns when it is on the disk, though the server's default may be another."""
        if self._always_sure:
            tables.run("commit_surely")

    def close(self) -> None:
        """Let go of all connections."""
        self._pool.close()

    def _configure(self, connection: PatientConnection) -> None:
        adapt(connection)
        connection.prepared_max = 300
        if not self.pooled:
            connection.execute(self._scripts["settings"], prepare=False)

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

    A glance is one statement: it needs no transaction, unless settings have to be sent along.
    """
    settings = QUERIES["settings"].replace(b"{schema}", schema.encode()).replace(b"{local}", b"LOCAL" if local else b"")
    each = (settings + b";") if local else b""
    made: dict[str, bytes] = {begin: QUERIES[begin].replace(b"{settings}", each) for begin in Begin}
    for name in ("lock_customer", "intake"):
        made[Begin.INTAKE] = made[Begin.INTAKE].replace(b"{%s}" % name.encode(), QUERIES[name])
    if not local:
        made[Begin.GLANCE] = b""
    surely = (QUERIES["commit_surely"] + b";") if sure else b""
    return {"settings": settings, **made, END: b"COMMIT", END_SURELY: QUERIES["flush"].replace(b"{sure}", surely)}


def _run_script(connection: PatientConnection, script: bytes, given: Mapping[str, Any] | None) -> list[Row | None]:
    """Several statements in one round trip; the first row of each that returns rows."""
    if not script:
        return []
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(script, given, prepare=False)
    found = []
    while True:
        if cursor.description is not None:
            found.append(cursor.fetchone())
        if not cursor.nextset():
            return found


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
