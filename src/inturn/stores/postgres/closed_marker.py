"""Close a schema during a transfer: a table with the reason, and triggers that refuse every write.

Both are made when they are needed, by the owner of the tables, and dropped afterwards. Triggers reach processes that
are connected already; creating them waits for running writes.
"""

from typing import Final

from psycopg import sql

from inturn.errors import IllegalTransitionError, StoreMovedError
from inturn.stores.postgres.queries import Connection, PostgresQueries
from inturn.stores.postgres.url import PostgresUrl
from inturn.stores.transfer import ClosedKind, ClosedMarker

WRITABLE_TABLES: Final = {
    "cap_lock",
    "claim_lock",
    "claim_request",
    "closed",
    "crash_sentinel",
    "migration",
    "worker",
}
"""Workers may still sign off; the other tables hold nothing of a queue."""
_CREATE_TABLE: Final = """
CREATE TABLE IF NOT EXISTS closed (
    one int PRIMARY KEY CHECK (one = 1), kind text NOT NULL, peer text NOT NULL, token text NOT NULL, run text NOT NULL,
    why text NOT NULL
);
GRANT SELECT ON closed TO PUBLIC;
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM closed WHERE run <> '' AND run = current_setting('inturn.run', true)) THEN
        RAISE EXCEPTION USING ERRCODE = 'INTMV', MESSAGE = (SELECT why FROM closed);
    END IF;
    RETURN NULL;
END
$$;
"""
_CREATE_TRIGGER: Final = """
CREATE OR REPLACE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON {}
FOR EACH STATEMENT EXECUTE FUNCTION refuse()
"""


def require_open(connection: Connection, address: PostgresUrl) -> None:
    """Refuse to open a closed queue."""
    mark = read_marker(connection, address.schema)
    if mark is not None:
        raise StoreMovedError(mark.describe(address.display_url))


def table_names(queries: PostgresQueries) -> set[str]:
    """Return every table of the schema."""
    return {name for (name,) in queries.fetch_all("tables")}


def read_marker(connection: Connection, schema: str) -> ClosedMarker | None:
    """Return why the queue is closed."""
    if connection.execute("SELECT to_regclass(%s)", (f"{schema}.closed",)).fetchone() == (None,):
        return None
    table = sql.Identifier(schema, "closed")
    row = connection.execute(sql.SQL("SELECT kind, peer, token, run FROM {}").format(table)).fetchone()
    return None if row is None else ClosedMarker(ClosedKind(row[0]), *row[1:])


def write_marker(queries: PostgresQueries, marker: ClosedMarker, display_url: str) -> None:
    """Close the queue inside a transaction; later writes of other processes are refused."""
    queries.connection.execute(_CREATE_TABLE)
    queries.connection.execute(
        "INSERT INTO closed VALUES (1, %s, %s, %s, %s, %s) ON CONFLICT (one) DO UPDATE SET"
        " kind = excluded.kind, peer = excluded.peer, token = excluded.token, run = excluded.run, why = excluded.why",
        (marker.kind, marker.peer, marker.token, marker.run, marker.describe(display_url)),
    )
    for table in table_names(queries) - WRITABLE_TABLES:
        queries.connection.execute(sql.SQL(_CREATE_TRIGGER).format(sql.Identifier(table)))


def clear_marker(queries: PostgresQueries) -> None:
    """Open the queue again inside a transaction, leaving no trace in the schema."""
    queries.connection.execute("DROP FUNCTION refuse() CASCADE; DROP TABLE closed")


def allow_writes(queries: PostgresQueries, run: str, schema: str, display_url: str) -> None:
    """Let this transaction write to a queue which this run fills."""
    is_closed = read_marker(queries.connection, schema) is not None
    if not is_closed or queries.connection.execute("SELECT run FROM closed FOR SHARE").fetchone() != (run,):
        raise IllegalTransitionError(f"another run of inturn move has taken {display_url} over; leave it to that one")
    queries.connection.execute("SELECT set_config('inturn.run', %s, true)", (run,))
