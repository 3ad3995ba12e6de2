"""A real worker with real children on SQLite: what becomes of documents, whatever their processor does."""

import os
from pathlib import Path

import pytest

import processors
from inturn.config import DEFAULT_PROCESSOR
from inturn.errors import InvalidInputError
from inturn.extract.extract import extract
from inturn.model import DocumentState
from inturn.queue import Queue
from inturn.sandbox.confinement import SandboxLimits
from inturn.store_types import EventKind
from inturn.stores.sqlite import SqliteStore
from inturn.worker import dispatcher
from inturn.worker.invoke import load_processor
from inturn.worker.pool import ProcessorError
from inturn.worker.worker import OutcomeCounts, Worker, WorkerOptions
from inturn.worker_report import Progress
from worker_harness import (
    DONE,
    PROCESSORS,
    SECOND,
    TEST_OPERATOR,
    WorkerHarness,
    children_of,
    eventually,
    max_overlap,
)

SMALL_BOX = SandboxLimits(memory_bytes=400 << 20, cpu_seconds=10, wall_seconds=30.0)


# -- the processor's name ---------------------------------------------------------------------------------------------


def test_earlier_name_of_the_default_processor_still_runs_it_in_the_sandbox(harness: WorkerHarness) -> None:
    worker = Worker(harness.queue, "inturn.processing.extract:extract", blobs=harness.blobs)
    assert worker.report().processor == DEFAULT_PROCESSOR
    assert worker._pool.spec.limits == SandboxLimits()  # noqa: SLF001 - no result shows by what its child was confined
    assert load_processor("inturn.processing.extract:extract") is extract


# -- slots ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 3])
def test_every_slot_works_at_once_in_a_process_of_its_own(harness: WorkerHarness, marker_dir: Path, slots: int) -> None:
    ids = harness.submit_many(slots, "meet", place=str(marker_dir), n=slots)
    assert harness.run_until_empty(slots=slots) == OutcomeCounts(done=slots)
    assert len({harness.queue.result(id_) for id_ in ids}) == slots


@pytest.mark.parametrize("processor", PROCESSORS)
def test_slots_are_never_exceeded(harness: WorkerHarness, tmp_path: Path, processor: str) -> None:
    log = tmp_path / "log"
    for customer in ("a", "b", "c"):
        harness.submit_many(10, "overlap", customer, log=str(log), seconds=0.03)
    assert harness.run_until_empty(processor, slots=3) == OutcomeCounts(done=30)
    assert max_overlap(log) <= 3


def test_only_what_can_start_is_claimed(harness: WorkerHarness, marker_dir: Path) -> None:
    harness.submit_many(20, "wait", place=str(marker_dir), sign="go")
    running = harness.start_worker(slots=2, lease=SECOND)
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*") == 2)
    (seen,) = eventually(lambda: [worker for worker in harness.store.workers() if worker.report.busy == 2])
    assert (seen.report.slots, seen.report.processor) == (2, "processors:act")
    assert harness.states() == {"running": 2, "waiting": 18}
    assert harness.count_events(EventKind.STARTED).total() == 2
    assert harness.count_events(EventKind.RELEASED).total() == 0
    (marker_dir / "go").touch()
    eventually(lambda: harness.states() == {"done": 20})
    assert running.stop() == OutcomeCounts(done=20)
    assert harness.store.workers() == ()


def test_two_workers_share_a_queue(harness: WorkerHarness, marker_dir: Path) -> None:
    met = harness.submit_many(2, "meet", place=str(marker_dir), n=2)
    ids = [id_ for n in range(6) for id_ in harness.submit_many(20, "echo", f"customer {n}")]
    both = [harness.start_worker(slots=1, until_empty=True), harness.start_worker(slots=1, until_empty=True)]
    tallies = [worker_thread.wait() for worker_thread in both]
    assert sum(tally.done for tally in tallies) == len(ids) + 2
    assert all(tallies[at].done for at in (0, 1))
    assert len({harness.queue.result(id_) for id_ in met}) == 2
    started, released = harness.count_events(EventKind.STARTED), harness.count_events(EventKind.RELEASED)
    # On a slow machine, documents claimed ahead are released and started again.
    assert started - released == harness.count_events(EventKind.FINISHED) == dict.fromkeys([*met, *ids], 1)


def test_a_child_is_replaced_after_so_many_documents(harness: WorkerHarness) -> None:
    ids = harness.submit_many(12, "echo")
    harness.run_until_empty(slots=1, documents_per_child=4)
    by_child = [harness.queue.result(id_)["pid"] for id_ in ids]
    assert len(set(by_child)) == 3
    assert all(by_child.count(pid) == 4 for pid in by_child)


