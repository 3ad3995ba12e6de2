"""What the order promises, as properties of random histories."""

from collections import Counter as Tally
from itertools import combinations, count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn import InvalidInputError, Order, TurnPolicy
from inturn.policy.charges import VIRTUAL_TIME_UNIT, cost_charge, increment
from inturn.policy.scheduler import LEVELS, Head
from model_lanes import NEVER, STRICT, DocumentLane, Lanes

NAMES = st.sampled_from("abcde")
LEVEL = st.integers(1, 9)
COST = st.sampled_from([0.5, 1.0, 3.0, 20.0])
WEIGHT = st.sampled_from([0.001, 0.5, 1.0, 4.0, 1000.0])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, LEVEL, COST),
        st.tuples(st.just("add"), NAMES, st.just(9), COST),
        st.tuples(st.just("take")),
        st.tuples(st.just("take")),
        st.tuples(st.just("close"), NAMES),
        st.tuples(st.just("open"), NAMES),
        st.tuples(st.just("reweigh"), NAMES, WEIGHT),
        st.tuples(st.just("take and release")),
    ),
    max_size=120,
)


def play(lanes: Lanes, step: tuple, now: int = 0) -> tuple[DocumentLane, Head] | None:  # type: ignore[type-arg]
    what, *args = step
    if what == "take":
        return lanes.take(now)
    if what == "take and release":
        if taken := lanes.take(now):
            lanes.release(*taken)
        return None
    if what == "add":
        customer, level, cost = args
        lanes.add(customer, level, cost=cost, ready_at=now)
    else:
        getattr(lanes, what)(*args)
    return None


