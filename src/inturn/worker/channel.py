"""Send messages between the worker and a child: one line of JSON each, with file descriptors beside it.

JSON and never pickle: a child that a hostile file has taken over can send false data, but no code.

A result is a line of its own, before the message that it belongs to. The worker stores that line unchanged and does not
encode the result again.
"""

import json
import math
import os
import select
import socket
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from inturn.processor_api import json_text

RECEIVE_BYTES: Final = 1 << 18
MAX_FDS: Final = 64
MAX_LINE_BYTES: Final = 64 << 20
"""Bytes of one line, which may be a result."""
MAX_MESSAGE_BYTES: Final = 16 << 20
"""Bytes of one message without its result: a reason, and names of files."""
MAX_JSON_VALUES: Final = 4_000_000
"""Values in one line, counted by its punctuation. A parsed value is an object of about 60 bytes."""

TEXT_PREFIX: Final = b"="
"""Starts a line that is not a message, but the result of the next message."""

Message = list[Any]
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class JsonText(NamedTuple):
    """The text of a result, checked to be JSON. Only the channel adds one to a message, so a child cannot forge it."""

    json: str
    size: int
    """In bytes."""


class UnsentMessage(NamedTuple):
    """A message, or the rest of one, that the socket has not taken."""

    kind: str
    data: bytes
    fds: Sequence[int] = ()
    """Duplicates: their callers close the originals meanwhile, and the numbers are used again."""


class ChannelError(Exception):
    """The other side sent something that is not a message."""


