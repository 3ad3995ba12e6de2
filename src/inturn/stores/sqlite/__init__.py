"""The embedded store on SQLite, through apsw."""

from inturn.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
