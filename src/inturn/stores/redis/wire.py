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

CLUSTER: Final = "+cluster"
RESTED: Final = 1.0
"""Seconds of rest after which a connection is looked at before it is used: the server may have closed it."""
PATIENCE: Final = {"socket_timeout": 2.0, "socket_connect_timeout": 2.0}
"""Whatever the address itself says comes first."""
LONGEST: Final = 65_536
_ERRORS: Final[dict[str, type[redis.RedisError]]] = {
    "NOSCRIPT": redis.exceptions.NoScriptError,
    "READONLY": redis.exceptions.ReadOnlyError,
    "OOM": redis.exceptions.OutOfMemoryError,
    "LOADING": redis.exceptions.BusyLoadingError,
    "NOAUTH": redis.exceptions.AuthenticationError,
    "NOPERM": redis.exceptions.NoPermissionError,
}
"""By the first word of what Redis says; redis-py has the same."""


class Line:
    """A connection: redis-py makes it, with all that its address asks for; what goes over it is ours."""

    __slots__ = ("__weakref__", "_connection", "_reader", "_socket", "used")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: Any = None
        self._reader: Any = None
        self.used = 0.0

    def say(self, packed: bytes) -> None:
        """Send a command, connecting first where that is still to be done."""
        if self._socket is None:
            self._connection.connect()
            self._socket, self._reader = self._connection._sock, hiredis.Reader(encoding="utf-8")  # noqa: SLF001
        self._socket.sendall(packed)

    def hear(self) -> Any:
        """Wait for the answer to the last command."""
        answer: Any = False
        while answer is False:
            data = self._socket.recv(LONGEST)
            if not data:
                raise redis.ConnectionError("the server hung up")
            self._reader.feed(data)
            try:
                answer = self._reader.gets()
            except hiredis.ProtocolError as wrong:
                raise redis.InvalidResponse(f"this is not how Redis answers: {wrong}") from wrong
        self.used = time.monotonic()
        if isinstance(answer, hiredis.ReplyError):
            code, _, said = str(answer).partition(" ")
            raise _ERRORS[code](said) if code in _ERRORS else redis.ResponseError(str(answer))
        return answer

    def is_spoiled(self) -> bool:
        """Whether the server has said something unasked, which is mostly that it hangs up."""
        try:
            return self._socket is not None and bool(self._connection.can_read(timeout=0))
        except (redis.RedisError, OSError):
            return True

    def hang_up(self) -> None:
        """Whatever still comes in belongs to nobody; the next command connects anew."""
        self._connection.disconnect()
        self._socket = None

    def __del__(self) -> None:
        with suppress(Exception):
            self.hang_up()


class Wire:
    """One server. A command is sent once: a check whose answer was lost may have been counted.

    Each question has a connection of its own from the moment it is sent until its answer has been read, whichever
    thread or greenlet asks, so no answer can be taken for that of another question.
    """

    def __init__(self, url: str) -> None:
        pool = redis.ConnectionPool.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0), **PATIENCE)
        self._make = pool.connection_class
        self._options = {**pool.connection_kwargs, "protocol": 2}  # in the third a server speaks unasked
        self._free: list[Line] = []
        self._all: WeakSet[Line] = WeakSet()

    def ask(self, *command: str | int) -> Any:
        """Send a command and hear the answer."""
        return self.begin(*command)()

    def begin(self, *command: str | int) -> Callable[[], Any]:
        """Send a command; its answer comes, once, from calling what this returns."""
        line = self._line()
        try:
            line.say(packed(*command))
        except BaseException:
            line.hang_up()
            raise
        return Question(line, self._free).hear

    def close(self) -> None:
        """Hang up."""
        for line in list(self._all):
            line.hang_up()

    def _line(self) -> Line:
        try:
            line = self._free.pop()
        except IndexError:
            line = Line(self._make(**self._options))
            self._all.add(line)
        else:
            if time.monotonic() - line.used > RESTED and line.is_spoiled():
                line.hang_up()
        return line


class Question:
    """Sent, and not heard yet. One whose answer nobody wants takes its connection along: it is in no list meanwhile."""

    __slots__ = ("_free", "_line")

    def __init__(self, line: Line, free: list[Line]) -> None:
        self._line: Line | None = line
        self._free = free

    def hear(self) -> Any:
        """Wait for the answer."""
        line, self._line = self._line, None
        if line is None:
            raise AssertionError("an answer is heard once")
        try:
            answer = line.hear()
        except redis.ResponseError:
            self._free.append(line)  # an answer too: the connection is as good as before
            raise
        except BaseException:
            line.hang_up()
            raise
        self._free.append(line)
        return answer


@lru_cache(1_000)
def packed(*command: str | int) -> bytes:
    """A command as Redis reads it: how many parts there are, and each after its length in bytes."""
    parts = [str(part) for part in command]
    text = "".join([f"${len(part)}\r\n{part}\r\n" for part in parts])
    if not text.isascii():
        text = "".join([f"${len(part.encode())}\r\n{part}\r\n" for part in parts])
    return f"*{len(parts)}\r\n{text}".encode()


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
