"""Several processes on one queue: no turn is lost or doubled, nobody waits in vain, clocks do not matter."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.policy import Charge, Policy, PriorityPolicy, TurnPolicy
from inturn.store_types import DocumentFilter, EventKind, Operator, Submission
from inturn.stores.postgres import PostgresStore
from kill_rounds import run_kill_rounds
from services import needs_postgres
from step_rounds import check_limits, check_random_steps
from waiting import wait_until

pytestmark = needs_postgres
Start = Callable[..., Any]
DOCUMENT = NewDocument("a document")
HOUR = 3_600_000_000
ANNA = Operator("anna", "because the test says so")


def submission(customer: str, n: int = 1, **more: Any) -> Submission:
    return Submission(customer, RandomIds().make(n, 0), [DOCUMENT] * n, **more)


def all_at_once(start: Start, *calls: tuple[object, ...]) -> list[Any]:
    """Run the children together; what each told."""
    children = [start(*call) for call in calls]
    for child in children:
        assert child.receive() == "ready"
    for child in children:
        child.go()
    return [child.end()[0] for child in children]


def test_16_submitters_of_one_customer_lose_no_count(start: Start, store: PostgresStore, url: str) -> None:
    item = 10
    reported = all_at_once(start, *[("submit_some", url, "acme", item)] * 16)
    receipts = [receipt for process in reported for receipt in process]
    assert sorted(count for _, _, count in receipts) == list(range(1 - 16 * item, 1))
    assert store.customer("acme").count == 1 - 16 * item
    documents = store.documents(DocumentFilter(), limit=1_000).items
    assert {document.id for document in documents} == {id_ for id_, _, _ in receipts}
    assert len({document.seq for document in documents}) == 16 * item
    by_seq = sorted(documents, key=lambda document: document.seq)
    assert [document.count for document in by_seq] == list(range(0, -16 * item, -1))
    assert store.recount(repair=False) == ()


def test_8_claimers_share_no_document_and_leave_none(start: Start, store: PostgresStore, url: str) -> None:
    customers = ["acme", "böhm", "cruz", "dąb", "east"]
    for customer in customers:
        store.submit(submission(customer, 60))
    reported = all_at_once(start, *[("claim_all", url, f"worker {n}", 1 + n) for n in range(8)])
    taken = [id_ for process in reported for id_, _, _ in process]
    fences = [fence for process in reported for _, fence, _ in process]
    assert len(taken) == len(set(taken)) == 60 * len(customers)
    assert len(set(fences)) == len(fences)
    events = store.events(0, limit=10_000)
    finished = [id_ for event in events if event.kind is EventKind.FINISHED for id_ in event.documents]
    assert sorted(finished) == sorted(taken)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert store.recount(repair=False) == ()


def test_8_claimers_of_which_some_are_killed_lose_nothing(start: Start, store: PostgresStore, url: str) -> None:
    run_kill_rounds(store, lambda worker, limit: start("finish_and_claim_for_ever", url, worker, limit))
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 'claim_lock'::regclass::oid"
    options = f"-c search_path={store.address.schema}"
    with psycopg.connect(store.address.conninfo, autocommit=True, options=options) as admin:
        wait_until(lambda: admin.execute(locks).fetchone() == (0,))


def test_two_bulk_customers_under_8_claimers_get_equal_shares(start: Start, store: PostgresStore, url: str) -> None:
    by_cost = TurnPolicy(charge=Charge.COST, max_share=1.0)
    store.set_policy(Policy(PriorityPolicy(thresholds=(-(10**6),)), by_cost), ANNA)
    for customer in ("one", "other"):
        store.submit(submission(customer, 200))
    reported = all_at_once(start, *[("claim_all", url, f"worker {n}", 2) for n in range(8)])
    by_fence = sorted((fence, customer) for process in reported for _, fence, customer in process)
    served: Counter[str] = Counter()
    for _, customer in by_fence:
        served[customer] += 1
        assert abs(served["one"] - served["other"]) <= 1
    assert served == {"one": 200, "other": 200}


def test_a_submit_held_open_holds_up_nobody_elses_claims(start: Start, store: PostgresStore, url: str) -> None:
    """It stays open until they are through: a claim that waited for it would never come back."""
    store.submit(submission("acme", 100))
    store.submit(submission("held"))
    holder = start("hold_submit", url, "held")
    assert holder.receive() == "held"
    (taken,) = all_at_once(start, ("claim_all", url, "worker", 1))
    assert Counter(customer for _, _, customer in taken) == {"acme": 100, "held": 1}
    store.submit(submission("other"))
    store.change_customer("other", {"cap": 1}, ANNA)
    assert store.counts(DocumentFilter(customer="held")).states == {"done": 1}
    holder.go()
    assert holder.end() == ["committed"]
    assert store.counts(DocumentFilter(customer="held")).states == {"done": 1, "waiting": 1}
    assert store.recount(repair=False) == ()


def test_clocks_that_are_wrong_by_an_hour_do_not_matter(start: Start, store: PostgresStore, url: str) -> None:
    before = time.time_ns() // 1000
    reported = all_at_once(start, *[("skewed_clock", url, "acme", off) for off in (-HOUR, 0, HOUR)])
    after = time.time_ns() // 1000
    assert store.customer("acme").count == -8
    for holds, until in reported:
        assert holds == ["held"]
        assert all(before <= item - 60_000_000 <= after for item in until)
    for document in store.documents(DocumentFilter(), limit=100).items:
        assert before <= document.submitted_at <= after
    assert store.counts(DocumentFilter()).states == {"running": 3, "waiting": 6}


def test_a_waiting_process_is_woken_by_a_submit_of_another(start: Start, store: PostgresStore, url: str) -> None:
    child = start("wait_for_one", url)
    assert child.receive() == "ready"
    (receipt,) = store.submit(submission("acme"))
    assert child.end() == [[receipt.id]]


@pytest.mark.parametrize("n", [2, 4])
def test_processes_that_make_one_queue_at_once_all_use_it(start: Start, url: str, n: int) -> None:
    ids = all_at_once(start, *[("make", url)] * n)
    store = PostgresStore(url)
    assert {document.id for document in store.documents(DocumentFilter(), limit=10).items} == set(ids)
    assert store.customer("acme").count == 1 - n
    assert [version.number for version in store.policies()] == [1]
    store.close()


def test_8_processes_that_move_and_split_documents_lose_none(start: Start, store: PostgresStore, url: str) -> None:
    check_random_steps(store, start, url)


def test_limits_of_a_queue_are_exact_with_8_processes(start: Start, store: PostgresStore, url: str) -> None:
    check_limits(store, start, url)