@pytest.mark.parametrize("processor", PROCESSORS[1:])
def test_documents_are_worked_on_together_in_one_child(harness: WorkerHarness, processor: str) -> None:
    for n in range(6):
        harness.submit("meet", f"customer {n}", n=6)
    assert harness.run_until_empty(processor, slots=6) == OutcomeCounts(done=6)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_exceptions_are_outcomes_wherever_a_processor_runs(harness: WorkerHarness, processor: str) -> None:
    failed, rejected = harness.submit("fail", max_attempts=1), harness.submit("reject")
    retried, good = harness.submit("retry", until=2, after=0), harness.submit("echo")
    assert harness.run_until_empty(processor) == OutcomeCounts(done=2, retried=1, failed=2)
    assert (harness.queue.document(failed).error or "").startswith("LookupError: no such page")
    assert harness.queue.document(rejected).error == "no good"
    assert (harness.state(retried), harness.state(good)) == (DONE, DONE)


def test_an_object_that_can_be_awaited_is_a_processor(harness: WorkerHarness) -> None:
    id_ = harness.submit("nothing", name="by an object")
    harness.run_until_empty("processors:called")
    assert harness.queue.result(id_) == "by an object"


def test_a_function_is_as_good_as_its_name(harness: WorkerHarness) -> None:
    id_ = harness.submit("echo")
    assert harness.run_until_empty(processors.act) == OutcomeCounts(done=1)
    assert harness.state(id_) is DONE


# -- progress and cancelling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("processor", PROCESSORS[:2])
def test_progress_is_seen_in_the_workers_report(harness: WorkerHarness, marker_dir: Path, processor: str) -> None:
    id_ = harness.submit("progress", place=str(marker_dir), sign="go")
    running = harness.start_worker(processor, lease=SECOND)
    reported = eventually(lambda: [worker.report for worker in harness.store.workers() if worker.report.progress])
    assert reported[0].progress == {id_: Progress(3, 10)}
    assert (reported[0].name, reported[0].busy) == (running.worker.name, 1)
    (marker_dir / "go").touch()
    eventually(lambda: harness.state(id_) is DONE)
    running.stop()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_running_document_notices_that_it_was_cancelled(
    harness: WorkerHarness, marker_dir: Path, processor: str
) -> None:
    id_ = harness.submit("watch", place=str(marker_dir))
    running = harness.start_worker(processor, lease=SECOND)
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*"))
    harness.queue.cancel(id_, TEST_OPERATOR)
    eventually(lambda: processors.count_files(str(marker_dir), "noticed-*"))
    good = harness.submit("echo")
    eventually(lambda: harness.state(good) is DONE)
    tally = running.stop()
    assert tally._replace(stale=0) == OutcomeCounts(done=1)
    assert (harness.state(id_), harness.queue.result(id_)) == (DocumentState.CANCELLED, None)


def test_a_processor_that_does_not_look_is_ended_when_its_document_is_cancelled(
    harness: WorkerHarness, marker_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "CANCEL_GRACE_SECONDS", 0.2)
    id_ = harness.submit("sleep", place=str(marker_dir))
    running = harness.start_worker(slots=1, lease=SECOND)
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*"))
    harness.queue.cancel(id_, TEST_OPERATOR)
    good = harness.submit("echo")
    eventually(lambda: harness.state(good) is DONE)
    assert running.stop().done == 1
    assert harness.state(id_) is DocumentState.CANCELLED


# -- what it refuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processor", "words"),
    [
        ("nowhere_to_be_found:act", "no module 'nowhere_to_be_found'"),
        ("processors:nothing", "has no 'nothing'"),
        ("processors:not_callable", "cannot be called"),
        ("processors", "package.module:function"),
    ],
)
def test_a_processor_that_cannot_be_loaded_ends_the_worker(harness: WorkerHarness, processor: str, words: str) -> None:
    id_ = harness.submit("echo")
    with pytest.raises((ProcessorError, InvalidInputError), match=words):
        harness.run_until_empty(processor)
    assert (harness.state(id_), harness.queue.document(id_).attempt) == (DocumentState.WAITING, 0)
    assert harness.store.workers() == ()


def test_what_has_no_name_is_no_processor(harness: WorkerHarness) -> None:
    with pytest.raises(InvalidInputError, match="by its name"):
        Worker(harness.queue, lambda document: document)


