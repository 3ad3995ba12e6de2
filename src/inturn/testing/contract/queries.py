"""Queries."""

import threading

import pytest

from inturn.errors import InvalidInputError, NotFoundError
from inturn.model import DocumentState, NewDocument, ResultFile
from inturn.store_answers import CustomerSummary
from inturn.store_types import (
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    DocumentTime,
    EventKind,
    OutcomeKind,
    TimeRange,
    Work,
)
from inturn.testing.contract.harness import ANNA, LEASE, START, UNKNOWN_ID, StoreHarness, guarantee
from inturn.values import seconds

WAITING, RUNNING, DONE = DocumentState.WAITING, DocumentState.RUNNING, DocumentState.DONE
DONE_OUTCOME, FAILED_OUTCOME = OutcomeKind.DONE, OutcomeKind.FAILED


class TestDocuments:
    """Test `Store.documents`."""

    @guarantee("S23")
    def test_lists_newest_first_in_pages(self, harness: StoreHarness) -> None:
        ids = [receipt.id for n in range(5) for receipt in harness.submit(f"c{n}", 5)]
        seen: list[str] = []
        after = None
        while True:
            page = harness.queue.documents(limit=7, after=after)
            seen += [document.id for document in page.items]
            harness.submit("late")
            after = page.next
            if after is None:
                break
        assert seen == list(reversed(ids))

    @guarantee("S23")
    def test_lists_oldest_first_in_pages(self, harness: StoreHarness) -> None:
        ids = [receipt.id for n in range(5) for receipt in harness.submit(f"c{n}", 5)]
        where = DocumentFilter(customer="c3", level=2)
        assert [document.id for document in harness.queue.documents(where, sort=DocumentSort.OLDEST).items] == ids[
            18:20
        ]
        seen: list[str] = []
        after = None
        for _ in range(3):
            page = harness.queue.documents(limit=10, after=after, sort=DocumentSort.OLDEST)
            seen += [document.id for document in page.items]
            ids += [receipt.id for receipt in harness.submit("late")] if after is None else []
            after = page.next
        assert (seen, after) == (ids, None)

    @guarantee("S23")
    def test_cursor_works_in_both_directions(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 6)]
        where = DocumentFilter(customer="acme")
        page = harness.queue.documents(where, limit=2, sort=DocumentSort.OLDEST)
        assert [document.id for document in page.items] == ids[:2]
        page = harness.queue.documents(where, limit=2, after=page.next, sort=DocumentSort.OLDEST)
        assert [document.id for document in page.items] == ids[2:4]
        back = harness.queue.documents(where, limit=2, after=page.next)
        assert [document.id for document in back.items] == [ids[2], ids[1]]
        harness.queue.cancel(ids[0], ANNA)
        harness.queue.retry(ids[0], ANNA)
        oldest = harness.queue.documents(sort=DocumentSort.OLDEST).items
        assert [document.id for document in oldest] == [*ids[1:], ids[0]]

    @guarantee("S23")
    def test_full_last_page_has_no_next(self, harness: StoreHarness) -> None:
        assert harness.queue.documents() == ((), None)
        harness.submit("acme", 4)
        assert harness.queue.documents(limit=4).next is None
        assert harness.queue.customers(limit=1).next is None

    @guarantee("S23")
    def test_filters_by_all_given_fields(self, harness: StoreHarness) -> None:
        harness.queue.submit(
            "acme", [NewDocument("Invoice 1.pdf", batch="b1"), NewDocument("letter 100%.txt", batch="b1")]
        )
        harness.queue.submit("beta", [NewDocument("INVOICE_2.pdf"), NewDocument("Übersicht.pdf")])
        harness.submit("acme", 3)
        harness.queue.finish(harness.claim_one())

        def names(where: DocumentFilter) -> list[str]:
            return [document.spec.name for document in harness.queue.documents(where).items]

        assert names(DocumentFilter(states=frozenset({DONE}))) == ["Invoice 1.pdf"]
        assert len(names(DocumentFilter(states=frozenset({DONE, WAITING})))) == 7
        assert names(DocumentFilter(states=frozenset())) == []
        assert len(names(DocumentFilter(customer="acme"))) == 5
        assert len(names(DocumentFilter(customer="acme", level=2))) == 2
        assert names(DocumentFilter(batch="b1")) == ["letter 100%.txt", "Invoice 1.pdf"]
        assert names(DocumentFilter(text="invoice")) == ["INVOICE_2.pdf", "Invoice 1.pdf"]
        assert names(DocumentFilter(text="übersicht")) == ["Übersicht.pdf"]
        assert names(DocumentFilter(text="0%")) == ["letter 100%.txt"]
        assert names(DocumentFilter(text="e_2")) == ["INVOICE_2.pdf"]
        assert names(DocumentFilter(text="'; --")) == []
        assert names(DocumentFilter(customer="unknown")) == []

    @guarantee("S57")
    def test_lists_and_counts_what_was_submitted_in_a_range(self, harness: StoreHarness) -> None:
        ids: list[str] = []
        for customer in ("acme", "beta", "acme", "beta", "acme"):
            ids.append(harness.submit_one(customer, group="team" if len(ids) == 2 else None))
            harness.advance(10)
        where = DocumentFilter(submitted=TimeRange(START + seconds(10), START + seconds(40)))
        assert _ids(harness, where) == [ids[3], ids[2], ids[1]]
        assert _ids(harness, where, DocumentSort.OLDEST) == [ids[1], ids[2], ids[3]]
        assert _ids(harness, where._replace(customer="beta")) == [ids[3], ids[1]]
        assert harness.store.counts(where).states == {WAITING: 3}
        harness.queue.cancel(ids[2], ANNA)
        harness.queue.retry(ids[2], ANNA)  # it is the newest now, but keeps the time of its submission
        assert _ids(harness, where) == [ids[2], ids[3], ids[1]]
        assert _ids(harness, DocumentFilter(submitted=TimeRange(since=START + seconds(40)))) == [ids[4]]
        assert _ids(harness, DocumentFilter(submitted=TimeRange(until=START + seconds(10)))) == [ids[0]]
        assert _ids(harness, DocumentFilter(submitted=TimeRange(until=START))) == []

    @guarantee("S57")
    def test_lists_and_counts_what_ended_in_a_range(self, harness: StoreHarness) -> None:
        ids = [harness.submit_one(customer) for customer in ("acme", "beta", "acme", "beta")]
        for n, claimed in enumerate(harness.claim(4)):
            harness.advance(10)
            if n % 2 == 0:
                harness.queue.fail(claimed, "no", final=True)
            else:
                harness.queue.finish(claimed)
        ended = [document.id for document in sorted(map(harness.document, ids), key=lambda one: one.finished_at or 0)]
        where = DocumentFilter(ended=TimeRange(START + seconds(20), START + seconds(40)))
        assert sorted(_ids(harness, where)) == sorted(ended[1:3])
        assert sorted(_ids(harness, where, DocumentSort.OLDEST)) == sorted(ended[1:3])
        failed = where._replace(states=frozenset({DocumentState.FAILED}))
        assert _ids(harness, failed) == [ended[2]]
        assert harness.store.counts(failed).states == {DocumentState.FAILED: 1}
        owner = harness.document(ended[2]).customer
        assert _ids(harness, failed._replace(customer=owner)) == [ended[2]]
        assert _ids(harness, DocumentFilter(ended=TimeRange(until=START))) == []
        assert harness.store.counts(DocumentFilter(ended=TimeRange(until=START))) == ({}, {})
        harness.queue.retry(ended[2], ANNA)
        assert _ids(harness, where) == [ended[1]]

    @guarantee("S57")
    def test_refuses_a_range_that_ends_before_it_begins(self) -> None:
        with pytest.raises(InvalidInputError, match="since must be before until"):
            DocumentFilter().within(DocumentTime.ENDED, 5, 5)

    @guarantee("S23")
    def test_refuses_an_invalid_cursor(self, harness: StoreHarness) -> None:
        with pytest.raises(InvalidInputError, match="cursor"):
            harness.queue.documents(after="x'; drop")
        with pytest.raises(InvalidInputError, match="cursor"):
            harness.queue.documents(after="9" * 19)
        with pytest.raises(InvalidInputError, match="limit"):
            harness.queue.documents(limit=0)


