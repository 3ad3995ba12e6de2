"""The overdue slot: levels and lanes whose heads have waited too long are served out of turn, and no more than that."""

from collections import Counter as Tally
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn import TurnPolicy
from inturn.policy.scheduler import VirtualTime
from model_lanes import NEVER, STRICT, Lanes

DOCUMENTS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(1, 9), st.integers(0, 300)), min_size=1, max_size=60
)
"""Customer, level, and when it was ready."""


@pytest.mark.parametrize("overdue_levels", [[9], [2, 9], list(range(1, 10))])
def test_every_overdue_level_gets_its_slots_and_level_1_keeps_nine_of_ten(overdue_levels: list[int]) -> None:
    lanes = Lanes(TurnPolicy(overdue_after=1))
    for level in overdue_levels:
        for n in range(600):
            lanes.add(f"c{n % 7}", level, ready_at=0)
    taken: list[int] = []
    for now in range(2, 902):
        lanes.add("flood", 1, ready_at=NEVER)
        lane_and_head = lanes.take(now)
        assert lane_and_head is not None
        taken.append(lane_and_head[0].level)
    assert taken.count(1) >= 810
    within = 10 * len(overdue_levels)
    for level in overdue_levels:
        for start in range(len(taken) - within + 1):
            assert level in taken[start : start + within]


@given(DOCUMENTS, st.integers(0, 300))
def test_the_slot_is_unused_while_no_head_is_overdue(documents: list[tuple[str, int, int]], now: int) -> None:
    lanes = Lanes(TurnPolicy(overdue_after=301))
    strict = Lanes(STRICT)
    for customer, level, ready_at in documents:
        for item in (lanes, strict):
            item.add(customer, level, ready_at=ready_at)
    for _ in documents:
        one, other = lanes.take(now), strict.take(now)
        assert one is not None
        assert other is not None
        assert one[1] == other[1]
    assert all(level.overdue_uses == 0 for level in lanes.scheduler.levels)


def test_the_oldest_head_leaves_v_alone() -> None:
    lanes = Lanes(TurnPolicy(overdue_after=10, overdue_every=2))
    for n in range(60):
        lanes.add("ahead", 9, ready_at=0 if n < 30 else 100, cost=20)
        lanes.add("behind", 9, ready_at=50)
    seen = 0
    for now in range(1_000, 1_080):
        level = lanes.scheduler.levels[9]
        before, uses = level.virtual_time, level.overdue_uses
        taken = lanes.take(now)
        assert taken is not None
        if level.overdue_uses == uses + 1 and level.overdue_uses % 10 == 0:
            seen += 1
            assert level.virtual_time == before
    assert seen == 4


def test_a_line_goes_out_of_turn_at_most_once_in_a_tenth_of_overdue_after() -> None:
    lanes = Lanes(TurnPolicy(overdue_after=1_000, overdue_every=2))
    for customer in range(40):
        for _ in range(100):
            lanes.add(str(customer), 9, ready_at=customer)
    starts: dict[str, list[int]] = {}
    for now in range(2_000, 5_000):
        before = {lane.customer: lane.out_of_turn_at for lane in lanes.backlogged()}
        taken = lanes.take(now)
        assert taken is not None
        if taken[0].out_of_turn_at != before[taken[0].customer]:
            starts.setdefault(taken[0].customer, []).append(now)
    assert sum(map(len, starts.values())) == 150
    assert all(later - earlier >= 100 for times in starts.values() for earlier, later in pairwise(times))


def test_out_of_turn_goes_to_the_oldest_head_that_may() -> None:
    lanes = Lanes(TurnPolicy(overdue_after=1_000, overdue_every=2))
    for customer in "cab":
        for _ in range(100):
            lanes.add(customer, 9, ready_at=ord(customer))
    out_of_turn = []
    for now in range(2_000, 2_140):
        before = {lane.customer: lane.out_of_turn_at for lane in lanes.backlogged()}
        taken = lanes.take(now)
        assert taken is not None
        if taken[0].out_of_turn_at != before[taken[0].customer]:
            out_of_turn.append((taken[0].customer, now))
    assert out_of_turn == [("a", 2_019), ("b", 2_039), ("c", 2_059), ("a", 2_119), ("b", 2_139)]


@pytest.mark.parametrize(("customers", "shares"), [(300, 1.1), (1_000, 1.5)])
def test_the_first_of_equal_backlogs_gets_about_its_share(customers: int, shares: float) -> None:
    """Eight starts a second; the first got 3 shares among 300, and 8 among 1,000."""
    second, item = 8, 20
    lanes = Lanes(TurnPolicy(overdue_after=900 * second))
    for customer in range(customers):
        for _ in range(9 * item):
            lanes.add(str(customer), 9, ready_at=customer)
    served = Tally[str]()
    for now in range(2_000 * second, 2_000 * second + item * customers):
        taken = lanes.take(now)
        assert taken is not None
        served[taken[0].customer] += 1
    assert max(served.values()) <= shares * item


def test_a_line_that_went_out_of_turn_is_forgotten_only_when_it_may_again() -> None:
    lanes = Lanes(TurnPolicy(overdue_after=1_000))
    lanes.add("a", 9)
    taken = lanes.take(5_000)
    assert taken is not None
    line = taken[0]
    line.out_of_turn_at, lanes.scheduler.levels[9].virtual_time = 5_000, VirtualTime(line.turn, 0)
    assert not lanes.scheduler.is_spent(line)
    assert not lanes.scheduler.is_spent(line, 5_099)
    assert lanes.scheduler.is_spent(line, 5_100)
