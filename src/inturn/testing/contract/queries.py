"""S23 to S26: lists, counts, events, what is due."""

import threading

import pytest

from inturn.errors import InvalidInputError, NotFoundError
from inturn.model import DocumentState, NewDocument, seconds
from inturn.store import CustomerFilter, DocumentFilter, DocumentSort, Event
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite
from inturn.testing.contract.operations import UNKNOWN_ID

WAITING, RUNNING, DONE = DocumentState.WAITING, DocumentState.RUNNING, DocumentState.DONE


class QueryTests(StoreSuite):
    """What can be seen."""

    def test_s23_documents_are_listed_newest_first_in_pages(self, rig: StoreHarness) -> None:
        """Every one once, though new ones come in between."""
        ids = [receipt.id for n in range(5) for receipt in rig.submit(f"c{n}", 5)]
        seen: list[str] = []
        after = None
        while True:
            page = rig.queue.documents(limit=7, after=after)
            seen += [document.id for document in page.items]
            rig.submit("late")
            after = page.next
            if after is None:
                break
        assert seen == list(reversed(ids))

    def test_s23_documents_are_listed_oldest_first_in_pages(self, rig: StoreHarness) -> None:
        """Every one once; those that come in between are at the end."""
        ids = [receipt.id for n in range(5) for receipt in rig.submit(f"c{n}", 5)]
        where = DocumentFilter(customer="c3", level=2)
        assert [document.id for document in rig.queue.documents(where, sort=DocumentSort.OLDEST).items] == ids[18:20]
        seen: list[str] = []
        after = None
        for _ in range(3):
            page = rig.queue.documents(limit=10, after=after, sort=DocumentSort.OLDEST)
            seen += [document.id for document in page.items]
            ids += [receipt.id for receipt in rig.submit("late")] if after is None else []
            after = page.next
        assert (seen, after) == (ids, None)

    def test_s23_a_cursor_is_good_for_both_ways(self, rig: StoreHarness) -> None:
        """Forward from it, and back; a document tried again by hand has come in anew."""
        ids = [receipt.id for receipt in rig.submit("acme", 6)]
        where = DocumentFilter(customer="acme")
        page = rig.queue.documents(where, limit=2, sort=DocumentSort.OLDEST)
        assert [document.id for document in page.items] == ids[:2]
        page = rig.queue.documents(where, limit=2, after=page.next, sort=DocumentSort.OLDEST)
        assert [document.id for document in page.items] == ids[2:4]
        back = rig.queue.documents(where, limit=2, after=page.next)
        assert [document.id for document in back.items] == [ids[2], ids[1]]
        rig.queue.cancel(ids[0], ANNA)
        rig.queue.retry(ids[0], ANNA)
        oldest = rig.queue.documents(sort=DocumentSort.OLDEST).items
        assert [document.id for document in oldest] == [*ids[1:], ids[0]]

    def test_s23_a_full_last_page_has_no_next(self, rig: StoreHarness) -> None:
        """And an empty list has one empty page."""
        assert rig.queue.documents() == ((), None)
        rig.submit("acme", 4)
        assert rig.queue.documents(limit=4).next is None
        assert rig.queue.customers(limit=1).next is None

    def test_s23_documents_are_filtered_by_all_that_is_given(self, rig: StoreHarness) -> None:
        """State, customer, level, batch, text in the name."""
        rig.queue.submit("acme", [NewDocument("Invoice 1.pdf", batch="b1"), NewDocument("letter 100%.txt", batch="b1")])
        rig.queue.submit("beta", [NewDocument("INVOICE_2.pdf"), NewDocument("Übersicht.pdf")])
        rig.submit("acme", 3)
        rig.queue.finish(rig.claim_one())

        def names(where: DocumentFilter) -> list[str]:
            return [document.spec.name for document in rig.queue.documents(where).items]

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
        assert names(DocumentFilter(customer="nobody")) == []

    def test_s23_customers_are_listed_by_name_in_pages(self, rig: StoreHarness) -> None:
        """By code point, so that every store agrees."""
        names = ["Zed", "acme", "beta", "ábel", "z", "żak", "猫"]
        for name in reversed(names):
            rig.store.check(name, 1)
        first = rig.queue.customers(limit=4)
        assert [customer.name for customer in first.items] == sorted(names)[:4]
        second = rig.queue.customers(limit=4, after=first.next)
        assert [customer.name for customer in second.items] == sorted(names)[4:]
        assert second.next is None

    def test_s23_customers_are_filtered(self, rig: StoreHarness) -> None:
        """By text, by whether they wait, by whether they are paused."""
        rig.submit("acme")
        rig.store.check("Acme two", 1)
        rig.queue.pause(ANNA, "beta")

        def names(where: CustomerFilter) -> list[str]:
            return [customer.name for customer in rig.queue.customers(where).items]

        assert names(CustomerFilter(text="ACME")) == ["Acme two", "acme"]
        assert names(CustomerFilter(waiting=True)) == ["acme"]
        assert names(CustomerFilter(waiting=False)) == ["Acme two", "beta"]
        assert names(CustomerFilter(paused=True)) == ["beta"]
        assert names(CustomerFilter(text="acme", paused=True)) == []

    def test_s23_a_cursor_that_is_none_is_refused(self, rig: StoreHarness) -> None:
        """With advice, not with an error of the database."""
        with pytest.raises(InvalidInputError, match="cursor"):
            rig.queue.documents(after="x'; drop")
        with pytest.raises(InvalidInputError, match="cursor"):
            rig.queue.documents(after="9" * 19)
        with pytest.raises(InvalidInputError, match="limit"):
            rig.queue.documents(limit=0)

    def test_a2_what_is_unknown_is_not_found(self, rig: StoreHarness) -> None:
        """Documents, results, customers."""
        with pytest.raises(NotFoundError, match=UNKNOWN_ID):
            rig.store.document(UNKNOWN_ID)
        with pytest.raises(NotFoundError):
            rig.store.result(UNKNOWN_ID)
        with pytest.raises(NotFoundError, match="nobody"):
            rig.store.customer("nobody")

    def test_s24_counts_agree_with_lines_and_documents(self, rig: StoreHarness) -> None:
        """All of them, one customer's, one batch's."""
        rig.submit("acme", 30, batch="b")
        rig.submit("beta", 2)
        rig.submit_one("beta", delay=seconds(5))
        claimed = rig.claim(3)
        rig.queue.finish(claimed[0])
        counts = rig.store.counts(DocumentFilter())
        assert counts.states == {WAITING: 29, RUNNING: 2, DONE: 1, DocumentState.DELAYED: 1}
        assert sum(counts.waiting.values()) == 29
        assert 0 not in counts.states.values()
        acme = rig.store.counts(DocumentFilter(customer="acme"))
        assert acme.waiting == rig.waiting_by_level("acme")
        assert sum(rig.store.counts(DocumentFilter(batch="b")).states.values()) == 30
        assert rig.store.counts(DocumentFilter(batch="none")) == ({}, {})

    def test_s25_events_are_numbered_and_read_on(self, rig: StoreHarness) -> None:
        """In pieces they are the same as in one."""
        for n in range(10):
            rig.submit(f"c{n}", 2)
            rig.advance(1)
        rig.finish_all()
        whole = rig.store.events(0, limit=1_000)
        numbers = [event.number for event in whole]
        assert numbers == sorted(set(numbers))
        pieces: list[Event] = []
        last = 0
        while piece := rig.store.events(last, limit=7):
            pieces += piece
            last = piece[-1].number
        assert tuple(pieces) == whole

    def test_s25_one_call_tells_one_event_a_customer(self, rig: StoreHarness) -> None:
        """With its documents in their order."""
        rig.submit("a", 3)
        rig.submit("b", 1)
        last = rig.store.events(0, limit=10)[-1].number
        claimed = rig.claim(4)
        a, b = rig.store.events(last, limit=10)
        assert (a.customer, b.customer) == ("a", "b")
        assert a.documents == tuple(claim.document.id for claim in claimed if claim.document.customer == "a")

    def test_s31_standings_are_what_a_claim_finds(self, rig: StoreHarness) -> None:
        """Open lines in the order of levels and turns; closed and empty ones left out."""
        rig.submit("a", 5)
        rig.submit("b", 2)
        rig.submit("c", 2)
        rig.queue.pause(ANNA, "c")
        rig.claim(1)
        standings = rig.store.scheduler_snapshot()
        lines = [(line.customer, line.level, line.waiting) for line in standings.lanes]
        assert lines == [("b", 1, 2), ("a", 1, 2), ("a", 2, 2)]
        assert standings.dispatched == 1
        assert standings.lanes[0].head.seq == rig.document(rig.claim_one().document.id).seq
        assert len(standings.overdue_uses) == 10
        assert standings.policy == rig.store.policy().policy.turns

    def test_s32_ahead_counts_the_line_before_a_document(self, rig: StoreHarness) -> None:
        """Only its own line, only what waits."""
        ids = [receipt.id for receipt in rig.submit("acme", 3)]
        rig.submit("acme", 2)
        assert [rig.store.ahead_in_lane(item) for item in ids] == [0, 1, 2]
        rig.store.cancel([ids[1]], ANNA)
        assert rig.store.ahead_in_lane(ids[2]) == 1
        rig.claim_one()
        assert [rig.store.ahead_in_lane(item) for item in ids] == [0, 0, 0]
        with pytest.raises(NotFoundError):
            rig.store.ahead_in_lane(UNKNOWN_ID)

    def test_s33_pace_counts_starts_and_ends_since_a_time(self, rig: StoreHarness) -> None:
        """Cancelled documents are nobody's work."""
        rig.submit("acme", 6)
        done, failed, cancelled, _ = rig.claim(4)
        rig.advance(10)
        rig.queue.finish(done)
        rig.queue.fail(failed, "no", final=True)
        rig.queue.cancel(cancelled.document.id, ANNA)
        assert rig.store.throughput(START) == (4, 2, 1)
        assert rig.store.throughput(START + seconds(10)) == (0, 2, 1)
        assert rig.store.throughput(START + seconds(11)) == (0, 0, 1)

    def test_s34_a_waiter_is_woken_by_a_submit(self, rig: StoreHarness) -> None:
        """Long before its time is over."""
        waiter = threading.Thread(target=rig.store.wait, args=(60.0,), daemon=True)
        waiter.start()
        for _ in range(200):
            rig.submit("acme")
            waiter.join(0.05)
            if not waiter.is_alive():
                break
        assert not waiter.is_alive()

    def test_s34_a_waiter_goes_on_when_its_time_is_over(self, rig: StoreHarness) -> None:
        """Though nothing happened."""
        rig.store.wait(0.01)

    def test_s26_next_due_is_the_earliest_of_delay_lease_and_rate(self, rig: StoreHarness) -> None:
        """And None when nothing will happen by itself."""
        assert rig.store.next_due() is None
        rig.submit_one("acme", delay=seconds(100))
        assert rig.store.next_due() == START + seconds(100)
        rig.submit_one("beta")
        claimed = rig.claim_one()
        assert rig.store.next_due() == START + LEASE
        rig.queue.change_customer("gamma", ANNA, rate=(1, seconds(30)))
        rig.submit_one("gamma")
        other = rig.claim_one()
        assert rig.store.next_due() == START + seconds(30)
        rig.advance(30)
        rig.store.sweep()
        assert rig.store.next_due() == START + LEASE
        rig.queue.finish(claimed)
        rig.queue.finish(other)
        assert rig.store.next_due() == START + seconds(100)
