"""What worker and children say to each other, and what is heard of it."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from inturn.processing import wire
from inturn.processing.wire import Text, Wire, written

Pair = tuple[socket.socket, Wire]
NONSENSE = [["nonsense"]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A child's end, and the worker's."""
    theirs, ours = socket.socketpair()
    heard = Wire(ours)
    yield theirs, heard
    theirs.close()
    heard.close()


def text_of(value: Any) -> Text:
    written_as = written(value)
    return Text(written_as.decode(), len(written_as))


@pytest.mark.parametrize("value", [None, -1.5, "é\n\u2028\\ud800", {"a": ["ß", "\x01"]}, "\U0001f600"], ids=ascii)
def test_a_result_is_heard_as_it_was_written(pair: Pair, value: Any) -> None:
    Wire(pair[0]).say("done", 1, text=written(value))
    assert pair[1].hear() == [["done", 1, text_of(value)]]


def test_a_result_belongs_to_the_next_message_alone(pair: Pair) -> None:
    said = Wire(pair[0])
    said.say("begun", 1)
    said.say("done", 1, text=b"1")
    said.say("begun", 2)
    assert pair[1].hear() == [["begun", 1], ["done", 1, Text("1", 1)], ["begun", 2]]


@pytest.mark.parametrize("cut", range(1, 20))
def test_it_does_not_matter_in_which_pieces_it_comes(pair: Pair, cut: int) -> None:
    data = b'="\xc3\xa9"\n["done", 1]\n'
    pair[0].sendall(data[:cut])
    heard = pair[1].hear() or []
    pair[0].sendall(data[cut:])
    heard += pair[1].hear() or [] if cut < len(data) else []
    assert heard == [["done", 1, Text('"é"', 4)]]


def test_what_is_held_goes_out_with_the_next_word_in_one_breath(pair: Pair) -> None:
    said = Wire(pair[0])
    said.say("done", 1, text=b"{}", more=True)
    pair[1]._socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair[1].hear()
    said.say("begun", 2)
    assert pair[1].hear() == [["done", 1, Text("{}", 2)], ["begun", 2]]
    said.say("begun", 3)
    assert pair[1].hear() == [["begun", 3]]
    said.say("done", 3, text=b"3", more=True)
    said.release()
    assert pair[1].hear() == [["done", 3, Text("3", 1)]]
    said.release()
    with pytest.raises(BlockingIOError):
        pair[1].hear()


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"1 2", b"NaN", b"-Infinity", b"1e400", b"\xff", b'"\\ud800"', b'{"\\uDFFF": 1}', b"[" * 100_000],
)
def test_what_not_everybody_can_read_is_no_result(pair: Pair, line: bytes) -> None:
    pair[0].sendall(b"=" + line + b'\n["done", 1]\n')
    assert pair[1].hear() == NONSENSE


def test_a_message_cannot_pretend_that_its_result_was_looked_through(pair: Pair) -> None:
    pair[0].sendall(b'["done", 1, {"json": "{", "size": 1}]\n["done", 1, ["{", 1]]\n')
    heard = pair[1].hear()
    assert heard is not None
    assert not any(isinstance(message[-1], Text) for message in heard)


def test_escapes_that_nobody_needs_are_written_anew(pair: Pair) -> None:
    pair[0].sendall(b'="\\u00e9"\n["done", 1]\n')
    assert pair[1].hear() == [["done", 1, Text('"é"', 4)]]


def test_what_never_ends_is_not_kept(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST", 1_000)
    pair[0].sendall(b"=" + b"1" * 2_000)
    with pytest.raises(wire.WireError, match="at once"):
        pair[1].hear()


def test_two_results_for_one_message_are_nonsense(pair: Pair) -> None:
    """Each is read through, which costs the worker time."""
    pair[0].sendall(b'=1\n=2\n["done", 1]\n')
    assert pair[1].hear() == NONSENSE


@pytest.mark.parametrize("line", [b"[" + b"[]," * 300 + b"[]]", b"[" + b'{"":0},' * 300 + b"0]"])
def test_a_result_of_very_many_parts_is_not_read(pair: Pair, monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(wire, "MAX_PARTS", 500)
    pair[0].sendall(b"=" + line + b'\n["done", 1]\n')
    assert pair[1].hear() == NONSENSE
    pair[0].sendall(line + b"\n")
    assert pair[1].hear() == NONSENSE


def test_a_long_text_of_few_parts_is_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_PARTS", 500)
    pair[0].sendall(b'="' + b"a " * 1_000 + b'"\n["done", 1]\n')
    assert pair[1].hear() == [["done", 1, Text('"' + "a " * 1_000 + '"', 2_002)]]


def test_a_message_is_shorter_than_a_result(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_MESSAGE", 1_000)
    pair[0].sendall(b'["error", 1, 0, "' + b"a" * 2_000 + b'"]\n')
    assert pair[1].hear() == NONSENSE
