"""What worker and children say to each other: a line of JSON each, with file descriptors beside it.

JSON and never pickle: a child that a hostile file has taken over can say wrong things, but make nobody run them.

A result is a line of its own, before the message that speaks of it: whoever keeps it keeps it as it was written, and
nobody writes it twice.
"""

import json
import math
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from inturn.queue import json_text

AT_ONCE: Final = 1 << 18
MAX_FDS: Final = 64
LONGEST: Final = 64 << 20
"""Bytes of one line: more is no result but an attack, or a mistake."""
MAX_MESSAGE: Final = 16 << 20
"""Bytes of one message without its text: a reason, and names of files."""
MAX_PARTS: Final = 4_000_000
"""Values in one line, counted by its punctuation: each becomes an object of some 60 bytes when it is read."""

TEXT: Final = b"="
"""What a line begins with that is no message, but JSON that the next message speaks of."""

Message = list[Any]
_WRITER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Text(NamedTuple):
    """JSON as the other side wrote it, and looked through: a message cannot hold one otherwise."""

    json: str
    size: int
    """Its bytes."""


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
        self._held = b""
        self._text: Text | None = None

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def say(self, *message: Any, fds: Sequence[int] = (), text: bytes | None = None, more: bool = False) -> None:
        """Send a message, and the `text` that it speaks of, however long the other side takes; with `more` it is held
        until the next one is sent, or until `release`.
        """
        before = self._held if text is None else b"".join((self._held, TEXT, text, b"\n"))
        data, self._held = before + _line(message), b""
        if more:
            self._held = data
            return
        sent = socket.send_fds(self._socket, [data], fds) if fds else 0
        self._socket.sendall(data[sent:])

    def release(self) -> None:
        """Send what is held, if anything is."""
        data, self._held = self._held, b""
        self._socket.sendall(data)

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
        if b"\n" not in data:
            self._heard += data
            if len(self._heard) > LONGEST:
                raise WireError(
                    f"it said more than {LONGEST >> 20} MB at once: large output belongs into a result's files"
                )
            return []
        *lines, rest = (bytes(self._heard) + data).split(b"\n")
        self._heard = bytearray(rest)
        return list(self._understood(lines))

    def _understood(self, lines: Sequence[bytes]) -> Iterator[Message]:
        """The messages up to the first that nobody can understand, which is told by a word of its own."""
        for line in lines:
            try:
                if line.startswith(TEXT):
                    self._keep_text(line.removeprefix(TEXT))
                    continue
                message = _message(line)
            except WireError:
                yield ["nonsense"]
                return
            if self._text is not None:
                message.append(self._text)
                self._text = None
            yield message

    def _keep_text(self, line: bytes) -> None:
        if self._text is not None:
            raise WireError("two results for one message")
        self._text = _text(line)

    def take_fd(self) -> int:
        """The descriptor that came beside the message in hand."""
        return self._fds.popleft()

    def close(self) -> None:
        """Hang up."""
        while self._fds:
            socket.close(self._fds.popleft())
        self._socket.close()


def written(result: Any) -> bytes:
    """A result as a `text` to be said; ValueError or TypeError if it is no JSON."""
    return _WRITER.encode(result).encode()


def _line(message: Sequence[Any]) -> bytes:
    return _WRITER.encode(message).encode() + b"\n"


def _refuse_many_parts(line: bytes) -> None:
    """64 MB of empty lists would become 1.4 GB in the worker."""
    if len(line) > MAX_PARTS and sum(map(line.count, (b",", b"[", b"{", b":"))) > MAX_PARTS:
        raise WireError(f"a result of more than {MAX_PARTS:,} parts")


def _text(line: bytes) -> Text:
    """What is no JSON that all can read is refused: not a number, numbers too large to be one, half letters."""
    _refuse_many_parts(line)
    try:
        text = line.decode()
        value = _READER.decode(text)
        if "\\u" in text:
            text = json_text(value)
            line = text.encode()
    except (ValueError, RecursionError, MemoryError) as wrong:
        raise WireError("a result that is no JSON") from wrong
    return Text(text, len(line))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _no_constant(text: str) -> Any:
    raise ValueError(text)


_READER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)


def _message(line: bytes) -> Message:
    if len(line) > MAX_MESSAGE:
        raise WireError(f"a message of more than {MAX_MESSAGE >> 20} MB")
    _refuse_many_parts(line)
    try:
        message = json.loads(line)
    except (ValueError, RecursionError, MemoryError) as wrong:
        raise WireError("a message that is no JSON") from wrong
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        raise WireError("a message without a word at its head")
    return message
