"""What worker and children say to each other, and what is heard of it."""

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inturn.worker import channel
from inturn.worker.channel import Channel, JsonText, encode_result

Pair = tuple[socket.socket, Channel]
NONSENSE = [["nonsense"]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A child's end, and the worker's."""
    theirs, ours = socket.socketpair()
    channel = Channel(ours)
    yield theirs, channel
    theirs.close()
    channel.close()


def text_of(value: Any) -> JsonText:
    written_as = encode_result(value)
    return JsonText(written_as.decode(), len(written_as))


@pytest.mark.parametrize("value", [None, -1.5, "é\n\u2028\\ud800", {"a": ["ß", "\x01"]}, "\U0001f600"], ids=ascii)
def test_a_result_is_heard_as_it_was_written(pair: Pair, value: Any) -> None:
    Channel(pair[0]).send("done", 1, text=encode_result(value))
    assert pair[1].receive() == [["done", 1, text_of(value)]]


def test_a_result_belongs_to_the_next_message_alone(pair: Pair) -> None:
    said = Channel(pair[0])
    said.send("begun", 1)
    said.send("done", 1, text=b"1")
    said.send("begun", 2)
    assert pair[1].receive() == [["begun", 1], ["done", 1, JsonText("1", 1)], ["begun", 2]]


@pytest.mark.parametrize("cut", range(1, 20))
def test_it_does_not_matter_in_which_pieces_it_comes(pair: Pair, cut: int) -> None:
    data = b'="\xc3\xa9"\n["done", 1]\n'
    pair[0].sendall(data[:cut])
    messages = pair[1].receive() or []
    pair[0].sendall(data[cut:])
    messages += pair[1].receive() or [] if cut < len(data) else []
    assert messages == [["done", 1, JsonText('"é"', 4)]]


def test_what_is_held_goes_out_with_the_next_word_in_one_breath() -> None:
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    said, received = Channel(theirs), Channel(ours)
    said.send("done", 1, text=b"{}", more=True)
    with pytest.raises(BlockingIOError):
        received.receive()
    said.send("begun", 2)
    assert received.receive() == [["done", 1, JsonText("{}", 2)], ["begun", 2]]
    said.send("begun", 3)
    assert received.receive() == [["begun", 3]]
    said.send("done", 3, text=b"3", more=True)
    said.send_buffered()
    assert received.receive() == [["done", 3, JsonText("3", 1)]]
    said.send_buffered()
    with pytest.raises(BlockingIOError):
        received.receive()
    said.close()
    received.close()


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"1 2", b"NaN", b"-Infinity", b"1e400", b"\xff", b'"\\ud800"', b'{"\\uDFFF": 1}', b"[" * 100_000],
)
def test_what_not_everybody_can_read_is_no_result(pair: Pair, line: bytes) -> None:
    pair[0].sendall(b"=" + line + b'\n["done", 1]\n')
    assert pair[1].receive() == NONSENSE


def test_a_message_cannot_pretend_that_its_result_was_looked_through(pair: Pair) -> None:
    pair[0].sendall(b'["done", 1, {"json": "{", "size": 1}]\n["done", 1, ["{", 1]]\n')
    messages = pair[1].receive()
    assert messages is not None
    assert not any(isinstance(message[-1], JsonText) for message in messages)


def test_escapes_that_nobody_needs_are_written_anew(pair: Pair) -> None:
    pair[0].sendall(b'="\\u00e9"\n["done", 1]\n')
    assert pair[1].receive() == [["done", 1, JsonText('"é"', 4)]]


def test_what_never_ends_is_not_kept(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_LINE_BYTES", 1_000)
    pair[0].sendall(b"=" + b"1" * 2_000)
    with pytest.raises(channel.ChannelError, match="return large output as files"):
        pair[1].receive()


def test_two_results_for_one_message_are_nonsense(pair: Pair) -> None:
    """Each is read through, which costs the worker time."""
    pair[0].sendall(b'=1\n=2\n["done", 1]\n')
    assert pair[1].receive() == NONSENSE


@pytest.mark.parametrize("line", [b"[" + b"[]," * 300 + b"[]]", b"[" + b'{"":0},' * 300 + b"0]"])
def test_a_result_of_very_many_parts_is_not_read(pair: Pair, monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(channel, "MAX_JSON_VALUES", 500)
    pair[0].sendall(b"=" + line + b'\n["done", 1]\n')
    assert pair[1].receive() == NONSENSE
    pair[0].sendall(line + b"\n")
    assert pair[1].receive() == NONSENSE


def test_a_long_text_of_few_parts_is_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_JSON_VALUES", 500)
    pair[0].sendall(b'="' + b"a " * 1_000 + b'"\n["done", 1]\n')
    assert pair[1].receive() == [["done", 1, JsonText('"' + "a " * 1_000 + '"', 2_002)]]


def test_a_message_is_shorter_than_a_result(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_MESSAGE_BYTES", 1_000)
    pair[0].sendall(b'["error", 1, 0, "' + b"a" * 2_000 + b'"]\n')
    assert pair[1].receive() == NONSENSE


def test_descriptor_that_waits_is_that_of_its_message(tmp_path: Path) -> None:
    """Its caller closes it as soon as it is handed over, and the kernel gives its number to the next file."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    sent, received = Channel(ours), Channel(theirs, takes_fds=True)
    while sent.flush():
        sent.send_nowait("x" * 4_000)
    for name in ("mine", "theirs"):
        (tmp_path / name).write_text(name)
    fd = os.open(tmp_path / "mine", os.O_RDONLY)
    sent.send_nowait("work", fds=(fd,))
    os.close(fd)
    other = os.open(tmp_path / "theirs", os.O_RDONLY)
    assert other == fd
    messages: list[Any] = []
    while ["work"] not in messages:
        messages += received.receive() or []
        sent.flush()
    with os.fdopen(received.take_fd()) as file:
        assert file.read() == "mine"
    os.close(other)
    sent.close()
    received.close()


def test_lost_descriptor_is_an_error(tmp_path: Path) -> None:
    """The next document would get it."""
    (tmp_path / "file").touch()
    ours, theirs = socket.socketpair()
    sent, received = Channel(ours), Channel(theirs, takes_fds=True)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    sent.send_nowait("work", fds=(fd,))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, before[1]))
    try:
        with pytest.raises(channel.ChannelError, match="too many open files"):
            received.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    os.close(fd)
    sent.close()
    received.close()
