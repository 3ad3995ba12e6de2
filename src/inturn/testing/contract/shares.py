"""Shares: lanes are charged worker time, and no customer holds all slots while others come."""

from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import replace

import pytest

from inturn.model import Claim
from inturn.policy import Charge, CostPolicy, Policy, TurnPolicy
from inturn.store_types import OutcomeKind, Work
from inturn.testing.contract.harness import ANNA, SINGLE_LEVEL_POLICY, StoreHarness, guarantee
from inturn.values import seconds
from inturn.worker_report import WorkerReport

LONG = seconds(12)
"""Processing time of a long document. It is shorter than the time after which a worker's report is stale."""
NO_CAP = replace(SINGLE_LEVEL_POLICY, turns=TurnPolicy(max_share=1.0))
"""Charges by time, in one level, without a limit of shares."""


class TestCharges:
    """Test what starts and ends charge to a lane."""

    @guarantee("S54")
    def test_backlogged_customers_get_equal_worker_time(self, harness: StoreHarness) -> None:
        harness.set_policy(NO_CAP)
        worked = {"long": 10, "short": 1}
        for customer in worked:
            harness.submit(customer, 300)
        used: Tally[str] = Tally()
        for _ in range(200):
            claimed = harness.claim_one()
            customer = claimed.document.customer
            process(harness, claimed, worked[customer])
            used[customer] += worked[customer]
        assert abs(used["long"] - used["short"]) <= 2 * worked["long"]

    @guarantee("S54")
    def test_charge_by_cost_counts_documents(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(NO_CAP.priority, TurnPolicy(charge=Charge.COST, max_share=1.0), CostPolicy(1, 0)))
        for customer in ("long", "short"):
            harness.submit(customer, 100)
        starts: Tally[str] = Tally()
        for _ in range(50):
            claimed = harness.claim_one()
            starts[claimed.document.customer] += 1
            process(harness, claimed, 10 if claimed.document.customer == "long" else 1)
        assert starts["long"] == starts["short"] == 25

    @guarantee("S54")
    def test_start_is_charged_what_earlier_documents_took(self, harness: StoreHarness) -> None:
        """Of ten documents that run at once, the customer of long documents has one."""
        harness.set_policy(NO_CAP)
        for customer, duration in (("long", 10), ("short", 1)):
            harness.submit(customer)
            process(harness, harness.claim_one(), duration)
        harness.store.sweep()
        for customer in ("long", "short"):
            harness.submit(customer, 20)
        assert Tally(harness.claim_customers(11)) == {"long": 1, "short": 10}

    @guarantee("S54")
    def test_document_of_more_pages_is_expected_to_take_longer(self, harness: StoreHarness) -> None:
        harness.set_policy(NO_CAP)
        for customer in ("many", "few"):
            harness.submit(customer)
            process(harness, harness.claim_one(), 1)
        harness.store.sweep()
        harness.submit("many", 20, pages=10)
        harness.submit("few", 20, pages=1)
        assert Tally(harness.claim_customers(11)) == {"many": 1, "few": 10}

    @guarantee("S54")
    def test_new_customer_is_expected_to_take_what_others_do(self, harness: StoreHarness) -> None:
        harness.set_policy(NO_CAP)
        harness.submit("old", 21)
        for _ in range(20):
            process(harness, harness.claim_one(), 5)
        harness.submit("new", 5)
        harness.submit("old", 5)
        charges = {lane.customer: lane.charge for lane in harness.store.scheduler_snapshot().lanes}
        assert charges == {"new": seconds(5), "old": seconds(5)}

    @guarantee("S54")
    @pytest.mark.parametrize("kind", [OutcomeKind.FAILED, OutcomeKind.DONE])
    def test_failure_is_charged_what_it_used(self, harness: StoreHarness, kind: OutcomeKind) -> None:
        assert turn_after(harness, lambda claimed: process(harness, claimed, 40, kind)) == seconds(40)

    @guarantee("S54")
    def test_lost_lease_is_charged_until_its_end(self, harness: StoreHarness) -> None:
        def lose(claimed: Claim) -> None:
            del claimed
            harness.advance(86_400)
            harness.store.sweep()

        assert turn_after(harness, lose) == seconds(60)

    @guarantee("S54")
    def test_cancelled_run_is_charged_until_then(self, harness: StoreHarness) -> None:
        def cancel(claimed: Claim) -> None:
            harness.advance(25)
            harness.store.cancel([claimed.document.id], ANNA)

        assert turn_after(harness, cancel) == seconds(25)

    @guarantee("S8", "S54")
    def test_release_is_refunded_whole(self, harness: StoreHarness) -> None:
        assert turn_after(harness, harness.queue.release) == 0

    @guarantee("S54")
    def test_change_to_costs_keeps_what_was_charged(self, harness: StoreHarness) -> None:
        harness.set_policy(NO_CAP)
        harness.submit("acme", 2)
        claimed = harness.claim_one()
        harness.set_policy(replace(NO_CAP, turns=TurnPolicy(charge=Charge.COST, max_share=1.0)))
        process(harness, claimed, 50)
        assert turns(harness)["acme"] == seconds(1)

    @guarantee("S54")
    def test_sweep_keeps_the_lane_of_a_document_that_runs(self, harness: StoreHarness) -> None:
        """The lane is empty and V has passed it, but the time of its running document must still be charged to it."""
        harness.set_policy(NO_CAP)
        harness.submit("busy", 30)
        for _ in range(10):
            process(harness, harness.claim_one(), 50)
        harness.submit("slow")
        slow = harness.claim_one()
        assert slow.document.customer == "slow"
        harness.store.heartbeat([(slow.document.id, slow.fence)], seconds(1_000))
        for _ in range(3):
            process(harness, harness.claim_one(), 5)
        harness.store.sweep()
        process(harness, slow, 200)
        harness.submit("slow")
        assert turns(harness)["slow"] > turns(harness)["busy"] + seconds(100)

    @guarantee("S30", "S54")
    def test_purge_of_running_documents_forgets_them(self, harness: StoreHarness) -> None:
        harness.set_policy(NO_CAP)
        harness.submit("acme", 3)
        harness.claim(2)
        harness.store.purge("acme", ANNA)
        assert harness.store.recount(repair=False) == ()


