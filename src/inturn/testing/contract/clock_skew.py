"""S46 to S50: wrong clocks, the maintenance record, prunable documents."""

import pytest

from inturn.errors import NotFoundError
from inturn.model import DocumentState, RateLimit, WorkerReport, seconds
from inturn.policy.retention import Checkpoint
from inturn.store import AheadOfClock, EventKind, LeaseStatus, MaintenanceRecord, OutcomeKind, SweepResult
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite

DAY_SECONDS = 86_400
YEAR_SECONDS = 365 * DAY_SECONDS
CLOCK_JUMP_SECONDS = (DAY_SECONDS, YEAR_SECONDS, 10 * YEAR_SECONDS)


class ClockSkewTests(StoreSuite):
    """Test stores whose clocks differ, for a while or for good."""

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_lease_of_a_clock_ahead_lasts_its_own_length(self, harness: StoreHarness, jump: int) -> None:
        id_ = harness.submit_one("acme")
        harness.advance(jump)
        harness.claim_one()
        harness.advance(-jump)
        assert harness.store.sweep() == SweepResult()
        assert harness.store.ahead_of_clock() == AheadOfClock(leases=1)
        harness.advance(59)
        assert harness.store.sweep() == SweepResult()
        assert harness.claim() == ()
        harness.advance(1)
        assert harness.store.sweep() == SweepResult(leases_lost=1)
        assert harness.claim_one().document.id == id_
        assert harness.store.ahead_of_clock() == AheadOfClock()
        assert harness.store.recount(repair=False) == ()

    def test_s46_a_lost_lease_of_a_clock_ahead_is_an_attempt(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=1)
        harness.advance(YEAR_SECONDS)
        harness.claim_one()
        harness.advance(-YEAR_SECONDS)
        harness.store.sweep()
        harness.advance(60)
        assert harness.store.sweep() == SweepResult(leases_lost=1)
        assert harness.state(id_) is DocumentState.FAILED
        assert harness.store.events(0, limit=100)[-1].kind is EventKind.FAILED

    def test_s46_a_heartbeat_ends_the_doubt(self, harness: StoreHarness) -> None:
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

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_clock_behind_takes_no_lease_from_a_live_worker(self, harness: StoreHarness, jump: int) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        pair = [(claimed.document.id, claimed.fence)]
        for _ in range(5):
            assert harness.store.sweep(now=harness.clock.now() - seconds(jump)) == SweepResult()
            assert harness.store.sweep() == SweepResult()
            harness.advance(30)
            assert harness.store.sweep(now=harness.clock.now() - seconds(jump)) == SweepResult()
            assert harness.store.heartbeat(pair, LEASE) == (LeaseStatus.HELD,)
        assert harness.ack(claimed) == "recorded"

    def test_s46_a_claim_begins_without_doubt(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        for jump in (YEAR_SECONDS, 2 * YEAR_SECONDS):
            harness.advance(jump)
            claimed = harness.claim_one()
            harness.advance(-jump)
            harness.store.sweep()
            harness.advance(59)
            harness.store.sweep()
            harness.queue.release(claimed)
        harness.advance(YEAR_SECONDS)
        harness.claim_one()
        harness.advance(-YEAR_SECONDS)
        harness.advance(30)
        assert harness.store.sweep() == SweepResult()
        harness.advance(30)
        assert harness.store.sweep() == SweepResult()
        harness.advance(30)
        assert harness.store.sweep() == SweepResult(leases_lost=1)

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_delay_of_a_clock_ahead_lasts_its_own_length(self, harness: StoreHarness, jump: int) -> None:
        submitted = harness.store.now()
        harness.advance(jump)
        first = harness.submit_one("acme", delay=seconds(100))
        second = harness.submit_one("beta")
        failed = harness.claim_one()
        assert failed.document.id == second
        harness.ack(failed, OutcomeKind.FAILED, error="busy", retry_in=seconds(200))
        harness.advance(-jump)
        assert harness.store.now() == submitted
        harness.store.sweep()
        assert harness.store.ahead_of_clock() == AheadOfClock(delays=2)
        harness.advance(99)
        assert harness.store.sweep() == SweepResult()
        harness.advance(1)
        assert harness.store.sweep() == SweepResult(due=1)
        assert harness.state(first) is DocumentState.WAITING
        harness.advance(100)
        assert harness.store.sweep() == SweepResult(due=1)
        assert harness.finish_all() == [first, second]
        assert harness.store.ahead_of_clock() == AheadOfClock()

    def test_s46_a_delay_is_not_cut_short_by_a_clock_behind(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", delay=seconds(100))
        for _ in range(9):
            harness.advance(10)
            assert harness.store.sweep(now=harness.clock.now() - seconds(YEAR_SECONDS)) == SweepResult()
            assert harness.store.sweep() == SweepResult()
        assert harness.state(id_) is DocumentState.DELAYED

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_rate_charged_by_a_clock_ahead_closes_for_no_longer_than_it_may(
        self, harness: StoreHarness, jump: int
    ) -> None:
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        harness.submit("acme", 10)
        harness.advance(jump)
        assert len(harness.claim(10)) == 3
        harness.advance(-jump)
        assert harness.claim() == ()
        assert harness.store.ahead_of_clock() == AheadOfClock(leases=3, rates=1)
        harness.store.sweep()
        assert harness.store.ahead_of_clock() == AheadOfClock(leases=3)
        harness.advance(19)
        assert harness.claim() == ()
        harness.advance(1)
        assert len(harness.claim(5)) == 1
        assert harness.store.recount(repair=False) == ()

    def test_s46_a_charge_ahead_that_closed_nothing_counts_as_a_whole_burst(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        harness.submit("acme", 10)
        harness.advance(YEAR_SECONDS)
        harness.claim_one()
        harness.advance(-YEAR_SECONDS)
        harness.claim_one()
        assert harness.claim() == ()
        harness.advance(20)
        assert len(harness.claim(5)) == 1

    def test_s46_a_clock_that_steps_back_a_little_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(-5)
        assert harness.store.sweep() == SweepResult()
        harness.advance(64)
        assert harness.store.sweep() == SweepResult()
        assert harness.document(claimed.document.id).lease_until == START + LEASE
        harness.advance(1)
        assert harness.store.sweep() == SweepResult(leases_lost=1)

    def test_s46_a_worker_of_the_future_is_forgotten(self, harness: StoreHarness) -> None:
        report = WorkerReport("w", "host", 1, 1, 0, "p", 0)
        harness.store.record_worker(report, now=harness.clock.now() + seconds(DAY_SECONDS))
        harness.store.sweep()
        assert len(harness.store.workers()) == 1
        harness.store.record_worker(report, now=harness.clock.now() + seconds(YEAR_SECONDS))
        harness.store.sweep()
        assert harness.store.workers() == ()

    def test_s47_now_is_the_time_of_the_stores_clock(self, harness: StoreHarness) -> None:
        assert harness.store.now() == START
        harness.advance(7)
        assert harness.store.now() == START + seconds(7)

    def test_s49_the_maintenance_record_is_stored(self, harness: StoreHarness) -> None:
        assert harness.store.maintenance() is None
        for record in (
            MaintenanceRecord(START),
            MaintenanceRecord(START + 1, "boot", 17, START + 2, -5, 3, 4, (Checkpoint(1, 2), Checkpoint(3, 4))),
        ):
            harness.store.record_maintenance(record)
            assert harness.store.maintenance() == record

    def test_s50_prunable_counts_what_prune_deletes(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        harness.submit("keeps", 2)
        harness.queue.change_customer("keeps", ANNA, keep=seconds(1_000))
        harness.finish_all()
        harness.advance(10)
        harness.submit("acme", 1)
        harness.finish_all()
        harness.submit("acme", 1)
        at = harness.clock.now()
        assert harness.store.prunable(at) == 3
        assert harness.store.prunable(at + 1) == 4
        assert harness.store.prunable(at, customer="keeps") == 2
        assert harness.store.prunable(0) == 0
        second = sorted(document.seq for document in harness.all_documents())[1]
        assert harness.store.prunable(at, up_to=second) == 2
        assert harness.store.prunable(at, customer="keeps", up_to=second) == 0
        assert harness.store.prune(at, limit=100, customer="keeps", up_to=second).documents == 0
        assert harness.store.prune(at, limit=100, up_to=second).documents == 2
        assert harness.store.prune(at, limit=100).documents == 1
        assert harness.store.prunable(at) == 0
        with pytest.raises(NotFoundError):
            harness.store.prunable(at, customer="unknown")
