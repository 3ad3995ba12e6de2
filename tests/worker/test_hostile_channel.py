"""Nonsense on the channel between a child and its worker fails that document alone.

The children are forks of the default processor's, in their box, with a stand-in for kreuzberg that says to the worker
what stands in the document.
"""

import fcntl
import io
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo import make_document
from inturn.blobs import FolderBlobs
from inturn.config import DEFAULT_PROCESSOR
from inturn.model import DocumentState, NewDocument
from inturn.testing import memory_queue
from inturn.worker.channel import Channel
from inturn.worker.child import Child
from inturn.worker.dispatcher import Dispatcher
from inturn.worker.in_thread import try_call
from inturn.worker.inflight import InflightJobs
from inturn.worker.options import WorkerOptions
from inturn.worker.part_listing import STORE_THREADS, PartListing
from inturn.worker.pool import ChildProcess, ForkServer
from inturn.worker.questions import MAX_QUESTIONS
from worker_harness import WorkerHarness, WorkerThread, eventually

SPEAKER = """
import os, stat, sys
from pathlib import Path
LOADED_BY, _here = os.getpid(), Path(__file__).parent.parent
_before, sys.path[:] = list(sys.path), [entry for entry in sys.path if Path(entry) != _here]
_own = sys.modules.pop("kreuzberg")
import kreuzberg as _real
sys.modules["kreuzberg"], sys.path[:] = _own, _before
globals().update({name: value for name, value in vars(_real).items() if not name.startswith("__")})
__path__.extend(_real.__path__)

class Parsed:
    content, metadata, detected_languages = "an honest text", {"page_count": 1}, ["en"]
    tables = pages = chunks = images = []

def _channel():
    return next(number for number in range(3, 64) if _is_socket(number))

def _is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False

def _speaking(data, *_, **__):
    if os.getpid() == LOADED_BY:
        return _real.extract_bytes_sync(data, *_, **__)
    _, mark, said = bytes(data).partition(b"%say:")
    if mark:
        os.write(_channel(), bytes.fromhex(said.split()[0].decode()))
    return Parsed()

for _name in [name for name in dir(_real) if name.startswith(("extract_", "batch_extract_"))]:
    globals()[_name] = _speaking
"""
WORDS = (
    "begun",
    "progress",
    "done",
    "retry",
    "reject",
    "error",
    "ready",
    "unready",
    "forked",
    "ended",
    "work",
    "cancel",
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers(-1, 60)
FILES = st.lists(st.lists(st.sampled_from(["a", "..", "../../etc/passwd", "/etc/passwd", "file-0", ""]), max_size=3))
MESSAGES = st.builds(
    lambda word, number, rest: [word, number, *rest],
    st.sampled_from(WORDS),
    NUMBERS | JSON,
    st.lists(JSON, max_size=5) | st.tuples(st.just(0.0), st.text(max_size=9), FILES | JSON).map(list),
)
LINES = st.one_of(
    MESSAGES.map(lambda message: json.dumps(message).encode()),
    JSON.map(lambda value: b"=" + json.dumps(value).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=200),
)
NONSENSE = st.lists(LINES, min_size=1, max_size=5).map(b"\n".join) | st.binary(min_size=1, max_size=300)


class Speaking:
    """A worker whose default processor says to it what documents contain."""

    def __init__(self, harness: WorkerHarness) -> None:
        self.harness = harness
        self.pdf = make_document("pdf", 7).data
        self.running: WorkerThread = harness.start_worker(DEFAULT_PROCESSOR, slots=2)

    def submit(self, customer: str, said: bytes) -> str:
        ending = b"\n%say:" + said.hex().encode() + b"\n" if said else b""
        blob = self.harness.blobs.put(io.BytesIO(self.pdf + ending))
        document = NewDocument("a.pdf", blob=blob.key, sha256=blob.sha256, size=blob.size, max_attempts=1)
        return self.harness.queue.submit(customer, [document])[0].id

    def ended(self, id_: str) -> DocumentState:
        ends = {DocumentState.DONE, DocumentState.FAILED}
        eventually(lambda: self.harness.state(id_) in ends or not self.running.is_alive())
        assert self.running.is_alive(), "the worker died of what a child said"
        return self.harness.state(id_)


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaking]:
    folder = tmp_path_factory.mktemp("stand-in")
    (folder / "kreuzberg").mkdir()
    (folder / "kreuzberg" / "__init__.py").write_text(SPEAKER, encoding="utf-8")
    harness = WorkerHarness(tmp_path_factory.mktemp("queue"))
    sys.path.insert(0, str(folder))
    try:
        yield Speaking(harness)
    finally:
        sys.path.remove(str(folder))
        harness.close()


