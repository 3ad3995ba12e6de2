"""Run named queries directly on libpq: a psycopg cursor costs about 100 µs a statement, as much as the server.

A connection without an answer within its timeout is given up: TCP alone would wait for a vanished peer without end.
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

from inturn.stores.postgres.queries import QUERIES, PostgresQueries, UuidList, array_literal
from inturn.stores.sql.rows import Row

POLL_INTERVAL_MS: Final = 200
"""Milliseconds between two checks of the response timeout."""
Returned = TypeVar("Returned")
BoundStatement = tuple[bytes, list[bytes | None], list[int]]
"""A statement, the values of its parameters, and their types; ids are binary, all else is text."""
StatementResult = tuple[list[Row], int]
_PLACEHOLDER: Final = re.compile(rb"%\((\w+)\)s")
PREPARE_AT_USES: Final = frozenset({3, 20, 200})
PREPARE_EVERY_USES: Final = 2_000
"""Uses of a statement at which it is prepared, or prepared anew."""
_TYPE_OIDS: Final = {int: 20, float: 701, bool: 16}
"""Every whole number is a bigint, so that a statement is planned once; what text means, the statement says."""
_UUID_OID, _UUID_ARRAY_OID = 2950, 2951
_ARRAY_HEADER: Final = struct.Struct("!5i")
"""How many dimensions, no nulls, the type of each; how many, from which place on."""
_UUID_LENGTH: Final = struct.pack("!i", 16)


class TimeoutConnection(psycopg.Connection[Row]):
    """A connection with a response timeout."""

    response_timeout: float | None = None
    last_used_at: float = 0.0
    has_begun: bool = False
    """Whether the present transaction has begun: before that, the work may be done on another connection."""
    can_prepare: bool = False
    """Whether prepared statements persist: not behind a pooler."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._use_counts: dict[tuple[Any, ...], int] = {}
        """Uses of each statement, by its parameter types."""
        self._prepared_names: dict[tuple[Any, ...], bytes] = {}
        self._prepared_count = 0
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self._loaders = Transformer(self)

    def wait(self, gen: PQGen[Returned], *args: Any, **options: Any) -> Returned:
        """Wait as psycopg does, with the response timeout."""
        if self.response_timeout is not None:
            gen = _with_timeout(gen, time.monotonic() + self.response_timeout)
        return super().wait(gen, *args, **options)

    def has_unread_data(self) -> bool:
        """Whether the server has sent something unrequested, usually a disconnect."""
        return bool(self._poll.poll(0))

    def query(self, bound: BoundStatement) -> StatementResult:
        """Run a statement and wait until the server is ready; outside a transaction it is committed by then."""
        self._send(bound, self._prepared_name(bound))
        (results,) = self._read_results(1, None)
        return self._to_rows(*results)

    def query_pipeline(
        self, *parts: Sequence[BoundStatement], last: BoundStatement | None = None
    ) -> list[list[StatementResult]]:
        """Run several statements in one round trip; each part is a transaction of its own if none has begun.

        An error of one part is raised once all parts are done. The result of the `last` statement is ignored.
        """
        all_parts = parts if last is None else (*parts, [last])
        named = [[(bound, self._prepared_name(bound)) for bound in part] for part in all_parts]
        self.pgconn.enter_pipeline_mode()
        for part in named:
            for bound, name in part:
                self._send(bound, name)
            self.pgconn.pipeline_sync()
        results = self._read_results(len(named), ExecStatus.PIPELINE_SYNC)
        self.pgconn.exit_pipeline_mode()
        return [[self._to_rows(result) for result in part] for part in results[: len(parts)]]

    def _prepared_name(self, bound: BoundStatement) -> bytes | None:
        """Return the prepared name, or None before the third use. Statements are prepared anew at 20, 200 and every
        2,000 uses.
        """
        if not self.can_prepare:
            return None
        statement, _, types = bound
        key = (statement, *types)
        uses = self._use_counts[key] = self._use_counts.get(key, 0) + 1
        if uses in PREPARE_AT_USES or uses % PREPARE_EVERY_USES == 0:
            self._prepare(key)
        return self._prepared_names.get(key)

    def _prepare(self, key: tuple[Any, ...]) -> None:
        statement, *types = key
        name = self._prepared_names.pop(key, None)
        if name is None:
            self._prepared_count += 1
            name = b"inturn_%d" % self._prepared_count
        else:
            self.execute(b"DEALLOCATE " + name)
        self.pgconn.send_prepare(name, statement, types)
        (results,) = self._read_results(1, None)
        self._to_rows(*results)
        self._prepared_names[key] = name

    def _send(self, bound: BoundStatement, name: bytes | None) -> None:
        statement, values, types = bound
        formats = [item == _UUID_ARRAY_OID for item in types]
        if name is None:
            self.pgconn.send_query_params(statement, values, types, formats, Format.BINARY)
        else:
            self.pgconn.send_query_prepared(name, values, formats, Format.BINARY)

    def _read_results(self, parts: int, end_status: ExecStatus | None) -> list[list[PGresult]]:
        """Read the results of all parts of a pipeline."""
        until = None if self.response_timeout is None else time.monotonic() + self.response_timeout
        pgconn = self.pgconn
        results: list[list[PGresult]] = [[]]
        while pgconn.flush():
            self._poll.modify(pgconn.socket, select.POLLIN | select.POLLOUT)
            self._wait_for_data(until)
            self._poll.modify(pgconn.socket, select.POLLIN)
        while len(results) <= parts:
            while pgconn.is_busy():
                self._wait_for_data(until)
            result = pgconn.get_result()
            if (result and result.status) == end_status:
                results.append([])
            elif result is not None:
                results[-1].append(result)
            elif self.closed:
                raise psycopg.OperationalError("the connection broke off")
        return results[:-1]

    def _to_rows(self, *results: PGresult) -> StatementResult:
        """Return rows and the number changed; an error at commit may follow them."""
        for pgresult in results:
            if pgresult.status == ExecStatus.FATAL_ERROR:
                raise psycopg.OperationalError("broke off") if self.closed else errors.error_from_result(pgresult)
        if not results:
            raise psycopg.OperationalError("broke off")
        result = results[0]
        if not result.ntuples:
            return [], result.command_tuples or 0
        self._loaders.set_pgresult(result)
        return self._loaders.load_rows(0, result.ntuples, tuple), result.ntuples

    def _wait_for_data(self, deadline: float | None) -> None:
        if not self._poll.poll(POLL_INTERVAL_MS) and deadline is not None and time.monotonic() > deadline:
            raise psycopg.OperationalError("the server said nothing for too long")
        self.pgconn.consume_input()


