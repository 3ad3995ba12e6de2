"""S7 to S11, S13, S14: claims, outcomes, leases."""

import threading

import pytest

from inturn.errors import StaleFenceError
from inturn.model import Claim, DocumentState, seconds
from inturn.policy import Policy, PriorityPolicy
from inturn.store import LEASE_LOST_ERROR, AckStatus, ClaimRequest, EventKind, LeaseStatus, Outcome, OutcomeKind
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite

DONE, FAILED, RELEASED = OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.RELEASED


class ClaimTests(StoreSuite):
    """Test claims, outcomes and leases."""

    def test_s7_an_outcome_is_recorded_once(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        assert harness.ack(claimed, result='{"pages":3}') is AckStatus.RECORDED
        events = harness.store.events(0, limit=100)
        harness.advance(5)
        assert harness.ack(claimed, result='{"pages":4}') is AckStatus.REPEATED
        assert harness.store.result(id_) == '{"pages":3}'
        assert harness.document(id_).finished_at == START
        assert harness.store.events(0, limit=100) == events

    def test_s7_another_fence_is_stale(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        other = Claim(claimed.document, claimed.fence + 1)
        assert harness.ack(other, result="1") is AckStatus.STALE
        assert harness.state(id_) is DocumentState.RUNNING
        harness.queue.finish(claimed)
        assert harness.ack(other, result="1") is AckStatus.STALE
        with pytest.raises(StaleFenceError, match=id_):
            harness.queue.finish(other)

    def test_s7_outcomes_of_one_list_count_in_its_order(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        first, second, third = harness.claim(3)
        outcomes = [
            Outcome(first.document.id, first.fence + 7, DONE, result="1"),
            Outcome(first.document.id, first.fence, DONE, result="2"),
            Outcome(first.document.id, first.fence, DONE, result="3"),
            Outcome(second.document.id, second.fence, FAILED, error="no"),
            Outcome(second.document.id, second.fence, DONE, result="4"),
            Outcome(third.document.id, third.fence, DONE, result="5"),
            Outcome(third.document.id, third.fence, DONE, result="6"),
        ]
        stale, recorded, repeated = AckStatus.STALE, AckStatus.RECORDED, AckStatus.REPEATED
        expected = (stale, recorded, repeated, recorded, stale, recorded, repeated)
        assert harness.store.ack_and_claim(outcomes, None).statuses == expected
        assert [harness.store.result(claim.document.id) for claim in (first, third)] == ["2", "5"]
        assert harness.state(second.document.id) is DocumentState.FAILED

    def test_s7_another_outcome_under_a_used_fence_is_stale(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.queue.finish(claimed)
        assert harness.ack(claimed, FAILED, error="late") is AckStatus.STALE
        assert harness.ack(claimed, RELEASED) is AckStatus.STALE
        assert harness.state(claimed.document.id) is DocumentState.DONE

    def test_s7_a_failure_is_repeated_though_it_waits_again(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        assert harness.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.RECORDED
        assert harness.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.REPEATED
        harness.advance(2)
        harness.store.sweep()
        assert harness.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.REPEATED
        assert harness.ack(claimed, DONE, result="1") is AckStatus.STALE
        again = harness.claim_one()
        assert harness.ack(claimed, FAILED, error="no", retry_in=seconds(1)) is AckStatus.STALE
        assert again.document.attempt == 2

    def test_s7_unknown_documents_are_stale(self, harness: StoreHarness) -> None:
        outcome = Outcome("018f3c5e-0000-7000-8000-000000000000", 1, DONE, result="1")
        assert harness.store.ack_and_claim([outcome], None).statuses == (AckStatus.STALE,)

    def test_s7_a_late_outcome_is_recorded_if_no_other_claim_came(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(3_600)
        assert harness.ack(claimed, result="1") is AckStatus.RECORDED

    def test_s7_a_stale_worker_cannot_touch_the_next_claim(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        first = harness.claim_one()
        harness.advance(61)
        second = harness.claim_one()
        assert second.document.id == id_
        assert harness.ack(first, result='"first"') is AckStatus.STALE
        assert harness.ack(first, FAILED, error="first") is AckStatus.STALE
        assert harness.ack(second, result='"second"') is AckStatus.RECORDED
        assert harness.ack(first, result='"first"') is AckStatus.STALE
        assert harness.store.result(id_) == '"second"'

    def test_s8_done_keeps_the_result(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        assert harness.store.result(id_) is None
        harness.queue.finish(harness.claim_one(), {"text": "ęü\u2028\ud7ff", "n": [1, None, 0.5]})
        assert harness.queue.result(id_) == {"text": "ęü\u2028\ud7ff", "n": [1, None, 0.5]}
        document = harness.document(id_)
        assert (document.state, document.finished_at) == (DocumentState.DONE, START)
        assert (document.worker, document.lease_until) == (None, None)
        assert harness.store.customer("acme").running == 0

    def test_s8_a_failure_is_tried_again_in_its_old_place(self, harness: StoreHarness) -> None:
        first, second = (receipt.id for receipt in harness.submit("acme", 2))
        before = harness.document(first)
        harness.queue.fail(harness.claim_one(), "scanner on fire", retry_in=seconds(10))
        document = harness.document(first)
        assert (document.state, document.error, document.due_at) == (
            DocumentState.DELAYED,
            "scanner on fire",
            START + seconds(10),
        )
        assert harness.store.next_due() == START + seconds(10)
        assert harness.store.customer("acme").count == -1
        harness.advance(10)
        again = harness.claim(2)
        assert [claimed.document.id for claimed in again] == [first, second]
        assert again[0].document.attempt == 2
        assert (again[0].document.seq, again[0].document.level) == (before.seq, before.level)
        assert harness.store.customer("acme").count == -1

    def test_s8_the_last_attempt_fails_for_good(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        for error in ("first", "second"):
            harness.queue.fail(harness.claim_one(), error, retry_in=seconds(1))
            harness.advance(1)
        document = harness.document(id_)
        assert (document.state, document.error, document.attempt) == (DocumentState.FAILED, "second", 2)
        assert harness.claim() == ()

    def test_s8_a_final_failure_is_not_tried_again(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.queue.fail(harness.claim_one(), "not a document", final=True)
        assert harness.state(id_) is DocumentState.FAILED

    def test_s8_success_after_a_failure_clears_the_error(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.queue.fail(harness.claim_one(), "hiccup", retry_in=0)
        harness.queue.finish(harness.claim_one())
        assert harness.document(id_).error is None

    def test_s8_a_release_counts_no_attempt(self, harness: StoreHarness) -> None:
        first, second = (receipt.id for receipt in harness.submit("acme", 2, max_attempts=1))
        for _ in range(3):
            claimed = harness.claim_one()
            assert claimed.document.id == first
            harness.queue.release(claimed)
        document = harness.document(first)
        assert (document.attempt, document.state) == (0, DocumentState.WAITING)
        assert harness.finish_all() == [first, second]

    def test_s8_a_release_keeps_the_wait(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        for _ in range(3):
            harness.advance(400)
            harness.queue.release(harness.claim_one())
        assert harness.document(id_).ready_at == START
        (lane,) = harness.store.scheduler_snapshot().lanes
        assert lane.head.ready_at == START

    def test_s8_a_release_is_refunded(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(PriorityPolicy(thresholds=(-1_000,))))
        for customer in ("acme", "beta"):
            harness.submit(customer, 12, cost=3.0)
        held = harness.claim(2)
        for claimed in (*held, *held):
            harness.ack(claimed, OutcomeKind.RELEASED)
        assert {lane.turn for lane in harness.store.scheduler_snapshot().lanes} == {0}
        for claimed in harness.claim(4):
            if claimed.document.customer == "acme":
                harness.queue.release(claimed)
        turns = {lane.customer: lane.turn for lane in harness.store.scheduler_snapshot().lanes}
        assert turns == {"acme": 3_000_000, "beta": 6_000_000}

    @pytest.mark.parametrize("swept", [False, True])
    def test_s8_documents_that_came_back_go_before_those_behind_them(
        self, harness: StoreHarness, *, swept: bool
    ) -> None:
        harness.set_policy(Policy(PriorityPolicy(thresholds=(-1_000,))))
        ids = [receipt.id for receipt in harness.submit("acme", 6)]
        first, second, third, fourth = harness.claim(4)
        for claimed in (third, second):
            harness.queue.release(claimed)
        for claimed in (first, fourth):
            harness.queue.finish(claimed)
        if swept:
            harness.store.sweep()
        assert [claimed.document.id for claimed in harness.claim(10)] == [ids[1], ids[2], ids[4], ids[5]]
        assert harness.store.recount(repair=False) == ()

    def test_s9_a_lost_lease_is_an_attempt(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        harness.claim_one()
        assert harness.store.next_due() == START + LEASE
        harness.clock.advance(LEASE - 1)
        assert harness.claim() == ()
        harness.clock.advance(1)
        again = harness.claim_one()
        assert (again.document.id, again.document.attempt) == (id_, 2)
        assert again.document.ready_at == harness.clock.now()
        harness.clock.advance(LEASE)
        assert harness.claim() == ()
        document = harness.document(id_)
        assert (document.state, document.error) == (DocumentState.FAILED, LEASE_LOST_ERROR)

    def test_s9_a_lease_given_twice_in_one_instant_is_lost_once(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        harness.queue.release(harness.claim_one())
        harness.claim_one()
        harness.advance(61)
        harness.store.sweep()
        assert harness.waiting_by_level("acme") == {1: 1}
        assert harness.store.customer("acme").running == 0
        assert harness.store.recount(repair=False) == ()

    def test_s9_a_document_not_started_in_time_expires(self, harness: StoreHarness) -> None:
        never = harness.submit_one("acme", start_by=START + seconds(10))
        delayed = harness.submit_one("acme", start_by=START + seconds(10), delay=seconds(60))
        started = harness.submit_one("beta", start_by=START + seconds(10))
        harness.store.change_customer("acme", {"paused": True}, ANNA)
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(20))
        harness.store.change_customer("acme", {"paused": False}, ANNA)
        harness.advance(10)
        assert harness.claim() == ()
        assert [harness.state(id_) for id_ in (never, delayed)] == [DocumentState.EXPIRED] * 2
        assert harness.document(never).finished_at == START + seconds(10)
        assert harness.waiting_by_level("acme") == {}
        harness.advance(10)
        assert [claimed.document.id for claimed in harness.claim(5)] == [started]

    def test_s9_a_document_released_after_start_by_expires(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", start_by=START + seconds(10))
        claimed = harness.claim_one()
        harness.advance(15)
        assert harness.claim() == ()
        back = Outcome(id_, claimed.fence, RELEASED)
        statuses, again = harness.store.ack_and_claim([back], ClaimRequest("worker", 1, LEASE))
        assert statuses == (AckStatus.RECORDED,)
        assert again == ()
        assert harness.state(id_) is DocumentState.EXPIRED

    def test_s9_due_documents_go_back_by_their_seq(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 3)]
        claimed = harness.claim(3)
        for claim, wait in zip(claimed, (3, 2, 1), strict=True):
            harness.queue.fail(claim, "no", retry_in=seconds(wait))
        harness.advance(5)
        assert [claim.document.id for claim in harness.claim(3)] == ids

    def test_s10_claims_follow_the_turns(self, harness: StoreHarness) -> None:
        harness.submit("flood", 30)
        harness.submit("beta", 4)
        harness.submit("gamma", 1)
        expected = ["flood", "beta", "gamma", "flood", "beta", "flood", "beta", "flood", "beta"]
        assert harness.claim_customers(9) == expected

    def test_s10_k_at_once_equal_k_of_one(self, harness: StoreHarness) -> None:
        orders = []
        for limit in (1, 60):
            harness.advance(10_000)
            for customer, n in (("flood", 40), ("beta", 20), ("gamma", 5)):
                harness.submit(f"{customer} {limit}", n)
            order: list[str] = []
            while claimed := harness.claim(limit):
                order += [claim.document.customer.split()[0] for claim in claimed]
                for claim in claimed:
                    harness.queue.finish(claim)
            orders.append(order)
        assert len(orders[0]) == 65
        assert orders[0] == orders[1]

    def test_s11_fences_grow_and_are_never_given_twice(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        fences = []
        for _ in range(5):
            claimed = harness.claim(3)
            fences += [claim.fence for claim in claimed]
            for claim in claimed:
                harness.queue.release(claim)
        assert fences == sorted(set(fences))

    def test_s11_many_claimers_never_share_a_document(self, harness: StoreHarness) -> None:
        ids = {receipt.id for n in range(4) for receipt in harness.submit(f"c{n}", 50)}
        taken: list[str] = []

        def work() -> None:
            while claimed := harness.store.claim(ClaimRequest("worker", 3, LEASE)):
                for claim in claimed:
                    taken.append(claim.document.id)
                    harness.store.finish(claim.document.id, claim.fence, "null")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 200
        assert set(taken) == ids

    def test_s11_a_claim_returns_the_running_document(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        (claimed,) = harness.claim(worker="w7")
        document = claimed.document
        assert document == harness.document(id_)
        assert (document.state, document.worker, document.attempt) == (DocumentState.RUNNING, "w7", 1)
        assert (document.started_at, document.lease_until, document.fence) == (START, START + LEASE, claimed.fence)
        assert harness.store.customer("acme").running == 1

    def test_s13_work_is_conserved(self, harness: StoreHarness) -> None:
        for n in range(7):
            harness.submit(f"c{n}", 5)
        assert len(harness.claim(100)) == 35
        assert harness.claim(100) == ()

    def test_s7_outcomes_and_claims_share_a_call(self, harness: StoreHarness) -> None:
        harness.store.change_customer("acme", {"cap": 1}, ANNA)
        harness.submit("acme", 2)
        claimed = harness.claim_one()
        request = ClaimRequest("worker", 5, LEASE)
        outcome = Outcome(claimed.document.id, claimed.fence, DONE, result="1")
        statuses, claims = harness.store.ack_and_claim([outcome], request)
        assert statuses == (AckStatus.RECORDED,)
        assert len(claims) == 1

    def test_s13_a_lane_that_expires_in_a_claim_hides_no_other(self, harness: StoreHarness) -> None:
        expired = harness.submit_one("first", start_by=START + seconds(10))
        harness.store.scheduler_snapshot()
        harness.advance(15)
        second = harness.submit_one("second")
        harness.store.scheduler_snapshot()
        assert harness.claim_one().document.id == second
        assert harness.state(expired) is DocumentState.EXPIRED

    def test_s13_a_document_that_expires_in_a_claim_is_not_taken(self, harness: StoreHarness) -> None:
        first = harness.submit_one("acme")
        expired = harness.submit_one("acme", start_by=START + seconds(10))
        last = harness.submit_one("acme")
        harness.store.sweep()
        harness.advance(15)
        assert [claimed.document.id for claimed in harness.claim(5)] == [first, last]
        assert harness.state(expired) is DocumentState.EXPIRED

    def test_s14_a_heartbeat_holds_the_lease(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        for _ in range(5):
            harness.advance(50)
            assert harness.queue.heartbeat([claimed], lease=LEASE) == (LeaseStatus.HELD,)
            assert harness.claim() == ()
        assert harness.document(claimed.document.id).lease_until == harness.clock.now() + LEASE
        assert harness.store.next_due() == harness.clock.now() + LEASE
        harness.queue.finish(claimed)
        assert harness.store.next_due() is None

    def test_s14_a_heartbeat_may_shorten_the_lease(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.queue.heartbeat([claimed], lease=seconds(1))
        harness.advance(1)
        assert harness.claim_one().document.attempt == 2

    def test_s14_a_heartbeat_reports_cancelled_and_lost_claims(self, harness: StoreHarness) -> None:
        harness.submit("acme", 4)
        cancelled, lost, finished, held = harness.claim(4)
        harness.queue.finish(finished)
        harness.queue.cancel(cancelled.document.id, ANNA)
        assert harness.queue.heartbeat([cancelled, finished, held], lease=seconds(100)) == (
            LeaseStatus.CANCELLED,
            LeaseStatus.LOST,
            LeaseStatus.HELD,
        )
        harness.advance(61)
        assert harness.claim_one().document.id == lost.document.id
        assert harness.queue.heartbeat([lost, held], lease=LEASE) == (LeaseStatus.LOST, LeaseStatus.HELD)
        unknown = lost.document._replace(id="018f3c5e-0000-7000-8000-000000000000")
        assert harness.queue.heartbeat([Claim(unknown, 1)], lease=LEASE) == (LeaseStatus.LOST,)

    @pytest.mark.parametrize("limit", [0, 1])
    def test_a3_successes_of_one_call_write_an_event_for_each_customer(self, harness: StoreHarness, limit: int) -> None:
        for customer in ("acme", "beta", "acme"):
            harness.submit_one(customer)
        first, second, third = harness.claim(3)
        harness.advance(5)
        outcomes = [Outcome(claim.document.id, claim.fence, DONE, result="1") for claim in (third, second, first)]
        harness.store.ack_and_claim(outcomes, ClaimRequest("worker", limit, LEASE) if limit else None)
        ids = {"acme": (third.document.id, first.document.id), "beta": (second.document.id,)}
        finished = [event for event in harness.store.events(0, limit=100) if event.kind is EventKind.FINISHED]
        assert [(event.customer, event.documents) for event in finished] == list(ids.items())
        assert {event.at for event in finished} == {START + seconds(5)}

    def test_a3_every_transition_writes_an_event(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=3)
        harness.queue.release(harness.claim_one())
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(1))
        harness.advance(1)
        harness.claim_one()
        harness.advance(61)
        harness.queue.fail(harness.claim_one(), "no", final=True)
        kinds = [event.kind for event in harness.store.events(0, limit=100) if id_ in event.documents]
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