@given(STEPS)
def test_levels_are_strict_while_nothing_is_overdue(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    lanes = Lanes(STRICT)
    for step in steps:
        best = min((lane.level for lane in lanes.backlogged()), default=None)
        taken = play(lanes, step)
        if taken:
            assert taken[0].level == best


@given(STEPS)
def test_work_is_conserved(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    lanes = Lanes(STRICT)
    for step in steps:
        some = bool(lanes.backlogged())
        taken = play(lanes, step)
        if step[0] == "take":
            assert (taken is not None) == some


@given(STEPS)
def test_a_line_is_first_in_first_out(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    lanes, last = Lanes(TurnPolicy(overdue_after=1)), Tally[tuple[str, int]]()
    for now, step in enumerate(steps):
        taken = play(lanes, step, now)
        if taken:
            lane, head = taken
            assert head.seq > last[lane.customer, lane.level]
            last[lane.customer, lane.level] = head.seq


@given(STEPS, st.sampled_from([1, 5, NEVER]))
def test_v_never_falls_and_every_open_line_stands_above_it(steps: list[tuple], overdue_after: int) -> None:  # type: ignore[type-arg]
    lanes = Lanes(TurnPolicy(overdue_after=overdue_after))
    before = [level.virtual_time for level in lanes.scheduler.levels]
    for now, step in enumerate(steps):
        play(lanes, step, now)
        after = [level.virtual_time for level in lanes.scheduler.levels]
        assert all(new >= old for old, new in zip(before, after, strict=True))
        assert all((lane.turn, lane.stamp) > after[lane.level] for lane in lanes.backlogged())
        assert all(lane.turn <= lanes.scheduler.levels[lane.level].max_turn for lane in lanes.lanes.values())
        before = after


@given(
    st.lists(st.tuples(WEIGHT, st.lists(COST, min_size=1, max_size=4)), min_size=2, max_size=4),
    st.integers(1, 80),
)
def test_backlogged_lines_get_their_share_within_one_document_of_each(
    customers: list[tuple[float, list[float]]], taken: int
) -> None:
    """|Wi/wi - Wj/wj| over any stretch stays within one largest increment of each."""
    lanes = Lanes(STRICT)
    for number, (weight, costs) in enumerate(customers):
        for turn in range(taken + 1):
            lanes.add(str(number), 9, cost=costs[turn % len(costs)], weight=weight)
    largest = [max(increment(cost_charge(cost), weight) for cost in costs) for weight, costs in customers]
    served = [0] * len(customers)
    seen = [tuple(served)]
    for _ in range(taken):
        taken_now = lanes.take()
        assert taken_now is not None
        lane, head = taken_now
        served[int(lane.customer)] += increment(cost_charge(head.cost), lane.weight)
        seen.append(tuple(served))
    for one, other in combinations(range(len(customers)), 2):
        ahead = [item[one] - item[other] for item in seen]
        assert max(ahead) - min(ahead) <= largest[one] + largest[other]


@given(STEPS, st.integers(1, 9))
def test_an_idle_customer_waits_for_at_most_one_document_of_each_other_line(steps: list[tuple], level: int) -> None:  # type: ignore[type-arg]
    lanes = Lanes(STRICT)
    for step in steps:
        play(lanes, step)
    for better in range(1, level):
        while any(lane.level == better for lane in lanes.backlogged()):
            lanes.take()
    lanes.add("newcomer", level)
    before: Tally[str] = Tally()
    while (taken := lanes.take()) is not None and taken[0].customer != "newcomer":
        before[taken[0].customer] += 1
    assert taken is not None
    assert all(n == 1 for n in before.values())


def test_a_tie_goes_to_whoever_stood_there_first_however_many_newcomers_join() -> None:
    lanes = Lanes(STRICT)
    for name in "ab":
        lanes.add(name, 1)
    newcomers = (f"newcomer {n}" for n in count())
    order = []
    for _ in range(20):
        lanes.add(next(newcomers), 1)
        lanes.add(next(newcomers), 1)
        taken = lanes.take()
        assert taken is not None
        order.append(taken[0].customer)
    assert order == ["a", "b", *(f"newcomer {n}" for n in range(18))]


def test_endless_newcomers_above_the_capacity_starve_nobody() -> None:
    """Newcomers join at V, twice as many as can be served; the old line gets through by the overdue slot."""
    lanes = Lanes(TurnPolicy(overdue_after=100))
    for _ in range(20):
        lanes.add("old", 1)
    started = []
    for now in range(100 * 200):
        lanes.add(f"newcomer {now}", 1, ready_at=now)
        if now % 2 == 0:
            taken = lanes.take(now)
            assert taken is not None
            if taken[0].customer == "old":
                started.append(now)
    assert len(started) == 20
    # One use of the slot in ten takes the oldest head: 2 ticks a document, 10 a slot, 10 slots, 20 documents.
    assert started[-1] <= 100 + 2 * 10 * 10 * 20


@settings(max_examples=300)
@given(
    STEPS,
    st.integers(1, 30),
    st.dictionaries(NAMES, st.integers(1, 4)),
    st.sampled_from([1, 30, NEVER]),
    st.sampled_from(list(Order)),
)
def test_k_at_once_from_the_lines_in_reach_equal_k_claims_of_one(
    steps: list[tuple],  # type: ignore[type-arg]
    k: int,
    caps: dict[str, int],
    overdue_after: int,
    order: Order,
) -> None:
    if order is Order.CLASSIC:
        overdue_after = NEVER
    lanes = Lanes(TurnPolicy(overdue_after=overdue_after))
    for now, step in enumerate(steps):
        play(lanes, step, now)
    lanes.caps = {name: cap + lanes.running.get(name, 0) for name, cap in caps.items()}
    part = lanes.reach(k)
    for _ in range(k):
        whole, reached = lanes.take(len(steps)), part.take(len(steps))
        assert (whole and whole[1]) == (reached and reached[1])
    assert part.scheduler.next_stamp == lanes.scheduler.next_stamp
    assert (part.scheduler.dispatched, part.scheduler.rotation) == (
        lanes.scheduler.dispatched,
        lanes.scheduler.rotation,
    )
    for mine, its in zip(lanes.scheduler.levels, part.scheduler.levels, strict=True):
        assert (mine.virtual_time, mine.overdue_uses) == (its.virtual_time, its.overdue_uses)


@given(STEPS)
def test_classic_is_strict_levels_and_first_come_first_served(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    lanes = Lanes(TurnPolicy(order=Order.CLASSIC, overdue_after=1, overdue_every=2))
    for now, step in enumerate(steps):
        expected = min(((lane.level, lane.documents[0].seq) for lane in lanes.backlogged()), default=None)
        taken = play(lanes, step, 100 * now)
        if taken:
            assert (taken[0].level, taken[1].seq) == expected
    assert all(level.virtual_time == (0, 0) for level in lanes.scheduler.levels)


def test_classic_has_no_overdue_slot() -> None:
    lanes = Lanes(TurnPolicy(order=Order.CLASSIC, overdue_after=1, overdue_every=2))
    for _ in range(10):
        lanes.add("a", 1)
        lanes.add("b", 9)
    levels = []
    for now in range(1, 21):
        taken = lanes.take(100 * now)
        assert taken is not None
        levels.append(taken[0].level)
    assert levels == [1] * 10 + [9] * 10


@given(STEPS)
def test_changing_the_order_and_back_leaves_every_line_where_it_stood(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    lanes, unchanged = Lanes(STRICT), Lanes(STRICT)
    for step in steps:
        lanes.scheduler.set_policy(TurnPolicy(order=Order.CLASSIC, overdue_after=NEVER))
        lanes.scheduler.set_policy(STRICT)
        one, other = play(lanes, step), play(unchanged, step)
        assert (one and one[1]) == (other and other[1])


def test_a_new_weight_scales_the_distance_from_v() -> None:
    lanes = Lanes(STRICT)
    for _ in range(4):
        lanes.add("a", 9)
        lanes.add("b", 9)
    lanes.take()
    lane = lanes.lanes["a", 9]
    assert lane.turn - lanes.scheduler.levels[9].virtual_time.turn == VIRTUAL_TIME_UNIT
    lanes.reweigh("a", 4)
    assert lane.turn - lanes.scheduler.levels[9].virtual_time.turn == VIRTUAL_TIME_UNIT // 4
    lanes.reweigh("a", 1)
    assert lane.turn - lanes.scheduler.levels[9].virtual_time.turn == VIRTUAL_TIME_UNIT


def test_shares_follow_a_weight_changed_to_4_and_back_without_a_burst() -> None:
    lanes = Lanes(STRICT)
    for _ in range(400):
        lanes.add("a", 9)
        lanes.add("b", 9)

    def share(n: int) -> int:
        return sum(taken is not None and taken[0].customer == "a" for taken in (lanes.take() for _ in range(n)))

    assert share(40) in range(19, 22)
    lanes.reweigh("a", 4)
    assert share(100) in range(79, 82)
    lanes.reweigh("a", 1)
    assert share(40) in range(19, 22)


def test_a_weight_changed_at_v_keeps_the_place_among_ties() -> None:
    lanes = Lanes(STRICT)
    for customer in "abc":
        for _ in range(3):
            lanes.add(customer, 9)
    lanes.reweigh("a", 2)
    lanes.reweigh("b", 0.5)
    assert [taken[0].customer for taken in (lanes.take() for _ in range(3)) if taken] == ["a", "b", "c"]


@pytest.mark.parametrize("releases", [1, 5])
def test_a_release_costs_its_line_nothing(releases: int) -> None:
    lanes = Lanes(STRICT)
    for customer in "abc":
        for _ in range(200):
            lanes.add(customer, 9)
    served = Tally[str]()
    for _ in range(300):
        taken = lanes.take()
        for _ in range(releases):
            if taken and taken[0].customer == "a":
                lanes.release(*taken)
                taken = lanes.take()
        if taken:
            served[taken[0].customer] += 1
    assert max(served.values()) - min(served.values()) <= 2


def test_a_release_after_others_were_served_goes_no_further_back_than_v() -> None:
    lanes = Lanes(STRICT)
    for customer, cost in (("a", 5), ("b", 1)):
        for _ in range(20):
            lanes.add(customer, 9, cost=cost)
    first = lanes.take()
    assert first is not None
    for _ in range(4):
        lanes.take()
    v = lanes.scheduler.levels[9].virtual_time
    lanes.release(*first)
    assert (first[0].turn, first[0].stamp) > v
    assert first[0].turn >= v.turn


def test_closed_time_earns_no_credit() -> None:
    lanes = Lanes(STRICT)
    for _ in range(100):
        lanes.add("a", 9)
        lanes.add("b", 9)
    lanes.close("a")
    assert all(taken is not None and taken[0].customer == "b" for taken in (lanes.take() for _ in range(50)))
    lanes.open("a")
    after = [taken[0].customer for taken in (lanes.take() for _ in range(20)) if taken]
    assert after.count("a") in {10, 11}


def test_a_level_that_fell_idle_forgets_who_was_ahead() -> None:
    lanes = Lanes(STRICT)
    for _ in range(5):
        lanes.add("a", 9)
    while lanes.take():
        pass
    lanes.add("a", 9)
    lanes.add("b", 9)
    taken = lanes.take()
    assert taken is not None
    assert taken[0].customer == "a"


def test_an_empty_line_is_remembered_only_while_it_is_ahead_of_v() -> None:
    lanes = Lanes(STRICT)
    lanes.add("a", 9)
    for _ in range(3):
        lanes.add("b", 9)
    lanes.take()
    assert not lanes.scheduler.is_spent(lanes.lanes["a", 9])
    lanes.take()
    lanes.take()
    assert lanes.scheduler.is_spent(lanes.lanes["a", 9])


@given(st.floats(0.001, 10_000), st.floats(0.001, 1_000))
def test_every_document_moves_its_line(cost: float, weight: float) -> None:
    assert increment(cost_charge(cost), weight) >= 1
    assert increment(cost_charge(1.0), 1.0) == VIRTUAL_TIME_UNIT


@pytest.mark.parametrize(
    ("bad", "advice"),
    [
        ({"overdue_after": 0}, "more than 0"),
        ({"overdue_after": 1.5}, "whole number"),
        ({"overdue_every": 1}, "from 2"),
        ({"overdue_every": 2.0}, "whole number"),
        ({"order": "fastest"}, "fair, classic"),
    ],
)
def test_turn_settings_out_of_range_are_refused_with_advice(bad: dict, advice: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InvalidInputError, match=advice):
        TurnPolicy(**bad)


def test_there_are_nine_levels_and_the_expedited_before_them() -> None:
    assert list(LEVELS) == list(range(10))
