"""The way to Redis, spoken to directly: a check should cost little more than its trip, and the trip no waiting.

redis-py's client takes three times as long for one call as its connection does.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CLUSTER: Final = "+cluster"
RESTED: Final = 1.0
"""Seconds of rest after which a connection is looked at before it is used: the server may have closed it."""
PATIENCE: Final = {"socket_timeout": 2.0, "socket_connect_timeout": 2.0}
"""Whatever the address itself says comes first."""


class Wire:
    """One server. A command is sent once: a check whose answer was lost may have been counted.

    Each question has a connection of its own from the moment it is sent until its answer has been read, whichever
    thread or greenlet asks, so no answer can be taken for that of another question.
    """

    def __init__(self, url: str) -> None:
        pool = redis.ConnectionPool.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0), **PATIENCE)
        self._make = pool.connection_class
        self._options = pool.connection_kwargs
        self._free: list[tuple[Any, float]] = []
        self._all: WeakSet[Any] = WeakSet()

    def ask(self, *command: str | int) -> Any:
        """Send a command and hear the answer."""
        return self.begin(*command)()

    def begin(self, *command: str | int) -> Callable[[], Any]:
        """Send a command; its answer comes, once, from calling what this returns."""
        connection = self._connection()
        try:
            connection.send_packed_command([_packed(command)])
        except BaseException:
            connection.disconnect()
            raise
        return Question(connection, self._free).hear

    def close(self) -> None:
        """Hang up."""
        for connection in list(self._all):
            connection.disconnect()

    def _connection(self) -> Any:
        try:
            connection, used = self._free.pop()
        except IndexError:
            connection = self._make(**self._options)
            self._all.add(connection)
        else:
            if time.monotonic() - used > RESTED and _is_spoiled(connection):
                connection.disconnect()
        return connection


class Question:
    """Sent, and not heard yet. One whose answer nobody wants takes its connection along."""

    __slots__ = ("_connection", "_free")

    def __init__(self, connection: Any, free: list[tuple[Any, float]]) -> None:
        self._connection = connection
        self._free = free

    def hear(self) -> Any:
        """Wait for the answer."""
        connection, self._connection = self._connection, None
        try:
            answer = connection.read_response()
        except redis.ResponseError:
            self._free.append((connection, time.monotonic()))  # an answer too: the connection is as good as before
            raise
        except BaseException:
            connection.disconnect()  # whatever still comes in belongs to nobody
            raise
        self._free.append((connection, time.monotonic()))
        return answer

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()


def _packed(command: tuple[str | int, ...]) -> bytes:
    """A command as Redis reads it: how many parts there are, and each after its length in bytes."""
    parts = [str(part) for part in command]
    text = "".join([f"${len(part)}\r\n{part}\r\n" for part in parts])
    if not text.isascii():
        text = "".join([f"${len(part.encode())}\r\n{part}\r\n" for part in parts])
    return f"*{len(parts)}\r\n{text}".encode()


def _is_spoiled(connection: Any) -> bool:
    try:
        return bool(connection.can_read(timeout=0))
    except (redis.RedisError, OSError):
        return True


class ClusterWire:
    """A cluster, found through any of its nodes."""

    def __init__(self, url: str) -> None:
        scheme, rest = url.split("://", 1)
        self._client = redis.RedisCluster.from_url(
            f"{scheme.removesuffix(CLUSTER)}://{rest}", decode_responses=True, **PATIENCE
        )

    def ask(self, *command: str | int) -> Any:
        """Send a command to the node that has its key."""
        return self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def begin(self, *command: str | int) -> Callable[[], Any]:
        """Nothing is sent before the answer is wanted."""
        return partial(self.ask, *command)

    def close(self) -> None:
        """Hang up."""
        self._client.close()


def wire_to(url: str) -> Wire | ClusterWire:
    """By the scheme of the address."""
    return ClusterWire(url) if url.partition("://")[0].endswith(CLUSTER) else Wire(url)
