"""What worker and children say to each other: a line of JSON each, with file descriptors beside it.

JSON and never pickle: a child that a hostile file has taken over can say wrong things, but make nobody run them.
"""

import json
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

AT_ONCE: Final = 1 << 18
MAX_FDS: Final = 64
LONGEST: Final = 64 << 20
"""Bytes of one message: more is no result but an attack, or a mistake."""

Message = list[Any]


class WireError(Exception):
    """The other side says what nobody can understand."""


class Wire:
    """One end of the line."""

    def __init__(self, end: socket.socket, *, takes_fds: bool = False) -> None:
        self._socket = end
        self._takes_fds = takes_fds
        self._heard = bytearray()
        self._fds: deque[int] = deque()
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def say(self, *message: Any, fds: Sequence[int] = ()) -> None:
        """Send a message, however long the other side takes."""
        data = _line(message)
        sent = socket.send_fds(self._socket, [data], fds) if fds else 0
        self._socket.sendall(data[sent:])

    def say_later(self, *message: Any, fds: Sequence[int] = ()) -> None:
        """Send a message as far as the other side takes it now; `flush` sends the rest. The fds stay the caller's."""
        self._unsent.append((_line(message), fds))
        self.flush()

    def flush(self) -> bool:
        """Send what can be sent now; whether all was."""
        while self._unsent:
            data, fds = self._unsent.popleft()
            try:
                sent = socket.send_fds(self._socket, [data], fds, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._unsent.appendleft((data, fds))
                return False
            except OSError:
                self._unsent.clear()  # whoever reads hears that the other side is gone
                return True
            if sent < len(data):
                self._unsent.appendleft((data[sent:], ()))
        return True

    def hear(self) -> list[Message] | None:
        """The messages that have come, after waiting for some; None when the other side is gone."""
        try:
            if self._takes_fds:
                data, fds, _, _ = socket.recv_fds(self._socket, AT_ONCE, MAX_FDS)
                self._fds.extend(fds)
            else:  # the kernel drops what a child may send along
                data = self._socket.recv(AT_ONCE)
        except ConnectionError:
            return None
        if not data:
            return None
        self._heard += data
        if b"\n" not in data:
            if len(self._heard) > LONGEST:
                raise WireError(
                    f"it said more than {LONGEST >> 20} MB at once: large output belongs into a result's files"
                )
            return []
        *lines, rest = bytes(self._heard).split(b"\n")
        self._heard = bytearray(rest)
        return list(_understood(lines))

    def take_fd(self) -> int:
        """The descriptor that came beside the message in hand."""
        return self._fds.popleft()

    def close(self) -> None:
        """Hang up."""
        while self._fds:
            socket.close(self._fds.popleft())
        self._socket.close()


def _line(message: Sequence[Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _understood(lines: Sequence[bytes]) -> Iterator[Message]:
    """The messages up to the first that nobody can understand, which is told by a word of its own."""
    for line in lines:
        try:
            yield _message(line)
        except WireError:
            yield ["nonsense"]
            return


def _message(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as wrong:
        raise WireError("a message that is no JSON") from wrong
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        raise WireError("a message without a word at its head")
    return message
