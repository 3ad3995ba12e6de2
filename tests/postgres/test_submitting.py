"""A submit is one statement that checks by itself: it gives what the policy gives, in one trip, and rings behind it."""

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.ids import RandomIds
from inturn.model import NO_METADATA, NewDocument
from inturn.policy import Counter, Policy, PriorityPolicy
from inturn.store_types import ClaimRequest, DocumentFilter, EventKind, Operator, Submission
from inturn.stores.memory import MemoryStore
from inturn.stores.postgres import PostgresStore, notifier
from inturn.stores.postgres.libpq import BoundStatement, bind
from inturn.stores.postgres.queries import array_literal
from services import needs_postgres

pytestmark = needs_postgres
ANNA = Operator("anna", "because the test says so")
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
POLICIES = (PriorityPolicy(), PriorityPolicy(1_000, (-1,)), PriorityPolicy(60_000_000, (-3, -4, -9)))
NOW = 1_700_000_000_000_000


def submission(n: int = 1, customer: str = "acme", **more: Any) -> Submission:
    return Submission(customer, RandomIds().make(n, NOW), [NewDocument("a document", **more)] * n)


@FEW
@given(
    priority=st.sampled_from(POLICIES),
    counter=st.none() | st.tuples(st.integers(-40, 0), st.sampled_from((0, 1, -1, 2, -2)), st.integers(-2, 2)),
    n=st.integers(1, 30),
    delay=st.sampled_from((0, 5_000_000)),
)
@example(priority=POLICIES[0], counter=(-5, 1, 0), n=1, delay=0)
@example(priority=POLICIES[0], counter=(-5, 1, 1), n=1, delay=0)
@example(priority=POLICIES[0], counter=(-5, -1, 0), n=1, delay=0)
@example(priority=POLICIES[0], counter=(-5, -1, -1), n=1, delay=0)
@example(priority=POLICIES[0], counter=(-2, 0, 0), n=1, delay=0)
def test_what_the_statement_gives_is_what_the_policy_gives(
    store: PostgresStore,
    admin: psycopg.Connection[tuple[Any, ...]],
    priority: PriorityPolicy,
    counter: tuple[int, int, int] | None,
    n: int,
    delay: int,
) -> None:
    """The counter was updated so many intervals ago, and some microseconds more or less."""
    if store.policy().policy.priority != priority:
        store.set_policy(Policy(priority=priority), ANNA)
    before = None
    if counter is not None:
        count, intervals, more = counter
        before = Counter(count, NOW - intervals * priority.reset_interval - more)
    store.submit(submission())
    admin.execute("UPDATE customer SET count = %s, updated_at = %s", before or (None, None))
    call = submission(n, delay=delay)
    receipts = store.submit(call, now=NOW)
    checked = priority.check_many(before, NOW, n)
    assert [(level, count) for _, level, count in receipts] == list(checked.per_document())
    cursor = admin.execute("SELECT level, lane, count FROM document WHERE id = ANY (%s) ORDER BY seq", (call.ids,))
    assert cursor.fetchall() == [(level, level, count) for level, count in checked.per_document()]
    assert admin.execute("SELECT count, updated_at FROM customer").fetchone() == checked.counter


@pytest.mark.parametrize("n", [1, 3])
def test_a_submit_is_one_trip(store: PostgresStore, trips: list[str], n: int) -> None:
    store.policy()
    store.submit(submission(n))
    trips.clear()
    store.submit(submission(n))
    store.submit(submission(n, "somebody new"))
    assert len(trips) == 2


def test_several_calls_share_a_commit(store: PostgresStore, trips: list[str]) -> None:
    calls = [submission(n, customer) for n, customer in ((1, "acme"), (2, "beta"), (3, "acme"), (1, "beta"))]
    first = store.submit_all(calls)  # customers that nobody has met yet: one by one
    again = [call._replace(ids=RandomIds().make(len(call.ids), NOW)) for call in calls]
    store.policy()
    trips.clear()
    second = store.submit_all(again)
    assert len(trips) == 2  # the locks, then all the rest with the commit
    assert [[count for _, _, count in receipts] for receipts in (*first, *second)] == [
        [0], [0, -1], [-1, -2, -3], [-2], [-4], [-3, -4], [-5, -6, -7], [-5],
    ]  # fmt: skip
    in_order = [document.id for document in store.documents(DocumentFilter(), limit=100).items]
    assert in_order == [id_ for call in (*calls, *again) for id_ in call.ids][::-1]
    assert store.recount(repair=False) == ()


def test_of_several_calls_only_the_wrong_one_is_refused(store: PostgresStore) -> None:
    used = submission()
    store.submit(used)
    store.submit(submission(1, "beta"))
    before, error, after = store.submit_all([submission(1, "beta"), used, submission()])
    assert isinstance(error, InvalidInputError)
    assert [before, after] == [((before[0].id, 1, -1),), ((after[0].id, 1, -1),)]
    assert store.counts(DocumentFilter()).states == {"waiting": 4}


