"""S7 to S11, S13, S14: claims, outcomes, leases."""

import threading

import pytest

from inturn.errors import StaleFenceError
from inturn.model import Claim, DocumentState, seconds
from inturn.policy import Policy, PriorityPolicy
from inturn.store import LEASE_LOST_ERROR, AckStatus, ClaimRequest, EventKind, LeaseStatus, Outcome, OutcomeKind
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite

DONE, FAILED, HANDED_BACK = OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.RELEASED


class ClaimTests(StoreSuite):
    """How documents are worked on."""

    def test_s7_an_outcome_is_recorded_once(self, rig: StoreHarness) -> None:
        """Said again, it is a repeat and changes nothing."""
        id_ = rig.submit_one("acme")
        claimed = rig.claim_one()
        assert rig.ack(claimed, result='{"pages":3}') is AckStatus.RECORDED
        events = rig.store.events(0, limit=100)
        rig.advance(5)
        assert rig.ack(claimed, result='{"pages":4}') is AckStatus.REPEATED
        assert rig.store.result(id_) == '{"pages":3}'
        assert rig.document(id_).finished_at == START
        assert rig.store.events(0, limit=100) == events

    def test_s7_another_fence_is_stale(self, rig: StoreHarness) -> None:
        """Before, while and after the document runs."""
        id_ = rig.submit_one("acme")
        claimed = rig.claim_one()
        other = Claim(claimed.document, claimed.fence + 1)
        assert rig.ack(other, result="1") is AckStatus.STALE
        assert rig.state(id_) is DocumentState.RUNNING
        rig.queue.finish(claimed)
        assert rig.ack(other, result="1") is AckStatus.STALE
        with pytest.raises(StaleFenceError, match=id_):
            rig.queue.finish(other)

    def test_s7_outcomes_of_one_list_count_in_its_order(self, rig: StoreHarness) -> None:
        """A stale one, the right one, a repeat and another document's, told together."""
        rig.submit("acme", 2)
        first, second = rig.claim(2)
        outcomes = [
            Outcome(first.document.id, first.fence + 7, DONE, result="1"),
            Outcome(first.document.id, first.fence, DONE, result="2"),
            Outcome(first.document.id, first.fence, DONE, result="3"),
            Outcome(second.document.id, second.fence, FAILED, error="no"),
            Outcome(second.document.id, second.fence, DONE, result="4"),
        ]
        expected = (AckStatus.STALE, AckStatus.RECORDED, AckStatus.REPEATED, AckStatus.RECORDED, AckStatus.STALE)
        assert rig.store.ack_and_claim(outcomes, None).statuses == expected
        assert rig.store.result(first.document.id) == "2"
        assert rig.state(second.document.id) is DocumentState.FAILED

    def test_s7_another_outcome_under_a_used_fence_is_stale(self, rig: StoreHarness) -> None:
        """Done and failed at once cannot be."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        rig.queue.finish(claimed)
        assert rig.ack(claimed, FAILED, error="late") is AckStatus.STALE
        assert rig.ack(claimed, HANDED_BACK) is AckStatus.STALE
        assert rig.state(claimed.document.id) is DocumentState.DONE

    def test_s7_a_failure_is_repeated_though_it_waits_again(self, rig: StoreHarness) -> None:
        """The retry may be due before the answer to the first try arrives."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        assert rig.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.RECORDED
        assert rig.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.REPEATED
        rig.advance(2)
        rig.store.sweep()
        assert rig.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.REPEATED
        assert rig.ack(claimed, DONE, result="1") is AckStatus.STALE
        again = rig.claim_one()
        assert rig.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.STALE
        assert again.document.attempt == 2

    def test_s7_unknown_documents_are_stale(self, rig: StoreHarness) -> None:
        """No error: a worker cannot do anything about it."""
        outcome = Outcome("018f3c5e-0000-7000-8000-000000000000", 1, DONE, result="1")
        assert rig.store.ack_and_claim([outcome], None).statuses == (AckStatus.STALE,)

    def test_s7_a_late_outcome_counts_while_nobody_else_took_the_document(self, rig: StoreHarness) -> None:
        """The lease ran out, but no claim came in between."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        rig.advance(3_600)
        assert rig.ack(claimed, result="1") is AckStatus.RECORDED

    def test_s7_a_stale_worker_cannot_touch_the_next_claim(self, rig: StoreHarness) -> None:
        """The lease was lost, another worker has the document, and only its result counts."""
        id_ = rig.submit_one("acme")
        first = rig.claim_one()
        rig.advance(61)
        second = rig.claim_one()
        assert second.document.id == id_
        assert rig.ack(first, result='"first"') is AckStatus.STALE
        assert rig.ack(first, FAILED, error="first") is AckStatus.STALE
        assert rig.ack(second, result='"second"') is AckStatus.RECORDED
        assert rig.ack(first, result='"first"') is AckStatus.STALE
        assert rig.store.result(id_) == '"second"'

    def test_s8_done_keeps_the_result(self, rig: StoreHarness) -> None:
        """As JSON, any of it."""
        id_ = rig.submit_one("acme")
        assert rig.store.result(id_) is None
        rig.queue.finish(rig.claim_one(), {"text": "ęü\u2028\ud7ff", "n": [1, None, 0.5]})
        assert rig.queue.result(id_) == {"text": "ęü\u2028\ud7ff", "n": [1, None, 0.5]}
        document = rig.document(id_)
        assert (document.state, document.finished_at) == (DocumentState.DONE, START)
        assert (document.worker, document.lease_until) == (None, None)

    def test_s8_a_failure_is_tried_again_in_its_old_place(self, rig: StoreHarness) -> None:
        """Same level, same seq, no second check."""
        first, second = (receipt.id for receipt in rig.submit("acme", 2))
        before = rig.document(first)
        rig.queue.fail(rig.claim_one(), "scanner on fire", retry_in=seconds(10))
        document = rig.document(first)
        assert (document.state, document.error, document.due_at) == (
            DocumentState.DELAYED,
            "scanner on fire",
            START + seconds(10),
        )
        assert rig.store.next_due() == START + seconds(10)
        assert rig.store.customer("acme").count == -1
        rig.advance(10)
        again = rig.claim(2)
        assert [claimed.document.id for claimed in again] == [first, second]
        assert again[0].document.attempt == 2
        assert (again[0].document.seq, again[0].document.level) == (before.seq, before.level)
        assert rig.store.customer("acme").count == -1

    def test_s8_the_last_attempt_fails_for_good(self, rig: StoreHarness) -> None:
        """With the error kept."""
        id_ = rig.submit_one("acme", max_attempts=2)
        for error in ("first", "second"):
            rig.queue.fail(rig.claim_one(), error, retry_in=seconds(1))
            rig.advance(1)
        document = rig.document(id_)
        assert (document.state, document.error, document.attempt) == (DocumentState.FAILED, "second", 2)
        assert rig.claim() == ()

    def test_s8_a_final_failure_is_not_tried_again(self, rig: StoreHarness) -> None:
        """However many attempts are left."""
        id_ = rig.submit_one("acme")
        rig.queue.fail(rig.claim_one(), "not a document", final=True)
        assert rig.state(id_) is DocumentState.FAILED

    def test_s8_success_after_a_failure_clears_the_error(self, rig: StoreHarness) -> None:
        """The document is done; nothing is wrong with it."""
        id_ = rig.submit_one("acme")
        rig.queue.fail(rig.claim_one(), "hiccup", retry_in=0)
        rig.queue.finish(rig.claim_one())
        assert rig.document(id_).error is None

    def test_s8_a_hand_back_costs_no_attempt(self, rig: StoreHarness) -> None:
        """It waits again where it was."""
        first, second = (receipt.id for receipt in rig.submit("acme", 2, max_attempts=1))
        for _ in range(3):
            claimed = rig.claim_one()
            assert claimed.document.id == first
            rig.queue.release(claimed)
        document = rig.document(first)
        assert (document.attempt, document.state) == (0, DocumentState.WAITING)
        assert rig.finish_all() == [first, second]

    def test_s8_a_release_keeps_the_wait(self, rig: StoreHarness) -> None:
        """A document that is released again and again becomes overdue like any other."""
        id_ = rig.submit_one("acme")
        for _ in range(3):
            rig.advance(400)
            rig.queue.release(rig.claim_one())
        assert rig.document(id_).ready_at == START
        (line,) = rig.store.scheduler_snapshot().lanes
        assert line.head.ready_at == START

    def test_s8_a_release_is_refunded(self, rig: StoreHarness) -> None:
        """Its line stands where it stood, or at V if that has gone on."""
        rig.set_policy(Policy(PriorityPolicy(thresholds=(-1_000,))))
        for customer in ("acme", "beta"):
            rig.submit(customer, 12, cost=3.0)
        held = rig.claim(2)
        for claimed in (*held, *held):
            rig.ack(claimed, OutcomeKind.RELEASED)
        assert {line.turn for line in rig.store.scheduler_snapshot().lanes} == {0}
        for claimed in rig.claim(4):
            if claimed.document.customer == "acme":
                rig.queue.release(claimed)
        turns = {line.customer: line.turn for line in rig.store.scheduler_snapshot().lanes}
        assert turns == {"acme": 3_000_000, "beta": 6_000_000}

    def test_s9_a_lost_lease_is_an_attempt(self, rig: StoreHarness) -> None:
        """Exactly at its end; after the last attempt the document fails."""
        id_ = rig.submit_one("acme", max_attempts=2)
        rig.claim_one()
        assert rig.store.next_due() == START + LEASE
        rig.clock.advance(LEASE - 1)
        assert rig.claim() == ()
        rig.clock.advance(1)
        again = rig.claim_one()
        assert (again.document.id, again.document.attempt) == (id_, 2)
        assert again.document.ready_at == rig.clock.now()
        rig.clock.advance(LEASE)
        assert rig.claim() == ()
        document = rig.document(id_)
        assert (document.state, document.error) == (DocumentState.FAILED, LEASE_LOST_ERROR)

    def test_s9_a_lease_given_twice_in_one_instant_is_lost_once(self, rig: StoreHarness) -> None:
        """Handed back and claimed again: two deadlines of one document fall together."""
        rig.submit_one("acme")
        rig.queue.release(rig.claim_one())
        rig.claim_one()
        rig.advance(61)
        rig.store.sweep()
        assert rig.waiting_by_level("acme") == {1: 1}
        assert rig.store.customer("acme").running == 0
        assert rig.store.recount(repair=False) == ()

    def test_s9_a_document_not_started_in_time_expires(self, rig: StoreHarness) -> None:
        """At `start_by` itself it is too late; a started one may be tried again later."""
        never = rig.submit_one("acme", start_by=START + seconds(10))
        delayed = rig.submit_one("acme", start_by=START + seconds(10), delay=seconds(60))
        started = rig.submit_one("beta", start_by=START + seconds(10))
        rig.store.change_customer("acme", {"paused": True}, ANNA)
        rig.queue.fail(rig.claim_one(), "no", retry_in=seconds(20))
        rig.store.change_customer("acme", {"paused": False}, ANNA)
        rig.advance(10)
        assert rig.claim() == ()
        assert [rig.state(item) for item in (never, delayed)] == [DocumentState.EXPIRED] * 2
        assert rig.document(never).finished_at == START + seconds(10)
        assert rig.waiting_by_level("acme") == {}
        rig.advance(10)
        assert [claimed.document.id for claimed in rig.claim(5)] == [started]

    def test_s9_one_that_is_handed_back_too_late_expires_and_is_not_claimed_again(self, rig: StoreHarness) -> None:
        """Nor by the call that hands it back."""
        id_ = rig.submit_one("acme", start_by=START + seconds(10))
        claimed = rig.claim_one()
        rig.advance(15)
        back = Outcome(id_, claimed.fence, HANDED_BACK)
        verdicts, again = rig.store.ack_and_claim([back], ClaimRequest("worker", 1, LEASE))
        assert verdicts == (AckStatus.RECORDED,)
        assert again == ()
        assert rig.state(id_) is DocumentState.EXPIRED

    def test_s9_due_documents_go_back_by_their_seq(self, rig: StoreHarness) -> None:
        """Though they come back in another order."""
        ids = [receipt.id for receipt in rig.submit("acme", 3)]
        claimed = rig.claim(3)
        for claim, wait in zip(claimed, (3, 2, 1), strict=True):
            rig.queue.fail(claim, "no", retry_in=seconds(wait))
        rig.advance(5)
        assert [claim.document.id for claim in rig.claim(3)] == ids

    def test_s10_claims_follow_the_turns(self, rig: StoreHarness) -> None:
        """Levels first; inside a level the customers in turn."""
        rig.submit("flood", 30)
        rig.submit("beta", 4)
        rig.submit("gamma", 1)
        expected = ["flood", "beta", "gamma", "flood", "beta", "flood", "beta", "flood", "beta"]
        assert rig.claim_customers(9) == expected

    def test_s10_k_at_once_equal_k_of_one(self, rig: StoreHarness) -> None:
        """On the same backlog, twice."""
        orders = []
        for limit in (1, 60):
            rig.advance(10_000)
            for customer, n in (("flood", 40), ("beta", 20), ("gamma", 5)):
                rig.submit(f"{customer} {limit}", n)
            order: list[str] = []
            while claimed := rig.claim(limit):
                order += [claim.document.customer.split()[0] for claim in claimed]
                for claim in claimed:
                    rig.queue.finish(claim)
            orders.append(order)
        assert len(orders[0]) == 65
        assert orders[0] == orders[1]

    def test_s11_fences_grow_and_are_never_given_twice(self, rig: StoreHarness) -> None:
        """Also for the same document."""
        rig.submit("acme", 3)
        fences = []
        for _ in range(5):
            claimed = rig.claim(3)
            fences += [claim.fence for claim in claimed]
            for claim in claimed:
                rig.queue.release(claim)
        assert fences == sorted(set(fences))

    def test_s11_many_claimers_never_share_a_document(self, rig: StoreHarness) -> None:
        """Threads that claim and finish at once."""
        ids = {receipt.id for n in range(4) for receipt in rig.submit(f"c{n}", 50)}
        taken: list[str] = []

        def work() -> None:
            while claimed := rig.store.claim(ClaimRequest("worker", 3, LEASE)):
                for claim in claimed:
                    taken.append(claim.document.id)
                    rig.store.finish(claim.document.id, claim.fence, "null")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 200
        assert set(taken) == ids

    def test_s11_a_claim_tells_the_document_as_it_runs(self, rig: StoreHarness) -> None:
        """State, worker, lease, attempt."""
        id_ = rig.submit_one("acme")
        (claimed,) = rig.claim(worker="w7")
        document = claimed.document
        assert document == rig.document(id_)
        assert (document.state, document.worker, document.attempt) == (DocumentState.RUNNING, "w7", 1)
        assert (document.started_at, document.lease_until, document.fence) == (START, START + LEASE, claimed.fence)
        assert rig.store.customer("acme").running == 1

    def test_s13_work_is_conserved(self, rig: StoreHarness) -> None:
        """A claim with room takes all there is."""
        for n in range(7):
            rig.submit(f"c{n}", 5)
        assert len(rig.claim(100)) == 35
        assert rig.claim(100) == ()

    def test_s7_outcomes_and_claims_share_a_call(self, rig: StoreHarness) -> None:
        """What is finished makes room for what is claimed."""
        rig.store.change_customer("acme", {"cap": 1}, ANNA)
        rig.submit("acme", 2)
        claimed = rig.claim_one()
        request = ClaimRequest("worker", 5, LEASE)
        exchanged = rig.store.ack_and_claim([Outcome(claimed.document.id, claimed.fence, DONE, result="1")], request)
        assert exchanged.statuses == (AckStatus.RECORDED,)
        assert len(exchanged.claimed) == 1

    def test_s13_what_expires_in_a_claim_hides_nobody(self, rig: StoreHarness) -> None:
        """The line that goes away in the same call stood before the one that is served."""
        expired = rig.submit_one("first", start_by=START + seconds(10))
        rig.store.scheduler_snapshot()
        rig.advance(15)
        second = rig.submit_one("second")
        rig.store.scheduler_snapshot()
        assert rig.claim_one().document.id == second
        assert rig.state(expired) is DocumentState.EXPIRED

    def test_s14_a_heartbeat_holds_the_lease(self, rig: StoreHarness) -> None:
        """For a lease from now."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        for _ in range(5):
            rig.advance(50)
            assert rig.queue.heartbeat([claimed], lease=LEASE) == (LeaseStatus.HELD,)
            assert rig.claim() == ()
        assert rig.document(claimed.document.id).lease_until == rig.clock.now() + LEASE
        assert rig.store.next_due() == rig.clock.now() + LEASE
        rig.queue.finish(claimed)
        assert rig.store.next_due() is None

    def test_s14_a_heartbeat_may_shorten_the_lease(self, rig: StoreHarness) -> None:
        """Then the document is free earlier."""
        rig.submit_one("acme")
        claimed = rig.claim_one()
        rig.queue.heartbeat([claimed], lease=seconds(1))
        rig.advance(1)
        assert rig.claim_one().document.attempt == 2

    def test_s14_a_heartbeat_tells_what_is_lost(self, rig: StoreHarness) -> None:
        """Cancelled, taken over, finished, unknown."""
        rig.submit("acme", 4)
        cancelled, lost, finished, held = rig.claim(4)
        rig.queue.finish(finished)
        rig.queue.cancel(cancelled.document.id, ANNA)
        assert rig.queue.heartbeat([cancelled, finished, held], lease=seconds(100)) == (
            LeaseStatus.CANCELLED,
            LeaseStatus.LOST,
            LeaseStatus.HELD,
        )
        rig.advance(61)
        assert rig.claim_one().document.id == lost.document.id
        assert rig.queue.heartbeat([lost, held], lease=LEASE) == (LeaseStatus.LOST, LeaseStatus.HELD)
        unknown = lost.document._replace(id="018f3c5e-0000-7000-8000-000000000000")
        assert rig.queue.heartbeat([Claim(unknown, 1)], lease=LEASE) == (LeaseStatus.LOST,)

    def test_a3_every_move_is_told(self, rig: StoreHarness) -> None:
        """A document's life in events."""
        id_ = rig.submit_one("acme", max_attempts=3)
        rig.queue.release(rig.claim_one())
        rig.queue.fail(rig.claim_one(), "no", retry_in=seconds(1))
        rig.advance(1)
        rig.claim_one()
        rig.advance(61)
        rig.queue.fail(rig.claim_one(), "no", final=True)
        kinds = [event.kind for event in rig.store.events(0, limit=100) if id_ in event.documents]
        assert kinds == [
            EventKind.SUBMITTED,
            EventKind.STARTED,
            EventKind.RELEASED,
            EventKind.STARTED,
            EventKind.DELAYED,
            EventKind.DUE,
            EventKind.STARTED,
            EventKind.LEASE_LOST,
            EventKind.STARTED,
            EventKind.FAILED,
        ]
