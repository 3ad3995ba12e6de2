"""S46 to S50: clocks that are wrong, and what maintenance needs to know of them."""

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
    """One clock is wrong for a while, or for good."""

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_lease_of_a_clock_ahead_lasts_its_own_length(self, rig: StoreHarness, jump: int) -> None:
        """From the first look of a clock that is right."""
        id_ = rig.submit_one("acme")
        rig.advance(jump)
        rig.claim_one()
        rig.advance(-jump)
        assert rig.store.sweep() == SweepResult()
        assert rig.store.ahead_of_clock() == AheadOfClock(leases=1)
        rig.advance(59)
        assert rig.store.sweep() == SweepResult()
        assert rig.claim() == ()
        rig.advance(1)
        assert rig.store.sweep() == SweepResult(leases_lost=1)
        assert rig.claim_one().document.id == id_
        assert rig.store.ahead_of_clock() == AheadOfClock()
        assert rig.store.recount(repair=False) == ()

    def test_s46_a_lost_lease_of_a_clock_ahead_is_an_attempt(self, rig: StoreHarness) -> None:
        """The last one fails the document."""
        id_ = rig.submit_one("acme", max_attempts=1)
        rig.advance(YEAR_SECONDS)
        rig.claim_one()
        rig.advance(-YEAR_SECONDS)
        rig.store.sweep()
        rig.advance(60)
        assert rig.store.sweep() == SweepResult(leases_lost=1)
        assert rig.state(id_) is DocumentState.FAILED
        assert rig.store.events(0, limit=100)[-1].kind is EventKind.FAILED

    def test_s46_a_heartbeat_ends_the_doubt(self, rig: StoreHarness) -> None:
        """Whatever its own clock says, the worker lives."""
        rig.submit_one("acme")
        rig.advance(YEAR_SECONDS)
        claimed = rig.claim_one()
        pair = [(claimed.document.id, claimed.fence)]
        rig.advance(-YEAR_SECONDS)
        for _ in range(5):
            rig.store.sweep()
            rig.advance(40)
            assert rig.store.sweep() == SweepResult()
            assert rig.store.heartbeat(pair, LEASE, now=rig.clock.now() + seconds(YEAR_SECONDS)) == (LeaseStatus.HELD,)
        assert rig.store.heartbeat(pair, LEASE) == (LeaseStatus.HELD,)
        assert rig.document(claimed.document.id).lease_until == rig.clock.now() + LEASE
        rig.advance(60)
        assert rig.store.sweep() == SweepResult(leases_lost=1)

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_clock_behind_takes_no_lease_from_a_worker_that_lives(self, rig: StoreHarness, jump: int) -> None:
        """It looks and looks, and the worker's heartbeats come as ever."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        pair = [(claimed.document.id, claimed.fence)]
        for _ in range(5):
            assert rig.store.sweep(now=rig.clock.now() - seconds(jump)) == SweepResult()
            assert rig.store.sweep() == SweepResult()
            rig.advance(30)
            assert rig.store.sweep(now=rig.clock.now() - seconds(jump)) == SweepResult()
            assert rig.store.heartbeat(pair, LEASE) == (LeaseStatus.HELD,)
        assert rig.ack(claimed) == "recorded"

    def test_s46_a_claim_begins_without_doubt(self, rig: StoreHarness) -> None:
        """What was doubted of an earlier lease counts no more."""
        rig.submit_one("acme")
        for jump in (YEAR_SECONDS, 2 * YEAR_SECONDS):
            rig.advance(jump)
            claimed = rig.claim_one()
            rig.advance(-jump)
            rig.store.sweep()
            rig.advance(59)
            rig.store.sweep()
            rig.queue.release(claimed)
        rig.advance(YEAR_SECONDS)
        rig.claim_one()
        rig.advance(-YEAR_SECONDS)
        rig.advance(30)
        assert rig.store.sweep() == SweepResult()
        rig.advance(30)
        assert rig.store.sweep() == SweepResult()
        rig.advance(30)
        assert rig.store.sweep() == SweepResult(leases_lost=1)

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_delay_of_a_clock_ahead_lasts_its_own_length(self, rig: StoreHarness, jump: int) -> None:
        """Of a submit and of a retry."""
        submitted = rig.store.now()
        rig.advance(jump)
        first = rig.submit_one("acme", delay=seconds(100))
        second = rig.submit_one("beta")
        failed = rig.claim_one()
        assert failed.document.id == second
        rig.ack(failed, OutcomeKind.FAILED, error="busy", retry_in=seconds(200))
        rig.advance(-jump)
        assert rig.store.now() == submitted
        rig.store.sweep()
        assert rig.store.ahead_of_clock() == AheadOfClock(delays=2)
        rig.advance(99)
        assert rig.store.sweep() == SweepResult()
        rig.advance(1)
        assert rig.store.sweep() == SweepResult(due=1)
        assert rig.state(first) is DocumentState.WAITING
        rig.advance(100)
        assert rig.store.sweep() == SweepResult(due=1)
        assert rig.finish_all() == [first, second]
        assert rig.store.ahead_of_clock() == AheadOfClock()

    def test_s46_a_delay_is_not_cut_short_by_a_clock_behind(self, rig: StoreHarness) -> None:
        """Its own length passes on every clock."""
        id_ = rig.submit_one("acme", delay=seconds(100))
        for _ in range(9):
            rig.advance(10)
            assert rig.store.sweep(now=rig.clock.now() - seconds(YEAR_SECONDS)) == SweepResult()
            assert rig.store.sweep() == SweepResult()
        assert rig.state(id_) is DocumentState.DELAYED

    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_s46_a_rate_charged_by_a_clock_ahead_closes_for_no_longer_than_it_may(
        self, rig: StoreHarness, jump: int
    ) -> None:
        """Three in a minute: one more after 20 seconds."""
        rig.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        rig.submit("acme", 10)
        rig.advance(jump)
        assert len(rig.claim(10)) == 3
        rig.advance(-jump)
        assert rig.claim() == ()
        assert rig.store.ahead_of_clock() == AheadOfClock(leases=3, rates=1)
        rig.store.sweep()
        assert rig.store.ahead_of_clock() == AheadOfClock(leases=3)
        rig.advance(19)
        assert rig.claim() == ()
        rig.advance(1)
        assert len(rig.claim(5)) == 1
        assert rig.store.recount(repair=False) == ()

    def test_s46_a_charge_ahead_that_closed_nothing_counts_as_a_whole_burst(self, rig: StoreHarness) -> None:
        """The next start brings it back by itself."""
        rig.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        rig.submit("acme", 10)
        rig.advance(YEAR_SECONDS)
        rig.claim_one()
        rig.advance(-YEAR_SECONDS)
        rig.claim_one()
        assert rig.claim() == ()
        rig.advance(20)
        assert len(rig.claim(5)) == 1

    def test_s46_a_clock_that_steps_back_a_little_changes_nothing(self, rig: StoreHarness) -> None:
        """What began a moment ago goes on."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        rig.advance(-5)
        assert rig.store.sweep() == SweepResult()
        rig.advance(64)
        assert rig.store.sweep() == SweepResult()
        assert rig.document(claimed.document.id).lease_until == START + LEASE
        rig.advance(1)
        assert rig.store.sweep() == SweepResult(leases_lost=1)

    def test_s46_a_worker_of_the_future_is_forgotten(self, rig: StoreHarness) -> None:
        """Or it would count as alive for years."""
        report = WorkerReport("w", "host", 1, 1, 0, "p", 0)
        rig.store.record_worker(report, now=rig.clock.now() + seconds(DAY_SECONDS))
        rig.store.sweep()
        assert len(rig.store.workers()) == 1
        rig.store.record_worker(report, now=rig.clock.now() + seconds(YEAR_SECONDS))
        rig.store.sweep()
        assert rig.store.workers() == ()

    def test_s47_the_store_tells_the_time(self, rig: StoreHarness) -> None:
        """By its clock, if it was given one."""
        assert rig.store.now() == START
        rig.advance(7)
        assert rig.store.now() == START + seconds(7)

    def test_s49_the_last_round_is_remembered(self, rig: StoreHarness) -> None:
        """As it was set."""
        assert rig.store.maintenance() is None
        for record in (
            MaintenanceRecord(START),
            MaintenanceRecord(START + 1, "boot", 17, START + 2, -5, 3, 4, (Checkpoint(1, 2), Checkpoint(3, 4))),
        ):
            rig.store.record_maintenance(record)
            assert rig.store.maintenance() == record

    def test_s50_what_a_prune_would_delete_is_counted(self, rig: StoreHarness) -> None:
        """With the same conditions."""
        rig.submit("acme", 3)
        rig.submit("keeps", 2)
        rig.queue.change_customer("keeps", ANNA, keep=seconds(1_000))
        rig.finish_all()
        rig.advance(10)
        rig.submit("acme", 1)
        rig.finish_all()
        rig.submit("acme", 1)
        at = rig.clock.now()
        assert rig.store.prunable(at) == 3
        assert rig.store.prunable(at + 1) == 4
        assert rig.store.prunable(at, customer="keeps") == 2
        assert rig.store.prunable(0) == 0
        second = sorted(document.seq for document in rig.all_documents())[1]
        assert rig.store.prunable(at, up_to=second) == 2
        assert rig.store.prunable(at, customer="keeps", up_to=second) == 0
        assert rig.store.prune(at, limit=100, customer="keeps", up_to=second).documents == 0
        assert rig.store.prune(at, limit=100, up_to=second).documents == 2
        assert rig.store.prune(at, limit=100).documents == 1
        assert rig.store.prunable(at) == 0
        with pytest.raises(NotFoundError):
            rig.store.prunable(at, customer="nobody")
