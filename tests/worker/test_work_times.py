"""When work on a document really began, and how long it took: as children measure it, and as the store keeps it."""

from itertools import pairwise

import pytest

from inturn.model import Document
from inturn.queue import DEFAULT_LEASE
from inturn.store_types import OutcomeKind, Work
from inturn.worker.inflight import InflightJobs
from worker_harness import SECOND, WorkerHarness, eventually

HELD_BACK = SECOND // 50
"""What two clocks and a commit may differ by."""


def most_at_a_time(documents: list[Document]) -> int:
    """How many were worked on at once, for longer than clocks differ."""
    edges = []
    for document in documents:
        assert document.began_at is not None
        assert document.worked is not None
        if document.worked > HELD_BACK:
            edges += [(document.began_at + HELD_BACK, 1), (document.began_at + document.worked, -1)]
    most = now = 0
    for _, step in sorted(edges):
        now += step
        most = max(most, now)
    return most


def test_what_is_claimed_ahead_is_not_at_work(harness: WorkerHarness) -> None:
    harness.submit_many(150, "rest", seconds=0)
    slow = harness.submit_many(6, "rest", seconds=0.1)
    harness.run_until_empty(slots=2)
    documents = [document for document in harness.all_documents() if document.id in slow]
    assert most_at_a_time(documents) <= 2
    for document in harness.all_documents():
        assert document.started_at is not None
        assert document.finished_at is not None
        assert document.began_at is not None
        assert document.worked is not None
        assert document.started_at <= document.began_at
        assert document.began_at + document.worked <= document.finished_at
    assert sum(document.worked or 0 for document in documents) >= 6 * SECOND // 10


def test_one_slot_works_on_one_document_after_another(harness: WorkerHarness) -> None:
    harness.submit_many(20, "rest", seconds=0.01)
    harness.run_until_empty(slots=1)
    times = sorted((document.began_at or 0, document.worked or 0) for document in harness.all_documents())
    worked = sum(took for _, took in times)
    assert worked >= 20 * SECOND // 100
    overlaps = sum(max(0, began + took - following) for (began, took), (following, _) in pairwise(times))
    assert overlaps < worked // 10


def test_an_attempt_that_failed_says_how_long_it_took(harness: WorkerHarness) -> None:
    id_ = harness.submit("rest", seconds=0.05, fails=True, max_attempts=2)
    harness.run_until_empty(slots=1)
    (first,) = harness.queue.attempts(id_)
    last = harness.queue.document(id_)
    for began_at, worked in ((first.began_at, first.worked), (last.began_at, last.worked)):
        assert began_at is not None
        assert worked is not None
        assert worked >= SECOND // 20


def test_what_could_not_be_prepared_took_no_work(harness: WorkerHarness) -> None:
    id_ = harness.queue.submit("acme", [harness.document(b"bytes")._replace(blob="0" * 32, max_attempts=1)])[0].id
    harness.run_until_empty(slots=1)
    assert harness.queue.document(id_).worked == 0


def test_a_worker_that_has_to_go_says_what_it_had_begun(harness: WorkerHarness) -> None:
    harness.submit_many(3, "sleep", place=str(harness.folder))
    running = harness.start_worker(slots=1)
    eventually(lambda: running.worker.report().at_work)
    eventually(lambda: any(worker.report.at_work for worker in harness.store.workers()))
    running.stop(at_once=True)
    works = [
        attempt.worked is not None
        for document in harness.all_documents()
        for attempt in harness.queue.attempts(document.id)
    ]
    assert works.count(True) == 1


def test_a_report_names_what_its_slots_work_on(harness: WorkerHarness) -> None:
    ids = harness.submit_many(4, "sleep", place=str(harness.folder))
    running = harness.start_worker(slots=2)
    report = eventually(lambda: (worker_report := running.worker.report()).busy == 2 and worker_report)
    assert len(report.at_work) == 2
    assert set(report.at_work) <= set(ids)
    assert all(took >= 0 for took in report.at_work.values())
    running.stop(at_once=True)


def test_a_child_cannot_have_worked_longer_than_it_had_the_document(harness: WorkerHarness) -> None:
    harness.submit("rest", seconds=0)
    ledger = InflightJobs(harness.queue, "a worker", DEFAULT_LEASE)
    (job,) = ledger.ack_and_claim(1)
    job.begun_at = job.claimed_at
    assert job.record_duration(-5) == 0
    assert job.work_time(job.claimed_at + 9, OutcomeKind.DONE) == Work(0, 0)
    assert 0 < job.record_duration(1e9) < 1e6


def test_the_instant_of_a_claim_is_told_by_the_quickest(harness: WorkerHarness) -> None:
    """One that took long to come back tells little; a clock that was set back tells at once."""
    harness.submit_many(3, "rest", seconds=0)
    ledger = InflightJobs(harness.queue, "a worker", DEFAULT_LEASE)
    jobs = InflightJobs(harness.queue, "another", DEFAULT_LEASE).ack_and_claim(3)
    claimed = [
        job.claim._replace(document=job.claim.document._replace(started_at=at * SECOND))
        for at, job in zip((1_000, 1_010, 1_005), jobs, strict=True)
    ]

    def instant(place: int, called: float, returned: float) -> float:
        (job,) = ledger._add_claims([claimed[place]], called, returned)  # noqa: SLF001 - a claim takes what time it takes
        return job.claimed_at

    assert instant(0, 5.0, 5.1) == pytest.approx(5.1)
    assert instant(1, 15.0, 19.0) == pytest.approx(15.1)
    assert instant(2, 20.0, 20.5) == pytest.approx(20.0)