class Channel:
    """One end of a socket pair."""

    def __init__(self, sock: socket.socket, *, takes_fds: bool = False) -> None:
        self._socket = sock
        self._takes_fds = takes_fds
        self._receive_buffer = bytearray()
        self._fds: deque[int] = deque()
        self._unsent: deque[UnsentMessage] = deque()
        self._send_buffer = b""
        self._pending_text: JsonText | None = None

    def fileno(self) -> int:
        """Return the socket's descriptor, for selectors."""
        return self._socket.fileno()

    def poll(self, timeout: float) -> bool:
        """Wait up to so many seconds for data, or the end of the other side; return whether there is any.

        `select.select` refuses descriptors from 1024 on.
        """
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(timeout * 1_000))

    def send(self, *message: Any, fds: Sequence[int] = (), text: bytes | None = None, more: bool = False) -> None:
        """Send a message and its result, the `text`; block until the other side has taken them.

        With `more` the message is buffered until the next `send`, or until `send_buffered`.
        """
        buffered = self._send_buffer if text is None else b"".join((self._send_buffer, TEXT_PREFIX, text, b"\n"))
        data, self._send_buffer = buffered + _encode_line(message), b""
        if more:
            self._send_buffer = data
            return
        sent = socket.send_fds(self._socket, [data], fds) if fds else 0
        self._socket.sendall(data[sent:])

    def send_buffered(self) -> None:
        """Send the buffered messages, if there are any."""
        data, self._send_buffer = self._send_buffer, b""
        self._socket.sendall(data)

    def send_nowait(self, kind: str, *values: Any, fds: Sequence[int] = ()) -> None:
        """Send a message without blocking; `flush` sends the rest. The caller keeps and closes the fds."""
        self._unsent.append(UnsentMessage(kind, _encode_line((kind, *values)), [os.dup(fd) for fd in fds]))
        self.flush()

    def count_unsent(self, kind: str) -> int:
        """Count the messages of a kind that the socket has not taken."""
        return sum(message.kind == kind for message in self._unsent)

    def flush(self) -> bool:
        """Send as much as the socket takes now; return whether nothing is left."""
        while self._unsent:
            message = self._unsent.popleft()
            try:
                sent = self._socket.sendmsg([message.data], _ancillary(message.fds), socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._unsent.appendleft(message)
                return False
            except OSError:
                _close_all(message.fds)
                self._drop_unsent()  # the next receive reports that the other side is gone
                return True
            _close_all(message.fds)
            if sent < len(message.data):
                self._unsent.appendleft(UnsentMessage(message.kind, message.data[sent:]))
        return True

    def _drop_unsent(self) -> None:
        while self._unsent:
            _close_all(self._unsent.popleft().fds)

    def receive(self) -> list[Message] | None:
        """Wait for data and return the complete messages; None when the other side is gone."""
        try:
            if self._takes_fds:
                data, fds, flags, _ = socket.recv_fds(self._socket, RECEIVE_BYTES, MAX_FDS)
                self._fds.extend(fds)
                if flags & socket.MSG_CTRUNC:  # else the next document would get the descriptor of another
                    raise ChannelError("a descriptor did not arrive: this process has too many open files")
            else:  # the kernel drops descriptors that a child may send
                data = self._socket.recv(RECEIVE_BYTES)
        except ConnectionError:
            return None
        if not data:
            return None
        if b"\n" not in data:
            self._receive_buffer += data
            if len(self._receive_buffer) > MAX_LINE_BYTES:
                raise ChannelError(
                    f"its result has more than {MAX_LINE_BYTES >> 20} MB: return large output as files of the result"
                )
            return []
        *lines, rest = (bytes(self._receive_buffer) + data).split(b"\n")
        self._receive_buffer = bytearray(rest)
        return list(self._parse_lines(lines))

    def _parse_lines(self, lines: Sequence[bytes]) -> Iterator[Message]:
        """Yield the messages up to the first malformed line, for which `["nonsense"]` is yielded."""
        for line in lines:
            try:
                if line.startswith(TEXT_PREFIX):
                    self._set_text(line.removeprefix(TEXT_PREFIX))
                    continue
                message = _parse_message(line)
            except ChannelError:
                yield ["nonsense"]
                return
            if self._pending_text is not None:
                message.append(self._pending_text)
                self._pending_text = None
            yield message

    def _set_text(self, line: bytes) -> None:
        if self._pending_text is not None:
            raise ChannelError("two results for one message")
        self._pending_text = _parse_text(line)

    def take_fd(self) -> int:
        """Return the descriptor that came beside the current message."""
        return self._fds.popleft()

    def close(self) -> None:
        """Close the socket, and descriptors that were not taken."""
        _close_all(self._fds)
        self._fds.clear()
        self._drop_unsent()
        self._socket.close()


def _ancillary(fds: Sequence[int]) -> list[tuple[int, int, "array[int]"]]:
    """Return descriptors as `sendmsg` takes them. `socket.send_fds` would ignore the flags before Python 3.13."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def encode_result(result: Any) -> bytes:
    """Encode a result as the `text` of a message; raise ValueError or TypeError if it is not JSON."""
    return _ENCODER.encode(result).encode()


def _encode_line(message: Sequence[Any]) -> bytes:
    return _ENCODER.encode(message).encode() + b"\n"


def _check_value_count(line: bytes) -> None:
    """Refuse lines that would take too much memory: 64 MB of empty lists become 1.4 GB in the worker."""
    if len(line) > MAX_JSON_VALUES and sum(map(line.count, (b",", b"[", b"{", b":"))) > MAX_JSON_VALUES:
        raise ChannelError(f"a result with more than {MAX_JSON_VALUES:,} values")


def _parse_text(line: bytes) -> JsonText:
    """Refuse JSON that other readers could not read: NaN, infinite numbers, lone surrogates."""
    _check_value_count(line)
    try:
        text = line.decode()
        value = _DECODER.decode(text)
        if "\\u" in text:
            text = json_text(value)
            line = text.encode()
    except (ValueError, RecursionError, MemoryError) as error:
        raise ChannelError("a result that is not JSON") from error
    return JsonText(text, len(line))


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _reject_constant(text: str) -> Any:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(parse_float=_parse_finite, parse_constant=_reject_constant)


def _parse_message(line: bytes) -> Message:
    if len(line) > MAX_MESSAGE_BYTES:
        raise ChannelError(f"a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
    _check_value_count(line)
    try:
        message = json.loads(line)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ChannelError("a message that is not JSON") from error
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        raise ChannelError("a message that does not start with its kind")
    return message
