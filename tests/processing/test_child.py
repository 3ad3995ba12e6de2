"""What a child says, document by document."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inturn.processing.child import Child, DocumentAtHand
from inturn.processing.wire import Message, Wire

FACTS: dict[str, Any] = dict.fromkeys(("id", "customer", "name", "media_type", "size", "uri", "attempt", "path"))


class Told(NamedTuple):
    """A child that has processed one document, and has another before it; and what the worker heard since."""

    child: Child
    heard: Wire
    second: DocumentAtHand

    def go_on(self) -> list[Message]:
        """Let it take the next document; what it says."""
        self.child._process(self.child._todo.popleft())
        return self.heard.hear() or []


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    heard = Wire(ours)
    child = Child(Wire(theirs), tmp_path, lambda document: document.number)
    first, second = (DocumentAtHand(child, number, {**FACTS, "metadata": {}}, None) for number in (1, 2))
    child._todo.append(second)
    child._process(first)
    ((word, number, _),) = heard.hear()
    assert (word, number) == ("begun", 1)
    yield Told(child, heard, second)
    theirs.close()
    heard.close()


def test_the_end_of_one_and_the_begin_of_the_next_are_told_in_one_breath(told: Told) -> None:
    assert [message[:2] for message in told.go_on()] == [["done", 1], ["begun", 2], ["done", 2]]


def test_what_came_of_one_is_told_even_if_nobody_wants_the_next_any_more(told: Told) -> None:
    told.second.stopped = True
    assert [message[:2] for message in told.go_on()] == [["done", 1]]
