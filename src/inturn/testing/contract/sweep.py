"""Sweeps, and clocks that differ, for a while or for good."""

import pytest

from inturn.model import DocumentState, RateLimit
from inturn.policy import Charge, Policy, TurnPolicy
from inturn.store_answers import AheadOfClock, SweepResult
from inturn.store_types import EventKind, LeaseStatus, OutcomeKind
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, guarantee
from inturn.values import seconds
from inturn.worker_report import WorkerReport

DAY_SECONDS = 86_400
YEAR_SECONDS = 365 * DAY_SECONDS
CLOCK_JUMP_SECONDS = (DAY_SECONDS, YEAR_SECONDS, 10 * YEAR_SECONDS)


class TestSweep:
    """Test `Store.sweep`, `Store.now` and `Store.ahead_of_clock`."""

    @guarantee("S27")
    def test_processes_everything_due(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("rated", ANNA, rate=(1, seconds(5)))
        harness.submit_one("rated")
        harness.submit_one("acme")
        harness.claim(2)
        harness.submit_one("acme", delay=seconds(10))
        expired = harness.submit_one("beta", start_by=START + seconds(10))
        harness.advance(60)
        assert harness.store.sweep() == SweepResult(expired=1, leases_lost=2, due=1, customers_opened=1)
        assert harness.store.sweep() == SweepResult()
        assert harness.state(expired) is DocumentState.EXPIRED
        assert len(harness.claim(10)) == 3

    @guarantee("S27")
    def test_keeps_lanes_that_are_ahead_of_v(self, harness: StoreHarness) -> None:
        """Also of customers of whom nothing runs, as where runs are not counted."""
        harness.set_policy(Policy(turns=TurnPolicy(charge=Charge.COST, max_share=1.0)))
        harness.submit("a", 1)
        harness.submit("b", 3)
        assert harness.claim_customers(2) == ["a", "b"]
        harness.store.sweep()
        harness.submit("a", 2)
        assert harness.claim_customers(4) == ["b", "a", "b", "a"]

    @guarantee("S46", "S48")
    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_lease_of_a_clock_ahead_lasts_its_own_length(self, harness: StoreHarness, jump: int) -> None:
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

    @guarantee("S46")
    def test_lost_lease_of_a_clock_ahead_is_an_attempt(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=1)
        harness.advance(YEAR_SECONDS)
        harness.claim_one()
        harness.advance(-YEAR_SECONDS)
        harness.store.sweep()
        harness.advance(60)
        assert harness.store.sweep() == SweepResult(leases_lost=1)
        assert harness.state(id_) is DocumentState.FAILED
        assert harness.store.events(0, limit=100)[-1].kind is EventKind.FAILED

    @guarantee("S46")
    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_clock_behind_takes_no_lease_from_a_live_worker(self, harness: StoreHarness, jump: int) -> None:
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

    @guarantee("S46")
    def test_claim_begins_without_doubt(self, harness: StoreHarness) -> None:
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

    @guarantee("S46", "S48")
    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_delay_of_a_clock_ahead_lasts_its_own_length(self, harness: StoreHarness, jump: int) -> None:
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

    @guarantee("S46")
    def test_delay_is_not_cut_short_by_a_clock_behind(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", delay=seconds(100))
        for _ in range(9):
            harness.advance(10)
            assert harness.store.sweep(now=harness.clock.now() - seconds(YEAR_SECONDS)) == SweepResult()
            assert harness.store.sweep() == SweepResult()
        assert harness.state(id_) is DocumentState.DELAYED

    @guarantee("S46", "S48")
    @pytest.mark.parametrize("jump", CLOCK_JUMP_SECONDS)
    def test_rate_charged_by_a_clock_ahead_closes_for_no_longer_than_it_may(
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

    @guarantee("S46")
    def test_charge_ahead_that_closed_nothing_counts_as_a_whole_burst(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        harness.submit("acme", 10)
        harness.advance(YEAR_SECONDS)
        harness.claim_one()
        harness.advance(-YEAR_SECONDS)
        harness.claim_one()
        assert harness.claim() == ()
        harness.advance(20)
        assert len(harness.claim(5)) == 1

    @guarantee("S46", "A1")
    def test_clock_that_steps_back_a_little_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(-5)
        assert harness.store.sweep() == SweepResult()
        harness.advance(64)
        assert harness.store.sweep() == SweepResult()
        assert harness.document(claimed.document.id).lease_until == START + LEASE
        harness.advance(1)
        assert harness.store.sweep() == SweepResult(leases_lost=1)

    @guarantee("S46")
    def test_forgets_a_worker_of_the_future(self, harness: StoreHarness) -> None:
        report = WorkerReport("w", "host", 1, 1, 0, "p", 0)
        harness.store.record_worker(report, now=harness.clock.now() + seconds(DAY_SECONDS))
        harness.store.sweep()
        assert len(harness.store.workers()) == 1
        harness.store.record_worker(report, now=harness.clock.now() + seconds(YEAR_SECONDS))
        harness.store.sweep()
        assert harness.store.workers() == ()

    @guarantee("S47")
    def test_now_is_the_time_of_the_clock_of_the_store(self, harness: StoreHarness) -> None:
        assert harness.store.now() == START
        harness.advance(7)
        assert harness.store.now() == START + seconds(7)