def _with_timeout(gen: PQGen[Returned], deadline: float) -> Generator[Any, Any, Returned]:
    """Drive a psycopg generator; check the timeout whenever nothing was ready."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError("the server said nothing for too long")
            wanted = gen.send(ready)
    except StopIteration as over:
        returned: Returned = over.value
        return returned


class LibpqQueries(PostgresQueries):
    """Named queries on our own connection; a query without values may be several statements."""

    __slots__ = ("commit_statements",)
    connection: TimeoutConnection

    def __init__(
        self, connection: TimeoutConnection, begin_rows: Sequence[Any] = (), commit_statements: Sequence[bytes] = ()
    ) -> None:
        super().__init__(connection, begin_rows)
        self.commit_statements = commit_statements
        """Statements that end the transaction."""

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        return self.connection.query(bind(query, values))[0]

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        rows, _ = self.connection.query(bind(query, values))
        return rows[0] if rows else None

    def execute(self, query: str, /, **values: Any) -> int:
        return self.connection.query(bind(query, values))[1] if values else super().execute(query)

    def fetch_final(self, query: str, /, **values: Any) -> list[Row]:
        if not self.connection.can_prepare:
            return self.fetch_all(query, **values)
        ((rows, _),) = self.query_final([bind(query, values)])
        return rows

    def query_final(self, statements: Sequence[BoundStatement]) -> list[StatementResult]:
        """Run the last statements of a transaction together with its commit."""
        ends, self.commit_statements = self.commit_statements, ()
        (results,) = self.connection.query_pipeline([*statements, *[(end, [], []) for end in ends]])
        return results[: len(statements)]


def bind(query: str, values: Mapping[str, Any]) -> BoundStatement:
    """Bind values to a named query."""
    statement, names = _number_placeholders(query)
    params = [_encode(values[name]) for name in names]
    return statement, params, [_type_oid(values[name]) for name in names]


def _type_oid(value: Any) -> int:
    return _UUID_ARRAY_OID if type(value) is UuidList else _TYPE_OIDS.get(type(value), 0)


def _encode(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, list):
        return _encode_uuids(value) if type(value) is UuidList else array_literal(value).encode()
    return str(value).encode()


def _encode_uuids(ids: UuidList) -> bytes:
    """Encode ids as a binary array; parsing them from text would take 5 % of a submit."""
    raw = bytes.fromhex("".join(ids).replace("-", ""))
    item = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    return _UUID_LENGTH.join([_ARRAY_HEADER.pack(1, 0, _UUID_OID, len(item), 1), *item])


@cache
def _number_placeholders(query: str) -> tuple[bytes, tuple[str, ...]]:
    """A query with its values numbered as the server has them, and their names in that order."""
    text = QUERIES[query]
    names = tuple(dict.fromkeys(match.decode() for match in _PLACEHOLDER.findall(text)))
    numbers = {name.encode(): b"$%d" % number for number, name in enumerate(names, 1)}
    return _PLACEHOLDER.sub(lambda match: numbers[match[1]], text), names
