"""What a processor, a child in hostile hands, or bad luck might do to a worker, and must not."""

import json
import os
import signal
import threading
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import processors
from inturn.blobs import BlobWriter, FolderBlobs
from inturn.config import DEFAULT_PROCESSOR
from inturn.model import DocumentState
from inturn.store_types import EventKind
from inturn.worker import dispatcher
from inturn.worker.pool import ProcessorError
from inturn.worker.waiter import Waiter
from inturn.worker.worker import OutcomeCounts
from waiting import TIMEOUT_SECONDS
from worker_harness import (
    DONE,
    FAILED,
    PROCESSORS,
    SECOND,
    TEST_OPERATOR,
    WorkerHarness,
    children_of,
    descendants_of,
    eventually,
    is_alive,
    max_overlap,
)

SOAK = os.environ.get("INTURN_SOAK") == "1"

# -- results that are hard to keep ----------------------------------------------------------------------------------


@pytest.mark.parametrize("processor", PROCESSORS)
def test_text_that_no_database_takes_fails_its_document_alone(harness: WorkerHarness, processor: str) -> None:
    """File names and badly decoded text have lone surrogates; Python passes them on, UTF-8 does not."""
    bad, good = harness.submit("surrogate", max_attempts=2), harness.submit("echo", "other")
    harness.run_until_empty(processor)
    assert (harness.state(bad), harness.state(good)) == (FAILED, DONE)
    assert "JSON" in (harness.queue.document(bad).error or "")


def test_control_characters_make_a_result_larger_than_it_looks(harness: WorkerHarness) -> None:
    bad, good = harness.submit("repeat", text="\x01", times=50_000, max_attempts=1), harness.submit("echo", "other")
    harness.run_until_empty()
    assert (harness.state(bad), harness.state(good)) == (DONE, DONE)


def test_a_result_may_be_too_deep_but_hurts_nobody(harness: WorkerHarness) -> None:
    depths = (500, 900, 960, 975, 2_000)
    bad = [harness.submit("deep", levels=levels, max_attempts=1) for levels in depths]
    good = harness.submit_many(len(depths), "echo", "other")
    harness.run_until_empty()
    assert {harness.state(id_) for id_ in bad} <= {DONE, FAILED}
    assert {harness.state(id_) for id_ in good} == {DONE}


def test_an_odd_delay_hurts_nobody(harness: WorkerHarness) -> None:
    delays = ("text", "huge", "negative", "list", "infinite")
    bad = [harness.submit("retry_oddly", after=after, max_attempts=2) for after in delays]
    good = harness.submit_many(len(delays), "echo", "other")
    running = harness.start_worker()
    eventually(lambda: {harness.state(id_) for id_ in good} == {DONE})
    eventually(lambda: {harness.state(id_) for id_ in bad} <= {FAILED, DocumentState.DELAYED})
    running.stop()


def test_a_document_may_be_opened_twice_at_once(harness: WorkerHarness) -> None:
    id_ = harness.submit("read", content=b"some bytes")
    harness.run_until_empty()
    first, second, third = harness.queue.result(id_)
    assert first == second == third


def test_the_document_itself_may_be_a_file_of_the_result(harness: WorkerHarness) -> None:
    from inturn.sandbox.confinement import SandboxLimits  # noqa: PLC0415

    content = b"some bytes"
    id_ = harness.submit("own_bytes", content=content, max_attempts=1)
    harness.run_until_empty(box=SandboxLimits())
    assert harness.state(id_) is DONE, harness.queue.document(id_).error
    with harness.blobs.open(harness.queue.files(id_)[0].blob) as source:
        assert source.read() == content


