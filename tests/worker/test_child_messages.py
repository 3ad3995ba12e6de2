"""What a worker does with the messages of a child, one event after another."""

import json
import selectors
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inturn.model import NewDocument
from inturn.testing import memory_queue
from inturn.worker.channel import Channel
from inturn.worker.dispatcher import Dispatcher
from inturn.worker.inflight import InflightJobs
from inturn.worker.options import WorkerOptions
from inturn.worker.pool import ChildProcess


class Speaking:
    """A child that says what a test says, and its document."""

    def __init__(self, folder: Path, child_pid: int) -> None:
        queue = memory_queue()
        queue.submit("acme", [NewDocument("a")])
        self.inflight = InflightJobs(queue, "worker", 60_000_000)
        (self.job,) = self.inflight.ack_and_claim(1)
        self.job.begun_at = 0.0
        ours, self.theirs = socket.socketpair()
        self.child = ChildProcess(Channel(ours), folder, child_pid, lambda _: None)
        self.child.is_ready = True
        self.child.jobs[self.job.number] = self.job
        spec = SimpleNamespace(limits=None, processor="processors:act")
        pool: Any = SimpleNamespace(spec=spec, children=[self.child], mode=None)
        io: Any = SimpleNamespace(steps=None, replies=SimpleNamespace(can_store_inline=lambda _: True))
        self.dispatcher = Dispatcher(pool, self.inflight, io, WorkerOptions(), lambda *_: None)

    def speak(self, *message: Any) -> None:
        self.theirs.sendall(b"=1\n" * (message[0] == "done") + json.dumps(message).encode() + b"\n")
        self.dispatcher.on_io_event(self.child, selectors.EVENT_READ)


@pytest.fixture
def speaking(tmp_path: Path) -> Iterator[Speaking]:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        made = Speaking(tmp_path, process.pid)
        yield made
        made.child.channel.close()
        made.theirs.close()
        process.kill()


def test_result_is_recorded(speaking: Speaking) -> None:
    speaking.speak("done", speaking.job.number, 0.0, "", [])
    assert [outcome.result for _, outcome in speaking.inflight.outcomes] == ["1"]


def test_nothing_counts_after_a_malformed_message(speaking: Speaking) -> None:
    speaking.speak("next", speaking.job.number, 0.0)
    speaking.speak("done", speaking.job.number, 0.0, "", [])
    assert speaking.inflight.outcomes == []
    assert speaking.child.is_killed
