"""SlotShares of worker time: what the charges promise for any service times, and the limit of slots, as pure rules."""

import heapq
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.model import Claim, NewDocument
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.policy.charges import MAX_WORK, MIN_WORK, moved_mean
from inturn.policy.scheduler import CustomerWork, Head, Lane, Scheduler
from inturn.policy.slot_share import SlotShares
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import seconds

ANNA = Operator("anna", "test")
LONGEST = 20
BY_TIME = Policy(PriorityPolicy(thresholds=(-(10**6),)), TurnPolicy(max_share=1.0))
SERVICE_TIMES = st.lists(st.integers(1, LONGEST), min_size=1, max_size=6)


@settings(max_examples=30)
@given(st.lists(SERVICE_TIMES, min_size=2, max_size=4), st.integers(1, 4))
def test_backlogged_customers_differ_by_what_runs_at_most(service_times: list[list[int]], slots: int) -> None:
    """|Wi - Wj| stays within the documents that ran at once: their time was not known when they were started.

    One more of each customer is the bound of start-time fair queueing itself.
    """
    clock = ManualClock(0)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.store.set_policy(BY_TIME, ANNA)
    for number in range(len(service_times)):
        queue.submit(str(number), [NewDocument("x")] * 90)
    used, starts = [0] * len(service_times), [0] * len(service_times)
    running: list[tuple[int, int, int, Claim]] = []
    for _ in range(80):
        for claim in queue.claim("worker", slots - len(running), lease=seconds(1_000)):
            customer = int(claim.document.customer)
            duration = service_times[customer][starts[customer] % len(service_times[customer])]
            starts[customer] += 1
            heapq.heappush(running, (clock.now() + seconds(duration), claim.fence, duration, claim))
        ends_at, _, duration, claim = heapq.heappop(running)
        clock.advance(ends_at - clock.now())
        queue.finish(claim)
        used[int(claim.document.customer)] += duration
    assert max(used) - min(used) <= 2 * (slots + 1) * LONGEST


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.sampled_from([0.001, 0.5, 1.0, 1000.0]))
def test_lane_pays_exactly_what_its_documents_used(used: list[int], weight: float) -> None:
    """Whatever was expected: charge and correction add up to the time used, within a microsecond each at weight 1."""
    scheduler: Scheduler[Lane] = Scheduler(BY_TIME.turns)
    lane = Lane("a", 1, weight)
    for n, worked in enumerate(used):
        lane.head = Head(n, 0, 1.0)
        scheduler.activate(lane)
        before = lane.turn
        assert scheduler.take(0) is lane
        scheduler.put_back(lane, None)
        scheduler.settle(lane, scheduler.last_charge or 0, worked, 1.0)
        paid = min(max(worked, MIN_WORK), MAX_WORK) / weight
        assert abs(lane.turn - before - paid) <= 2


def test_open_lane_gets_no_earlier_than_v() -> None:
    scheduler: Scheduler[Lane] = Scheduler(BY_TIME.turns)
    first, second = Lane("a", 1, work=CustomerWork(seconds(100))), Lane("b", 1, work=CustomerWork(seconds(30)))
    for lane in (first, second):
        lane.head = Head(1, 0, 1.0)
        scheduler.activate(lane)
    for _ in range(3):  # a at 0, b at 0, b at 30
        lane = scheduler.take(0)
        assert lane is not None
        scheduler.put_back(lane, Head(2, 0, 1.0))
    assert scheduler.levels[1].virtual_time.turn == seconds(30)
    scheduler.settle(first, seconds(100), seconds(1), None)
    assert first.turn == seconds(30)


def test_expected_time_follows_its_customer() -> None:
    work = CustomerWork()
    for _ in range(60):
        work.learn(seconds(3))
    assert work.unit_time == seconds(3)
    work.learn(seconds(11))
    assert work.unit_time == seconds(4)
    assert moved_mean(None, 7, 8) == 7


@given(st.integers(0, 200), st.sampled_from([0.5, 0.75, 7 / 8, 1.0]))
def test_limit_is_the_share_of_the_slots(slots: int, max_share: float) -> None:
    limit = SlotShares(slots).limit(max_share)
    if max_share == 1 or slots < 2:
        assert limit is None
    else:
        assert limit is not None
        assert 1 <= limit <= max(1, slots * max_share)
        assert limit + 1 > slots * max_share


def test_customer_is_closed_for_a_while_after_a_start_of_another() -> None:
    shares = SlotShares(8)
    for now in range(5):
        shares.started("a", now)
    assert shares.closed_until("a", 100, 5) is None
    assert shares.closed_until("b", 100, 5) == 104
    shares.started("b", 5)
    shares.started("a", 7)
    assert [shares.closed_until("a", 100, now) for now in (4, 5, 104, 105)] == [None, 105, 105, None]
    assert shares.closed_until("b", 100, 7) == 107
    shares.started("a", 9)
    assert (shares.closed_until("a", 100, 9), shares.closed_until("b", 100, 9)) == (105, 109)


def test_classic_order_charges_nothing() -> None:
    policy = replace(BY_TIME.turns, order=Order.CLASSIC)
    assert not policy.charges_time
    assert not policy.tracks_runs
