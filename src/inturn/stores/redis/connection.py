"""The way to Redis, spoken to directly: a check should cost little more than its trip, and the trip no waiting.

redis-py's client takes five times as long for one call as the system does to send and to receive it.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final
from weakref import WeakSet

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CLUSTER_SUFFIX: Final = "+cluster"
IDLE_CHECK_SECONDS: Final = 1.0
"""Seconds of rest after which a connection is looked at before it is used: the server may have closed it."""
TIMEOUT_SECONDS: Final = {"socket_timeout": 2.0, "socket_connect_timeout": 2.0}
"""Whatever the address itself says comes first."""
RECEIVE_BYTES: Final = 65_536
_ERRORS: Final[dict[str, type[redis.RedisError]]] = {
    "NOSCRIPT": redis.exceptions.NoScriptError,
    "READONLY": redis.exceptions.ReadOnlyError,
    "OOM": redis.exceptions.OutOfMemoryError,
    "LOADING": redis.exceptions.BusyLoadingError,
    "NOAUTH": redis.exceptions.AuthenticationError,
    "NOPERM": redis.exceptions.NoPermissionError,
}
"""By the first word of what Redis says; redis-py has the same."""


class Connection:
    """A connection: redis-py makes it, with all that its address asks for; what goes over it is ours."""

    __slots__ = ("__weakref__", "_connection", "_reader", "_socket", "last_used_at")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: Any = None
        self._reader: Any = None
        self.last_used_at = 0.0

    def send(self, packed: bytes) -> None:
        """Send a command, connecting first where that is still to be done."""
        if self._socket is None:
            self._connection.connect()
            self._socket, self._reader = self._connection._sock, hiredis.Reader(encoding="utf-8")  # noqa: SLF001
        self._socket.sendall(packed)

    def receive(self) -> Any:
        """Wait for the answer to the last command."""
        answer: Any = False
        while answer is False:
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise redis.ConnectionError("the server hung up")
            self._reader.feed(data)
            try:
                answer = self._reader.gets()
            except hiredis.ProtocolError as error:
                raise redis.InvalidResponse(f"this is not how Redis answers: {error}") from error
        self.last_used_at = time.monotonic()
        if isinstance(answer, hiredis.ReplyError):
            code, _, said = str(answer).partition(" ")
            raise _ERRORS[code](said) if code in _ERRORS else redis.ResponseError(str(answer))
        return answer

    def has_unexpected_data(self) -> bool:
        """Whether the server has said something unasked, which is mostly that it hangs up."""
        try:
            return self._socket is not None and bool(self._connection.can_read(timeout=0))
        except (redis.RedisError, OSError):
            return True

    def disconnect(self) -> None:
        """Discard pending replies by closing; the next command reconnects."""
        self._connection.disconnect()
        self._socket = None

    def __del__(self) -> None:
        with suppress(Exception):
            self.disconnect()


class Client:
    """One server. A command is sent once: a check whose answer was lost may have been counted.

    Each question has a connection of its own from the moment it is sent until its answer has been read, whichever
    thread or greenlet asks, so no answer can be taken for that of another question.
    """

    def __init__(self, url: str) -> None:
        pool = redis.ConnectionPool.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0), **TIMEOUT_SECONDS)
        self._connection_class = pool.connection_class
        self._options = {**pool.connection_kwargs, "protocol": 2}  # in the third a server speaks unasked
        self._free: list[Connection] = []
        self._connections: WeakSet[Connection] = WeakSet()

    def execute(self, *command: str | int) -> Any:
        """Send a command and receive its reply."""
        return self.begin(*command)()

    def begin(self, *command: str | int) -> Callable[[], Any]:
        """Send a command; its answer comes, once, from calling what this returns."""
        line = self._acquire()
        try:
            line.send(encode_command(*command))
        except BaseException:
            line.disconnect()
            raise
        return PendingReply(line, self._free).receive

    def close(self) -> None:
        """Hang up."""
        for line in list(self._connections):
            line.disconnect()

    def _acquire(self) -> Connection:
        try:
            line = self._free.pop()
        except IndexError:
            line = Connection(self._connection_class(**self._options))
            self._connections.add(line)
        else:
            if time.monotonic() - line.last_used_at > IDLE_CHECK_SECONDS and line.has_unexpected_data():
                line.disconnect()
        return line


class PendingReply:
    """A command whose reply is not read yet. If it is dropped, its connection goes with it: it is in no free list
    meanwhile.
    """

    __slots__ = ("_connection", "_free")

    def __init__(self, connection: Connection, free: list[Connection]) -> None:
        self._connection: Connection | None = connection
        self._free = free

    def receive(self) -> Any:
        """Wait for the answer."""
        line, self._connection = self._connection, None
        if line is None:
            raise AssertionError("an answer is heard once")
        try:
            answer = line.receive()
        except redis.ResponseError:
            self._free.append(line)  # an answer too: the connection is as good as before
            raise
        except BaseException:
            line.disconnect()
            raise
        self._free.append(line)
        return answer


@lru_cache(1_000)
def encode_command(*command: str | int) -> bytes:
    """A command as Redis reads it: how many parts there are, and each after its length in bytes."""
    parts = [str(part) for part in command]
    text = "".join([f"${len(part)}\r\n{part}\r\n" for part in parts])
    if not text.isascii():
        text = "".join([f"${len(part.encode())}\r\n{part}\r\n" for part in parts])
    return f"*{len(parts)}\r\n{text}".encode()


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
