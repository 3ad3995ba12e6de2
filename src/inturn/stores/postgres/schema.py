"""Migrate a schema to the newest version under a lock; refuse one that is newer than this code."""

import difflib
import json
from typing import Final

from psycopg import connect, errors

from inturn.errors import StoreNotFoundError, StoreVersionError
from inturn.policy import Policy
from inturn.store_types import SYSTEM_OPERATOR
from inturn.stores.postgres.errors import translate_connect_errors, translate_errors
from inturn.stores.postgres.queries import QUERIES, Connection, PostgresQueries
from inturn.stores.postgres.url import PostgresUrl, parse_url
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.loader import Migration, migrations
from inturn.stores.sql.scheduler_state import INITIAL_STATE

MIGRATIONS: Final = migrations("inturn.stores.postgres")
MAX_LISTED_QUEUES: Final = 10
"""Queues that a message names."""
_NO_QUEUE_ERRORS: Final = (errors.UndefinedTable, errors.InvalidSchemaName)


def migrate(connection: Connection, address: PostgresUrl) -> list[str]:
    """Apply what is missing, under an advisory lock; the names of the migrations applied.

    A role that may not create anything can open a queue whose schema is up to date.
    """
    if read_version(connection, address) == len(MIGRATIONS) and _is_initialized(connection, address):
        return []
    with connection.transaction():
        queries = PostgresQueries(connection)
        queries.fetch_one("lock_migrations", schema=address.schema)
        version = read_version(connection, address)
        if version == 0:
            connection.execute(_with_schema("create_schema", address))
        set_search_path(connection, address)
        for migration in MIGRATIONS[version:]:
            connection.execute(_script(migration).encode())
        _insert_initial_rows(queries)
    return [migration.name for migration in MIGRATIONS[version:]]


def require_current(connection: Connection, address: PostgresUrl) -> None:
    """Refuse an address without a queue, or with one of an older version. No table is made or changed.

    The rows that an empty queue begins with are added if they are missing: tables may come from the printed SQL.
    """
    version = read_version(connection, address)
    if version == 0:
        raise StoreNotFoundError(_describe_missing(connection, address))
    if version < len(MIGRATIONS):
        raise StoreVersionError(
            f"{address.display_url} has schema version {version}, and this version of Inturn needs {len(MIGRATIONS)};"
            f" run: {address.migrate_command}"
        )
    if not _is_initialized(connection, address):
        migrate(connection, address)


def _describe_missing(connection: Connection, address: PostgresUrl) -> str:
    names = [name for (name,) in connection.execute(QUERIES["queues"]).fetchall()]
    near = difflib.get_close_matches(address.schema, names, n=1)
    hint = "this database holds no queue yet; "
    if names:
        others = ", ".join(names[:MAX_LISTED_QUEUES]) + (", …" if len(names) > MAX_LISTED_QUEUES else "")
        hint = f"did you mean ?schema={near[0]}? " if near else f"this database has the queues {others}; "
    where = f"in the schema {address.schema} of {address.display_url.partition('?')[0]}"
    return f"there is no queue {where}; {hint}to make one here, run: {address.migrate_command}"


def migrate_at(url: str) -> list[str]:
    """Bring the schema at an address to the newest version."""
    address = parse_url(url)
    with translate_errors(address.display_url):
        with translate_connect_errors(address):
            connection = connect(address.conninfo, autocommit=True)
        with connection:
            return migrate(connection, address)


def script_at(url: str) -> str:
    """All migrations of the schema at an address; nothing is connected to."""
    return script(parse_url(url).schema)


def script(schema: str) -> str:
    """All migrations as one script, for people with a process of their own."""
    first = f"CREATE SCHEMA IF NOT EXISTS {schema};\nSET search_path = {schema};\n"
    return "\n".join([first, *(f"-- {migration.name}\n{_script(migration)}" for migration in MIGRATIONS)])


def _script(migration: Migration) -> str:
    return f"{migration.sql}\nINSERT INTO migration (number, name) VALUES ({migration.number}, '{migration.name}');\n"


def _with_schema(query: str, address: PostgresUrl) -> bytes:
    """A query that names the schema, whose name is made of letters that need no quoting."""
    return QUERIES[query].replace(b"{schema}", address.schema.encode())


def set_search_path(connection: Connection, address: PostgresUrl) -> PostgresQueries:
    """Let this transaction find the schema's tables."""
    connection.execute(_with_schema("use_schema", address))
    return PostgresQueries(connection)


def read_version(connection: Connection, address: PostgresUrl) -> int:
    """How many migrations were applied."""
    try:
        with connection.transaction():
            row = connection.execute(_with_schema("schema_version", address)).fetchone()
    except _NO_QUEUE_ERRORS:
        return 0
    version = int((row or (0,))[0])
    if version > len(MIGRATIONS):
        raise StoreVersionError(
            f"{address.display_url} was made by a newer version of Inturn (schema {version}; this one knows"
            f" {len(MIGRATIONS)}); use that version, or restore a backup made before the upgrade",
        )
    return version


def _is_initialized(connection: Connection, address: PostgresUrl) -> bool:
    return connection.execute(_with_schema("is_initialized", address)).fetchone() == (True,)


def _insert_initial_rows(queries: PostgresQueries) -> None:
    """The rows of an empty queue, where they are missing."""
    settings = json.dumps(Policy().to_dict())
    queries.execute("begin_policy", settings=settings, by=SYSTEM_OPERATOR.name, why=SYSTEM_OPERATOR.why)
    queries.execute("begin_scheduler_state", scheduler_state=INITIAL_STATE, deadlines=Deadlines().to_json())
    queries.execute("begin_event_sequence")
    queries.execute("begin_queue")