class SlowBlobs(FolderBlobs):
    """Keeps nothing until told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked, self.go = threading.Event(), threading.Event()

    def begin(self, *, limit: int | None = None) -> BlobWriter:
        self.asked.set()
        self.go.wait(TIMEOUT_SECONDS)
        return super().begin(limit=limit)


def test_a_childs_files_are_kept_though_it_was_replaced_meanwhile(harness: WorkerHarness, marker_dir: Path) -> None:
    slow = SlowBlobs(harness.folder / "blobs")
    id_ = harness.submit("files", place=str(marker_dir), max_attempts=1)
    running = harness.start_worker(blobs=slow, slots=2, documents_per_child=1)
    assert slow.asked.wait(TIMEOUT_SECONDS)
    for _ in range(4):
        other = harness.submit("echo", "other")
        eventually(lambda other=other: harness.state(other) is DONE)
    slow.go.set()
    eventually(lambda: harness.state(id_) in {DONE, FAILED})
    assert harness.queue.document(id_).error is None
    running.stop()
    assert len(harness.queue.files(id_)) == 3


def test_a_worker_stopped_at_once_while_it_keeps_files_burns_no_attempt(
    harness: WorkerHarness, marker_dir: Path
) -> None:
    slow = SlowBlobs(harness.folder / "blobs")
    id_ = harness.submit("files", place=str(marker_dir), max_attempts=1)
    running = harness.start_worker(blobs=slow)
    assert slow.asked.wait(TIMEOUT_SECONDS)
    running.worker.stop(at_once=True)
    threading.Timer(0.3, slow.go.set).start()
    running.wait()
    slow.go.set()
    document = harness.queue.document(id_)
    assert (document.state, document.attempt, document.error) in {
        (DocumentState.WAITING, 0, None),
        (DONE, 1, None),
    }


def test_a_worker_told_to_stop_while_it_fetches_bytes_hands_them_back_and_ends(harness: WorkerHarness) -> None:
    class SlowToRead(FolderBlobs):
        asked, go = threading.Event(), threading.Event()

        def check(self, key: str, sha256: str) -> None:
            self.asked.set()
            self.go.wait(TIMEOUT_SECONDS)
            super().check(key, sha256)

    slow = SlowToRead(harness.folder / "blobs")
    id_ = harness.submit("echo", content=bytes(2 << 20))
    running = harness.start_worker(blobs=slow, grace=3_600 * SECOND)
    assert slow.asked.wait(TIMEOUT_SECONDS)
    running.worker.stop()
    slow.go.set()
    running.wait()
    document = harness.queue.document(id_)
    assert (document.state, document.attempt) in {(DocumentState.WAITING, 0), (DONE, 1)}


# -- slots ----------------------------------------------------------------------------------------------------------


QUICK = [*product(PROCESSORS, (1, 7, 1_000))] if SOAK else [*zip(PROCESSORS, (1, 7, 1_000), strict=True)]


@pytest.mark.parametrize(("processor", "documents_per_child"), QUICK)
def test_quick_documents_exceed_no_slots(
    harness: WorkerHarness, tmp_path: Path, processor: str, documents_per_child: int
) -> None:
    log = tmp_path / "log"
    times = {1: 4, 7: 20, 1_000: 60}[documents_per_child]
    for customer in ("a", "b", "c"):
        harness.submit_many(times, "overlap", customer, log=str(log), seconds=0.001)
    harness.run_until_empty(processor, slots=2, documents_per_child=documents_per_child)
    assert harness.states() == {"done": 3 * times}
    assert max_overlap(log) <= 2


def test_a_slow_document_holds_up_no_other(harness: WorkerHarness, marker_dir: Path) -> None:
    """Quick ones before it let the worker claim ahead; the slow one ends only when all the others have."""
    harness.submit_many(40, "sign", "quick", place=str(marker_dir))
    slow = harness.submit("wait", "slow", place=str(marker_dir), sign="signed-*", n=100, max_attempts=1)
    harness.submit_many(60, "sign", "behind", place=str(marker_dir))
    harness.run_until_empty(slots=2)
    assert (harness.state(slow), harness.states()) == (DONE, {"done": 101})


def test_cancelling_what_stands_behind_a_slow_document_leaves_that_alone(
    harness: WorkerHarness, marker_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "CANCEL_GRACE_SECONDS", 0.2)
    harness.submit_many(40, "sign", "quick", place=str(marker_dir))
    running = harness.start_worker(slots=1, lease=SECOND)
    eventually(lambda: harness.states() == {"done": 40})
    slow = harness.submit("wait", "slow", place=str(marker_dir), sign="go", max_attempts=1)
    behind = harness.submit_many(10, "sign", "slow", place=str(marker_dir))
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*"))
    for id_ in behind:
        harness.queue.cancel(id_, TEST_OPERATOR)
    harness.wait_for_heartbeats(slow, 4)  # the first learns of the cancelling, and three take longer than the grace
    (marker_dir / "go").touch()
    eventually(lambda: harness.state(slow) in {DONE, FAILED})
    assert running.stop().failed == 0
    assert (harness.state(slow), harness.queue.document(slow).error) == (DONE, None)


@pytest.mark.parametrize("processor", PROCESSORS[1:])
def test_one_that_hangs_costs_the_others_in_its_child_no_attempt(
    harness: WorkerHarness, marker_dir: Path, processor: str
) -> None:
    bad = harness.submit("sleep" if processor == PROCESSORS[1] else "watch", place=str(marker_dir), max_attempts=1)
    others = harness.submit_many(3, "meet", "other", n=99, max_attempts=1)
    running = harness.start_worker(processor, slots=4, timeout=SECOND // 2)
    eventually(lambda: harness.state(bad) is FAILED)
    running.stop(at_once=True)
    assert processors.count_files(str(marker_dir), "begun-*") == 1
    errors = {harness.queue.document(id_).error for id_ in others} - {None}
    assert all("longer than 0.5 s" in error for error in errors)  # their own, never another's


def test_a_thread_that_exits_is_an_outcome(harness: WorkerHarness) -> None:
    bad, good = harness.submit("leave", max_attempts=1), harness.submit("echo", "other")
    harness.run_until_empty("processors:act_in_threads", timeout=20 * SECOND)
    assert (harness.state(bad), harness.state(good)) == (FAILED, DONE)
    assert "longer than" not in (harness.queue.document(bad).error or "")


def test_a_document_cancelled_before_its_task_begins_frees_its_slot(harness: WorkerHarness, marker_dir: Path) -> None:
    blocking = harness.submit("block", place=str(marker_dir), sign="go")
    running = harness.start_worker("processors:act_in_loop", slots=2, lease=SECOND // 2)
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*"))
    cancelled = harness.submit("sign", "other", place=str(marker_dir))
    eventually(lambda: harness.state(cancelled) is DocumentState.RUNNING)
    harness.queue.cancel(cancelled, TEST_OPERATOR)
    harness.wait_for_heartbeats(blocking, 3)  # the child has been told
    (marker_dir / "go").touch()
    met = harness.submit_many(2, "meet", "third", n=2, max_attempts=1)
    for id_ in met:
        eventually(lambda id_=id_: harness.state(id_) is DONE)
    running.stop()
    assert processors.count_files(str(marker_dir), "signed-*") == 0


# -- children -------------------------------------------------------------------------------------------------------


def test_a_child_that_cannot_end_by_itself_is_ended_when_it_is_replaced(harness: WorkerHarness) -> None:
    before = len(children_of(os.getpid()))
    running = harness.start_worker(slots=1, documents_per_child=1)
    for _ in range(6):
        id_ = harness.submit("stay")
        eventually(lambda id_=id_: harness.state(id_) is DONE)
    id_ = harness.submit("echo")
    eventually(lambda: harness.state(id_) is DONE)
    eventually(lambda: len(children_of(os.getpid())) - before <= 2, "children that were replaced are still there")
    running.stop()


def test_a_child_that_grew_is_replaced_after_its_document(harness: WorkerHarness) -> None:
    running, ids = harness.start_worker(slots=1, memory_per_child=1 << 20), []
    for _ in range(3):  # one after another: none is claimed ahead
        ids.append(harness.submit("grow"))
        eventually(lambda: harness.state(ids[-1]) is DONE)
    running.stop()
    assert len({harness.queue.result(id_) for id_ in ids}) == 3


@pytest.mark.parametrize("do", ["leave_now", "crash", "raise"])
def test_a_processor_that_dies_while_it_is_loaded_ends_the_worker(
    harness: WorkerHarness, tmp_path: Path, do: str
) -> None:
    ways = {"leave_now": "import os; os._exit(7)", "crash": "import ctypes; ctypes.string_at(1)", "raise": "1 / 0"}
    (tmp_path / f"dies_{do}.py").write_text(f"{ways[do]}\ndef act(document): ...\n", encoding="utf-8")
    id_ = harness.submit("echo")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        with pytest.raises(ProcessorError):
            harness.run_until_empty(f"dies_{do}:act")
    assert harness.queue.document(id_).attempt == 0
    assert harness.count_events(EventKind.STARTED) == {}


def test_nothing_is_claimed_before_the_processor_is_known_to_work(harness: WorkerHarness) -> None:
    harness.submit("echo")
    with pytest.raises(ProcessorError):
        harness.run_until_empty("nowhere_to_be_found:act")
    assert harness.count_events(EventKind.STARTED) == {}


def test_the_nursery_may_be_killed(harness: WorkerHarness) -> None:
    """Out of memory the kernel may choose it; the worker starts another."""
    others = set(children_of(os.getpid()))
    running = harness.start_worker(DEFAULT_PROCESSOR, slots=1)
    first = harness.submit("", content=b"# Title\n\nSome words.", name="a.md")
    eventually(lambda: harness.state(first) is DONE)
    ((fork_server, _),) = [other for other in set(children_of(os.getpid())) - others if descendants_of(other[0])]
    loaded = Path(f"/proc/{fork_server}/maps").read_text(encoding="utf-8")
    assert "/kreuzberg/" in loaded, "children would have to load it, each for itself"
    assert "/libpdfium" in loaded
    orphans = descendants_of(fork_server)
    os.kill(fork_server, signal.SIGKILL)
    eventually(lambda: not any(is_alive(*orphan) for orphan in orphans), "a child outlives the process that forked it")
    second = harness.submit("", content=b"# Title\n\nSome words.", name="b.md")
    eventually(lambda: harness.state(second) is DONE or not running.is_alive())
    assert running.stop().done == 2


NONSENSE = [
    '["begun"]',
    '["begun", [1]]',
    '["begun", {}]',
    '["what", NUMBER, 0, "", [], null]',
    '["done", NUMBER]',
    '["done", NUMBER, 0.0, "", [], null]',
    '["done", NUMBER, 0.0, "", [], {"json": "null", "size": 4}]',
    '["done", NUMBER, 0.0, "", []]',
    '=null\n["done", NUMBER, "long", "", []]',
    '=null\n["done", NUMBER, null, "", []]',
    '=null\n["done", NUMBER, 0.0, "", 5]',
    '=null\n["done", NUMBER, 0.0, "", [["a", "../../../../etc/passwd"]]]',
    '=null\n["done", NUMBER, 0.0, "", [["a"]]]',
    '=null\n["done", NUMBER, 0.0, "", [["a", 3]]]',
    '=null\n["error", NUMBER, 0.0, "", []]',
    '=null\n["retry", NUMBER, 0.0, "", []]',
    '="\\ud800"\n["done", NUMBER, 0.0, "", []]',
    '=NaN\n["done", NUMBER, 0.0, "", []]',
    '=1e400\n["done", NUMBER, 0.0, "", []]',
    '={"a": \n["done", NUMBER, 0.0, "", []]',
    '=1 2\n["done", NUMBER, 0.0, "", []]',
    '=\n["done", NUMBER, 0.0, "", []]',
    '=1\n=2\n["begun", NUMBER]',
    '["retry", NUMBER, 0.0, "", [], "soon"]',
    '["retry", NUMBER, 0.0, "", [], 1e300]',
    '["error", NUMBER, 0.0, "\\ud800", [], null]',
    '["error", NUMBER, 0.0, 5, [], null]',
    '["progress", NUMBER, "\\ud800", null]',
    '["progress", NUMBER, "x"]',
    '["progress", NUMBER, 1e400, null]',
    '["ready", "nowhere"]',
    '["ready"]',
    '["unready", "I am not well"]',
    '["unready"]',
    '["work", NUMBER, {}, true]',
    "[]",
    "{}",
    "no json",
    "\x00\x00",
    '["error", 99999999999999999999, 0.0, "", [], null]',
]


def test_a_child_in_hostile_hands_cannot_bring_the_worker_down(harness: WorkerHarness) -> None:
    """The worker that received nonsense processes the next document. Every document is the next number to it."""
    running = harness.start_worker(slots=1, lease=SECOND)
    for place, line in enumerate(NONSENSE):
        bad = harness.submit("talk_nonsense", line=line.replace("NUMBER", str(2 * place + 1)), max_attempts=1)
        eventually(lambda bad=bad: harness.state(bad) in {DONE, FAILED} or not running.is_alive(), line)
        assert json.dumps(harness.queue.result(bad), ensure_ascii=False, allow_nan=False).encode(), line
        good = harness.submit("echo", "other")
        eventually(lambda good=good: harness.state(good) is DONE or not running.is_alive(), line)
        assert running.is_alive(), line
    assert running.stop().done >= len(NONSENSE)


def test_what_a_child_says_may_be_deeper_than_the_stack(harness: WorkerHarness) -> None:
    bad, good = harness.submit("talk_deep", max_attempts=1), harness.submit("echo", "other")
    harness.run_until_empty(slots=1)
    assert harness.state(bad) in {DONE, FAILED}
    assert harness.state(good) is DONE


def test_a_child_cannot_fill_the_worker_with_descriptors(harness: WorkerHarness) -> None:
    running = harness.start_worker(slots=1)
    first = harness.submit("echo")
    eventually(lambda: harness.state(first) is DONE)
    before = len(list(Path("/proc/self/fd").iterdir()))
    bad = harness.submit("send_descriptors", max_attempts=1)
    eventually(lambda: harness.state(bad) in {DONE, FAILED})
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 100
    running.stop()


# -- the end --------------------------------------------------------------------------------------------------------


def test_the_bell_can_be_stopped_while_it_waits() -> None:
    entered, go = threading.Event(), threading.Event()

    def wait(_: float) -> None:
        entered.set()
        go.wait(TIMEOUT_SECONDS)

    queue: Any = SimpleNamespace(wait=wait)
    bell = Waiter(queue, lambda: None)
    bell.start()
    bell.start_waiting(1.0)
    assert entered.wait(TIMEOUT_SECONDS)
    stopping = threading.Thread(target=bell.stop, daemon=True)
    stopping.start()
    threading.Timer(0.1, go.set).start()
    stopping.join(TIMEOUT_SECONDS)
    assert not stopping.is_alive()


def test_a_worker_that_has_ended_writes_nowhere(harness: WorkerHarness, tmp_path: Path) -> None:
    """Its descriptors may be somebody else's by now."""
    harness.submit("echo")
    running = harness.start_worker(until_empty=True)
    running.wait()
    files = [(tmp_path / f"file {n}").open("wb") for n in range(8)]
    running.worker.stop()
    for file in files:
        file.close()
    assert [path.stat().st_size for path in tmp_path.glob("file *")] == [0] * 8


def test_a_worker_that_was_never_run_leaves_nothing(tmp_path: Path, harness: WorkerHarness) -> None:
    from inturn.worker.worker import Worker  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        before = set(tmp_path.iterdir())
        Worker(harness.queue, "processors:act", blobs=harness.blobs)
        assert set(tmp_path.iterdir()) == before


def test_a_worker_without_blobs_says_so(harness: WorkerHarness, marker_dir: Path) -> None:
    from inturn.worker.worker import Worker, WorkerOptions  # noqa: PLC0415

    id_ = harness.submit("files", place=str(marker_dir), max_attempts=1)
    tally = Worker(harness.queue, "processors:act", options=WorkerOptions(until_empty=True)).run()
    assert tally == OutcomeCounts(failed=1)
    assert "--blobs" in (harness.queue.document(id_).error or "")
