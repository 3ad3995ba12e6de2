"""Operations on documents by hand."""

import pytest

from inturn.errors import IllegalTransitionError, NotFoundError
from inturn.model import DocumentState, NewDocument
from inturn.store_types import AckStatus, DocumentFilter, EventKind, LeaseStatus, OutcomeKind
from inturn.testing.contract.api_keys import new_api_key
from inturn.testing.contract.attempts import attempt_ends, fail_next
from inturn.testing.contract.harness import ANNA, LEASE, START, UNKNOWN_ID, StoreHarness, guarantee
from inturn.testing.contract.outcomes import WORK_CLAIMED_AHEAD, attempt_work_of, claim_and_wait, work_of
from inturn.values import seconds


class TestCancel:
    """Test `Store.cancel`."""

    @guarantee("S15")
    def test_takes_a_document_out_wherever_it_is(self, harness: StoreHarness) -> None:
        delayed = harness.submit_one("acme", delay=seconds(10))
        running, waiting, other = (receipt.id for receipt in harness.submit("acme", 3))
        claimed = harness.claim_one()
        assert claimed.document.id == running
        ids = [waiting, delayed, running]
        assert harness.store.cancel(ids, ANNA) == tuple(ids)
        assert {harness.state(id_) for id_ in ids} == {DocumentState.CANCELLED}
        assert harness.document(waiting).finished_at == START
        assert harness.waiting_by_level("acme") == {2: 1}
        customer = harness.store.customer("acme")
        assert (customer.count, customer.running) == (-3, 0)
        harness.advance(100)
        assert harness.finish_all() == [other]

    @guarantee("S15")
    def test_cancelled_claim_is_stale_at_once(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.queue.cancel(claimed.document.id, ANNA)
        assert harness.queue.heartbeat([claimed]) == (LeaseStatus.CANCELLED,)
        assert harness.ack(claimed, result="1") is AckStatus.STALE
        assert harness.ack(claimed, OutcomeKind.RELEASED) is AckStatus.STALE
        assert harness.state(claimed.document.id) is DocumentState.CANCELLED

    @guarantee("S15")
    def test_skips_ended_documents(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.finish_all()
        assert harness.store.cancel([id_, UNKNOWN_ID], ANNA) == ()
        with pytest.raises(IllegalTransitionError, match="done"):
            harness.queue.cancel(id_, ANNA)
        with pytest.raises(NotFoundError):
            harness.queue.cancel(UNKNOWN_ID, ANNA)

    @guarantee("S15")
    def test_cancelling_the_head_lets_the_next_go_first(self, harness: StoreHarness) -> None:
        first, second, third = (receipt.id for receipt in harness.submit("acme", 3))
        harness.store.cancel([first], ANNA)
        assert harness.claim_one().document.id == second
        harness.store.cancel([third, third], ANNA)
        assert harness.claim() == ()
        assert harness.store.customer("acme").lanes == ()

    @guarantee("S15", "S16")
    def test_cancel_all_and_retry_all_take_a_filter(self, harness: StoreHarness) -> None:
        harness.submit("acme", 5, batch="march")
        harness.submit("acme", 2)
        where = DocumentFilter(batch="march")
        assert harness.queue.cancel_all(where, ANNA) == 5
        assert harness.queue.cancel_all(where, ANNA) == 0
        ids = [document.id for document in reversed(harness.store.documents(where, limit=10).items)]
        assert harness.queue.retry_all(where, ANNA) == 5
        assert harness.store.counts(where).states == {DocumentState.WAITING: 5}
        assert [document.id for document in reversed(harness.store.documents(where, limit=10).items)] == ids


class TestRetry:
    """Test `Store.retry`."""

    @guarantee("S16")
    def test_is_a_new_check(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=1, start_by=START + seconds(5))
        harness.queue.fail(harness.claim_one(), "no")
        harness.submit("acme", 4)
        harness.advance(10)
        receipt = harness.queue.retry(id_, ANNA)
        assert (receipt.id, receipt.level, receipt.count) == (id_, 3, -5)
        document = harness.document(id_)
        assert (document.state, document.attempt, document.error) == (DocumentState.WAITING, 0, None)
        assert (document.ready_at, document.submitted_at) == (START + seconds(10), START)
        assert (document.started_at, document.finished_at) == (None, None)
        assert document.seq == max(document.seq for document in harness.all_documents())
        assert harness.finish_all()[-1] == id_

    @guarantee("S16", "S45")
    def test_document_cancelled_after_a_retry_is_retried_again(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=1)
        harness.queue.fail(harness.claim_one(), "no")
        harness.queue.retry(id_, ANNA)
        harness.store.cancel([id_], ANNA)
        harness.queue.retry(id_, ANNA)
        assert [attempt.error for attempt in harness.store.attempts(id_)] == ["no"]
        assert harness.finish_all() == [id_]

    @guarantee("S16")
    def test_skips_documents_that_did_not_end_or_have_a_result(self, harness: StoreHarness) -> None:
        done, running, waiting = (receipt.id for receipt in harness.submit("acme", 3))
        harness.queue.finish(harness.claim_one())
        harness.claim_one()
        assert harness.store.retry([done, running, waiting, UNKNOWN_ID], ANNA) == ()
        with pytest.raises(IllegalTransitionError, match="running"):
            harness.queue.retry(running, ANNA)
        cancelled = harness.submit_one("beta")
        expired = harness.submit_one("beta", start_by=START)
        harness.store.sweep()
        harness.store.cancel([cancelled], ANNA)
        assert len(harness.store.retry([cancelled, expired], ANNA)) == 2
        assert harness.claim_one().document.id == cancelled

    @guarantee("S16")
    def test_old_fence_is_stale_after_a_retry(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", max_attempts=1)
        claimed = harness.claim_one()
        harness.queue.fail(claimed, "no")
        harness.queue.retry(claimed.document.id, ANNA)
        assert harness.ack(claimed, OutcomeKind.FAILED, error="no") is AckStatus.STALE
        assert harness.ack(claimed, result="1") is AckStatus.STALE

    @guarantee("S45")
    def test_keeps_the_attempt_before_it(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        fail_next(harness, "first")
        harness.advance(1)
        fail_next(harness, "second", final=True)
        harness.advance(5)
        harness.queue.retry(id_, ANNA)
        assert harness.document(id_).error is None
        harness.claim_one()
        harness.advance(7)
        harness.queue.cancel(id_, ANNA)
        harness.advance(1)
        harness.queue.retry(id_, ANNA)
        ended = [(1, EventKind.DELAYED, "first"), (2, EventKind.FAILED, "second"), (1, EventKind.CANCELLED, None)]
        assert attempt_ends(harness, id_) == ended
        assert harness.store.attempts(id_)[1][2:4] == (START + seconds(1), START + seconds(1))
        assert harness.store.attempts(id_)[2][2:4] == (START + seconds(6), START + seconds(13))

    @guarantee("S45")
    def test_adds_no_attempt_for_a_document_that_was_not_running(self, harness: StoreHarness) -> None:
        waited, tried = harness.submit_one("a"), harness.submit_one("b")
        late = harness.submit_one("c", start_by=START + seconds(5))
        harness.store.cancel([waited], ANNA)
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(60))
        harness.store.cancel([tried], ANNA)
        harness.advance(6)
        harness.store.sweep()
        harness.store.retry([waited, tried, late], ANNA)
        assert [attempt_ends(harness, id_) for id_ in (waited, tried, late)] == [[], [(1, EventKind.DELAYED, "no")], []]

    @guarantee("S51")
    def test_claim_and_retry_clear_processing_times(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        harness.ack(claim_and_wait(harness), OutcomeKind.FAILED, error="no", retry_in=0, work=WORK_CLAIMED_AHEAD)
        harness.claim_one()
        assert work_of(harness, id_) == (None, None)
        harness.advance(61)
        harness.store.sweep()
        assert attempt_work_of(harness, id_)[1:] == []
        harness.queue.retry(id_, ANNA)
        assert work_of(harness, id_) == (None, None)
        assert attempt_work_of(harness, id_) == [(START + seconds(15), seconds(3)), (None, None)]
        harness.ack(claim_and_wait(harness), OutcomeKind.FAILED, error="no", work=WORK_CLAIMED_AHEAD)
        harness.queue.retry(id_, ANNA)
        assert work_of(harness, id_) == (None, None)
        assert [attempt.ended for attempt in harness.store.attempts(id_)] == [
            EventKind.DELAYED,
            EventKind.FAILED,
            EventKind.FAILED,
        ]
        assert attempt_work_of(harness, id_)[2] == (START + seconds(96), seconds(3))


class TestExpedite:
    """Test `Store.expedite`."""

    @guarantee("S17")
    def test_goes_before_all_levels(self, harness: StoreHarness) -> None:
        receipts = harness.submit("flood", 30)
        harness.submit("beta", 2)
        last = receipts[-1].id
        harness.queue.expedite(last, ANNA)
        document = harness.document(last)
        assert (document.level, document.count, document.expedited) == (9, -29, True)
        assert harness.waiting_by_level("flood")[0] == 1
        assert harness.claim_one().document.id == last
        event = harness.store.events(0, limit=100)[-2]
        assert (event.kind, event.documents, event.operator) == (EventKind.EXPEDITED, (last,), ANNA)

    @guarantee("S17")
    def test_documents_of_several_customers_take_turns(self, harness: StoreHarness) -> None:
        for customer in ("a", "b"):
            for receipt in harness.submit(customer, 3):
                harness.queue.expedite(receipt.id, ANNA)
        assert harness.claim_customers() == ["a", "b", "a", "b", "a", "b"]

    @guarantee("S17")
    def test_ends_a_delay_and_an_automatic_retry_stays_in_front(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", delay=seconds(100))
        harness.queue.expedite(id_, ANNA)
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(1))
        harness.submit("beta", 1)
        harness.advance(1)
        assert harness.claim_one().document.id == id_

    @guarantee("S17")
    def test_refuses_documents_that_do_not_wait(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.queue.pause(ANNA, "acme")
        harness.queue.expedite(id_, ANNA)
        assert harness.claim() == ()
        with pytest.raises(IllegalTransitionError, match="already"):
            harness.queue.expedite(id_, ANNA)
        harness.queue.resume(ANNA, "acme")
        harness.claim_one()
        with pytest.raises(IllegalTransitionError, match="running"):
            harness.queue.expedite(id_, ANNA)
        with pytest.raises(NotFoundError):
            harness.queue.expedite(UNKNOWN_ID, ANNA)

    @guarantee("S17")
    @pytest.mark.parametrize("group", [None, "team"])
    def test_undo_puts_a_document_back_to_its_place(self, harness: StoreHarness, group: str | None) -> None:
        receipts = harness.queue.submit("acme", [NewDocument("a", group=group) for _ in range(4)])
        ids = [receipt.id for receipt in receipts]
        assert harness.claim_one().document.id == ids[0]
        before = harness.document(ids[2])
        harness.queue.expedite(ids[2], ANNA)
        harness.queue.expedite(ids[2], ANNA, undo=True)
        assert harness.document(ids[2]) == before
        event = harness.store.events(0, limit=100)[-1]
        assert (event.kind, event.documents, event.operator) == (EventKind.EXPEDITE_UNDONE, (ids[2],), ANNA)
        assert [claim.document.id for claim in harness.claim(9)] == ids[1:]
        assert harness.store.recount(repair=False) == ()

    @guarantee("S17")
    def test_undo_leaves_an_ended_delay_ended(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", delay=seconds(100))
        harness.queue.expedite(id_, ANNA)
        harness.queue.expedite(id_, ANNA, undo=True)
        document = harness.claim_one().document
        assert (document.id, document.expedited) == (id_, False)

    @guarantee("S17")
    def test_refuses_to_undo_what_was_not_expedited_or_does_not_wait(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        with pytest.raises(IllegalTransitionError, match="waiting and cannot go back"):
            harness.queue.expedite(id_, ANNA, undo=True)
        harness.queue.expedite(id_, ANNA)
        harness.claim_one()
        with pytest.raises(IllegalTransitionError, match="cannot go back"):
            harness.queue.expedite(id_, ANNA, undo=True)


class TestPurge:
    """Test `Store.purge`."""

    @guarantee("S18")
    def test_deletes_documents_and_keys_and_keeps_the_counter(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, weight=2, cap=1)
        harness.submit("acme", 3, key="k", blob="blobs/1")
        harness.submit("beta", 1, key="k")
        claimed = harness.claim_one()
        removed = harness.queue.purge("acme", ANNA)
        assert (removed.documents, removed.keys, removed.blobs) == (3, 1, ("blobs/1",))
        assert harness.ack(claimed, result="1") is AckStatus.STALE
        assert harness.queue.heartbeat([claimed], lease=LEASE) == (LeaseStatus.LOST,)
        with pytest.raises(NotFoundError):
            harness.document(claimed.document.id)
        customer = harness.store.customer("acme")
        assert (customer.count, customer.running, customer.lanes) == (-2, 0, ())
        assert (customer.settings.weight, customer.settings.cap) == (2, 1)
        assert [document.customer for document in harness.all_documents()] == ["beta"]
        assert harness.submit("acme", 3, key="k")[0].count == -3
        event = next(event for event in harness.store.events(0, limit=100) if event.kind is EventKind.PURGED)
        assert (event.customer, event.operator, event.detail["documents"]) == ("acme", ANNA, 3)
        with pytest.raises(NotFoundError):
            harness.queue.purge("unknown", ANNA)

    @guarantee("S18")
    def test_opens_no_lane_for_documents_that_it_deletes(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=1)
        harness.submit("acme", 2)
        harness.claim_one()
        harness.submit_one("before")
        harness.queue.purge("acme", ANNA)
        harness.submit_one("after")
        stamps = {lane.customer: lane.stamp for lane in harness.store.scheduler_snapshot().lanes}
        assert stamps["after"] == stamps["before"] + 1

    @guarantee("S18")
    def test_deletes_the_api_keys_of_the_customer(self, harness: StoreHarness) -> None:
        (_, own), (_, others) = new_api_key(), new_api_key("beta")
        for key in (own, others):
            harness.store.api_keys.add(key, ANNA)
        harness.submit_one("acme")
        harness.queue.purge("acme", ANNA)
        assert harness.store.api_keys.all() == (others,)
