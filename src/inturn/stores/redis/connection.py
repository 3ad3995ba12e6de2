"""Send commands to Redis, and read their replies when they are wanted: a check and a publish then wait side by side."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

CLUSTER_SUFFIX: Final = "+cluster"
TIMEOUT_SECONDS: Final = {"socket_timeout": 2.0, "socket_connect_timeout": 2.0}
"""Options of the address come first."""


class Client:
    """One server. A command is sent once: a check whose reply was lost may have been counted.

    Each command has a connection of its own until its reply has been read, whichever thread or greenlet reads it.
    """

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = {"decode_responses": True, "retry": Retry(NoBackoff(), 0), **TIMEOUT_SECONDS}
        options |= parse_url(url)  # type: ignore[no-untyped-call]
        # With RESP3 a server sends messages that no command asked for.
        self._pool = redis.ConnectionPool(**{**options, "protocol": 2})

    def execute(self, *command: str | int) -> Any:
        """Send a command and read its reply."""
        return self.begin(*command)()

    def begin(self, *command: str | int) -> Callable[[], Any]:
        """Send a command; calling what this returns, once, reads its reply."""
        connection = self._pool.get_connection()
        pending = PendingReply(self._pool, connection)
        connection.send_command(*command)  # type: ignore[no-untyped-call]
        return pending.receive

    def close(self) -> None:
        """Close all connections."""
        self._pool.disconnect()


class PendingReply:
    """A command whose reply is not read yet. Dropped unread, it closes its connection."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: redis.ConnectionPool, connection: Any) -> None:
        self._pool = pool
        self._connection: Any = connection

    def receive(self) -> Any:
        """Wait for the reply."""
        connection, self._connection = self._connection, None
        if connection is None:
            raise AssertionError("a reply is read once")
        try:
            return connection.read_response()
        finally:
            self._pool.release(connection)

    def __del__(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # the interpreter may be ending
                self._connection.disconnect()
                self._pool.release(self._connection)


class ClusterClient:
    """A cluster, found through any of its nodes."""

    def __init__(self, url: str) -> None:
        scheme, rest = url.split("://", 1)
        self._client = redis.RedisCluster.from_url(
            f"{scheme.removesuffix(CLUSTER_SUFFIX)}://{rest}", decode_responses=True, **TIMEOUT_SECONDS
        )

    def execute(self, *command: str | int) -> Any:
        """Send a command to the node that has its key."""
        return self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def begin(self, *command: str | int) -> Callable[[], Any]:
        """Nothing is sent before the answer is wanted."""
        return partial(self.execute, *command)

    def close(self) -> None:
        """Hang up."""
        self._client.close()


def open_client(url: str) -> Client | ClusterClient:
    """By the scheme of the address."""
    return ClusterClient(url) if url.partition("://")[0].endswith(CLUSTER_SUFFIX) else Client(url)