class TestShares:
    """Test the limit of the slots that one customer holds."""

    @guarantee("S55")
    def test_one_slot_in_eight_is_left_to_others(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness)
        assert harness.claim_customers(20).count("flood") == 7
        assert harness.store.customer("flood").at_slot_limit
        harness.submit("newcomer")
        assert harness.claim_customers(20) == ["newcomer"]

    @guarantee("S31", "S55")
    def test_snapshot_tells_a_share_from_what_holds_a_customer(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness)
        harness.claim(20)
        (lane,) = harness.store.scheduler_snapshot().closed
        assert (lane.customer, lane.by_share) == ("flood", True)
        harness.store.change_customer("flood", {"paused": True}, ANNA)
        (lane,) = harness.store.scheduler_snapshot().closed
        assert (lane.customer, lane.by_share) == ("flood", False)

    @guarantee("S55")
    def test_next_document_starts_when_one_ends(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness)
        first, *_ = (claim for claim in harness.claim(20) if claim.document.customer == "flood")
        assert harness.claim(20) == ()
        process(harness, first, 1)
        assert harness.claim_customers(20) == ["flood"]

    @guarantee("S26", "S55")
    def test_customer_alone_gets_all_slots_after_a_while(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness)
        came_at = harness.clock.now()
        harness.claim(20)
        assert harness.store.next_due() == came_at + LONG
        harness.clock.advance(LONG - 1)
        assert harness.claim() == ()
        harness.clock.advance(1)
        assert harness.claim_customers(1) == ["flood"]

    @guarantee("S55")
    def test_slot_is_held_back_for_as_long_as_a_document_takes(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness, duration=2)
        harness.claim(20)
        assert harness.claim() == ()
        harness.advance(2)
        assert harness.claim_customers(1) == ["flood"]

    @guarantee("S55")
    def test_slot_is_held_back_for_a_time_that_is_set(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        turns = TurnPolicy(share_idle_after=seconds(20))
        flood_beside_another(harness, replace(SINGLE_LEVEL_POLICY, turns=turns), duration=2)
        harness.claim(20)
        harness.advance(19)
        assert harness.claim() == ()
        harness.advance(1)
        assert harness.claim_customers(1) == ["flood"]

    @guarantee("S55")
    def test_one_other_customer_that_comes_again_and_again_is_enough(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness)
        harness.claim(20)
        for _ in range(3):
            harness.advance(8)
            report_slots(harness, 8)
            harness.submit("other")
            (claimed,) = harness.claim(20)
            assert claimed.document.customer == "other"
            harness.queue.finish(claimed)

    @guarantee("S55")
    def test_customer_that_was_alone_gives_way(self, harness: StoreHarness) -> None:
        """It holds all slots; once another customer comes, it does not start again before it is below its share."""
        report_slots(harness, 8)
        harness.submit("flood", 40)
        held = list(harness.claim(8))
        assert len(held) == 8
        harness.submit("newcomer", 3)
        for expected in ("newcomer", "newcomer", "newcomer"):
            process(harness, held.pop(0), 1)
            (claimed,) = harness.claim(1)
            assert claimed.document.customer == expected
            harness.queue.finish(claimed)
        assert harness.claim_customers(5) == ["flood", "flood"]

    @guarantee("S10", "S55")
    def test_customer_that_was_alone_gives_way_within_a_claim(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        harness.submit("flood", 40)
        assert len(harness.claim(7)) == 7
        harness.submit("newcomer")
        assert harness.claim_customers(5) == ["newcomer"]

    @guarantee("S17", "S55")
    def test_expedited_document_does_not_open_its_lane(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness)
        waiting = harness.submit_one("flood")
        harness.claim(20)
        harness.store.expedite(waiting, ANNA)
        assert harness.claim() == ()

    @guarantee("S55")
    @pytest.mark.parametrize("slots", [0, 1])
    def test_single_slot_is_not_shared(self, harness: StoreHarness, slots: int) -> None:
        report_slots(harness, slots)
        flood_beside_another(harness)
        assert harness.claim_customers(20).count("flood") == 20

    @guarantee("S55", "S62")
    def test_slots_of_silent_stopping_and_paused_workers_do_not_count(self, harness: StoreHarness) -> None:
        report_slots(harness, 100, name="silent")
        report_slots(harness, 100, name="stopping", stopping=True)
        harness.advance(31)
        report_slots(harness, 8)
        report_slots(harness, 100, name="paused")
        harness.store.pause_worker("paused", ANNA)
        report_slots(harness, 100, name="paused")
        flood_beside_another(harness)
        assert harness.claim_customers(20).count("flood") == 7

    @guarantee("S55")
    def test_share_of_all_slots_is_no_limit(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        flood_beside_another(harness, NO_CAP)
        assert harness.claim_customers(20).count("flood") == 20

    @guarantee("S55")
    def test_claim_of_a_paused_queue_opens_nothing(self, harness: StoreHarness) -> None:
        """A store need not begin a claim that may start nothing, so it changes nothing: no lane joins the order."""
        report_slots(harness, 8)
        flood_beside_another(harness)
        harness.claim(20)
        harness.store.pause(ANNA)
        report_slots(harness, 0)
        assert harness.claim(1) == ()
        assert harness.store.customer("flood").at_slot_limit
        harness.store.resume(ANNA)
        assert harness.claim_customers(1) == ["flood"]

    @guarantee("S55")
    def test_claim_of_an_empty_queue_forgets_no_limit(self, harness: StoreHarness) -> None:
        """Claims while nothing waits see more slots for a moment. The customer still holds what it held."""
        report_slots(harness, 8)
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("flood", 7)
        harness.submit("other")
        assert len(harness.claim(20)) == 8
        harness.advance(20)
        assert harness.claim(1) == ()
        report_slots(harness, 80)
        assert harness.claim(1) == ()
        report_slots(harness, 8)
        harness.submit("newcomer")
        assert harness.claim_customers(1) == ["newcomer"]
        harness.submit("flood", 3)
        assert harness.claim(1) == ()

    @guarantee("S55")
    def test_clock_that_was_ahead_closes_nothing_for_long(self, harness: StoreHarness) -> None:
        report_slots(harness, 8)
        harness.advance(86_400)
        report_slots(harness, 8)
        flood_beside_another(harness)
        harness.claim(20)
        harness.advance(-86_400)
        report_slots(harness, 8)
        assert harness.claim_customers(1) == ["flood"]


def process(harness: StoreHarness, claimed: Claim, duration: float, kind: OutcomeKind = OutcomeKind.DONE) -> None:
    """Let the processing of a claim take so many seconds."""
    harness.advance(duration)
    harness.ack(claimed, kind, result="1", error="no", work=Work(0, seconds(duration)))


def report_slots(harness: StoreHarness, slots: int, *, name: str = "worker", stopping: bool = False) -> None:
    """Report a worker of so many slots."""
    harness.store.record_worker(WorkerReport(name, "host", 1, slots, 0, "processor", 0, stopping=stopping))


def flood_beside_another(
    harness: StoreHarness, policy: Policy = SINGLE_LEVEL_POLICY, *, duration: float = LONG / seconds(1)
) -> None:
    """Submit many documents of one customer, which take so long, when a document of another one was just started."""
    harness.set_policy(policy)
    harness.submit("flood")
    process(harness, harness.claim_one(), duration)
    harness.submit("other")
    harness.queue.finish(harness.claim_one())
    harness.submit("flood", 40)


def turns(harness: StoreHarness) -> dict[str, int]:
    """Return the turns of open lanes by customer."""
    return {lane.customer: lane.turn for lane in harness.store.scheduler_snapshot().lanes}


def turn_after(harness: StoreHarness, end: Callable[[Claim], None]) -> int:
    """Return by how much the end of a run has moved its lane, from the start on."""
    harness.set_policy(NO_CAP)
    harness.submit("acme", 3, max_attempts=1)
    before = turns(harness)["acme"]
    end(harness.claim_one())
    return turns(harness)["acme"] - before
