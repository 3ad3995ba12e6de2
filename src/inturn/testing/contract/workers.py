"""Heartbeats, worker reports and paused workers."""

import pytest

from inturn.errors import NotFoundError
from inturn.model import Claim, DocumentState
from inturn.store_answers import SweepResult
from inturn.store_types import ClaimRequest, EventKind, LeaseStatus, Operator
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, guarantee
from inturn.testing.contract.sweep import YEAR_SECONDS
from inturn.values import seconds
from inturn.worker_report import Progress, WorkerPause, WorkerReport


class TestHeartbeat:
    """Test `Store.heartbeat`."""

    @guarantee("S14")
    def test_holds_the_lease(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        for _ in range(5):
            harness.advance(50)
            assert harness.queue.heartbeat([claimed], lease=LEASE) == (LeaseStatus.HELD,)
            assert harness.claim() == ()
        assert harness.document(claimed.document.id).lease_until == harness.clock.now() + LEASE
        assert harness.store.next_due() == harness.clock.now() + LEASE
        harness.queue.finish(claimed)
        assert harness.store.next_due() is None

    @guarantee("S14")
    def test_may_shorten_the_lease(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.queue.heartbeat([claimed], lease=seconds(1))
        harness.advance(1)
        assert harness.claim_one().document.attempt == 2

    @guarantee("S14")
    def test_reports_cancelled_and_lost_claims(self, harness: StoreHarness) -> None:
        harness.submit("acme", 4)
        cancelled, lost, finished, held = harness.claim(4)
        harness.queue.finish(finished)
        harness.queue.cancel(cancelled.document.id, ANNA)
        assert harness.queue.heartbeat([cancelled, finished, held], lease=seconds(100)) == (
            LeaseStatus.CANCELLED,
            LeaseStatus.LOST,
            LeaseStatus.HELD,
        )
        harness.advance(61)
        assert harness.claim_one().document.id == lost.document.id
        assert harness.queue.heartbeat([lost, held], lease=LEASE) == (LeaseStatus.LOST, LeaseStatus.HELD)
        unknown = lost.document._replace(id="018f3c5e-0000-7000-8000-000000000000")
        assert harness.queue.heartbeat([Claim(unknown, 1)], lease=LEASE) == (LeaseStatus.LOST,)

    @guarantee("S46")
    def test_ends_the_doubt_about_a_lease(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        harness.advance(YEAR_SECONDS)
        claimed = harness.claim_one()
        pair = [(claimed.document.id, claimed.fence)]
        harness.advance(-YEAR_SECONDS)
        for _ in range(5):
            harness.store.sweep()
            harness.advance(40)
            assert harness.store.sweep() == SweepResult()
            assert harness.store.heartbeat(pair, LEASE, now=harness.clock.now() + seconds(YEAR_SECONDS)) == (
                LeaseStatus.HELD,
            )
        assert harness.store.heartbeat(pair, LEASE) == (LeaseStatus.HELD,)
        assert harness.document(claimed.document.id).lease_until == harness.clock.now() + LEASE
        harness.advance(60)
        assert harness.store.sweep() == SweepResult(leases_lost=1)


class TestWorkers:
    """Test `Store.record_worker`, `Store.forget_worker` and `Store.workers`."""

    @guarantee("S35")
    def test_reports_are_stored_until_a_worker_stops_or_is_silent_for_a_day(self, harness: StoreHarness) -> None:
        busy = WorkerReport("b", "host", 7, 2, 1, "extract", START, progress={"x": Progress(1, 4)}, at_work={"x": 5})
        other = busy._replace(name="a", at_work=None, version="1.2.3")
        for report in (busy._replace(busy=0, at_work={"y": 1}), busy, other, busy._replace(name="c")):
            harness.store.record_worker(report)
        harness.store.forget_worker("c")
        assert [worker.report for worker in harness.store.workers()] == [other, busy]
        assert harness.store.workers()[0].seen_at == START
        harness.advance(86_400)
        harness.store.record_worker(busy)
        harness.advance(1)
        harness.store.sweep()
        assert [worker.report.name for worker in harness.store.workers()] == ["b"]


BEN = Operator("ben", "it has new memory")


class TestPauseWorker:
    """Test `Store.pause_worker` and `Store.resume_worker`."""

    @guarantee("S62")
    def test_a_paused_worker_finishes_and_claims_nothing_more(self, harness: StoreHarness) -> None:
        report(harness, "worker")
        report(harness, "other")
        harness.submit("acme", 3)
        held = harness.claim_one()
        harness.store.pause_worker("worker", ANNA)
        assert harness.claim(5) == ()
        assert harness.queue.heartbeat([held], lease=LEASE) == (LeaseStatus.HELD,)
        answer = harness.store.ack_and_claim([harness.queue.done(held)], ClaimRequest("worker", 5, LEASE))
        assert (harness.state(held.document.id), answer.claimed) == (DocumentState.DONE, ())
        assert len(harness.claim(5, worker="other")) == 2
        harness.store.resume_worker("worker", BEN)
        harness.submit_one("acme")
        assert len(harness.claim(5)) == 1

    @guarantee("S62")
    def test_its_claim_still_processes_what_is_due(self, harness: StoreHarness) -> None:
        report(harness, "worker")
        lost = harness.submit_one("acme")
        harness.claim_one()
        harness.store.pause_worker("worker", ANNA)
        harness.advance(61)
        assert harness.claim() == ()
        assert harness.state(lost) is DocumentState.WAITING

    @guarantee("S62")
    def test_says_who_paused_it_and_why_and_writes_events(self, harness: StoreHarness) -> None:
        report(harness, "worker")
        harness.advance(5)
        harness.store.pause_worker("worker", ANNA)
        (worker,) = harness.store.workers()
        assert (worker.paused, worker.open_slots) == (WorkerPause(*ANNA, harness.clock.now()), 0)
        harness.store.resume_worker("worker", BEN)
        assert harness.store.workers()[0].paused is None
        resumed, paused = harness.store.audit(limit=2)
        assert (paused.kind, paused.operator, paused.detail) == (EventKind.WORKER_PAUSED, ANNA, {"worker": "worker"})
        assert (resumed.kind, resumed.operator, resumed.detail) == (EventKind.WORKER_RESUMED, BEN, {"worker": "worker"})

    @guarantee("S63")
    def test_a_new_process_of_the_same_name_is_not_paused(self, harness: StoreHarness) -> None:
        report(harness, "worker")
        harness.store.pause_worker("worker", ANNA)
        report(harness, "worker")
        assert harness.store.workers()[0].paused is not None
        report(harness, "worker", started_at=START + 1)
        assert harness.store.workers()[0].paused is None
        harness.submit_one("acme")
        assert len(harness.claim()) == 1

    @guarantee("S62")
    def test_a_worker_that_does_not_report_cannot_be_paused(self, harness: StoreHarness) -> None:
        report(harness, "worker")
        harness.store.forget_worker("worker")
        for call in (harness.store.pause_worker, harness.store.resume_worker):
            with pytest.raises(NotFoundError, match="no worker 'worker'"):
                call("worker", ANNA)
        assert harness.store.audit(limit=1) == ()


def report(harness: StoreHarness, name: str, *, started_at: int = START) -> None:
    """Report a worker of this name."""
    harness.store.record_worker(WorkerReport(name, "host", 7, 2, 0, "extract", started_at))
