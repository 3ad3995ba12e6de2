"""The store for many machines: a queue in a schema of a PostgreSQL database."""

from inturn.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