@settings(max_examples=settings.default.max_examples * 6 // 10)
@given(said=st.lists(NONSENSE, min_size=1, max_size=3))
def test_g13_nonsense_on_the_channel_fails_its_document_alone(speaking: Speaking, said: list[bytes]) -> None:
    hostile = [speaking.submit("hostile", content) for content in said]
    for id_ in hostile:
        if speaking.ended(id_) is DocumentState.DONE:
            assert json.dumps(speaking.harness.queue.result(id_), ensure_ascii=False, allow_nan=False).encode()
        else:
            assert (speaking.harness.queue.document(id_).error or "").encode()
    honest = speaking.submit("honest", b"")
    assert speaking.ended(honest) is DocumentState.DONE, speaking.harness.queue.document(honest).error
    assert speaking.harness.queue.result(honest)["text"].strip() == "an honest text"
    assert speaking.harness.store.paused() is None


@pytest.mark.parametrize("reply", [["next", 0.0, "", [], "default"], ["split", 0.0, "", [], "default", "listing"]])
def test_built_in_processor_names_no_queues(speaking: Speaking, reply: list[Any]) -> None:
    """A parser that was taken over would send its document in circles."""
    number = speaking.running.worker._inflight.last_number + 1  # noqa: SLF001 - what a child would have read
    line = json.dumps([reply[0], number, *reply[1:]]).encode()
    id_ = speaking.submit("hostile", b"=null\n" + line + b"\n")
    assert speaking.ended(id_) is DocumentState.FAILED
    document = speaking.harness.queue.document(id_)
    assert document.step == 0
    assert "malformed message" in (document.error or "")


def test_a_child_that_never_begins_its_document_is_ended_and_another_gets_it(
    harness: WorkerHarness, marker_dir: Path
) -> None:
    """It was taken over by the one before, which it has ended for the worker."""
    bad = harness.submit("never_begin", place=str(marker_dir), max_attempts=1)
    running = harness.start_worker(slots=1, timeout=3_000_000)
    eventually(lambda: any(marker_dir.iterdir()))
    good = harness.submit("echo", "other", max_attempts=1)
    eventually(lambda: harness.state(good) is DocumentState.DONE)
    assert harness.state(bad) is DocumentState.DONE
    running.stop()


# -- questions ------------------------------------------------------------------------------------------------------


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Asking:
    """A child that asks and does not read, its document, and the worker's side; answers come at once."""

    def __init__(self, folder: Path, child_pid: int) -> None:
        queue = memory_queue()
        queue.submit("hostile", [NewDocument("a")])
        (self.job,) = InflightJobs(queue, "worker", 60_000_000).ack_and_claim(1)
        ours, self.theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        self.child = ChildProcess(Channel(ours), folder, child_pid, lambda _: None)
        self.child.is_ready = True
        self.child.jobs[self.job.number] = self.job
        pool: Any = SimpleNamespace(spec=SimpleNamespace(limits=None, processor="m:f"), children=[self.child])
        steps = SimpleNamespace(answer=lambda *_: os.open("/dev/null", os.O_RDONLY))
        io_: Any = SimpleNamespace(steps=steps)
        self.dispatcher = Dispatcher(
            pool, InflightJobs(queue, "worker", 1), io_, WorkerOptions(), lambda call, then: then(*try_call(call))
        )
        self.dispatcher.selector.register(self.child.channel, selectors.EVENT_READ, self.child)

    def ask(self) -> None:
        self.theirs.sendall(json.dumps(["ask", self.job.number, 0, ["results", 0, None]]).encode() + b"\n")
        self.dispatcher.on_io_event(self.child, selectors.EVENT_READ)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        made = Asking(tmp_path, process.pid)
        yield made
        made.dispatcher.selector.close()
        made.child.channel.close()
        made.theirs.close()
        process.kill()


def test_child_that_reads_no_answers_is_killed_before_they_fill_the_worker(asking: Asking) -> None:
    before = count_open_files()
    for _ in range(1_000):
        if asking.child.is_killed:
            break
        asking.ask()
    assert asking.child.is_killed
    assert count_open_files() - before <= MAX_QUESTIONS


def test_child_that_reads_its_answers_may_ask_for_ever(asking: Asking) -> None:
    reading = Channel(asking.theirs, takes_fds=True)
    for _ in range(MAX_QUESTIONS * 10):
        asking.ask()
        for _ in reading.receive() or []:
            os.close(reading.take_fd())
    assert not asking.child.is_killed


def test_answer_that_cannot_be_sent_ends_the_child_alone(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(24, "Too many open files")

    before = count_open_files()
    monkeypatch.setattr(os, "dup", refuse)
    asking.ask()
    assert asking.child.is_killed
    assert "Too many open files" in asking.child.reap()
    assert count_open_files() < before


def test_contents_of_parts_are_opened_a_few_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    fields = {"name": "a", "metadata": {}, "media_type": None, "pages": None, "steps": ["page"]}
    with (tmp_path / "scratch" / "listing").open("w") as listing:
        for number in range(200):
            (tmp_path / "scratch" / f"pack-{number}").write_bytes(b"%d" % number)
            listing.write(json.dumps({**fields, "content": [f"pack-{number}", 0, 1]}) + "\n")
    counts = []

    class CountingBlobs(FolderBlobs):
        def put(self, source: Any, **options: Any) -> Any:
            counts.append(count_open_files())
            return super().put(source, **options)

    before = count_open_files()
    whole: Any = SimpleNamespace(spec=NewDocument("whole"))
    blobs = CountingBlobs(tmp_path / "blobs")
    parts = PartListing("listing", tmp_path / "scratch", whole, lambda: blobs)
    assert len(parts.read(is_sandboxed=True)) == 200
    assert max(counts) - before <= STORE_THREADS * 5


# -- descriptors from 1024 on, which select.select refuses ----------------------------------------------------------

HIGH_FD = 1_100


@pytest.fixture
def high() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel whose descriptor is above 1024, and its other side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH_FD * 2), hard))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(socket.socket(fileno=fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH_FD)))
        yield channel, theirs
        channel.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_child_polls_a_channel_with_a_high_descriptor(high: tuple[Channel, socket.socket], tmp_path: Path) -> None:
    seen: list[int] = []
    child = Child(high[0], tmp_path, lambda _: None)
    child._documents[7], child._on_cancel = SimpleNamespace(), seen.append  # type: ignore[assignment]  # noqa: SLF001
    child.poll_messages()
    assert seen == []
    high[1].sendall(b'["cancel", 7]\n')
    child.poll_messages()
    assert seen == [7]


