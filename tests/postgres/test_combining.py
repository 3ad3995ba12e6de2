"""Claims that combine: the session that has the turn claims for all that wait, as if they had claimed one by one."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claim_turn import MAX_CLAIMERS, MINUTE, START, Claimer, Turn, calls_for, made_id, seqs, submit
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store import Store
from inturn.store_types import ClaimRequest, DocumentFilter, EventKind, Operator, Outcome, OutcomeKind, Submission
from inturn.stores.memory import MemoryStore
from inturn.stores.postgres import PostgresStore, claims
from inturn.values import seconds
from services import drop_schema, needs_postgres, new_schema
from state_machine_settings import SOAK

pytestmark = needs_postgres
ANNA = Operator("anna", "a test")


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, ManualClock(START))) as opened:
        yield opened


@pytest.fixture
def stores(url: str) -> Iterator[list[PostgresStore]]:
    """A store for each of four processes."""
    opened = [PostgresStore(url, ManualClock(START)) for _ in range(4)]
    yield opened
    for store in opened:
        store.close()


def claim_from_memory(n: int, *limits: int) -> list[list[int]]:
    """What a store in memory gives for the same claims of one customer, one after another."""
    memory = MemoryStore(ManualClock(START))
    submit(memory, "acme", n)
    return [seqs(memory.claim(ClaimRequest("worker", limit, MINUTE))) for limit in limits]


# -- as if one by one -----------------------------------------------------------------------------------------------


CUSTOMER_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.sampled_from([0.5, 1.0, 3.0]),
        "cap": st.integers(1, 3),
        "paused": st.sampled_from([True, False, False]),
    },
)
CUSTOMERS = st.lists(
    st.tuples(st.lists(st.sampled_from([0.1, 1.0, 1.0, 30.0]), max_size=7), CUSTOMER_SETTINGS), min_size=1, max_size=5
)
POLICIES = st.builds(
    lambda order, thresholds, overdue_every: Policy(
        PriorityPolicy(MINUTE, thresholds), TurnPolicy(order, seconds(10), overdue_every)
    ),
    st.sampled_from(Order),
    st.sampled_from([(-1,), (-1, -3), (-100,)]),
    st.sampled_from([2, 3, 10]),
)
PAUSED = st.lists(st.integers(0, 3), max_size=3, unique=True)
OUTCOMES = st.lists(st.sampled_from(["done", "released", "due", "lost", "running"]), max_size=6)


def prepare(
    store: Store,
    clock: ManualClock,
    policy: Policy,
    customers: Sequence[tuple[Sequence[float], dict[str, Any]]],
    outcomes: Sequence[str],
    paused: Sequence[int],
) -> None:
    """Fill a queue: some documents have run before and are due or lost by now, and some have waited for long.

    Some customers are paused in the end, which no claim has seen yet.
    """
    clock.set(START - seconds(30))
    store.set_policy(policy, ANNA)
    given_ids = 0
    for number, (costs, changes) in enumerate(customers):
        if costs:
            ids = [made_id(given_ids + at) for at in range(len(costs))]
            given_ids += len(costs)
            documents = [NewDocument("a document", cost=cost) for cost in costs]
            store.submit(Submission(f"customer {number}", ids, documents))
        if changes:
            store.change_customer(f"customer {number}", changes, ANNA)
        clock.advance(seconds(5))
    clock.set(START - seconds(2))
    for outcome, claimed in zip(outcomes, store.claim(ClaimRequest("before", len(outcomes), MINUTE)), strict=False):
        id_, fence = claimed.document.id, claimed.fence
        recorded = {
            "done": [Outcome(id_, fence, OutcomeKind.DONE, result="0")],
            "released": [Outcome(id_, fence, OutcomeKind.RELEASED)],
            "due": [Outcome(id_, fence, OutcomeKind.FAILED, error="no", retry_in=seconds(1))],
        }.get(outcome, [])
        store.ack_and_claim(recorded, None)
        if outcome == "lost":
            store.heartbeat([(id_, fence)], seconds(1))
    clock.set(START)
    for number in paused:
        store.change_customer(f"customer {number}", {"paused": True}, ANNA)


@settings(
    max_examples=400 if SOAK else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(POLICIES, CUSTOMERS, OUTCOMES, PAUSED, st.lists(st.integers(1, 5), min_size=2, max_size=MAX_CLAIMERS))
def test_combined_claims_equal_claims_one_by_one(
    policy: Policy,
    customers: Sequence[tuple[Sequence[float], dict[str, Any]]],
    outcomes: Sequence[str],
    paused: Sequence[int],
    limits: Sequence[int],
) -> None:
    url, clock, other_clock = new_schema(), ManualClock(START), ManualClock(START)
    turn, memory = Turn(url), MemoryStore(other_clock)
    with closing(PostgresStore(url, clock)) as store, closing(Claimer(url)) as one, closing(Claimer(url)) as other:
        prepare(store, clock, policy, customers, outcomes, paused)
        prepare(memory, other_clock, policy, customers, outcomes, paused)
        version = turn.version()
        with turn.held():
            futures = turn.wait_for(*calls_for([one, other] * MAX_CLAIMERS, limits))
        claimed = [future.result(60) for future in futures]
        asked = list(range(len(limits)))
        expected = {
            n: memory.claim(ClaimRequest(f"worker {n}", limits[n], MINUTE)) for n in [*asked[1:], asked[0]]
        }  # first come has the turn
        assert claimed == [expected[n] for n in asked]
        assert turn.version() <= version + 1
        assert store.scheduler_snapshot() == memory.scheduler_snapshot()
        assert store.events(0, limit=1_000) == memory.events(0, limit=1_000)
        assert store.recount(repair=False) == ()
        assert turn.is_free()
    turn.admin.close()
    drop_schema(url)


def test_claims_at_times_between_which_a_document_falls_due(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    """One that must process what is due claims in a transaction of its own, as those before it are not written yet."""
    memory = MemoryStore(ManualClock(START))
    for either in (memory, store):
        submit(either, "acme", 10)
        (first,) = either.claim(ClaimRequest("before", 1, MINUTE))
        failed = Outcome(first.document.id, first.fence, OutcomeKind.FAILED, error="no", retry_in=seconds(5))
        either.ack_and_claim([failed], None)
    times = [START, START, START + seconds(5), START + seconds(6), START]
    request = ClaimRequest("worker", 2, MINUTE)
    version = turn.version()
    with turn.held():
        futures = turn.wait_for(
            *(
                lambda claimer=claimer, at=at: claimer.claim(2, now=at)  # type: ignore[misc]
                for claimer, at in zip(claimers[1:], times, strict=False)
            )
        )
    claimed = [future.result(60) for future in futures]
    expected = {n: memory.claim(request, now=times[n]) for n in (1, 0, 3, 4, 2)}  # the last overtakes nobody
    assert claimed == [expected[n] for n in range(5)]
    assert turn.version() == version + 2
    assert first.document.id in [item.document.id for item in claimed[3]]


def test_claims_read_on_where_the_first_lanes_were_closed(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    """The first lanes are read in the trip that begins the claim, before the log says that some are closed."""
    memory = MemoryStore(ManualClock(START))
    for either in (store, memory):
        for number in range(8):
            submit(either, f"customer {number}", 3, 3 * number)
        either.claim(ClaimRequest("worker", 1, MINUTE))
        for number in range(1, 6):
            either.change_customer(f"customer {number}", {"paused": True}, ANNA)
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers[1:], [1, 1]))
    expected = [memory.claim(ClaimRequest(f"worker {n}", 1, MINUTE)) for n in (1, 0)]
    assert [futures[n].result(60) for n in (1, 0)] == expected
    assert [items[0].document.customer for items in expected] == ["customer 6", "customer 7"]


def test_one_transaction_serves_all_that_wait(store: PostgresStore, claimers: list[Claimer], turn: Turn) -> None:
    submit(store, "acme", 30)
    version = turn.version()
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [1, 2, 3, 4, 5, 6]))
    claimed = [future.result(60) for future in futures]
    assert [len(item) for item in claimed] == [1, 2, 3, 4, 5, 6]
    assert [seqs(item) for item in [*claimed[1:], claimed[0]]] == claim_from_memory(30, 2, 3, 4, 5, 6, 1)
    assert [[item.document.worker for item in items] for items in claimed] == [
        [f"worker {n}"] * (n + 1) for n in range(6)
    ]
    assert turn.version() == version + 1
    started = [event.documents for event in store.events(0, limit=100) if event.kind is EventKind.STARTED]
    assert started == [tuple(item.document.id for item in items) for items in [*claimed[1:], claimed[0]]]


def test_claims_that_find_nothing_are_answered_too(store: PostgresStore, claimers: list[Claimer], turn: Turn) -> None:
    submit(store, "acme", 3)
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [5, 2, 5, 5]))
    assert [seqs(future.result(60)) for future in futures] == [[], [1, 2], [3], []]
    assert turn.is_free()


def test_finish_is_recorded_whether_or_not_its_claim_has_to_wait(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 10)
    held = [store.claim(ClaimRequest("worker", 1, MINUTE))[0] for store in stores[:3]]
    finished = [Outcome(item.document.id, item.fence, OutcomeKind.DONE, result="1") for item in held]
    request = ClaimRequest("worker", 2, MINUTE)
    with turn.held():
        futures = turn.wait_for(
            *(
                lambda store=store, outcome=outcome: store.ack_and_claim([outcome], request)  # type: ignore[misc]
                for store, outcome in zip(stores, finished, strict=False)
            )
        )
        assert stores[3].counts(DocumentFilter()).states == {"done": 3, "waiting": 7}
    answers = [future.result(60) for future in futures]
    assert [answer.statuses for answer in answers] == [("recorded",)] * 3
    assert sorted(seq for answer in answers for seq in seqs(answer.claimed)) == [4, 5, 6, 7, 8, 9]


# -- how much one transaction does ------------------------------------------------------------------------------------


def test_claims_beyond_the_limit_of_a_transaction_wait_for_the_next(
    store: PostgresStore, claimers: list[Claimer], turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_DOCUMENTS_PER_RUN", 5)
    submit(store, "acme", 40)
    version = turn.version()
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [3, 3, 3, 8, 2]))
    claimed = [seqs(future.result(60)) for future in futures]
    # The first serves the second, and then itself; the third finds that the fourth wants too much.
    assert [claimed[n] for n in (1, 0, 2, 4, 3)] == claim_from_memory(40, 3, 3, 3, 2, 8)
    assert turn.version() == version + 3
    assert turn.is_free()


def test_claim_larger_than_a_transaction_gets_all_its_documents(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    n = claims.MAX_DOCUMENTS_PER_RUN + 10
    submit(store, "acme", n + 5)
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [1, n, 2]))
    assert [len(future.result(60)) for future in futures] == [1, n, 2]
    assert store.recount(repair=False) == ()
