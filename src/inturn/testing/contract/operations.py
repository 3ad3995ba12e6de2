"""S15 to S18, S22: cancel, retry, expedite, purge, policy."""

from typing import Any

import pytest

from inturn.errors import IllegalTransitionError, InvalidInputError, NotFoundError, VersionConflictError
from inturn.model import DocumentState, RateLimit, seconds
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store import AckStatus, DocumentFilter, EventKind, LeaseStatus, Operator, OutcomeKind
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite

UNKNOWN_ID = "018f3c5e-0000-7000-8000-000000000000"


class OperationTests(StoreSuite):
    """Test the calls of operators."""

    def test_s15_cancel_takes_a_document_out_wherever_it_is(self, harness: StoreHarness) -> None:
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

    def test_s15_a_cancelled_claim_is_stale_at_once(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.queue.cancel(claimed.document.id, ANNA)
        assert harness.queue.heartbeat([claimed]) == (LeaseStatus.CANCELLED,)
        assert harness.ack(claimed, result="1") is AckStatus.STALE
        assert harness.ack(claimed, OutcomeKind.RELEASED) is AckStatus.STALE
        assert harness.state(claimed.document.id) is DocumentState.CANCELLED

    def test_s15_cancel_skips_ended_documents(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.finish_all()
        assert harness.store.cancel([id_, UNKNOWN_ID], ANNA) == ()
        with pytest.raises(IllegalTransitionError, match="done"):
            harness.queue.cancel(id_, ANNA)
        with pytest.raises(NotFoundError):
            harness.queue.cancel(UNKNOWN_ID, ANNA)

    def test_s15_cancelling_the_head_lets_the_next_go_first(self, harness: StoreHarness) -> None:
        first, second, third = (receipt.id for receipt in harness.submit("acme", 3))
        harness.store.cancel([first], ANNA)
        assert harness.claim_one().document.id == second
        harness.store.cancel([third, third], ANNA)
        assert harness.claim() == ()
        assert harness.store.customer("acme").lanes == ()

    def test_s15_cancel_all_and_retry_all_take_a_filter(self, harness: StoreHarness) -> None:
        harness.submit("acme", 5, batch="march")
        harness.submit("acme", 2)
        where = DocumentFilter(batch="march")
        assert harness.queue.cancel_all(where, ANNA) == 5
        assert harness.queue.cancel_all(where, ANNA) == 0
        ids = [document.id for document in reversed(harness.store.documents(where, limit=10).items)]
        assert harness.queue.retry_all(where, ANNA) == 5
        assert harness.store.counts(where).states == {DocumentState.WAITING: 5}
        assert [document.id for document in reversed(harness.store.documents(where, limit=10).items)] == ids

    def test_s16_a_retry_by_hand_is_a_new_check(self, harness: StoreHarness) -> None:
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

    def test_s16_only_what_ended_without_a_result_is_tried_again(self, harness: StoreHarness) -> None:
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

    def test_s16_an_old_fence_is_stale_after_a_retry(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", max_attempts=1)
        claimed = harness.claim_one()
        harness.queue.fail(claimed, "no")
        harness.queue.retry(claimed.document.id, ANNA)
        assert harness.ack(claimed, OutcomeKind.FAILED, error="no") is AckStatus.STALE
        assert harness.ack(claimed, result="1") is AckStatus.STALE

    def test_s17_an_expedited_document_goes_before_all_levels(self, harness: StoreHarness) -> None:
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

    def test_s17_expedited_documents_of_customers_take_turns(self, harness: StoreHarness) -> None:
        for customer in ("a", "b"):
            for receipt in harness.submit(customer, 3):
                harness.queue.expedite(receipt.id, ANNA)
        assert harness.claim_customers() == ["a", "b", "a", "b", "a", "b"]

    def test_s17_a_delay_ends_and_a_retry_stays_in_front(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", delay=seconds(100))
        harness.queue.expedite(id_, ANNA)
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(1))
        harness.submit("beta", 1)
        harness.advance(1)
        assert harness.claim_one().document.id == id_

    def test_s17_what_does_not_wait_cannot_be_expedited(self, harness: StoreHarness) -> None:
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

    def test_s18_a_purge_deletes_documents_and_keys_and_keeps_the_counter(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, weight=2, cap=1)
        harness.submit("acme", 3, key="k", blob="blobs/1")
        harness.submit("beta", 1, key="k")
        claimed = harness.claim_one()
        removed = harness.queue.purge("acme", ANNA)
        assert (removed.documents, removed.keys, removed.blobs) == (3, 1, ("blobs/1",) * 3)
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

    def test_s18_a_purge_opens_no_lane_for_what_it_deletes(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=1)
        harness.submit("acme", 2)
        harness.claim_one()
        harness.submit_one("before")
        harness.queue.purge("acme", ANNA)
        harness.submit_one("after")
        stamps = {lane.customer: lane.stamp for lane in harness.store.scheduler_snapshot().lanes}
        assert stamps["after"] == stamps["before"] + 1

    def test_s19_settings_are_changed_one_by_one_and_write_events(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, weight=2.5)
        harness.queue.change_customer("acme", ANNA, rate=(5, seconds(1)), display_name="Acme GmbH")
        settings = harness.store.customer("acme").settings
        assert (settings.weight, settings.rate, settings.display_name) == (
            2.5,
            RateLimit(5, seconds(1)),
            "Acme GmbH",
        )
        assert (settings.cap, settings.paused) == (None, False)
        event = harness.store.events(0, limit=100)[-1]
        assert (event.kind, event.operator, event.detail["rate"]) == (
            EventKind.CUSTOMER_CHANGED,
            ANNA,
            [5, seconds(1)],
        )

    @pytest.mark.parametrize(
        "bad",
        [
            {"weight": 0},
            {"weight": 1001},
            {"weight": float("nan")},
            {"cap": 0},
            {"cap": 1.5},
            {"rate": (0, 1_000_000)},
            {"rate": (5, 1)},
            {"display_name": "a\0b"},
            {"colour": "red"},
        ],
    )
    def test_s19_bad_settings_are_refused_and_change_nothing(self, harness: StoreHarness, bad: dict[str, Any]) -> None:
        harness.submit("acme")
        before = harness.store.customer("acme"), harness.store.events(0, limit=100)
        with pytest.raises(InvalidInputError):
            harness.queue.change_customer("acme", ANNA, **bad)
        assert (harness.store.customer("acme"), harness.store.events(0, limit=100)) == before

    def test_s22_policy_versions_record_operator_time_and_reason(self, harness: StoreHarness) -> None:
        assert harness.store.policy().number == 1
        assert harness.store.policy().policy == Policy()
        harness.advance(5)
        changed = Policy(PriorityPolicy(seconds(60), (-1, -2)), TurnPolicy(Order.CLASSIC, seconds(30), 4))
        version = harness.store.set_policy(changed, Operator("bob", "trying"), expected=1)
        assert version == harness.store.policy()
        assert (version.number, version.policy, version.at, version.operator) == (
            2,
            changed,
            START + seconds(5),
            Operator("bob", "trying"),
        )
        assert [policy.number for policy in harness.store.policies()] == [2, 1]
        event = harness.store.events(0, limit=10)[-1]
        assert (event.kind, event.detail["version"]) == (EventKind.POLICY_SET, 2)

    def test_s22_a_change_of_an_outdated_version_is_refused(self, harness: StoreHarness) -> None:
        harness.store.set_policy(Policy(), ANNA, expected=1)
        with pytest.raises(VersionConflictError, match="version 2"):
            harness.store.set_policy(Policy(), ANNA, expected=1)
        assert harness.store.policy().number == 2
