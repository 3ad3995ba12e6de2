"""Heartbeats and worker reports."""

from inturn.model import Claim, Progress, WorkerReport, seconds
from inturn.store import LeaseStatus, SweepResult
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, guarantee
from inturn.testing.contract.sweep import YEAR_SECONDS


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
        other = busy._replace(name="a", at_work=None)
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
