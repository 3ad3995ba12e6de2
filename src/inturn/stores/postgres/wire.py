"""Named queries straight on libpq. A cursor takes as long as the server does for what is asked thousands of times.

A connection that gets no answer for `patience` seconds is given up: a peer that vanished without a word would be waited
for until the end of days.
"""

import re
import select
import struct
import time
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from inturn.stores.postgres.tables import QUERIES, Row, Tables, Uuids, array

TICK: Final = 200
"""Milliseconds after which a silence is looked at."""
Returned = TypeVar("Returned")
Asked = tuple[bytes, list[bytes | None], list[int]]
"""A statement, the values of its parameters, and their types; ids are binary, all else is text."""
Answer = tuple[list[Row], int]
_VALUE: Final = re.compile(rb"%\((\w+)\)s")
PLANNED_AT: Final = frozenset({3, 20, 200})
PLANNED_EVERY: Final = 2_000
"""Uses of a statement at which it is prepared, or prepared anew."""
_TYPES: Final = {int: 20, float: 701, bool: 16}
"""Every whole number is a bigint, so that a statement is planned once; what text means, the statement says."""
_UUID, _UUIDS = 2950, 2951
_UUIDS_HEAD: Final = struct.Struct("!5i")
"""How many dimensions, no nulls, the type of each; how many, from which place on."""
_SIXTEEN: Final = struct.pack("!i", 16)


class PatientConnection(psycopg.Connection[Row]):
    """A connection that gives up when the other side says nothing for too long."""

    patience: float | None = None
    used_at: float = 0.0
    keeps_statements: bool = False
    """Whether the other side is one server, which keeps what was prepared on it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._uses: dict[tuple[Any, ...], int] = {}
        """How often each statement, with the types of its values, was asked."""
        self._names: dict[tuple[Any, ...], bytes] = {}
        self._named = 0
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self._loaders = Transformer(self)

    def wait(self, gen: PQGen[Returned], *args: Any, **options: Any) -> Returned:
        """Psycopg's own, with patience."""
        if self.patience is not None:
            gen = _patient(gen, time.monotonic() + self.patience)
        return super().wait(gen, *args, **options)

    def is_spoken_to(self) -> bool:
        """Whether the server said something unasked: a farewell, mostly."""
        return bool(self._poll.poll(0))

    def ask(self, asked: Asked) -> Answer:
        """The answer, once the server is ready again: what is in no transaction is committed by then."""
        self._send(asked, self._name(asked))
        (results,) = self._results(1, None)
        return self._read(*results)

    def ask_all(self, several: Sequence[Asked], behind: Asked | None = None) -> list[Answer]:
        """Several statements in one round trip: where no transaction has begun, they are one.

        What is sent `behind` comes after its commit, and nobody cares what becomes of it.
        """
        parts = [several] if behind is None else [several, (behind,)]
        named = [[(asked, self._name(asked)) for asked in each] for each in parts]
        self.pgconn.enter_pipeline_mode()
        for each in named:
            for asked, name in each:
                self._send(asked, name)
            self.pgconn.pipeline_sync()
        results, *_ = self._results(len(named), ExecStatus.PIPELINE_SYNC)
        self.pgconn.exit_pipeline_mode()
        return [self._read(result) for result in results]

    def _name(self, asked: Asked) -> bytes | None:
        """What it is prepared as. Not at once, and now and then anew: a plan made for empty tables is kept for good."""
        if not self.keeps_statements:
            return None
        statement, _, types = asked
        key = (statement, *types)
        uses = self._uses[key] = self._uses.get(key, 0) + 1
        if uses in PLANNED_AT or uses % PLANNED_EVERY == 0:
            self._prepare(key)
        return self._names.get(key)

    def _prepare(self, key: tuple[Any, ...]) -> None:
        statement, *types = key
        name = self._names.pop(key, None)
        if name is None:
            self._named += 1
            name = b"inturn_%d" % self._named
        else:
            self.execute(b"DEALLOCATE " + name)
        self.pgconn.send_prepare(name, statement, types)
        (results,) = self._results(1, None)
        self._read(*results)
        self._names[key] = name

    def _send(self, asked: Asked, name: bytes | None) -> None:
        statement, values, types = asked
        formats = [each == _UUIDS for each in types]
        if name is None:
            self.pgconn.send_query_params(statement, values, types, formats, Format.BINARY)
        else:
            self.pgconn.send_query_prepared(name, values, formats, Format.BINARY)

    def _results(self, parts: int, edge: ExecStatus | None) -> list[list[PGresult]]:
        """All that the server answers, in so many parts; at the end of each there is this, or nothing."""
        until = None if self.patience is None else time.monotonic() + self.patience
        pgconn = self.pgconn
        results: list[list[PGresult]] = [[]]
        while pgconn.flush():
            self._poll.modify(pgconn.socket, select.POLLIN | select.POLLOUT)
            self._hear(until)
            self._poll.modify(pgconn.socket, select.POLLIN)
        while len(results) <= parts:
            while pgconn.is_busy():
                self._hear(until)
            result = pgconn.get_result()
            if (result and result.status) == edge:
                results.append([])
            elif result is not None:
                results[-1].append(result)
            elif self.closed:
                raise psycopg.OperationalError("the connection broke off")
        return results[:-1]

    def _read(self, *results: PGresult) -> Answer:
        """Rows, and how many were changed; an error may come behind them, when it is met at the commit."""
        for each in results:
            if each.status == ExecStatus.FATAL_ERROR:
                raise psycopg.OperationalError("broke off") if self.closed else errors.error_from_result(each)
        if not results:
            raise psycopg.OperationalError("broke off")
        result = results[0]
        if not result.ntuples:
            return [], result.command_tuples or 0
        self._loaders.set_pgresult(result)
        return self._loaders.load_rows(0, result.ntuples, tuple), result.ntuples

    def _hear(self, until: float | None) -> None:
        if not self._poll.poll(TICK) and until is not None and time.monotonic() > until:
            raise psycopg.OperationalError("the server said nothing for too long")
        self.pgconn.consume_input()


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


