"""Open stores by address. Only this module names the store packages."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from inturn.clock import Clock, SystemClock
from inturn.errors import InvalidInputError
from inturn.store import Store
from inturn.stores.memory import MemoryStore
from inturn.stores.snapshots import RestoreTarget, SnapshotFile, SnapshotSource
from inturn.stores.transfer import TransferEndpoint

if TYPE_CHECKING:
    from inturn.stores.redis import RedisCounters

MEMORY_URL = "memory://"
SQLITE_SCHEME = "sqlite://"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
REDIS_SCHEMES = ("redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://")


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store at an address.

    An address is a path or `sqlite://path` for a file, `postgresql://host/database?schema=inturn` for several machines,
    or `memory://` for this process only. A file is created and upgraded on opening, a PostgreSQL schema only by
    `migrate`.
    """
    if url == MEMORY_URL:
        return MemoryStore(clock)
    if url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
        from inturn.stores.postgres import PostgresStore  # noqa: PLC0415 - the other stores need no psycopg

        return PostgresStore(url, clock)
    from inturn.stores.sqlite import SqliteStore  # noqa: PLC0415 - the memory store needs no apsw

    return SqliteStore(_sqlite_path(url), clock)


def open_redis(url: str, clock: Clock | None = None) -> "RedisCounters":
    """Open counters in Redis, which stores no documents."""
    from inturn.stores.redis import RedisCounters  # noqa: PLC0415 - the stores need no redis

    return RedisCounters(url, clock)


def require_known_url(url: str) -> None:
    """Refuse an unknown address, or one whose Python package is missing, without opening anything."""
    if url.startswith(REDIS_SCHEMES):
        if find_spec("redis") is None or find_spec("hiredis") is None:
            raise InvalidInputError("Redis needs redis-py and hiredis: pip install 'inturn[redis]'")
    elif url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
    elif url != MEMORY_URL:
        _sqlite_path(url)


def open_transfer_endpoint(url: str) -> TransferEndpoint:
    """Open the store at an address as source or target of a transfer."""
    if url == MEMORY_URL:
        raise InvalidInputError("a queue in memory ends with its process; give one that is in a file or a database")
    if url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
        from inturn.stores.postgres.transfer import PostgresEndpoint  # noqa: PLC0415

        return PostgresEndpoint(url)
    from inturn.stores.sqlite.transfer import SqliteEndpoint  # noqa: PLC0415

    return SqliteEndpoint(_sqlite_path(url))


def snapshot_source(url: str) -> SnapshotSource:
    """Open the queue at an address for a backup."""
    if url == MEMORY_URL:
        raise InvalidInputError("a queue in memory ends with its process; back up one that is in a file or a database")
    if url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
        from inturn.stores.postgres.restore import PostgresSource  # noqa: PLC0415

        return PostgresSource(url)
    from inturn.stores.sqlite.backup import SqliteSource  # noqa: PLC0415

    return SqliteSource(_sqlite_path(url))


def snapshot_file(kind: str, path: Path) -> SnapshotFile:
    """Open a snapshot that a store of this kind wrote."""
    if kind == "postgresql":
        _require_psycopg()
        from inturn.stores.postgres.backup import PostgresSnapshot  # noqa: PLC0415

        return PostgresSnapshot(path)
    from inturn.stores.sqlite.backup import SqliteSnapshot  # noqa: PLC0415

    return SqliteSnapshot(path)


def restore_target(url: str) -> RestoreTarget:
    """Open an address as the target of a restore."""
    if url == MEMORY_URL:
        raise InvalidInputError("a queue in memory ends with its process; restore to a file or a database")
    if url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
        from inturn.stores.postgres.restore import PostgresTarget  # noqa: PLC0415

        return PostgresTarget(url)
    from inturn.stores.sqlite.backup import SqliteTarget  # noqa: PLC0415

    return SqliteTarget(_sqlite_path(url))


def migrate(url: str) -> list[str]:
    """Create the queue at an address, or upgrade its schema; return the names of the applied migrations."""
    if url == MEMORY_URL:
        return []
    if url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
        from inturn.stores.postgres.schema import migrate_at  # noqa: PLC0415

        return migrate_at(url)
    from inturn.stores.sqlite import closed_marker, connection, schema  # noqa: PLC0415

    path = _sqlite_path(url)
    opened = connection.connect(path)
    try:
        closed_marker.require_open(opened, str(path))
        return schema.migrate(path, opened, SystemClock().now())
    finally:
        opened.close()


def store_files(url: str) -> tuple[Path, ...]:
    """Return the local files of the store at an address, existing or not."""
    if url == MEMORY_URL or url.startswith(POSTGRES_SCHEMES):
        return ()
    from inturn.stores.sqlite.connection import database_files  # noqa: PLC0415

    return database_files(_sqlite_path(url))


def migrations_sql(url: str) -> str:
    """Return the SQL of all migrations of the store at an address."""
    if url == MEMORY_URL:
        return ""
    if url.startswith(POSTGRES_SCHEMES):
        _require_psycopg()
        from inturn.stores.postgres.schema import script_at  # noqa: PLC0415

        return script_at(url)
    _sqlite_path(url)
    from inturn.stores.sqlite import schema  # noqa: PLC0415

    return schema.sql()


def _sqlite_path(url: str) -> Path:
    if url.startswith(REDIS_SCHEMES):
        raise InvalidInputError("Redis stores counters, not documents; open them with inturn.open_counters")
    path = url.removeprefix(SQLITE_SCHEME)
    if not path or "://" in path or "\0" in path:
        raise InvalidInputError(
            f"no store is known by {url!r}; give a path such as inturn.db, postgresql://host/database, or memory://"
        )
    return Path(path)


def _require_psycopg() -> None:
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise InvalidInputError("PostgreSQL needs psycopg: pip install 'inturn[postgres]'")
