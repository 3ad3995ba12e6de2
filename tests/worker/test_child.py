"""What a child says, document by document."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inturn.worker.channel import Channel, Message
from inturn.worker.child import Child, ChildDocument

FACTS: dict[str, Any] = dict.fromkeys(
    ("id", "customer", "name", "media_type", "size", "uri", "attempt", "path", "queue", "step")
)


class Reported(NamedTuple):
    """A child that has processed one document, and has another before it; and what the worker heard since."""

    child: Child
    received: Channel
    second: ChildDocument

    def go_on(self) -> list[Message]:
        """Let it take the next document; what it says."""
        self.child._process(self.child._pending.popleft())  # noqa: SLF001 - `serve` does not stop between two
        return self.received.receive() or []


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[Reported]:
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    channel = Channel(ours)
    child = Child(Channel(theirs), tmp_path, lambda document: document.number)
    first, second = (ChildDocument(child, number, {**FACTS, "metadata": {}}, None) for number in (1, 2))
    child._pending.append(second)  # noqa: SLF001 - as above
    child._process(first)  # noqa: SLF001 - as above
    ((word, number, _),) = channel.receive()
    assert (word, number) == ("begun", 1)
    yield Reported(child, channel, second)
    theirs.close()
    channel.close()


def test_the_end_of_one_and_the_begin_of_the_next_are_told_in_one_breath(reported: Reported) -> None:
    assert [message[:2] for message in reported.go_on()] == [["done", 1], ["begun", 2], ["done", 2]]


def test_what_came_of_one_is_told_even_if_nobody_wants_the_next_any_more(reported: Reported) -> None:
    reported.second.cancel_requested = True
    assert [message[:2] for message in reported.go_on()] == [["done", 1]]
