"""Claims: due work, order, fences, limits."""

import threading
from collections import Counter as Tally

import pytest

from inturn.model import DocumentState, NewDocument, RateLimit
from inturn.policy import Charge, Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store_types import LEASE_LOST_ERROR, AckStatus, ClaimRequest, EventKind, Outcome, OutcomeKind
from inturn.testing.contract.harness import ANNA, LEASE, SINGLE_LEVEL_POLICY, START, StoreHarness, guarantee
from inturn.testing.contract.outcomes import WORK_CLAIMED_AHEAD, claim_and_wait, work_of
from inturn.values import seconds


class TestClaim:
    """Test `Store.claim`, and the claims of `Store.ack_and_claim`."""

    @guarantee("S9")
    def test_lost_lease_is_an_attempt(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        harness.claim_one()
        assert harness.store.next_due() == START + LEASE
        harness.clock.advance(LEASE - 1)
        assert harness.claim() == ()
        harness.clock.advance(1)
        again = harness.claim_one()
        assert (again.document.id, again.document.attempt) == (id_, 2)
        assert again.document.ready_at == harness.clock.now()
        harness.clock.advance(LEASE)
        assert harness.claim() == ()
        document = harness.document(id_)
        assert (document.state, document.error) == (DocumentState.FAILED, LEASE_LOST_ERROR)

    @guarantee("S9")
    def test_lease_given_twice_in_one_instant_is_lost_once(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        harness.queue.release(harness.claim_one())
        harness.claim_one()
        harness.advance(61)
        harness.store.sweep()
        assert harness.waiting_by_level("acme") == {1: 1}
        assert harness.store.customer("acme").running == 0
        assert harness.store.recount(repair=False) == ()

    @guarantee("S9")
    def test_document_not_started_in_time_expires(self, harness: StoreHarness) -> None:
        never = harness.submit_one("acme", start_by=START + seconds(10))
        delayed = harness.submit_one("acme", start_by=START + seconds(10), delay=seconds(60))
        started = harness.submit_one("beta", start_by=START + seconds(10))
        harness.store.change_customer("acme", {"paused": True}, ANNA)
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(20))
        harness.store.change_customer("acme", {"paused": False}, ANNA)
        harness.advance(10)
        assert harness.claim() == ()
        assert [harness.state(id_) for id_ in (never, delayed)] == [DocumentState.EXPIRED] * 2
        assert harness.document(never).finished_at == START + seconds(10)
        assert harness.waiting_by_level("acme") == {}
        harness.advance(10)
        assert [claimed.document.id for claimed in harness.claim(5)] == [started]

    @guarantee("S9")
    def test_document_released_after_start_by_expires(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", start_by=START + seconds(10))
        claimed = harness.claim_one()
        harness.advance(15)
        assert harness.claim() == ()
        back = Outcome(id_, claimed.fence, OutcomeKind.RELEASED)
        statuses, again = harness.store.ack_and_claim([back], ClaimRequest("worker", 1, LEASE))
        assert statuses == (AckStatus.RECORDED,)
        assert again == ()
        assert harness.state(id_) is DocumentState.EXPIRED

    @guarantee("S9")
    def test_due_documents_go_back_by_their_seq(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 3)]
        claimed = harness.claim(3)
        for claim, wait in zip(claimed, (3, 2, 1), strict=True):
            harness.queue.fail(claim, "no", retry_in=seconds(wait))
        harness.advance(5)
        assert [claim.document.id for claim in harness.claim(3)] == ids

    @guarantee("S10")
    def test_follows_the_turns(self, harness: StoreHarness) -> None:
        harness.submit("flood", 30)
        harness.submit("beta", 4)
        harness.submit("gamma", 1)
        expected = ["flood", "beta", "gamma", "flood", "beta", "flood", "beta", "flood", "beta"]
        assert harness.claim_customers(9) == expected

    @guarantee("S10")
    def test_claim_of_k_equals_k_claims_of_one(self, harness: StoreHarness) -> None:
        orders = []
        for limit in (1, 60):
            harness.advance(10_000)
            for customer, n in (("flood", 40), ("beta", 20), ("gamma", 5)):
                harness.submit(f"{customer} {limit}", n)
            order: list[str] = []
            while claimed := harness.claim(limit):
                order += [claim.document.customer.split()[0] for claim in claimed]
                for claim in claimed:
                    harness.queue.finish(claim)
            orders.append(order)
        assert len(orders[0]) == 65
        assert orders[0] == orders[1]

    @guarantee("S10")
    def test_idle_customer_gains_nothing(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("early", 60)
        harness.claim_customers(20)
        harness.submit("late", 20)
        assert Tally(harness.claim_customers(20)) == {"early": 10, "late": 10}

    @guarantee("S10")
    def test_overdue_slot_serves_a_starving_level(self, harness: StoreHarness) -> None:
        """Every tenth document, once a head has waited 900 seconds."""
        harness.submit("bulk", 40)
        for claimed in harness.claim(21):
            harness.queue.finish(claimed)
        served: list[int] = []
        for n in range(200):
            harness.advance(9)
            harness.submit(f"new {n}", 1)
            claimed = harness.claim_one()
            served.append(claimed.document.level)
            harness.queue.finish(claimed)
        first = served.index(9)
        assert first >= 899 // 9
        assert served[first : first + 100].count(9) == 10
        assert served[:first] == [1] * first

    @guarantee("S10")
    def test_level_becomes_overdue_without_claims(self, harness: StoreHarness) -> None:
        harness.submit("bulk", 30)
        for n in range(40):
            harness.submit(f"new {n}", 1)
        harness.advance(1_000)
        levels = [claimed.document.level for claimed in harness.claim(40)]
        assert [levels[slot - 1] for slot in (10, 20, 30, 40)] == [1, 2, 3, 4]
        assert levels.count(1) == 37

    @guarantee("S10")
    def test_lane_goes_out_of_turn_at_most_once_in_a_tenth_of_overdue_after(self, harness: StoreHarness) -> None:
        turns = TurnPolicy(overdue_every=2, charge=Charge.COST)
        harness.set_policy(Policy(PriorityPolicy(thresholds=(-1_000,)), turns))
        for n in range(40):
            harness.submit(f"c{n:02}", 14)
        harness.advance(1_000)
        starts: Tally[str] = Tally()
        for _ in range(80):
            starts.update(harness.claim_customers(5))
            harness.advance(1)
        assert max(starts.values()) <= 1.2 * 400 / 40
        assert min(starts.values()) >= 0.8 * 400 / 40

    @guarantee("S10")
    def test_slot_goes_to_the_lowest_lane_also_when_a_clock_went_back(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(PriorityPolicy(thresholds=(-1,)), TurnPolicy(overdue_every=8)))
        harness.submit("y", 4)
        harness.submit("x", 4)
        claimed = harness.claim(7)
        assert [claim.document.customer for claim in claimed if claim.document.level == 2] == ["y", "x", "y"]
        for claim in claimed:
            harness.queue.finish(claim)
        harness.advance(-50)
        harness.submit("y")
        harness.advance(910)
        harness.submit("new")
        eighth = harness.claim_one().document
        assert (eighth.customer, eighth.level) == ("x", 2)

    @guarantee("S10")
    def test_classic_order_is_first_come_first_served_in_a_level(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(turns=TurnPolicy(Order.CLASSIC)))
        harness.submit("flood", 30)
        harness.submit("beta", 25)
        harness.advance(10_000)
        assert harness.claim_customers(6) == ["flood"] * 3 + ["beta"] * 3
        rest = harness.claim(100)
        levels = [claim.document.level for claim in rest]
        assert levels == sorted(levels)
        assert [claim.document.customer for claim in rest][-13:] == ["flood"] * 9 + ["beta"] * 4

    @guarantee("S10")
    @pytest.mark.parametrize("charge", Charge)
    def test_charges_the_cost(self, harness: StoreHarness, charge: Charge) -> None:
        """By time too: of equal customers a document of four times the cost is expected to take four times as long."""
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(charge=charge)))
        harness.submit("large", 50, cost=4)
        harness.submit("small", 50, cost=1)
        assert Tally(harness.claim_customers(25)) == {"large": 5, "small": 20}

    @guarantee("S11")
    def test_fences_grow_and_are_never_reused(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        fences = []
        for _ in range(5):
            claimed = harness.claim(3)
            fences += [claim.fence for claim in claimed]
            for claim in claimed:
                harness.queue.release(claim)
        assert fences == sorted(set(fences))

    @guarantee("S11", "A0")
    def test_concurrent_claims_never_share_a_document(self, harness: StoreHarness) -> None:
        ids = {receipt.id for n in range(4) for receipt in harness.submit(f"c{n}", 50)}
        taken: list[str] = []

        def work() -> None:
            while claimed := harness.store.claim(ClaimRequest("worker", 3, LEASE)):
                for claim in claimed:
                    taken.append(claim.document.id)
                    harness.store.finish(claim.document.id, claim.fence, "null")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 200
        assert set(taken) == ids

    @guarantee("S11")
    def test_returns_the_running_document(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        (claimed,) = harness.claim(worker="w7")
        document = claimed.document
        assert document == harness.document(id_)
        assert (document.state, document.worker, document.attempt) == (DocumentState.RUNNING, "w7", 1)
        assert (document.started_at, document.lease_until, document.fence) == (START, START + LEASE, claimed.fence)
        assert harness.store.customer("acme").running == 1

    @guarantee("S51")
    def test_clears_processing_times_also_by_a_clock_behind(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), OutcomeKind.RELEASED, work=WORK_CLAIMED_AHEAD)
        harness.clock.set(START + seconds(10))
        assert harness.claim_one().document.began_at is None
        assert work_of(harness, id_) == (None, None)

    @guarantee("S12")
    def test_never_exceeds_a_cap(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=2)
        harness.submit("acme", 10)
        harness.submit("beta", 1)
        claimed = harness.claim(10)
        assert Tally(claim.document.customer for claim in claimed) == {"acme": 2, "beta": 1}
        mine = [claim for claim in claimed if claim.document.customer == "acme"]
        harness.queue.finish(mine[0])
        assert harness.claim_customers(5) == ["acme"]
        harness.queue.release(mine[1])
        assert harness.claim_customers(5) == ["acme"]
        harness.advance(61)
        assert Tally(harness.claim_customers(5)) == {"acme": 2, "beta": 1}

    @guarantee("S12")
    def test_many_customers_reach_their_caps_in_one_claim(self, harness: StoreHarness) -> None:
        for n in range(6):
            harness.queue.change_customer(f"c{n}", ANNA, cap=1 + n % 3)
            harness.queue.submit(f"c{n}", [NewDocument("x")] * 8)
        assert Tally(harness.claim_customers(100)) == {f"c{n}": 1 + n % 3 for n in range(6)}

    @guarantee("S12")
    def test_cancelling_a_running_document_makes_room_under_the_cap(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=1)
        harness.submit("acme", 2)
        running = harness.claim_one()
        harness.queue.cancel(running.document.id, ANNA)
        assert len(harness.claim()) == 1

    @guarantee("S12")
    def test_rate_limit_lets_a_burst_go_then_spaces_it(self, harness: StoreHarness) -> None:
        """Three in a minute: three at once, then one every 20 seconds."""
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        harness.submit("acme", 10)
        assert len(harness.claim(10)) == 3
        assert harness.store.next_due() == START + seconds(20)
        harness.clock.advance(seconds(20) - 1)
        assert harness.claim() == ()
        harness.clock.advance(1)
        assert len(harness.claim(10)) == 1
        harness.advance(40)
        assert len(harness.claim(10)) == 2

    @guarantee("S12")
    def test_pause_cap_and_rate_must_all_allow(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(1, seconds(10)), cap=1)
        harness.submit("acme", 3)
        claimed = harness.claim_one()
        harness.advance(10)
        assert harness.claim() == ()
        harness.queue.pause(ANNA, "acme")
        harness.queue.finish(claimed)
        assert harness.claim() == ()
        harness.queue.resume(ANNA, "acme")
        assert len(harness.claim(3)) == 1

    @guarantee("S13")
    def test_takes_all_that_may_run_up_to_its_limit(self, harness: StoreHarness) -> None:
        for n in range(7):
            harness.submit(f"c{n}", 5)
        assert len(harness.claim(100)) == 35
        assert harness.claim(100) == ()

    @guarantee("S13")
    def test_lane_that_expires_in_a_claim_hides_no_other(self, harness: StoreHarness) -> None:
        expired = harness.submit_one("first", start_by=START + seconds(10))
        harness.store.scheduler_snapshot()
        harness.advance(15)
        second = harness.submit_one("second")
        harness.store.scheduler_snapshot()
        assert harness.claim_one().document.id == second
        assert harness.state(expired) is DocumentState.EXPIRED

    @guarantee("S13")
    def test_document_that_expires_in_a_claim_is_not_taken(self, harness: StoreHarness) -> None:
        first = harness.submit_one("acme")
        expired = harness.submit_one("acme", start_by=START + seconds(10))
        last = harness.submit_one("acme")
        harness.store.sweep()
        harness.advance(15)
        assert [claimed.document.id for claimed in harness.claim(5)] == [first, last]
        assert harness.state(expired) is DocumentState.EXPIRED

    @guarantee("A3")
    def test_every_transition_writes_an_event(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=3)
        harness.queue.release(harness.claim_one())
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(1))
        harness.advance(1)
        harness.claim_one()
        harness.advance(61)
        harness.queue.fail(harness.claim_one(), "no", final=True)
        kinds = [event.kind for event in harness.store.events(0, limit=100) if id_ in event.documents]
        assert kinds == [
            EventKind.SUBMITTED,
            EventKind.STARTED,
            EventKind.RELEASED,
            EventKind.STARTED,
            EventKind.DELAYED,
            EventKind.DUE,
            EventKind.STARTED,
            EventKind.LEASE_LOST,
            EventKind.STARTED,
            EventKind.FAILED,
        ]