def _ids(harness: StoreHarness, where: DocumentFilter, sort: DocumentSort = DocumentSort.NEWEST) -> list[str]:
    return [document.id for document in harness.queue.documents(where, sort=sort).items]


class TestCustomers:
    """Test `Store.customers`."""

    @guarantee("S65")
    def test_summaries_have_the_figures_of_the_customers(self, harness: StoreHarness) -> None:
        assert harness.store.customer_summaries() == ()
        for name, n in (("b", 3), ("a", 1), ("c", 2)):
            harness.submit(name, n)
        harness.claim(2)
        harness.submit("b", 2)
        harness.store.check("only checked", 3)
        harness.queue.change_customer("c", ANNA, display_name="Ç", paused=True)
        customers = harness.store.customers(CustomerFilter(), limit=10).items
        assert harness.store.customer_summaries() == tuple(
            CustomerSummary(
                customer.name,
                customer.settings.display_name,
                customer.count,
                customer.updated_at,
                customer.settings.paused,
                customer.waiting,
                customer.running,
            )
            for customer in customers
        )

    @guarantee("S23")
    def test_lists_by_name_in_pages(self, harness: StoreHarness) -> None:
        names = ["Zed", "acme", "beta", "ábel", "z", "żak", "猫"]
        for name in reversed(names):
            harness.store.check(name, 1)
        first = harness.queue.customers(limit=4)
        assert [customer.name for customer in first.items] == sorted(names)[:4]
        second = harness.queue.customers(limit=4, after=first.next)
        assert [customer.name for customer in second.items] == sorted(names)[4:]
        assert second.next is None

    @guarantee("S23")
    def test_filters_by_all_given_fields(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        harness.store.check("Acme two", 1)
        harness.queue.pause(ANNA, "beta")

        def names(where: CustomerFilter) -> list[str]:
            return [customer.name for customer in harness.queue.customers(where).items]

        assert names(CustomerFilter(text="ACME")) == ["Acme two", "acme"]
        assert names(CustomerFilter(waiting=True)) == ["acme"]
        assert names(CustomerFilter(waiting=False)) == ["Acme two", "beta"]
        assert names(CustomerFilter(paused=True)) == ["beta"]
        assert names(CustomerFilter(text="acme", paused=True)) == []


class TestReading:
    """Test the other queries. Names of tests begin with the method."""

    @guarantee("A2")
    def test_unknown_ids_and_customers_raise_not_found(self, harness: StoreHarness) -> None:
        with pytest.raises(NotFoundError, match=UNKNOWN_ID):
            harness.store.document(UNKNOWN_ID)
        with pytest.raises(NotFoundError):
            harness.store.result(UNKNOWN_ID)
        with pytest.raises(NotFoundError, match="unknown"):
            harness.store.customer("unknown")

    @guarantee("S24")
    def test_counts_agree_with_lanes_and_documents(self, harness: StoreHarness) -> None:
        harness.submit("acme", 30, batch="b")
        harness.submit("beta", 2)
        harness.submit_one("beta", delay=seconds(5))
        claimed = harness.claim(3)
        harness.queue.finish(claimed[0])
        counts = harness.store.counts(DocumentFilter())
        assert counts.states == {WAITING: 29, RUNNING: 2, DONE: 1, DocumentState.DELAYED: 1}
        assert sum(counts.waiting.values()) == 29
        assert 0 not in counts.states.values()
        acme = harness.store.counts(DocumentFilter(customer="acme"))
        assert acme.waiting == harness.waiting_by_level("acme")
        assert sum(harness.store.counts(DocumentFilter(batch="b")).states.values()) == 30
        assert harness.store.counts(DocumentFilter(batch="none")) == ({}, {})

    @guarantee("S31")
    def test_scheduler_snapshot_has_the_open_lanes_in_claim_order(self, harness: StoreHarness) -> None:
        harness.submit("a", 5)
        harness.submit("b", 2)
        harness.submit("c", 2)
        harness.queue.pause(ANNA, "c")
        harness.claim(1)
        snapshot = harness.store.scheduler_snapshot()
        lanes = [(lane.customer, lane.level, lane.waiting) for lane in snapshot.lanes]
        assert lanes == [("b", 1, 2), ("a", 1, 2), ("a", 2, 2)]
        assert snapshot.dispatched == 1
        assert snapshot.lanes[0].head.seq == harness.document(harness.claim_one().document.id).seq
        assert len(snapshot.overdue_uses) == 10
        assert snapshot.policy == harness.store.policy().policy.turns

    @guarantee("S32")
    def test_ahead_in_lane_counts_waiting_documents_of_its_lane(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 3)]
        harness.submit("acme", 2)
        assert [harness.store.ahead_in_lane(id_) for id_ in ids] == [0, 1, 2]
        harness.store.cancel([ids[1]], ANNA)
        assert harness.store.ahead_in_lane(ids[2]) == 1
        harness.claim_one()
        assert [harness.store.ahead_in_lane(id_) for id_ in ids] == [0, 0, 0]
        with pytest.raises(NotFoundError):
            harness.store.ahead_in_lane(UNKNOWN_ID)

    @guarantee("S33")
    def test_throughput_counts_starts_and_finishes_since_a_time(self, harness: StoreHarness) -> None:
        harness.submit("acme", 6)
        done, failed, cancelled, _ = harness.claim(4)
        harness.advance(10)
        harness.queue.finish(done)
        harness.queue.fail(failed, "no", final=True)
        harness.queue.cancel(cancelled.document.id, ANNA)
        assert harness.store.throughput(START) == (4, 2, 1)
        assert harness.store.throughput(START + seconds(10)) == (0, 2, 1)
        assert harness.store.throughput(START + seconds(11)) == (0, 0, 1)

    @guarantee("S52")
    def test_work_between_sums_processing_times_by_customer_and_outcome(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("beta", ANNA, weight=4.0)
        harness.submit("acme", 2)
        harness.submit_one("beta")
        done, failed, retried = sorted(harness.claim(3), key=lambda claim: claim.document.customer)
        harness.advance(10)
        harness.ack(done, DONE_OUTCOME, result="1", work=Work(seconds(2), seconds(6)))
        harness.ack(failed, FAILED_OUTCOME, error="no", work=Work(seconds(1), seconds(4)))
        harness.ack(retried, FAILED_OUTCOME, error="no", retry_in=0, work=Work(0, seconds(9)))
        assert harness.store.work_between(START, START + seconds(20)) == (
            (
                ("acme", 1.0, EventKind.FAILED, 1, seconds(4), seconds(4)),
                ("acme", 1.0, EventKind.FINISHED, 1, seconds(6), seconds(6)),
                ("beta", 4.0, EventKind.DELAYED, 1, seconds(9), seconds(9)),
            ),
            (),
        )
        assert harness.store.work_between(START + seconds(11), START + seconds(20)).ended == ()

    @guarantee("S52")
    def test_work_between_cuts_a_long_attempt_at_the_ends_of_the_span(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(30)
        harness.ack(claimed, DONE_OUTCOME, result="1", work=Work(seconds(5), seconds(20)))
        spans = [(0, 10), (10, 20), (20, 40)]
        logs = [harness.store.work_between(START + seconds(begin), START + seconds(end)).ended for begin, end in spans]
        figures = [(work.attempts, work.worked, work.within) for log in logs for work in log]
        assert figures == [(0, 0, seconds(5)), (0, 0, seconds(10)), (1, seconds(20), seconds(5))]
        (whole,) = harness.store.work_between(START, START + seconds(40)).ended
        assert (whole.attempts, whole.worked, whole.within) == (1, seconds(20), seconds(20))

    @guarantee("S52")
    def test_work_between_counts_an_attempt_once_after_a_retry_by_hand(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(10)
        harness.queue.fail(claimed, "no", final=True)
        before = harness.store.work_between(START, START + seconds(20))
        harness.queue.retry(id_, ANNA)
        assert harness.store.work_between(START, START + seconds(20)) == before
        assert [work.within for work in before.ended] == [seconds(10)]

    @guarantee("S52")
    def test_work_between_leaves_out_attempts_without_processing_time(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        released, cancelled, _ = harness.claim(3)
        harness.advance(10)
        harness.queue.release(released)
        harness.queue.cancel(cancelled.document.id, ANNA)
        harness.advance(LEASE // seconds(1))
        harness.store.sweep()
        assert harness.store.work_between(START, START + seconds(100)) == ((), ())

    @guarantee("S52")
    def test_work_between_does_not_count_a_cancelled_retry_again(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(10)
        harness.queue.fail(claimed, "no", retry_in=seconds(60))
        harness.queue.cancel(id_, ANNA)
        (work,) = harness.store.work_between(START, START + seconds(20)).ended
        assert (work.ended, work.attempts, work.within) == (EventKind.DELAYED, 1, seconds(10))

    @guarantee("S53")
    def test_work_between_lists_the_running_claims(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("beta", ANNA, weight=4.0)
        acme, beta = harness.submit_one("acme"), harness.submit_one("beta")
        first = harness.claim_one()
        harness.advance(5)
        (second,) = harness.claim(1, "other")
        harness.submit_one("gamma")
        log = harness.store.work_between(START, START + seconds(5))
        assert log.ended == ()
        assert log.running == (
            (acme, "acme", 1.0, "worker", first.fence, START),
            (beta, "beta", 4.0, "other", second.fence, START + seconds(5)),
        )
        harness.queue.finish(first)
        log = harness.store.work_between(START, START + seconds(5))
        assert [work.customer for work in log.ended] == ["acme"]
        assert [claim.id for claim in log.running] == [beta]

    @guarantee("S36")
    def test_unreferenced_blobs_are_those_without_document_and_result(self, harness: StoreHarness) -> None:
        harness.submit("acme", blob="given")
        harness.ack(harness.claim_one(), result="{}", files=(ResultFile("a", "made", 1, "0"),))
        assert harness.store.unreferenced_blobs(["given", "made", "orphan"]) == {"orphan"}
        harness.store.purge("acme", ANNA)
        assert harness.store.unreferenced_blobs(["given", "made", "orphan"]) == {"given", "made", "orphan"}

    @guarantee("S43")
    def test_stored_bytes_are_counted_for_each_customer(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2, size=100)
        harness.submit_one("acme", uri="https://example.com/a")
        harness.submit_one("beta", size=7)
        harness.finish_all()
        harness.submit_one("acme", size=1)
        assert [harness.store.stored_bytes(customer) for customer in ("acme", "beta", "unknown")] == [201, 7, 0]


class TestWait:
    """Test `Store.wait` and `Store.next_due`."""

    @guarantee("S34")
    def test_is_woken_by_a_submit(self, harness: StoreHarness) -> None:
        waiter = threading.Thread(target=harness.store.wait, args=(60.0,), daemon=True)
        waiter.start()
        for _ in range(200):
            harness.submit("acme")
            waiter.join(0.05)
            if not waiter.is_alive():
                break
        assert not waiter.is_alive()

    @guarantee("S34")
    def test_ends_after_its_timeout(self, harness: StoreHarness) -> None:
        harness.store.wait(0.01)

    @guarantee("S26")
    def test_next_due_is_the_earliest_of_delay_lease_and_rate(self, harness: StoreHarness) -> None:
        assert harness.store.next_due() is None
        harness.submit_one("acme", delay=seconds(100))
        assert harness.store.next_due() == START + seconds(100)
        harness.submit_one("beta")
        claimed = harness.claim_one()
        assert harness.store.next_due() == START + LEASE
        harness.queue.change_customer("gamma", ANNA, rate=(1, seconds(30)))
        harness.submit_one("gamma")
        other = harness.claim_one()
        assert harness.store.next_due() == START + seconds(30)
        harness.advance(30)
        harness.store.sweep()
        assert harness.store.next_due() == START + LEASE
        harness.queue.finish(claimed)
        harness.queue.finish(other)
        assert harness.store.next_due() == START + seconds(100)
