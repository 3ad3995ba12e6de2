"""A document's place is what claims would do: by the division, by replaying the turns, and on a real store."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.insights import open_lanes
from inturn.model import NewDocument
from inturn.policy import Policy
from inturn.policy.charges import VIRTUAL_TIME_UNIT
from inturn.policy.position import Ahead, OpenLane, classic_ahead, fair_ahead
from inturn.policy.scheduler import Head, Lane, Scheduler
from inturn.policy.turn_policy import Order, TurnPolicy
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import MAX_TIME
from model_lanes import BY_COST

ANNA = Operator("anna", "test")
NO_SLOT = replace(BY_COST, overdue_after=MAX_TIME)


@st.composite
def standing_lines(draw: st.DrawFn) -> list[OpenLane]:
    """Lines at few different turns and steps, so that ties are common; stamps are never given twice."""
    n = draw(st.integers(1, 6))
    stamps = draw(st.permutations(range(1, n + 1)))
    turns = st.integers(0, 6).map(lambda item: item * 250_000)
    weights = st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0])
    return [
        OpenLane(
            draw(st.integers(1, 2)),
            draw(turns),
            stamp,
            draw(weights),
            draw(st.integers(1, 8)),
            VIRTUAL_TIME_UNIT,
            stamp,
        )
        for stamp in stamps
    ]


def replay(lines: Sequence[OpenLane]) -> list[int]:
    """Which line's document starts when, by the turns themselves."""
    turns: Scheduler[Lane] = Scheduler(NO_SLOT)
    turns.next_stamp = 1_000
    left = {}
    for number, open_lane in enumerate(lines):
        line = Lane(
            str(number),
            open_lane.level,
            open_lane.weight,
            open_lane.turn,
            open_lane.stamp,
            head=Head(open_lane.seq, 0, open_lane.charge / VIRTUAL_TIME_UNIT),
        )
        left[line.customer] = open_lane.waiting
        turns.levels[open_lane.level].open_lanes += 1
        turns.schedule(line)
    order = []
    while (line := turns.take(0)) is not None:
        order.append(int(line.customer))
        left[line.customer] -= 1
        turns.put_back(line, line.head if left[line.customer] else None)
    return order


@given(standing_lines())
def test_the_division_gives_what_the_turns_do(lines: list[OpenLane]) -> None:
    order = replay(lines)
    for mine, line in enumerate(lines):
        for ahead in range(line.waiting):
            start = [number for number, whose in enumerate(order) if whose == mine][ahead]
            earlier = order[:start]
            expected = Ahead(
                sum(lines[item].level < line.level for item in earlier),
                sum(lines[item].level == line.level and item != mine for item in earlier),
                earlier.count(mine),
            )
            assert fair_ahead(lines, mine, ahead) == expected


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from("abcd"), st.integers(1, 9)),
        st.tuples(st.just("claim"), st.just(""), st.integers(1, 6)),
        st.tuples(st.just("weigh"), st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 3.0])),
        st.tuples(st.just("pause"), st.sampled_from("abcd"), st.booleans()),
    ),
    min_size=1,
    max_size=15,
)


def played(steps: Sequence[tuple[str, str, float]], order: Order) -> Queue:
    clock = ManualClock(1)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.set_policy(Policy(turns=TurnPolicy(order, MAX_TIME)), ANNA)
    for what, customer, value in steps:
        if what == "submit":
            queue.submit(customer, [NewDocument("one")] * int(value))
        elif what == "claim":
            queue.claim("worker", int(value))
        elif what == "weigh":
            queue.change_customer(customer, ANNA, weight=value)
        else:
            queue.change_customer(customer, ANNA, paused=bool(value))
    return queue


@given(STEPS)
def test_the_place_is_what_a_store_does(steps: list[tuple[str, str, float]]) -> None:
    queue = played(steps, Order.FAIR)
    standings = queue.store.scheduler_snapshot()
    lines, where = open_lanes(standings), {(line.customer, line.level): n for n, line in enumerate(standings.lanes)}
    aheads = {document.id: queue.store.ahead_in_lane(document.id) for document in queue.documents().items}
    for number, claimed in enumerate(queue.claim("worker", 1_000)):
        document = claimed.document
        mine = where[document.customer, document.level]
        assert fair_ahead(lines, mine, aheads[document.id]).place == number


@given(STEPS)
def test_first_come_first_served_is_bounded_from_above(steps: list[tuple[str, str, float]]) -> None:
    queue = played(steps, Order.CLASSIC)
    standings = queue.store.scheduler_snapshot()
    lines, where = open_lanes(standings), {(line.customer, line.level): n for n, line in enumerate(standings.lanes)}
    aheads = {document.id: queue.store.ahead_in_lane(document.id) for document in queue.documents().items}
    for number, claimed in enumerate(queue.claim("worker", 1_000)):
        document = claimed.document
        mine = where[document.customer, document.level]
        before = classic_ahead(lines, mine, aheads[document.id], document.seq)
        assert before.place >= number
        assert before.own_line == aheads[document.id]


def test_first_come_first_served_is_exact_for_lines_of_one() -> None:
    lines = [OpenLane(1, 0, n, 1.0, 1, VIRTUAL_TIME_UNIT, n) for n in (3, 1, 2)]
    assert [classic_ahead(lines, mine, 0, line.seq).place for mine, line in enumerate(lines)] == [2, 0, 1]


def test_a_million_documents_are_counted_at_once() -> None:
    lines = [OpenLane(9, 0, number, 1.0, 10_000, VIRTUAL_TIME_UNIT, number) for number in range(100)]
    assert fair_ahead(lines, 0, 9_999) == Ahead(0, 99 * 9_999, 9_999)
    assert fair_ahead(lines, 99, 9_999) == Ahead(0, 99 * 10_000, 9_999)
