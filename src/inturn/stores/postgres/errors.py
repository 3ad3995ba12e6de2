"""Translate PostgreSQL errors into store errors with the remedy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from inturn.errors import (
    InvalidInputError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreMovedError,
    StoreNotFoundError,
    StoreReadOnlyError,
    StoreVersionError,
)
from inturn.stores.postgres.url import PostgresUrl

CONTENTION: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""Another transaction was first: the same work, begun anew, may succeed."""
MOVED_SQLSTATE: Final = "INTMV"
"""SQLSTATE raised by the triggers of a closed queue."""
READ_ONLY_ERRORS: Final = (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)


@contextmanager
def translate_errors(display_url: str) -> Iterator[None]:
    """Translate every database or connection error."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed) as error:
        raise to_store_error(display_url, error) from error


@contextmanager
def translate_connect_errors(address: PostgresUrl) -> Iterator[None]:
    """Describe a connection that could not be made: which part of the address to correct."""
    try:
        yield
    except psycopg.ProgrammingError as error:
        raise InvalidInputError(
            f"{address.display_url} is no address that PostgreSQL's own library understands: {_message(error)}"
        ) from error
    except psycopg.OperationalError as error:
        if error.sqlstate is not None:  # it was connected by then
            raise
        raise _connect_error(address, _message(error)) from error


def _connect_error(address: PostgresUrl, message: str) -> StoreError:
    """Classify a refused connection by its message: it has no SQLSTATE. Messages in other languages are passed on."""
    place = address.display_url.partition("?")[0]
    if _NO_DATABASE.search(message):
        return StoreNotFoundError(
            f"there is no such database: {place} ({message}); correct its name in the address, or make it with"
            f" CREATE DATABASE and then run: {address.migrate_command}"
        )
    for pattern, advice in _CONNECT_ERRORS:
        if pattern.search(message):
            return StoreError(f"{place}: {advice} ({message})")
    return StoreError(
        f"{place} cannot be reached ({message}); check host, port, database, user and password of the address, and that"
        f" the server runs"
    )


def to_store_error(display_url: str, exc: BaseException) -> StoreError:
    """Return the store error for a database error."""
    for kinds, error, advice in _ERROR_MAP:
        if isinstance(exc, kinds):
            return error(f"{display_url}: {advice}")
    if isinstance(exc, psycopg.Error) and exc.sqlstate == MOVED_SQLSTATE:
        return StoreMovedError(exc.diag.message_primary or display_url)
    if isinstance(exc, psycopg.OperationalError):
        return StoreError(
            f"{display_url} cannot be reached or broke off ({_message(exc)}); connections are made anew by themselves:"
            f" try again, and repeat a submit with its key",
        )
    return StoreError(f"{display_url}: {_message(exc)}; nothing was written")


def _message(exc: BaseException) -> str:
    return " ".join(str(exc).split()) or type(exc).__name__


_NO_DATABASE: Final = re.compile(r'database ".*" does not exist')
_CONNECT_ERRORS: Final = (
    (
        re.compile(r"password|authentication failed|SCRAM|SASL"),
        "the server refuses user or password; correct the user in the address, the password there or in PGPASSWORD",
    ),
    (
        re.compile(r'role ".*" (does not exist|is not permitted to log in)|pg_hba\.conf|permission denied'),
        "the server does not let this user in; correct the user, or have the role made, or allowed in pg_hba.conf",
    ),
    (
        re.compile(r"resolve host|translate host|refused|timeout|timed out|No such file|unreachable|No route"),
        "no server answers there; check host and port of the address, that the server runs, and that it listens",
    ),
)
_ERROR_MAP: Final[tuple[tuple[tuple[type[BaseException], ...], type[StoreError], str], ...]] = (
    (
        (PoolTimeout, errors.TooManyConnections),
        StoreBusyError,
        "no connection could be had in time: see that the server runs, raise ?pool= or its max_connections; try again",
    ),
    ((PoolClosed,), StoreError, "the store was closed; open it again"),
    ((*CONTENTION, errors.LockNotAvailable), StoreBusyError, "others hold what this call needs; try again"),
    ((errors.QueryCanceled,), StoreBusyError, "the call took longer than statement_timeout allows; try again"),
    (
        (errors.ReadOnlySqlTransaction,),
        StoreReadOnlyError,
        (
            "the server is read-only: a standby, or a primary that was demoted. Connect to the primary"
            " (several hosts with target_session_attrs=read-write), or let writing be allowed again"
        ),
    ),
    (
        (errors.InsufficientPrivilege,),
        StoreReadOnlyError,
        "this role may not do that: grant it what docs/postgres.md lists for its task",
    ),
    (
        (errors.DiskFull,),
        StoreFullError,
        "the disk of the server is full; nothing was written: make room and try again",
    ),
    (
        (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName, errors.UndefinedFunction),
        StoreVersionError,
        (
            "its tables are not those of this version of Inturn; run inturn migrate, or, if a newer version has changed"
            " them, start this process again with that version"
        ),
    ),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreCorruptError, "its data is damaged; restore a backup"),
)
