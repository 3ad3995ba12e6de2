"""S10, S12, S19 to S21: order, overdue slot, pauses, caps, rates, weights."""

from collections import Counter as Tally

from inturn.model import NewDocument, RateLimit, seconds
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite

SINGLE_LEVEL_POLICY = Policy(PriorityPolicy(thresholds=(-(10**6),)))
"""All documents in level 1, so that the tests see turns only."""


class LimitTests(StoreSuite):
    """Test the order of claims, and the limits that close lanes."""

    def test_s12_a_paused_customer_waits_and_others_pass(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 4)]
        harness.submit("beta", 2)
        harness.queue.pause(ANNA, "acme")
        assert harness.claim_customers() == ["beta", "beta"]
        assert not any(lane.is_open for lane in harness.store.customer("acme").lanes)
        harness.queue.resume(ANNA, "acme")
        assert [claimed.document.id for claimed in harness.claim(10)] == ids

    def test_s12_a_paused_queue_starts_nothing(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2)
        running = harness.claim_one()
        harness.queue.pause(ANNA)
        assert harness.store.paused() == ANNA
        assert harness.claim() == ()
        harness.queue.finish(running)
        harness.submit("beta")
        harness.queue.resume(ANNA)
        assert harness.store.paused() is None
        assert sorted(harness.claim_customers()) == ["acme", "beta"]

    def test_s12_a_cap_is_never_exceeded(self, harness: StoreHarness) -> None:
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

    def test_s12_a_cap_lowered_below_what_runs_waits_for_it(self, harness: StoreHarness) -> None:
        harness.submit("acme", 6)
        claimed = harness.claim(3)
        harness.queue.change_customer("acme", ANNA, cap=1)
        assert harness.claim(5) == ()
        for claim in claimed[:2]:
            harness.queue.finish(claim)
            assert harness.claim(5) == ()
        harness.queue.finish(claimed[2])
        assert len(harness.claim(5)) == 1
        harness.queue.change_customer("acme", ANNA, cap=None)
        assert len(harness.claim(5)) == 2

    def test_s12_cancelling_a_running_document_makes_room(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=1)
        harness.submit("acme", 2)
        running = harness.claim_one()
        harness.queue.cancel(running.document.id, ANNA)
        assert len(harness.claim()) == 1

    def test_s12_a_rate_lets_a_burst_go_then_spaces_it(self, harness: StoreHarness) -> None:
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

    def test_s12_a_rate_taken_away_opens_at_once(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(1, seconds(60)))
        harness.submit("acme", 3)
        assert len(harness.claim(3)) == 1
        harness.queue.change_customer("acme", ANNA, rate=None)
        assert len(harness.claim(3)) == 2

    def test_s12_pause_cap_and_rate_must_all_allow(self, harness: StoreHarness) -> None:
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

    def test_s19_opening_earns_no_credit(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("acme", 50)
        harness.submit("beta", 50)
        harness.queue.pause(ANNA, "acme")
        assert set(harness.claim_customers(30)) == {"beta"}
        harness.queue.resume(ANNA, "acme")
        assert Tally(harness.claim_customers(10)) == {"acme": 5, "beta": 5}

    def test_s19_weights_share_and_hold_for_what_waits(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("acme", 100)
        harness.submit("beta", 100)
        harness.queue.change_customer("acme", ANNA, weight=3)
        assert Tally(harness.claim_customers(40)) == {"acme": 30, "beta": 10}
        harness.queue.change_customer("acme", ANNA, weight=1)
        assert Tally(harness.claim_customers(20))["acme"] in {9, 10, 11}

    def test_s19_cost_is_charged(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("large", 50, cost=4)
        harness.submit("small", 50, cost=1)
        assert Tally(harness.claim_customers(25)) == {"large": 5, "small": 20}

    def test_s10_an_idle_customer_gains_nothing(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("early", 60)
        harness.claim_customers(20)
        harness.submit("late", 20)
        assert Tally(harness.claim_customers(20)) == {"early": 10, "late": 10}

    def test_s10_the_overdue_slot_serves_a_starving_level(self, harness: StoreHarness) -> None:
        """Every tenth document, once a head has waited 900 seconds."""
        harness.submit("bulk", 40)
        for claimed in harness.claim(21):
            harness.queue.finish(claimed)
        served: list[int] = []
        for n in range(900):
            harness.advance(3)
            harness.submit(f"new {n}", 1)
            claimed = harness.claim_one()
            served.append(claimed.document.level)
            harness.queue.finish(claimed)
        first = served.index(9)
        assert first >= 899 // 3
        assert served[first : first + 100].count(9) == 10
        assert served[:first] == [1] * first

    def test_s10_a_level_becomes_overdue_without_claims(self, harness: StoreHarness) -> None:
        harness.submit("bulk", 30)
        for n in range(40):
            harness.submit(f"new {n}", 1)
        harness.advance(1_000)
        levels = [claimed.document.level for claimed in harness.claim(40)]
        assert [levels[slot - 1] for slot in (10, 20, 30, 40)] == [1, 2, 3, 4]
        assert levels.count(1) == 37

    def test_s10_a_lane_goes_out_of_turn_at_most_once_in_a_tenth_of_overdue_after(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(PriorityPolicy(thresholds=(-1_000,)), TurnPolicy(overdue_every=2)))
        for n in range(40):
            harness.submit(f"c{n:02}", 14)
        harness.advance(1_000)
        starts: Tally[str] = Tally()
        for _ in range(80):
            starts.update(harness.claim_customers(5))
            harness.advance(1)
        assert max(starts.values()) <= 1.2 * 400 / 40
        assert min(starts.values()) >= 0.8 * 400 / 40

    def test_s10_a_slot_goes_to_the_lowest_lane_also_when_a_clock_went_back(self, harness: StoreHarness) -> None:
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

    def test_s10_classic_is_first_come_first_served_in_a_level(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(turns=TurnPolicy(Order.CLASSIC)))
        harness.submit("flood", 30)
        harness.submit("beta", 25)
        harness.advance(10_000)
        assert harness.claim_customers(6) == ["flood"] * 3 + ["beta"] * 3
        rest = harness.claim(100)
        levels = [claim.document.level for claim in rest]
        assert levels == sorted(levels)
        assert [claim.document.customer for claim in rest][-13:] == ["flood"] * 9 + ["beta"] * 4

    def test_s22_a_new_order_holds_for_what_waits(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("a", 20)
        harness.submit("b", 20)
        assert harness.claim_customers(4) == ["a", "b", "a", "b"]
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(Order.CLASSIC)))
        assert harness.claim_customers(4) == ["a"] * 4
        harness.set_policy(SINGLE_LEVEL_POLICY)
        assert Tally(harness.claim_customers(4)) == {"a": 2, "b": 2}

    def test_s12_many_customers_at_their_caps_in_one_claim(self, harness: StoreHarness) -> None:
        for n in range(6):
            harness.queue.change_customer(f"c{n}", ANNA, cap=1 + n % 3)
            harness.queue.submit(f"c{n}", [NewDocument("x")] * 8)
        assert Tally(harness.claim_customers(100)) == {f"c{n}": 1 + n % 3 for n in range(6)}
