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
    """What people do to documents and customers."""

    def test_s15_cancel_takes_a_document_out_wherever_it_is(self, rig: StoreHarness) -> None:
        """Waiting, delayed or running; the counter is not given back."""
        delayed = rig.submit_one("acme", delay=seconds(10))
        running, waiting, other = (receipt.id for receipt in rig.submit("acme", 3))
        claimed = rig.claim_one()
        assert claimed.document.id == running
        ids = [waiting, delayed, running]
        assert rig.store.cancel(ids, ANNA) == tuple(ids)
        assert {rig.state(item) for item in ids} == {DocumentState.CANCELLED}
        assert rig.document(waiting).finished_at == START
        assert rig.waiting_by_level("acme") == {2: 1}
        customer = rig.store.customer("acme")
        assert (customer.count, customer.running) == (-3, 0)
        rig.advance(100)
        assert rig.finish_all() == [other]

    def test_s15_a_cancelled_claim_is_stale_at_once(self, rig: StoreHarness) -> None:
        """Its worker hears of it by the next heartbeat."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        rig.queue.cancel(claimed.document.id, ANNA)
        assert rig.queue.heartbeat([claimed]) == (LeaseStatus.CANCELLED,)
        assert rig.ack(claimed, result="1") is AckStatus.STALE
        assert rig.ack(claimed, OutcomeKind.RELEASED) is AckStatus.STALE
        assert rig.state(claimed.document.id) is DocumentState.CANCELLED

    def test_s15_what_has_ended_is_passed_over(self, rig: StoreHarness) -> None:
        """Alone, it is refused with the reason."""
        id_ = rig.submit_one("acme")
        rig.finish_all()
        assert rig.store.cancel([id_, UNKNOWN_ID], ANNA) == ()
        with pytest.raises(IllegalTransitionError, match="done"):
            rig.queue.cancel(id_, ANNA)
        with pytest.raises(NotFoundError):
            rig.queue.cancel(UNKNOWN_ID, ANNA)

    def test_s15_cancelling_the_head_lets_the_next_go_first(self, rig: StoreHarness) -> None:
        """And cancelling all of a line empties it."""
        first, second, third = (receipt.id for receipt in rig.submit("acme", 3))
        rig.store.cancel([first], ANNA)
        assert rig.claim_one().document.id == second
        rig.store.cancel([third, third], ANNA)
        assert rig.claim() == ()
        assert rig.store.customer("acme").lanes == ()

    def test_s15_whatever_matches_can_be_cancelled(self, rig: StoreHarness) -> None:
        """By filter, with the number told."""
        rig.submit("acme", 5, batch="march")
        rig.submit("acme", 2)
        where = DocumentFilter(batch="march")
        assert rig.queue.cancel_all(where, ANNA) == 5
        assert rig.queue.cancel_all(where, ANNA) == 0
        ids = [document.id for document in reversed(rig.store.documents(where, limit=10).items)]
        assert rig.queue.retry_all(where, ANNA) == 5
        assert rig.store.counts(where).states == {DocumentState.WAITING: 5}
        assert [document.id for document in reversed(rig.store.documents(where, limit=10).items)] == ids

    def test_s16_a_retry_by_hand_is_a_new_check(self, rig: StoreHarness) -> None:
        """New level, new place, attempts from zero."""
        id_ = rig.submit_one("acme", max_attempts=1, start_by=START + seconds(5))
        rig.queue.fail(rig.claim_one(), "no")
        rig.submit("acme", 4)
        rig.advance(10)
        receipt = rig.queue.retry(id_, ANNA)
        assert (receipt.id, receipt.level, receipt.count) == (id_, 3, -5)
        document = rig.document(id_)
        assert (document.state, document.attempt, document.error) == (DocumentState.WAITING, 0, None)
        assert (document.ready_at, document.submitted_at) == (START + seconds(10), START)
        assert (document.started_at, document.finished_at) == (None, None)
        assert document.seq == max(document.seq for document in rig.all_documents())
        assert rig.finish_all()[-1] == id_

    def test_s16_only_what_ended_without_a_result_is_tried_again(self, rig: StoreHarness) -> None:
        """Failed, cancelled, expired; not done, not waiting, not running."""
        done, running, waiting = (receipt.id for receipt in rig.submit("acme", 3))
        rig.queue.finish(rig.claim_one())
        rig.claim_one()
        assert rig.store.retry([done, running, waiting, UNKNOWN_ID], ANNA) == ()
        with pytest.raises(IllegalTransitionError, match="running"):
            rig.queue.retry(running, ANNA)
        cancelled = rig.submit_one("beta")
        expired = rig.submit_one("beta", start_by=START)
        rig.store.sweep()
        rig.store.cancel([cancelled], ANNA)
        assert len(rig.store.retry([cancelled, expired], ANNA)) == 2
        assert rig.claim_one().document.id == cancelled

    def test_s16_an_old_fence_is_stale_after_a_retry(self, rig: StoreHarness) -> None:
        """The worker of the failed attempt has no say any more."""
        rig.submit_one("acme", max_attempts=1)
        claimed = rig.claim_one()
        rig.queue.fail(claimed, "no")
        rig.queue.retry(claimed.document.id, ANNA)
        assert rig.ack(claimed, OutcomeKind.FAILED, error="no") is AckStatus.STALE
        assert rig.ack(claimed, result="1") is AckStatus.STALE

    def test_s17_an_expedited_document_goes_before_all_levels(self, rig: StoreHarness) -> None:
        """It keeps its level; the event names the operator."""
        receipts = rig.submit("flood", 30)
        rig.submit("beta", 2)
        last = receipts[-1].id
        rig.queue.expedite(last, ANNA)
        document = rig.document(last)
        assert (document.level, document.count, document.expedited) == (9, -29, True)
        assert rig.waiting_by_level("flood")[0] == 1
        assert rig.claim_one().document.id == last
        event = rig.store.events(0, limit=100)[-2]
        assert (event.kind, event.documents, event.operator) == (EventKind.EXPEDITED, (last,), ANNA)

    def test_s17_expedited_documents_of_customers_take_turns(self, rig: StoreHarness) -> None:
        """Nobody buys the whole front."""
        for customer in ("a", "b"):
            for receipt in rig.submit(customer, 3):
                rig.queue.expedite(receipt.id, ANNA)
        assert rig.claim_customers() == ["a", "b", "a", "b", "a", "b"]

    def test_s17_a_delay_ends_and_a_retry_stays_in_front(self, rig: StoreHarness) -> None:
        """Expedited once is expedited until it ends."""
        id_ = rig.submit_one("acme", delay=seconds(100))
        rig.queue.expedite(id_, ANNA)
        rig.queue.fail(rig.claim_one(), "no", retry_in=seconds(1))
        rig.submit("beta", 1)
        rig.advance(1)
        assert rig.claim_one().document.id == id_

    def test_s17_what_does_not_wait_cannot_be_expedited(self, rig: StoreHarness) -> None:
        """Nor what is in front already; a closed line stays closed."""
        id_ = rig.submit_one("acme")
        rig.queue.pause(ANNA, "acme")
        rig.queue.expedite(id_, ANNA)
        assert rig.claim() == ()
        with pytest.raises(IllegalTransitionError, match="already"):
            rig.queue.expedite(id_, ANNA)
        rig.queue.resume(ANNA, "acme")
        rig.claim_one()
        with pytest.raises(IllegalTransitionError, match="running"):
            rig.queue.expedite(id_, ANNA)
        with pytest.raises(NotFoundError):
            rig.queue.expedite(UNKNOWN_ID, ANNA)

    def test_s18_a_purge_deletes_documents_and_keys_and_keeps_the_counter(self, rig: StoreHarness) -> None:
        """Running claims become stale; others' documents stay."""
        rig.queue.change_customer("acme", ANNA, weight=2, cap=1)
        rig.submit("acme", 3, key="k", blob="blobs/1")
        rig.submit("beta", 1, key="k")
        claimed = rig.claim_one()
        removed = rig.queue.purge("acme", ANNA)
        assert (removed.documents, removed.keys, removed.blobs) == (3, 1, ("blobs/1",) * 3)
        assert rig.ack(claimed, result="1") is AckStatus.STALE
        assert rig.queue.heartbeat([claimed], lease=LEASE) == (LeaseStatus.LOST,)
        with pytest.raises(NotFoundError):
            rig.document(claimed.document.id)
        customer = rig.store.customer("acme")
        assert (customer.count, customer.running, customer.lanes) == (-2, 0, ())
        assert (customer.settings.weight, customer.settings.cap) == (2, 1)
        assert [document.customer for document in rig.all_documents()] == ["beta"]
        assert rig.submit("acme", 3, key="k")[0].count == -3
        event = next(event for event in rig.store.events(0, limit=100) if event.kind is EventKind.PURGED)
        assert (event.customer, event.operator, event.detail["documents"]) == ("acme", ANNA, 3)
        with pytest.raises(NotFoundError):
            rig.queue.purge("nobody", ANNA)

    def test_s19_settings_are_changed_one_by_one_and_told(self, rig: StoreHarness) -> None:
        """For a customer not yet seen, too."""
        rig.queue.change_customer("acme", ANNA, weight=2.5)
        rig.queue.change_customer("acme", ANNA, rate=(5, seconds(1)), display_name="Acme GmbH")
        settings = rig.store.customer("acme").settings
        assert (settings.weight, settings.rate, settings.display_name) == (
            2.5,
            RateLimit(5, seconds(1)),
            "Acme GmbH",
        )
        assert (settings.cap, settings.paused) == (None, False)
        event = rig.store.events(0, limit=100)[-1]
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
    def test_s19_bad_settings_are_refused_and_change_nothing(self, rig: StoreHarness, bad: dict[str, Any]) -> None:
        """With the allowed range in the message."""
        rig.submit("acme")
        before = rig.store.customer("acme"), rig.store.events(0, limit=100)
        with pytest.raises(InvalidInputError):
            rig.queue.change_customer("acme", ANNA, **bad)
        assert (rig.store.customer("acme"), rig.store.events(0, limit=100)) == before

    def test_s22_policies_are_kept_with_who_when_and_why(self, rig: StoreHarness) -> None:
        """Newest first, counted from 1."""
        assert rig.store.policy().number == 1
        assert rig.store.policy().policy == Policy()
        rig.advance(5)
        changed = Policy(PriorityPolicy(seconds(60), (-1, -2)), TurnPolicy(Order.CLASSIC, seconds(30), 4))
        version = rig.store.set_policy(changed, Operator("bob", "trying"), expected=1)
        assert version == rig.store.policy()
        assert (version.number, version.policy, version.at, version.operator) == (
            2,
            changed,
            START + seconds(5),
            Operator("bob", "trying"),
        )
        assert [policy.number for policy in rig.store.policies()] == [2, 1]
        event = rig.store.events(0, limit=10)[-1]
        assert (event.kind, event.detail["version"]) == (EventKind.POLICY_SET, 2)

    def test_s22_a_change_on_top_of_somebody_elses_is_refused(self, rig: StoreHarness) -> None:
        """So that nobody overwrites what they have not seen."""
        rig.store.set_policy(Policy(), ANNA, expected=1)
        with pytest.raises(VersionConflictError, match="version 2"):
            rig.store.set_policy(Policy(), ANNA, expected=1)
        assert rig.store.policy().number == 2
