"""Brings a schema to the newest version, once, whoever comes first; refuses one that is newer than this code."""

import difflib
import json
from typing import Final

from psycopg import connect, errors

from inturn.errors import StoreNotFoundError, StoreVersionError
from inturn.policy import Policy
from inturn.store import FIRST_OPERATOR
from inturn.stores._sql import Migration, migrations
from inturn.stores._turns import START
from inturn.stores.postgres.address import Address, parse
from inturn.stores.postgres.bounds import Bounds
from inturn.stores.postgres.tables import QUERIES, Connection, Tables
from inturn.stores.postgres.trouble import errors_at_open, errors_of

MIGRATIONS: Final = migrations("inturn.stores.postgres")
MAX_NAMED: Final = 10
"""Queues that a message names."""
_NOT_YET: Final = (errors.UndefinedTable, errors.InvalidSchemaName)


def migrate(connection: Connection, address: Address) -> list[str]:
    """Apply what is missing, under an advisory lock; the names of the migrations applied.

    A role that may not create anything can open a queue whose schema is up to date.
    """
    if version_of(connection, address) == len(MIGRATIONS) and _has_begun(connection, address):
        return []
    with connection.transaction():
        tables = Tables(connection)
        tables.one("migrating", schema=address.schema)
        version = version_of(connection, address)
        if version == 0:
            connection.execute(_of("make_schema", address))
        in_schema(connection, address)
        for migration in MIGRATIONS[version:]:
            connection.execute(_script(migration).encode())
        _begin(tables)
    return [migration.name for migration in MIGRATIONS[version:]]


def require_current(connection: Connection, address: Address) -> None:
    """Refuse an address without a queue, or with one of an older version. No table is made or changed.

    The rows that an empty queue begins with are added if they are missing: tables may come from the printed SQL.
    """
    version = version_of(connection, address)
    if version == 0:
        raise StoreNotFoundError(_describe_missing(connection, address))
    if version < len(MIGRATIONS):
        raise StoreVersionError(
            f"{address.shown} has schema version {version}, and this version of Inturn needs {len(MIGRATIONS)};"
            f" run: {address.migrate_command}"
        )
    if not _has_begun(connection, address):
        migrate(connection, address)


def _describe_missing(connection: Connection, address: Address) -> str:
    names = [name for (name,) in connection.execute(QUERIES["queues"]).fetchall()]
    near = difflib.get_close_matches(address.schema, names, n=1)
    hint = "this database holds no queue yet; "
    if names:
        others = ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
        hint = f"did you mean ?schema={near[0]}? " if near else f"this database has the queues {others}; "
    where = f"in the schema {address.schema} of {address.shown.partition('?')[0]}"
    return f"there is no queue {where}; {hint}to make one here, run: {address.migrate_command}"


def migrate_at(url: str) -> list[str]:
    """Bring the schema at an address to the newest version."""
    address = parse(url)
    with errors_of(address.shown):
        with errors_at_open(address):
            connection = connect(address.conninfo, autocommit=True)
        with connection:
            return migrate(connection, address)


def script_at(url: str) -> str:
    """All migrations of the schema at an address; nothing is connected to."""
    return script(parse(url).schema)


def script(schema: str) -> str:
    """All migrations as one script, for people with a process of their own."""
    first = f"CREATE SCHEMA IF NOT EXISTS {schema};\nSET search_path = {schema};\n"
    return "\n".join([first, *(f"-- {each.name}\n{_script(each)}" for each in MIGRATIONS)])


def _script(migration: Migration) -> str:
    return f"{migration.sql}\nINSERT INTO migration (number, name) VALUES ({migration.number}, '{migration.name}');\n"


def _of(query: str, address: Address) -> bytes:
    """A query that names the schema, whose name is made of letters that need no quoting."""
    return QUERIES[query].replace(b"{schema}", address.schema.encode())


def in_schema(connection: Connection, address: Address) -> Tables:
    """Let this transaction find the schema's tables."""
    connection.execute(_of("in_schema", address))
    return Tables(connection)


def version_of(connection: Connection, address: Address) -> int:
    """How many migrations were applied."""
    try:
        with connection.transaction():
            found = connection.execute(_of("schema_version", address)).fetchone()
    except _NOT_YET:
        return 0
    version = int((found or (0,))[0])
    if version > len(MIGRATIONS):
        raise StoreVersionError(
            f"{address.shown} was made by a newer version of Inturn (schema {version}; this one knows"
            f" {len(MIGRATIONS)}); use that version, or restore a backup made before the upgrade",
        )
    return version


def _has_begun(connection: Connection, address: Address) -> bool:
    return connection.execute(_of("has_begun", address)).fetchone() == (True,)


def _begin(tables: Tables) -> None:
    """The rows of an empty queue, where they are missing."""
    settings = json.dumps(Policy().plain())
    tables.run("begin_policy", settings=settings, by=FIRST_OPERATOR.name, why=FIRST_OPERATOR.why)
    tables.run("begin_turns", standing=START, bounds=Bounds().text())
    tables.run("begin_numbering")
    tables.run("begin_queue")