def test_metadata_comes_back_as_it_was_given(store: PostgresStore) -> None:
    odd = {"text": 'a "quoted" \\ text, {braces}, \u0000 and \x1f, ąę', "none": None, "list": [1, 2.5, {"a": "null"}]}
    given = [{}, {"null": "null"}, odd]
    documents = [NewDocument("a document", metadata=item or NO_METADATA) for item in given]
    receipts = [
        *store.submit(Submission("acme", RandomIds().make(3, 0), documents)),
        *[store.submit(Submission("acme", RandomIds().make(1, 0), [document]))[0] for document in documents],
    ]
    assert [dict(store.document(receipt.id).spec.metadata) for receipt in receipts] == given * 2


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))))
@FEW
def test_an_array_is_read_as_it_was_meant(admin: psycopg.Connection[tuple[Any, ...]], values: list[str | None]) -> None:
    assert admin.execute("SELECT %s::text[]", (array_literal(values),)).fetchone() == (values,)


def test_who_hears_the_bell_finds_the_document(
    store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first stroke goes along with the submit, but behind its commit."""
    monkeypatch.setattr(notifier, "MIN_NOTIFY_INTERVAL_SECONDS", 0.0)
    store.submit(submission(1, "before"))
    admin.execute(f"LISTEN inturn_{store.address.schema}".encode())
    receipts = store.submit(submission())
    assert [notify.channel for notify in admin.notifies(timeout=60, stop_after=1)] == [f"inturn_{store.address.schema}"]
    assert admin.execute("SELECT state FROM document WHERE id = %s", (receipts[0].id,)).fetchone() == ("waiting",)


def test_a_bell_that_cannot_ring_costs_nobody_a_document(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.submit(submission())
    rung: list[str] = []

    def bind_a_name_too_long(query: str, values: Mapping[str, Any]) -> BoundStatement:
        rung.append(query)
        return bind(query, dict.fromkeys(values, "x" * 100))

    monkeypatch.setattr(notifier, "bind", bind_a_name_too_long)
    monkeypatch.setattr(notifier, "MIN_NOTIFY_INTERVAL_SECONDS", 0.0)
    receipts = store.submit(submission())
    assert rung == ["notify"]
    assert store.document(receipts[0].id).count == -1


def test_the_bell_rings_no_more_than_it_may(
    store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "MIN_NOTIFY_INTERVAL_SECONDS", 3_600.0)
    admin.execute(f"LISTEN inturn_{store.address.schema}".encode())
    for number in range(5):
        store.submit(submission(1 + number % 2, f"customer {number % 3}"))
    admin.execute("SELECT pg_notify(%s, 'end')", (f"inturn_{store.address.schema}",))
    received = [notify.payload for notify in admin.notifies(timeout=60, stop_after=2)]
    assert received == ["", "end"]


def test_one_call_is_one_event_of_its_customer(store: PostgresStore) -> None:
    call = submission(40)
    store.submit(call)
    events = [event for event in store.events(0, limit=10) if event.kind is EventKind.SUBMITTED]
    assert [(event.customer, event.documents) for event in events] == [("acme", tuple(call.ids))]


def test_an_id_that_was_given_before_is_refused_and_nothing_is_counted(store: PostgresStore) -> None:
    call = submission(2)
    store.submit(call)
    with pytest.raises(InvalidInputError, match="given once"):
        store.submit(call)
    with pytest.raises(InvalidInputError, match="given once"):
        store.submit(call._replace(customer="somebody new"))
    assert store.customer("acme").count == -1
    assert store.counts(DocumentFilter()).states == {"waiting": 2}
    assert len(store.claim(ClaimRequest("worker", 10, 60_000_000))) == 2
    assert store.recount(repair=False) == ()


def test_a_policy_that_another_process_set_holds_for_the_next_submit(store: PostgresStore, url: str) -> None:
    store.submit(submission())
    other = PostgresStore(url)
    other.set_policy(Policy(priority=PriorityPolicy(thresholds=(-1,))), ANNA)
    other.close()
    levels = [store.submit(submission())[0].level for _ in range(3)]
    assert levels == [1, 2, 2]


def test_the_lines_of_one_submit_begin_in_the_order_of_its_documents(store: PostgresStore) -> None:
    """Each with the first document that waits in it: its seq, its cost, its turn."""
    memory = MemoryStore(ManualClock(NOW))
    documents = [NewDocument("a document", cost=1.0 + at, delay=5_000_000 if at % 3 == 0 else 0) for at in range(60)]
    call = Submission("acme", RandomIds().make(60, NOW), documents)
    for item in (memory, store):
        item.submit(call, now=NOW)
        item.sweep(now=NOW)
    assert len(store.scheduler_snapshot().lanes) > 3
    assert store.scheduler_snapshot() == memory.scheduler_snapshot()
    assert store.next_due() == memory.next_due() == NOW + 5_000_000
    memory.close()