@pytest.mark.parametrize("invalid", [{"slots": 0}, {"slots": 1_001}, {"lease": 1}, {"timeout": 0}, {"grace": -1}])
def test_options_out_of_range_are_refused(invalid: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        WorkerOptions(**invalid)  # type: ignore[arg-type]


def test_a_reference_is_rejected_where_nothing_is_fetched(harness: WorkerHarness) -> None:
    opened = harness.submit("read", uri="https://example.com/a.pdf")
    seen = harness.submit("echo", uri="https://example.com/b.pdf")
    assert harness.run_until_empty() == OutcomeCounts(done=1, failed=1)
    assert "--fetch example.com" in (harness.queue.document(opened).error or "")
    assert harness.queue.result(seen)["uri"] == "https://example.com/b.pdf"


def test_a_document_without_content_is_rejected_when_it_is_opened(harness: WorkerHarness) -> None:
    id_ = harness.submit("read")
    assert harness.run_until_empty() == OutcomeCounts(failed=1)
    assert "has no content" in (harness.queue.document(id_).error or "")


@pytest.mark.parametrize("size", [100, 3 << 20], ids=["small", "large"])
def test_damaged_and_missing_bytes_fail_with_words_and_are_never_processed(harness: WorkerHarness, size: int) -> None:
    damaged, missing, good = (harness.submit("read", f"customer {n}", bytes(size)) for n in range(3))
    keys = {id_: harness.queue.document(id_).spec.blob or "" for id_ in (damaged, missing)}
    with harness.blobs.local(keys[damaged]) as path:
        path.write_bytes(b"x" * size)
    harness.blobs.delete([keys[missing]])
    assert harness.run_until_empty() == OutcomeCounts(
        done=1, retried=2, failed=2
    )  # a missing one may be a wrong folder: tried again
    assert "is damaged: its SHA-256 is" in (harness.queue.document(damaged).error or "")
    assert "there is no blob" in (harness.queue.document(missing).error or "")
    assert harness.state(good) is DONE


# -- what goes on beside the work -----------------------------------------------------------------------------------


def test_a_busy_child_keeps_its_lease(harness: WorkerHarness, marker_dir: Path) -> None:
    """The lease would be lost many times over while the processor is deaf and the worker's loop has nothing to do."""
    id_ = harness.submit("wait", place=str(marker_dir), sign="go", max_attempts=1)
    running = harness.start_worker(lease=SECOND // 2)
    harness.wait_for_heartbeats(id_, 8)  # twice the lease
    other = SqliteStore(harness.path)
    assert other.sweep().leases_lost == 0
    other.close()
    (marker_dir / "go").touch()
    eventually(lambda: harness.state(id_) is DONE)
    assert running.stop() == OutcomeCounts(done=1)
    assert harness.count_events(EventKind.LEASE_LOST) == {}


def test_idle_workers_hear_of_new_documents(harness: WorkerHarness) -> None:
    running = harness.start_worker()
    eventually(harness.store.workers)
    other = SqliteStore(harness.path)
    elsewhere = Queue(other)
    ids = [elsewhere.submit("acme", [harness.document(do="echo")])[0].id for _ in range(3)]
    for id_ in ids:
        eventually(lambda id_=id_: harness.state(id_) is DONE)
    delayed = elsewhere.submit("acme", [harness.document(do="echo", delay=SECOND // 3)])[0].id
    eventually(lambda: harness.state(delayed) is DONE)
    other.close()
    assert running.stop() == OutcomeCounts(done=4)


def test_nothing_is_left_when_a_worker_has_ended(
    harness: WorkerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    harness.submit("sleep", place=str(tmp_path), max_attempts=1)
    harness.submit_many(20, "echo")
    ours = os.getpid()
    already = children_of(ours)
    assert harness.run_until_empty(timeout=SECOND) == OutcomeCounts(done=20, failed=1)
    assert [item for item in children_of(ours) if item not in already] == []
    assert {path.name for path in set(tmp_path.iterdir()) - before if not path.name.startswith("begun")} == set()


# -- a paused worker ------------------------------------------------------------------------------------------------


def test_a_paused_worker_finishes_what_it_has_and_goes_on_when_resumed(
    harness: WorkerHarness, marker_dir: Path
) -> None:
    running = harness.submit("wait", place=str(marker_dir), sign="release")
    worker = harness.start_worker("processors:act", name="w1", slots=2)
    eventually(lambda: any(marker_dir.glob("begun-*")) and harness.queue.workers())
    harness.queue.pause_worker("w1", TEST_OPERATOR)
    later = harness.submit("value", value=1)
    (marker_dir / "release").touch()
    eventually(lambda: harness.state(running) is DONE)
    assert harness.state(later) is DocumentState.WAITING
    harness.queue.resume_worker("w1", TEST_OPERATOR)
    eventually(lambda: harness.state(later) is DONE)
    assert worker.stop() == OutcomeCounts(done=2)
