"""Submits."""

import uuid
from typing import Any, cast

import pytest

from inturn.errors import InvalidInputError, KeyConflictError, NotFoundError
from inturn.model import DocumentState, NewDocument, Receipt
from inturn.policy import CostPolicy, Policy
from inturn.store_types import EventKind, Submission
from inturn.testing.contract.checks import BURST_LEVELS
from inturn.testing.contract.harness import START, StoreHarness, guarantee
from inturn.values import seconds


class TestSubmit:
    """Test `Store.submit` and `Store.submit_all`."""

    @guarantee("S4", "A0")
    def test_stores_documents_counter_and_lanes_together(self, harness: StoreHarness) -> None:
        receipts = harness.submit("acme", 25, name="invoice.pdf", metadata={"po": 7}, batch="march")
        assert [receipt.level for receipt in receipts] == BURST_LEVELS
        documents = harness.all_documents()
        assert [document.id for document in reversed(documents)] == [receipt.id for receipt in receipts]
        assert [document.seq for document in reversed(documents)] == sorted({document.seq for document in documents})
        first = harness.document(receipts[0].id)
        assert (first.customer, first.level, first.count) == ("acme", 1, 0)
        assert (first.spec.name, first.spec.batch, first.spec.metadata) == ("invoice.pdf", "march", {"po": 7})
        assert (first.state, first.submitted_at, first.ready_at) == (DocumentState.WAITING, START, START)
        assert (first.attempt, first.fence, first.error, first.expedited) == (0, None, None, False)
        assert harness.waiting_by_level("acme") == {1: 3, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 6, 9: 4}
        assert harness.store.customer("acme").count == -24

    @guarantee("S4")
    def test_stores_every_field_of_a_document(self, harness: StoreHarness) -> None:
        given = NewDocument(
            "Rechnung ü.pdf",
            blob="blobs/1",
            sha256="0" * 64,
            size=2**40,
            media_type="application/pdf",
            batch="march",
            metadata={"nested": {"list": [1, 2.5, None, "ł"]}},
            cost=12.5,
            start_by=START + seconds(100),
            max_attempts=7,
        )
        receipt = harness.queue.submit("ąćmę", [given, NewDocument("b", uri="s3://bucket/b")])
        assert harness.document(receipt[0].id).spec == given
        assert harness.document(receipt[1].id).spec.uri == "s3://bucket/b"
        assert harness.document(receipt[1].id).customer == "ąćmę"

    @guarantee("S4", "A2")
    @pytest.mark.parametrize("given", [NewDocument("a"), ["a.pdf"], []])
    def test_refuses_anything_but_a_list_of_documents(self, harness: StoreHarness, given: Any) -> None:
        with pytest.raises(InvalidInputError, match="documents must be"):
            harness.queue.submit("acme", given)
        assert not harness.all_documents()

    @guarantee("S1")
    def test_counter_resets_when_the_interval_is_exceeded(self, harness: StoreHarness) -> None:
        harness.submit("acme", 5)
        harness.advance(1500)
        assert harness.submit("acme")[0].count == -5
        harness.clock.advance(seconds(1500) + 1)
        assert harness.submit("acme")[0].count == 0

    @guarantee("S1", "A1")
    def test_clock_that_runs_backwards_resets_no_counter(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2)
        harness.advance(-100)
        assert harness.submit("acme")[0].count == -2
        assert harness.store.customer("acme").updated_at == START
        harness.advance(-10_000)
        assert harness.submit("acme")[0].count == -3
        assert harness.store.customer("acme").updated_at == harness.clock.now()

    @guarantee("S1")
    def test_customers_have_separate_counters(self, harness: StoreHarness) -> None:
        harness.submit("acme", 10)
        assert harness.submit("Acme")[0].count == 0
        assert harness.submit("beta")[0].count == 0

    @guarantee("S5")
    def test_documents_of_one_lane_are_claimed_in_order(self, harness: StoreHarness) -> None:
        receipts = harness.submit("acme", 30)
        assert [claimed.document.id for claimed in harness.claim(30)] == [receipt.id for receipt in receipts]

    @guarantee("S5")
    def test_delayed_document_waits_once_its_delay_is_over(self, harness: StoreHarness) -> None:
        late = harness.submit_one("acme", delay=seconds(10))
        soon = harness.submit_one("acme")
        assert harness.state(late) is DocumentState.DELAYED
        assert harness.waiting_by_level("acme") == {1: 1}
        assert harness.store.next_due() == START + seconds(10)
        harness.advance(10)
        assert [claimed.document.id for claimed in harness.claim(2)] == [late, soon]
        assert harness.document(late).ready_at == START + seconds(10)

    @guarantee("S37")
    def test_pages_cost_what_the_policy_says(self, harness: StoreHarness) -> None:
        harness.submit("acme", pages=9)
        harness.set_policy(Policy(costs=CostPolicy(0.5, 0.25, 1_000)))
        for given in ({"pages": 8}, {"pages": 0}, {"pages": 1, "size": 10_001}, {"cost": 7.0, "pages": 3}):
            harness.submit("acme", **given)
        assert [document.spec.cost for document in reversed(harness.all_documents())] == [9, 2.5, 0.75, 3.25, 7]
        assert {document.spec.pages for document in harness.all_documents()} == {9, 8, 0, 1, 3}

    @guarantee("S37")
    def test_document_without_counted_pages_costs_the_minimum_by_size(self, harness: StoreHarness) -> None:
        harness.submit("acme", size=49_000)
        harness.set_policy(Policy(costs=CostPolicy(0.5, 0.25, 1_000)))
        for given in ({"size": 49_000}, {"size": 49_001}, {"size": 1}, {}, {"size": 49_000, "cost": 7.0}):
            harness.submit("acme", **given)
        documents = harness.all_documents()
        assert [document.spec.cost for document in reversed(documents)] == [1, 12.75, 13, 0.75, 0.75, 7]
        assert {document.spec.pages for document in documents} == {None}

    @guarantee("S6")
    def test_repeat_under_a_key_changes_nothing(self, harness: StoreHarness) -> None:
        first = harness.submit("acme", 3, key="k")
        harness.finish_all()
        harness.advance(60)
        assert harness.submit("acme", 3, key="k") == first
        assert len(harness.all_documents()) == 3
        assert harness.store.customer("acme").count == -2

    @guarantee("S6")
    def test_key_belongs_to_one_customer(self, harness: StoreHarness) -> None:
        harness.submit("acme", key="k")
        harness.submit("beta", key="k")
        assert len(harness.all_documents()) == 2

    @guarantee("S6")
    def test_other_content_under_a_key_is_refused_and_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2, key="k")
        before = harness.store.customer("acme"), harness.all_documents(), harness.store.events(0, limit=100)
        with pytest.raises(KeyConflictError, match="k"):
            harness.submit("acme", 2, key="k", name="another")
        with pytest.raises(KeyConflictError):
            harness.submit("acme", 3, key="k")
        with pytest.raises(KeyConflictError):
            harness.store.check("acme", 2, key="k")
        assert (harness.store.customer("acme"), harness.all_documents(), harness.store.events(0, limit=100)) == before

    @guarantee("S6")
    def test_key_is_forgotten_after_seven_days(self, harness: StoreHarness) -> None:
        first = harness.submit("acme", key="k")
        harness.advance(7 * 86_400)
        assert harness.submit("acme", key="k") == first
        harness.clock.advance(1)
        assert harness.submit("acme", key="k") != first

    @guarantee("S6", "A0")
    def test_refused_call_leaves_no_trace(self, harness: StoreHarness) -> None:
        taken = harness.submit_one("acme")
        before = harness.store.customer("acme"), harness.store.events(0, limit=100)
        fresh = "018f3c5e-0000-7000-8000-000000000000"
        with pytest.raises(InvalidInputError):
            harness.store.submit(Submission("acme", [fresh, taken], [NewDocument("a"), NewDocument("b")]))
        with pytest.raises(NotFoundError):
            harness.store.document(fresh)
        assert (harness.store.customer("acme"), harness.store.events(0, limit=100)) == before

    @guarantee("S44")
    def test_submit_all_equals_submitting_one_by_one(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2, key="used")
        ids = iter([f"{number:032x}" for number in range(1, 9)])
        given = [NewDocument("a")]

        def call(customer: str, n: int = 1, **more: Any) -> Submission:
            return Submission(customer, [str(uuid.UUID(next(ids))) for _ in range(n)], given * n, **more)

        calls = [
            call("acme"),
            call("beta", 2),
            call("acme", idempotency_key="used", fingerprint="other"),
            call("acme", 3),
        ]
        first, second, refused, last = harness.store.submit_all(calls)
        assert [receipt.count for receipt in cast("tuple[Receipt, ...]", first)] == [-2]
        assert [receipt.count for receipt in cast("tuple[Receipt, ...]", second)] == [0, -1]
        assert isinstance(refused, KeyConflictError)
        assert [receipt.count for receipt in cast("tuple[Receipt, ...]", last)] == [-3, -4, -5]
        stored = [calls[0].ids[0], *calls[1].ids, *calls[3].ids]
        assert [document.id for document in reversed(harness.all_documents())][2:] == stored
        assert len(harness.claim(20)) == 8

    @guarantee("A1")
    def test_accepts_a_time(self, harness: StoreHarness) -> None:
        harness.queue.submit("acme", [NewDocument("a")], now=5)
        assert harness.all_documents()[0].submitted_at == 5
        assert harness.store.check("acme", 1, now=5 + seconds(1500))[0].count == -1

    @guarantee("A3")
    def test_writes_an_event(self, harness: StoreHarness) -> None:
        receipts = harness.submit("acme", 3)
        (event,) = harness.store.events(0, limit=10)
        assert (event.kind, event.customer, event.at) == (EventKind.SUBMITTED, "acme", START)
        assert event.documents == tuple(receipt.id for receipt in receipts)
