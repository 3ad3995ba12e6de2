"""S10, S12, S19 to S21: order, overdue slot, pauses, caps, rates, weights."""

from collections import Counter as Tally

from inturn.model import NewDocument, RateLimit, seconds
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite

SINGLE_LEVEL_POLICY = Policy(PriorityPolicy(thresholds=(-(10**6),)))
"""Everybody in level 1, so that the tests see turns alone."""


class LimitTests(StoreSuite):
    """Who is served, and who has to wait though it is their turn."""

    def test_s12_a_paused_customer_waits_and_others_pass(self, rig: StoreHarness) -> None:
        """Levels and places are kept."""
        ids = [receipt.id for receipt in rig.submit("acme", 4)]
        rig.submit("beta", 2)
        rig.queue.pause(ANNA, "acme")
        assert rig.claim_customers() == ["beta", "beta"]
        assert not any(line.is_open for line in rig.store.customer("acme").lanes)
        rig.queue.resume(ANNA, "acme")
        assert [claimed.document.id for claimed in rig.claim(10)] == ids

    def test_s12_a_paused_queue_starts_nothing(self, rig: StoreHarness) -> None:
        """Submits go on, what runs may finish."""
        rig.submit("acme", 2)
        running = rig.claim_one()
        rig.queue.pause(ANNA)
        assert rig.store.paused() == ANNA
        assert rig.claim() == ()
        rig.queue.finish(running)
        rig.submit("beta")
        rig.queue.resume(ANNA)
        assert rig.store.paused() is None
        assert sorted(rig.claim_customers()) == ["acme", "beta"]

    def test_s12_a_cap_is_never_exceeded(self, rig: StoreHarness) -> None:
        """In one call or in many; every end of a claim makes room."""
        rig.queue.change_customer("acme", ANNA, cap=2)
        rig.submit("acme", 10)
        rig.submit("beta", 1)
        claimed = rig.claim(10)
        assert Tally(claim.document.customer for claim in claimed) == {"acme": 2, "beta": 1}
        mine = [claim for claim in claimed if claim.document.customer == "acme"]
        rig.queue.finish(mine[0])
        assert rig.claim_customers(5) == ["acme"]
        rig.queue.release(mine[1])
        assert rig.claim_customers(5) == ["acme"]
        rig.advance(61)
        assert Tally(rig.claim_customers(5)) == {"acme": 2, "beta": 1}

    def test_s12_a_cap_lowered_below_what_runs_waits_for_it(self, rig: StoreHarness) -> None:
        """And one raised opens at once."""
        rig.submit("acme", 6)
        claimed = rig.claim(3)
        rig.queue.change_customer("acme", ANNA, cap=1)
        assert rig.claim(5) == ()
        for claim in claimed[:2]:
            rig.queue.finish(claim)
            assert rig.claim(5) == ()
        rig.queue.finish(claimed[2])
        assert len(rig.claim(5)) == 1
        rig.queue.change_customer("acme", ANNA, cap=None)
        assert len(rig.claim(5)) == 2

    def test_s12_cancelling_a_running_document_makes_room(self, rig: StoreHarness) -> None:
        """Its worker may still be busy, but its claim is gone."""
        rig.queue.change_customer("acme", ANNA, cap=1)
        rig.submit("acme", 2)
        running = rig.claim_one()
        rig.queue.cancel(running.document.id, ANNA)
        assert len(rig.claim()) == 1

    def test_s12_a_rate_lets_a_burst_go_then_spaces_it(self, rig: StoreHarness) -> None:
        """Three in a minute: three at once, then one every 20 seconds."""
        rig.queue.change_customer("acme", ANNA, rate=RateLimit(3, seconds(60)))
        rig.submit("acme", 10)
        assert len(rig.claim(10)) == 3
        assert rig.store.next_due() == START + seconds(20)
        rig.clock.advance(seconds(20) - 1)
        assert rig.claim() == ()
        rig.clock.advance(1)
        assert len(rig.claim(10)) == 1
        rig.advance(40)
        assert len(rig.claim(10)) == 2

    def test_s12_a_rate_taken_away_opens_at_once(self, rig: StoreHarness) -> None:
        """Also while it is exhausted."""
        rig.queue.change_customer("acme", ANNA, rate=RateLimit(1, seconds(60)))
        rig.submit("acme", 3)
        assert len(rig.claim(3)) == 1
        rig.queue.change_customer("acme", ANNA, rate=None)
        assert len(rig.claim(3)) == 2

    def test_s12_pause_cap_and_rate_must_all_allow(self, rig: StoreHarness) -> None:
        """A line is open only if nothing closes it."""
        rig.queue.change_customer("acme", ANNA, rate=RateLimit(1, seconds(10)), cap=1)
        rig.submit("acme", 3)
        claimed = rig.claim_one()
        rig.advance(10)
        assert rig.claim() == ()
        rig.queue.pause(ANNA, "acme")
        rig.queue.finish(claimed)
        assert rig.claim() == ()
        rig.queue.resume(ANNA, "acme")
        assert len(rig.claim(3)) == 1

    def test_s19_opening_earns_no_credit(self, rig: StoreHarness) -> None:
        """After a long pause a customer gets its share, not its arrears."""
        rig.set_policy(SINGLE_LEVEL_POLICY)
        rig.submit("acme", 50)
        rig.submit("beta", 50)
        rig.queue.pause(ANNA, "acme")
        assert set(rig.claim_customers(30)) == {"beta"}
        rig.queue.resume(ANNA, "acme")
        assert Tally(rig.claim_customers(10)) == {"acme": 5, "beta": 5}

    def test_s19_weights_share_and_hold_for_what_waits(self, rig: StoreHarness) -> None:
        """Three to one; and back."""
        rig.set_policy(SINGLE_LEVEL_POLICY)
        rig.submit("acme", 100)
        rig.submit("beta", 100)
        rig.queue.change_customer("acme", ANNA, weight=3)
        assert Tally(rig.claim_customers(40)) == {"acme": 30, "beta": 10}
        rig.queue.change_customer("acme", ANNA, weight=1)
        assert Tally(rig.claim_customers(20))["acme"] in {9, 10, 11}

    def test_s19_cost_is_charged(self, rig: StoreHarness) -> None:
        """A customer of large documents gets fewer of them."""
        rig.set_policy(SINGLE_LEVEL_POLICY)
        rig.submit("large", 50, cost=4)
        rig.submit("small", 50, cost=1)
        assert Tally(rig.claim_customers(25)) == {"large": 5, "small": 20}

    def test_s10_an_idle_customer_gains_nothing(self, rig: StoreHarness) -> None:
        """Coming late is no merit: it joins at V."""
        rig.set_policy(SINGLE_LEVEL_POLICY)
        rig.submit("early", 60)
        rig.claim_customers(20)
        rig.submit("late", 20)
        assert Tally(rig.claim_customers(20)) == {"early": 10, "late": 10}

    def test_s10_the_overdue_slot_serves_a_starving_level(self, rig: StoreHarness) -> None:
        """Every tenth document, once a head has waited 900 seconds."""
        rig.submit("bulk", 40)
        for claimed in rig.claim(21):
            rig.queue.finish(claimed)
        served: list[int] = []
        for n in range(900):
            rig.advance(3)
            rig.submit(f"new {n}", 1)
            claimed = rig.claim_one()
            served.append(claimed.document.level)
            rig.queue.finish(claimed)
        first = served.index(9)
        assert first >= 899 // 3
        assert served[first : first + 100].count(9) == 10
        assert served[:first] == [1] * first

    def test_s10_a_level_that_nobody_looked_at_for_long_is_overdue(self, rig: StoreHarness) -> None:
        """Though no claim came since its documents did."""
        rig.submit("bulk", 30)
        for n in range(40):
            rig.submit(f"new {n}", 1)
        rig.advance(1_000)
        levels = [claimed.document.level for claimed in rig.claim(40)]
        assert [levels[slot - 1] for slot in (10, 20, 30, 40)] == [1, 2, 3, 4]
        assert levels.count(1) == 37

    def test_s10_a_line_goes_out_of_turn_at_most_once_in_a_tenth_of_overdue_after(self, rig: StoreHarness) -> None:
        """Of 40 customers that have waited equally long, the first gets no more starts than the others."""
        rig.set_policy(Policy(PriorityPolicy(thresholds=(-1_000,)), TurnPolicy(overdue_every=2)))
        for n in range(40):
            rig.submit(f"c{n:02}", 14)
        rig.advance(1_000)
        starts: Tally[str] = Tally()
        for _ in range(80):
            starts.update(rig.claim_customers(5))
            rig.advance(1)
        assert max(starts.values()) <= 1.2 * 400 / 40
        assert min(starts.values()) >= 0.8 * 400 / 40

    def test_s10_a_slot_goes_to_the_lowest_line_also_when_a_clock_went_back(self, rig: StoreHarness) -> None:
        """The document that makes the level overdue came last, by a clock that stood earlier."""
        rig.set_policy(Policy(PriorityPolicy(thresholds=(-1,)), TurnPolicy(overdue_every=8)))
        rig.submit("y", 4)
        rig.submit("x", 4)
        claimed = rig.claim(7)
        assert [claim.document.customer for claim in claimed if claim.document.level == 2] == ["y", "x", "y"]
        for claim in claimed:
            rig.queue.finish(claim)
        rig.advance(-50)
        rig.submit("y")
        rig.advance(910)
        rig.submit("new")
        eighth = rig.claim_one().document
        assert (eighth.customer, eighth.level) == ("x", 2)

    def test_s10_classic_is_first_come_first_served_in_a_level(self, rig: StoreHarness) -> None:
        """And nothing is overdue."""
        rig.set_policy(Policy(turns=TurnPolicy(Order.CLASSIC)))
        rig.submit("flood", 30)
        rig.submit("beta", 25)
        rig.advance(10_000)
        assert rig.claim_customers(6) == ["flood"] * 3 + ["beta"] * 3
        rest = rig.claim(100)
        levels = [claim.document.level for claim in rest]
        assert levels == sorted(levels)
        assert [claim.document.customer for claim in rest][-13:] == ["flood"] * 9 + ["beta"] * 4

    def test_s22_a_new_order_holds_for_what_waits(self, rig: StoreHarness) -> None:
        """There and back."""
        rig.set_policy(SINGLE_LEVEL_POLICY)
        rig.submit("a", 20)
        rig.submit("b", 20)
        assert rig.claim_customers(4) == ["a", "b", "a", "b"]
        rig.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(Order.CLASSIC)))
        assert rig.claim_customers(4) == ["a"] * 4
        rig.set_policy(SINGLE_LEVEL_POLICY)
        assert Tally(rig.claim_customers(4)) == {"a": 2, "b": 2}

    def test_s12_many_customers_at_their_caps_in_one_claim(self, rig: StoreHarness) -> None:
        """Each closes in the middle of the batch, in several levels at once."""
        for n in range(6):
            rig.queue.change_customer(f"c{n}", ANNA, cap=1 + n % 3)
            rig.queue.submit(f"c{n}", [NewDocument("x")] * 8)
        assert Tally(rig.claim_customers(100)) == {f"c{n}": 1 + n % 3 for n in range(6)}