def test_worker_waits_for_a_fork_server_with_a_high_descriptor(high: tuple[Channel, socket.socket]) -> None:
    server = ForkServer.__new__(ForkServer)
    server._channel, server._exits = high[0], {}  # noqa: SLF001
    assert server.wait_exit(7, 0) is None
    high[1].sendall(b'["ended", 7, 3, 0]\n')
    exited = server.wait_exit(7, time.monotonic())
    assert exited is not None
    assert exited.status == 3


def test_fork_server_serves_a_channel_with_a_high_descriptor(high: tuple[Channel, socket.socket]) -> None:
    program = """
import socket, sys
from inturn.worker.channel import Channel
from inturn.worker.child import ForkServerProcess
ForkServerProcess(Channel(socket.socket(fileno=int(sys.argv[1])), takes_fds=True), print).serve()
"""
    fd = high[0].fileno()
    high[1].shutdown(socket.SHUT_WR)
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(fd)], pass_fds=[fd], check=True, timeout=30
    )


def test_question_about_a_document_that_was_taken_back_is_answered(asking: Asking) -> None:
    """A child may begin a document just when the worker takes it back; it would wait for ever."""
    asking.child.jobs.clear()
    asking.ask()
    asking.theirs.settimeout(10)
    assert json.loads(asking.theirs.recv(4_096)) == ["answer", 0, "retry", "the document is no longer processed"]
