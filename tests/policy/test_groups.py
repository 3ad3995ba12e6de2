"""Groups decide which of a customer's documents is next, never when its customer is."""

from hypothesis import given
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.policy import Charge, Order, Policy, PriorityPolicy, TurnPolicy
from inturn.policy.charges import VIRTUAL_TIME_UNIT
from inturn.policy.groups import UNGROUPED, Groups
from inturn.policy.scheduler import Head, Lane
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import seconds
from inturn.worker_report import WorkerReport

ANNA = Operator("anna", "test")
CALLS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from([None, "g", "h", "i"]), min_size=1, max_size=6)),
        st.integers(1, 5),
        st.sampled_from(["finish", "release", "wait"]),
    ),
    max_size=40,
)
TURNS = st.builds(
    TurnPolicy,
    st.sampled_from(list(Order)),
    st.just(seconds(900)),
    st.sampled_from([2, 10]),
    st.sampled_from(list(Charge)),
    st.sampled_from([0.5, 1.0]),
)
"""Nothing is overdue: `CALLS` take 280 s at most."""
OVERDUE_SOON = TurnPolicy(overdue_after=seconds(5), overdue_every=2, charge=Charge.COST, max_share=1.0)


@given(CALLS, TURNS)
def test_customers_share_is_the_same_to_the_document(calls: list[object], turns: TurnPolicy) -> None:
    """Documents that cost and take the same: levels and customers start as they do without groups.

    Limits of shares, releases and both charges included. The overdue slot has tests of its own.
    """
    with_groups, without = (play(calls, turns, has_groups=has_groups) for has_groups in (True, False))
    assert with_groups == without


def test_overdue_slot_goes_by_the_oldest_document_of_any_group() -> None:
    """A group's turn may leave older documents behind than arrival would. They are overdue all the same."""
    calls: list[object] = [("a", ["g"] * 12), "wait", ("a", ["h"] * 3), 5, 5, 2, ("b", ["g"] * 2), 1, 1, 1]
    with_groups, without = (play(calls, OVERDUE_SOON, has_groups=has_groups)[12:] for has_groups in (True, False))
    assert with_groups == [("b", 1), ("a", 3), ("b", 1)]
    assert without == [("b", 1), ("b", 1), ("a", 3)]


@given(
    st.lists(st.sampled_from([None, "g", "h", "i"]), min_size=80, max_size=80),
    st.lists(st.integers(1, 7), min_size=9, max_size=30),
)
def test_overdue_documents_of_groups_gain_no_share_of_their_level(groups: list[str | None], claims: list[int]) -> None:
    """Of two backlogged customers, one with groups, each has started as many, but for one taken out of turn."""
    documents = len(groups)
    calls: list[object] = [("a", groups), ("b", [None] * documents), "wait", 14]  # 14 in the levels above
    for n in claims:
        calls += [n, "wait"]
    started = [customer for customer, level in play(calls, OVERDUE_SOON, has_groups=True) if level == 3]
    for n in range(min(len(started), documents // 2)):
        assert abs(started[:n].count("a") - started[:n].count("b")) <= 2


def play(calls: list[object], turns: TurnPolicy, *, has_groups: bool) -> list[tuple[str, int]]:
    """Return customer and level of each document started."""
    clock = ManualClock(seconds(10**6))
    store = open_store("memory://", clock)
    store.set_policy(Policy(PriorityPolicy(thresholds=(-3, -6)), turns), ANNA)
    store.record_worker(WorkerReport("w", "host", 1, 6, 0, "processor", 0))
    queue = Queue(store, clock=clock)
    running, started = [], []
    for call in calls:
        if isinstance(call, tuple):
            customer, groups = call
            queue.submit(customer, [NewDocument("x", group=group if has_groups else None) for group in groups])
        elif isinstance(call, int):
            claims = queue.claim("w", call)
            running += claims
            started += [(claim.document.customer, claim.document.level) for claim in claims]
        elif call == "wait":
            clock.advance(seconds(7))
        elif running:
            claim = running.pop(0)
            queue.finish(claim) if call == "finish" else queue.release(claim)
    return started


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=60))
def test_backlogged_groups_get_equal_shares(documents: list[tuple[str, int]]) -> None:
    """While groups wait, what they were charged differs by no more than one document of each."""
    groups, stamp = Groups[Lane](), 0
    piles: dict[str, list[int]] = {}
    for name, cost in documents:
        piles.setdefault(name, []).append(cost)
    for name, pile in piles.items():
        group = groups.members[name] = Lane(name, 9)
        group.head = Head(stamp, 0, pile[0])
        groups.activate(group, stamp := stamp + 1)
    charged = dict.fromkeys(piles, 0)
    while all(piles.values()):
        group = groups.lowest()
        assert group is not None
        cost = piles[group.customer].pop(0)
        charged[group.customer] += cost
        groups.charge(group, cost * VIRTUAL_TIME_UNIT, stamp := stamp + 1, advance_virtual_time=True)
        pile = piles[group.customer]
        groups.change_head(group, Head(stamp, 0, pile[0]) if pile else None)
    assert max(charged.values()) - min(charged.values()) <= 9


def test_new_group_joins_at_the_turn_of_the_others() -> None:
    """A group that was idle has no credit, and one that was forgotten no debt."""
    groups = Groups[Lane](virtual_turn=500)
    newcomer = groups.members["new"] = Lane("acme", 9, head=Head(1, 0, 1.0))
    groups.activate(newcomer, 1)
    assert newcomer.turn == 500
    groups.change_head(newcomer, None)
    groups.correct(newcomer, -100, 2)
    assert newcomer.turn == 500
    assert groups.is_spent(newcomer)
    groups.forget_spent()
    assert groups.find("new") is None
    assert groups.find(UNGROUPED) is None


def test_stale_heap_entries_are_dropped() -> None:
    """A lane that never empties keeps its groups for as long: their heaps stay small."""
    groups = Groups[Lane]()
    for seq, name in enumerate("ab"):
        groups.members[name] = Lane(name, 9, head=Head(seq, 0, 1.0))
        groups.activate(groups.members[name], seq)
    for n in range(2, 10_000):
        group = groups.members["b"]
        groups.correct(group, 1, n)
        groups.change_head(group, Head(n, 0, 1.0))
    assert len(groups.by_turn) + len(groups.by_seq) < 200
    oldest, lowest = groups.oldest(), groups.lowest()
    assert oldest is lowest is groups.members["a"]