class WiredTables(Tables):
    """The named queries on a connection of ours. What has no values may be several statements."""

    __slots__ = ("ends",)
    connection: PatientConnection

    def __init__(self, connection: PatientConnection, begun: Sequence[Any] = (), ends: Sequence[bytes] = ()) -> None:
        super().__init__(connection, begun)
        self.ends = ends
        """The statements that are still needed to end the transaction."""

    def all(self, query: str, /, **values: Any) -> list[Row]:
        return self.connection.ask(asked(query, values))[0]

    def one(self, query: str, /, **values: Any) -> Row | None:
        rows, _ = self.connection.ask(asked(query, values))
        return rows[0] if rows else None

    def run(self, query: str, /, **values: Any) -> int:
        return self.connection.ask(asked(query, values))[1] if values else super().run(query)

    def last(self, query: str, /, **values: Any) -> list[Row]:
        if not self.connection.keeps_statements:
            return self.all(query, **values)
        ((rows, _),) = self.ask_last([asked(query, values)])
        return rows

    def ask_last(self, several: Sequence[Asked]) -> list[Answer]:
        """The answers of a transaction's last statements; it ends with them."""
        ends, self.ends = self.ends, ()
        return self.connection.ask_all([*several, *[(end, [], []) for end in ends]])[: len(several)]


def asked(query: str, values: Mapping[str, Any]) -> Asked:
    """A named query and its values as they are sent."""
    statement, names = _numbered(query)
    types: list[int] = []
    params: list[bytes | None] = []
    for name in names:
        value = values[name]
        if type(value) is Uuids:
            types.append(_UUIDS)
            params.append(_packed(value))
        else:
            types.append(_TYPES.get(type(value), 0))
            params.append(None if value is None else (array(value) if isinstance(value, list) else str(value)).encode())
    return statement, params, types


def _packed(ids: Uuids) -> bytes:
    """An array as the server has it; it would take a twentieth of the time of a submit to read ids from text."""
    raw = bytes.fromhex("".join(ids).replace("-", ""))
    each = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    return _SIXTEEN.join([_UUIDS_HEAD.pack(1, 0, _UUID, len(each), 1), *each])


@cache
def _numbered(query: str) -> tuple[bytes, tuple[str, ...]]:
    """A query with its values numbered as the server has them, and their names in that order."""
    text = QUERIES[query]
    names = tuple(dict.fromkeys(found.decode() for found in _VALUE.findall(text)))
    numbers = {name.encode(): b"$%d" % number for number, name in enumerate(names, 1)}
    return _VALUE.sub(lambda found: numbers[found[1]], text), names
