"""The worst case of a quiet customer: at most one document of each other lane of its level goes before its first.

Proof. Its lane joins at V. A lane goes before it only if it stands at V with an older stamp. When such a lane is taken,
its turn grows by at least 1, so that it stands after V. A correction gives a new stamp and moves no open lane before V,
and a lane that joins later joins at V at the earliest, with a newer stamp. V does not pass the quiet lane: it
is the turn of the lane taken as the lowest.
"""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inturn.policy.scheduler import Head
from inturn.policy.turn_policy import Charge, TurnPolicy
from model_lanes import BY_COST, DocumentLane, Lanes

NEVER = 10**15
NAMES = st.sampled_from("abcdef")
WORKED = st.integers(0, 900_000_000)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, st.sampled_from([1.0, 4.0, 300.0])),
        st.tuples(st.just("take")),
        st.tuples(st.just("take")),
        st.tuples(st.just("end"), st.integers(0, 20), WORKED),
        st.tuples(st.just("close"), NAMES),
        st.tuples(st.just("open"), NAMES),
    ),
    max_size=80,
)


class Level:
    """One level, with documents that run until they end after some time."""

    def __init__(self, charge: Charge) -> None:
        self.lanes = Lanes(replace(BY_COST, charge=charge, overdue_after=NEVER))
        self.running: list[tuple[DocumentLane, Head, int]] = []

    def play(self, step: tuple) -> str | None:  # type: ignore[type-arg]
        """Do a step; return whose document was taken."""
        what, *args = step
        if what == "take":
            return self.take()
        if what == "add":
            self.lanes.add(args[0], 1, cost=args[1])
        elif what != "end":
            getattr(self.lanes, what)(*args)
        elif self.running:
            lane, head, charged = self.running.pop(args[0] % len(self.running))
            self.lanes.scheduler.settle(lane, charged, args[1], head.cost)
        return None

    def take(self) -> str | None:
        taken = self.lanes.take()
        if taken is None:
            return None
        self.running.append((*taken, self.lanes.scheduler.last_charge or 0))
        return taken[0].customer


@given(STEPS, STEPS, st.sampled_from(Charge))
def test_one_document_of_each_open_lane_goes_before_a_quiet_customer(
    before: list[tuple],
    after: list[tuple],
    charge: Charge,  # type: ignore[type-arg]
) -> None:
    level = Level(charge)
    for step in before:
        level.play(step)
    open_lanes = {lane.customer for lane in level.lanes.lanes.values() if lane.scheduled}
    level.lanes.add("quiet", 1)
    earlier: Counter[str] = Counter()
    for step in [*after, *[("take",)] * (len(open_lanes) + 1)]:
        taken = level.play(step)
        if taken == "quiet":
            break
        if taken is not None:
            earlier[taken] += 1
    else:
        raise AssertionError("the quiet customer was not started")
    assert set(earlier) <= open_lanes
    assert all(n == 1 for n in earlier.values())


def test_long_documents_do_not_let_a_customer_in_twice() -> None:
    """The expectation is a second, the document takes a tenth. Refunded, its lane still stands behind the quiet one."""
    level = Level(Charge.TIME)
    for _ in range(3):
        level.lanes.add("bulk", 1)
    assert level.take() == "bulk"
    level.lanes.add("quiet", 1)
    level.play(("end", 0, 100_000))
    assert [level.take(), level.take()] == ["quiet", "bulk"]


def test_a_late_refund_lets_no_lane_go_before_a_quiet_customer_twice() -> None:
    """The second customer's document ends at once, when V has long passed the turn it was charged from."""
    level = Level(Charge.TIME)
    for name in "ab":
        for _ in range(5):
            level.lanes.add(name, 1, cost=300.0)
    assert [level.take(), level.take(), level.take()] == ["a", "b", "a"]
    level.play(("end", 1, 0))
    level.lanes.add("quiet", 1)
    assert [level.take(), level.take()] == ["b", "quiet"]


def test_the_default_policy_charges_time() -> None:
    assert TurnPolicy().charge is Charge.TIME
