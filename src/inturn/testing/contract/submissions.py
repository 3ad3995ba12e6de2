"""S1 to S6, S44: submits, and how they share counters with checks."""

import uuid
from typing import Any, cast

import pytest

from inturn.errors import InvalidInputError, KeyConflictError, NotFoundError
from inturn.model import DocumentState, NewDocument, Receipt, seconds
from inturn.policy import CostPolicy, Policy, PriorityPolicy
from inturn.store import EventKind, Submission
from inturn.testing.contract.checks import BURST_LEVELS
from inturn.testing.contract.harness import START, StoreHarness, StoreSuite


class SubmissionTests(StoreSuite):
    """How documents come in."""

    def test_s1_checks_and_submits_share_one_counter(self, rig: StoreHarness) -> None:
        """Whichever way a document is looked at, it counts."""
        rig.store.check("acme", 3)
        assert [receipt.count for receipt in rig.submit("acme", 2)] == [-3, -4]
        assert rig.store.check("acme", 1)[0].count == -5

    def test_s1_the_interval_resets_when_it_is_exceeded(self, rig: StoreHarness) -> None:
        """Exactly 1500 s do not; a microsecond more does."""
        rig.submit("acme", 5)
        rig.advance(1500)
        assert rig.submit("acme")[0].count == -5
        rig.clock.advance(seconds(1500) + 1)
        assert rig.submit("acme")[0].count == 0

    def test_s1_a_clock_that_goes_back_resets_nothing(self, rig: StoreHarness) -> None:
        """The counter's time of update stays where it was."""
        rig.submit("acme", 2)
        rig.advance(-100)
        assert rig.submit("acme")[0].count == -2
        assert rig.store.customer("acme").updated_at == START
        rig.advance(-10_000)
        assert rig.submit("acme")[0].count == -3
        assert rig.store.customer("acme").updated_at == rig.clock.now()

    def test_s1_customers_are_counted_apart(self, rig: StoreHarness) -> None:
        """Names are case-sensitive."""
        rig.submit("acme", 10)
        assert rig.submit("Acme")[0].count == 0
        assert rig.submit("beta")[0].count == 0

    def test_s2_a_check_makes_no_document_and_no_line(self, rig: StoreHarness) -> None:
        """Nothing to claim, nothing to list."""
        rig.store.check("acme", 5)
        assert rig.claim() == ()
        assert rig.all_documents() == ()
        assert rig.store.customer("acme").lanes == ()

    def test_s4_a_submit_keeps_documents_counter_and_lines_together(self, rig: StoreHarness) -> None:
        """What the receipt says is what there is."""
        receipts = rig.submit("acme", 25, name="invoice.pdf", metadata={"po": 7}, batch="march")
        assert [receipt.level for receipt in receipts] == BURST_LEVELS
        documents = rig.all_documents()
        assert [document.id for document in reversed(documents)] == [receipt.id for receipt in receipts]
        assert [document.seq for document in reversed(documents)] == sorted({document.seq for document in documents})
        first = rig.document(receipts[0].id)
        assert (first.customer, first.level, first.count) == ("acme", 1, 0)
        assert (first.spec.name, first.spec.batch, first.spec.metadata) == ("invoice.pdf", "march", {"po": 7})
        assert (first.state, first.submitted_at, first.ready_at) == (DocumentState.WAITING, START, START)
        assert (first.attempt, first.fence, first.error, first.expedited) == (0, None, None, False)
        assert rig.waiting_by_level("acme") == {1: 3, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 6, 9: 4}
        assert rig.store.customer("acme").count == -24

    def test_s44_several_submissions_are_as_one_by_one(self, rig: StoreHarness) -> None:
        """Of one customer and of others, with one that is refused between them."""
        rig.submit("acme", 2, key="used")
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
        first, second, refused, last = rig.store.submit_all(calls)
        assert [receipt.count for receipt in cast("tuple[Receipt, ...]", first)] == [-2]
        assert [receipt.count for receipt in cast("tuple[Receipt, ...]", second)] == [0, -1]
        assert isinstance(refused, KeyConflictError)
        assert [receipt.count for receipt in cast("tuple[Receipt, ...]", last)] == [-3, -4, -5]
        stored = [calls[0].ids[0], *calls[1].ids, *calls[3].ids]
        assert [document.id for document in reversed(rig.all_documents())][2:] == stored
        assert len(rig.claim(20)) == 8

    def test_s4_everything_given_is_kept(self, rig: StoreHarness) -> None:
        """Each field comes back as it was."""
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
        receipt = rig.queue.submit("ąćmę", [given, NewDocument("b", uri="s3://bucket/b")])
        assert rig.document(receipt[0].id).spec == given
        assert rig.document(receipt[1].id).spec.uri == "s3://bucket/b"
        assert rig.document(receipt[1].id).customer == "ąćmę"

    def test_s5_documents_of_one_line_are_claimed_in_their_order(self, rig: StoreHarness) -> None:
        """By level, then by seq."""
        receipts = rig.submit("acme", 30)
        assert [claimed.document.id for claimed in rig.claim(30)] == [receipt.id for receipt in receipts]

    def test_s5_a_delayed_document_waits_from_its_time_on(self, rig: StoreHarness) -> None:
        """Its level is given now, its place kept."""
        late = rig.submit_one("acme", delay=seconds(10))
        soon = rig.submit_one("acme")
        assert rig.state(late) is DocumentState.DELAYED
        assert rig.waiting_by_level("acme") == {1: 1}
        assert rig.store.next_due() == START + seconds(10)
        rig.advance(10)
        assert [claimed.document.id for claimed in rig.claim(2)] == [late, soon]
        assert rig.document(late).ready_at == START + seconds(10)

    def test_s37_pages_cost_what_the_policy_says(self, rig: StoreHarness) -> None:
        """Only where an operator chose so, and never below the floor."""
        rig.submit("acme", pages=9)
        rig.set_policy(Policy(costs=CostPolicy(0.5, 0.25, 1_000)))
        for given in ({"pages": 8}, {"pages": 0}, {"pages": 1, "size": 10_001}, {"cost": 7.0, "pages": 3}):
            rig.submit("acme", **given)
        assert [document.spec.cost for document in reversed(rig.all_documents())] == [1, 2.5, 0.75, 3.25, 7]
        assert {document.spec.pages for document in rig.all_documents()} == {9, 8, 0, 1, 3}

    def test_s37_a_document_without_counted_pages_costs_the_floor_by_its_size(self, rig: StoreHarness) -> None:
        """One page, and one page for each `bytes_per_page` begun; its pages stay unknown."""
        rig.submit("acme", size=49_000)
        rig.set_policy(Policy(costs=CostPolicy(0.5, 0.25, 1_000)))
        for given in ({"size": 49_000}, {"size": 49_001}, {"size": 1}, {}, {"size": 49_000, "cost": 7.0}):
            rig.submit("acme", **given)
        documents = rig.all_documents()
        assert [document.spec.cost for document in reversed(documents)] == [1, 12.75, 13, 0.75, 0.75, 7]
        assert {document.spec.pages for document in documents} == {None}

    def test_s6_a_submit_with_a_key_happens_once(self, rig: StoreHarness) -> None:
        """The first receipts, whatever happened to the documents since."""
        first = rig.submit("acme", 3, key="k")
        rig.finish_all()
        rig.advance(60)
        assert rig.submit("acme", 3, key="k") == first
        assert len(rig.all_documents()) == 3
        assert rig.store.customer("acme").count == -2

    def test_s6_a_key_belongs_to_one_customer(self, rig: StoreHarness) -> None:
        """Another customer's same key is another call."""
        rig.submit("acme", key="k")
        rig.submit("beta", key="k")
        assert len(rig.all_documents()) == 2

    def test_s6_other_content_under_a_key_is_refused_and_changes_nothing(self, rig: StoreHarness) -> None:
        """Also a check under a submit's key."""
        rig.submit("acme", 2, key="k")
        before = rig.store.customer("acme"), rig.all_documents(), rig.store.events(0, limit=100)
        with pytest.raises(KeyConflictError, match="k"):
            rig.submit("acme", 2, key="k", name="another")
        with pytest.raises(KeyConflictError):
            rig.submit("acme", 3, key="k")
        with pytest.raises(KeyConflictError):
            rig.store.check("acme", 2, key="k")
        assert (rig.store.customer("acme"), rig.all_documents(), rig.store.events(0, limit=100)) == before

    def test_s6_a_key_is_forgotten_after_seven_days(self, rig: StoreHarness) -> None:
        """Kept for exactly that long, pruned or not."""
        first = rig.submit("acme", key="k")
        rig.advance(7 * 86_400)
        assert rig.submit("acme", key="k") == first
        rig.clock.advance(1)
        assert rig.submit("acme", key="k") != first

    def test_s6_a_refused_submit_leaves_no_trace(self, rig: StoreHarness) -> None:
        """An id given twice, in the middle of a call."""
        taken = rig.submit_one("acme")
        before = rig.store.customer("acme"), rig.store.events(0, limit=100)
        fresh = "018f3c5e-0000-7000-8000-000000000000"
        with pytest.raises(InvalidInputError):
            rig.store.submit(Submission("acme", [fresh, taken], [NewDocument("a"), NewDocument("b")]))
        with pytest.raises(NotFoundError):
            rig.store.document(fresh)
        assert (rig.store.customer("acme"), rig.store.events(0, limit=100)) == before

    @pytest.mark.parametrize("given", [NewDocument("a"), ["a.pdf"], []])
    def test_s4_what_is_no_list_of_documents_is_refused(self, rig: StoreHarness, given: Any) -> None:
        """One document is not a list of one, though it can be counted."""
        with pytest.raises(InvalidInputError, match="documents must be"):
            rig.queue.submit("acme", given)
        assert not rig.all_documents()

    def test_a1_now_may_be_given(self, rig: StoreHarness) -> None:
        """Then it rules instead of the clock."""
        rig.queue.submit("acme", [NewDocument("a")], now=5)
        assert rig.all_documents()[0].submitted_at == 5
        assert rig.store.check("acme", 1, now=5 + seconds(1500))[0].count == -1

    def test_a3_a_submit_is_told(self, rig: StoreHarness) -> None:
        """One event a call, with the documents in their order."""
        receipts = rig.submit("acme", 3)
        (event,) = rig.store.events(0, limit=10)
        assert (event.kind, event.customer, event.at) == (EventKind.SUBMITTED, "acme", START)
        assert event.documents == tuple(receipt.id for receipt in receipts)

    def test_s1_new_levels_are_for_new_checks(self, rig: StoreHarness) -> None:
        """What already waits keeps its level."""
        old = rig.submit("acme", 3)
        rig.set_policy(Policy(PriorityPolicy(thresholds=(-1,))))
        assert rig.submit("acme")[0].level == 2
        assert rig.document(old[2].id).level == 1
