"""A schema that is closed because its queue moves: a table with the reason, and triggers that refuse every write.

Both are made when they are needed, by the owner of the tables, and dropped afterwards. Triggers reach processes that
are connected already; making them waits for whoever writes.
"""

from typing import Final

from psycopg import sql

from inturn.errors import IllegalMoveError, StoreMovedError
from inturn.stores.moving import Mark, MarkKind
from inturn.stores.postgres.address import Address
from inturn.stores.postgres.tables import Connection, Tables

SPARED: Final = {"alive", "capping", "claiming", "closed", "migration", "worker"}
"""A worker that takes leave may do so; the others hold nothing of a queue."""
_CREATE: Final = """
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
_TRIGGER: Final = """
CREATE OR REPLACE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON {}
FOR EACH STATEMENT EXECUTE FUNCTION refuse()
"""


def refuse_closed(connection: Connection, address: Address) -> None:
    """Refuse to open a closed queue."""
    mark = mark_of(connection, address.schema)
    if mark is not None:
        raise StoreMovedError(mark.why(address.shown))


def tables_of(tables: Tables) -> set[str]:
    """Every table there is."""
    return {name for (name,) in tables.all("tables")}


def mark_of(connection: Connection, schema: str) -> Mark | None:
    """Why it is closed."""
    if connection.execute("SELECT to_regclass(%s)", (f"{schema}.closed",)).fetchone() == (None,):
        return None
    table = sql.Identifier(schema, "closed")
    found = connection.execute(sql.SQL("SELECT kind, peer, token, run FROM {}").format(table)).fetchone()
    return None if found is None else Mark(MarkKind(found[0]), *found[1:])


def put_mark(tables: Tables, mark: Mark, shown: str) -> None:
    """Close, inside a transaction; from here on nobody else writes."""
    tables.connection.execute(_CREATE)
    tables.connection.execute(
        "INSERT INTO closed VALUES (1, %s, %s, %s, %s, %s) ON CONFLICT (one) DO UPDATE SET"
        " kind = excluded.kind, peer = excluded.peer, token = excluded.token, run = excluded.run, why = excluded.why",
        (mark.kind, mark.peer, mark.token, mark.run, mark.why(shown)),
    )
    for table in tables_of(tables) - SPARED:
        tables.connection.execute(sql.SQL(_TRIGGER).format(sql.Identifier(table)))


def take_mark_away(tables: Tables) -> None:
    """Open again, inside a transaction: the schema is as if nothing had been."""
    tables.connection.execute("DROP FUNCTION refuse() CASCADE; DROP TABLE closed")


def lift(tables: Tables, run: str, schema: str, shown: str) -> None:
    """Let this transaction write to a queue which this run fills."""
    is_closed = mark_of(tables.connection, schema) is not None
    if not is_closed or tables.connection.execute("SELECT run FROM closed FOR SHARE").fetchone() != (run,):
        raise IllegalMoveError(f"another run of inturn move has taken {shown} over; leave it to that one")
    tables.connection.execute("SELECT set_config('inturn.run', %s, true)", (run,))
