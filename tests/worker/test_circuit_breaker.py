"""When nearly everything fails, the queue pauses and says why; a few bad documents do not stop it."""

from pathlib import Path

import pytest

from inturn.blobs import FolderBlobs
from inturn.model import DocumentState
from inturn.worker.worker import OutcomeCounts
from worker_harness import (
    DONE,
    SECOND,
    TEST_OPERATOR,
    WorkerHarness,
    eventually,
)


def test_when_every_document_of_many_customers_fails_the_queue_pauses_and_says_why(harness: WorkerHarness) -> None:
    for n in range(5):
        harness.submit_many(80, "fail", f"customer {n}", message="the new model is missing", max_attempts=3)
    running = harness.start_worker(slots=2)
    eventually(lambda: harness.store.paused() or harness.states() == {"failed": 400})
    paused = harness.store.paused()
    assert paused is not None
    assert paused.name == "inturn"
    assert "failed" in paused.why
    assert "the new model is missing" in paused.why
    running.stop()
    assert (
        20 <= sum(document.attempt > 0 for document in harness.all_documents()) <= 22
    )  # and what ran beside the last one
    assert harness.queue.counts().states[DocumentState.WAITING] > 0


def test_when_the_queue_pauses_what_was_claimed_ahead_goes_back_and_costs_no_attempt(harness: WorkerHarness) -> None:
    running = harness.start_worker(slots=1)
    quick = harness.submit_many(100, "echo")
    eventually(lambda: all(harness.state(id_) is DONE for id_ in quick))
    harness.queue.pause(TEST_OPERATOR)
    slow = [id_ for n in range(6) for id_ in harness.submit_many(10, "fail_slowly", f"customer {n}", max_attempts=1)]
    harness.queue.resume(TEST_OPERATOR)
    eventually(lambda: (paused := harness.store.paused()) and paused.name == "inturn")
    eventually(lambda: not harness.states().get("running"))
    tally = running.stop()
    assert 20 <= tally.failed <= 25  # fifty were claimed at once
    waiting = [document for document in map(harness.queue.document, slow) if document.state is DocumentState.WAITING]
    assert len(waiting) == 60 - tally.failed
    assert {document.attempt for document in waiting} == {0}


def test_when_every_child_of_many_customers_crashes_the_queue_pauses(harness: WorkerHarness) -> None:
    for n in range(5):
        harness.submit_many(6, "leave_now", f"customer {n}", max_attempts=1)
    running = harness.start_worker(slots=2)
    paused = eventually(harness.store.paused)
    assert "ended itself" in paused.why
    running.stop()


@pytest.mark.parametrize(
    ("do", "customers"), [("reject", 8), ("fail", 1), ("fail", 4)], ids=["rejects", "one customer", "four customers"]
)
def test_the_queue_goes_on_after_rejects_and_failures_of_a_few(harness: WorkerHarness, do: str, customers: int) -> None:
    for n in range(customers):
        harness.submit_many(48 // customers, do, f"customer {n}", max_attempts=1)
    assert harness.run_until_empty() == OutcomeCounts(failed=48)
    assert harness.store.paused() is None


def test_one_that_works_between_failures_keeps_the_queue_going(harness: WorkerHarness) -> None:
    for n in range(60):
        harness.submit("echo" if n % 10 == 9 else "fail", f"customer {n % 6}", max_attempts=1)
    assert harness.run_until_empty(slots=1) == OutcomeCounts(done=6, failed=54)
    assert harness.store.paused() is None


def test_errors_that_no_database_takes_pause_the_queue_all_the_same(harness: WorkerHarness) -> None:
    for n in range(5):
        harness.submit_many(6, "fail_oddly", f"customer {n}", max_attempts=1)
    running = harness.start_worker()
    eventually(lambda: harness.store.paused() or not running.is_alive())
    assert running.stop().failed >= 20
    assert harness.store.paused() is not None


def test_when_everything_hangs_the_queue_pauses(harness: WorkerHarness, marker_dir: Path) -> None:
    for n in range(5):
        harness.submit_many(5, "sleep", f"customer {n}", place=str(marker_dir), max_attempts=1)
    running = harness.start_worker(slots=8, timeout=SECOND // 10)
    eventually(lambda: harness.store.paused() or harness.states() == {"failed": 25})
    running.stop()
    assert harness.store.paused() is not None


def test_when_all_bytes_are_missing_the_queue_pauses(harness: WorkerHarness) -> None:
    """A worker with the wrong folder must not fail every document of everybody."""
    for n in range(5):
        for _ in range(8):
            harness.submit("echo", f"customer {n}", b"bytes", max_attempts=1)
    running = harness.start_worker(blobs=FolderBlobs(harness.folder / "another folder"))
    eventually(lambda: harness.store.paused() or harness.states() == {"failed": 40})
    running.stop()
    assert harness.store.paused() is not None
    assert harness.states()["waiting"] > 0
