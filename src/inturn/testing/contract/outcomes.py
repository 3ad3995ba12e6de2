"""Outcomes: results, failures, releases, processing times."""

import pytest

from inturn.errors import StaleFenceError
from inturn.model import Claim, DocumentState, ResultFile
from inturn.policy import Policy, PriorityPolicy
from inturn.store_types import AckStatus, ClaimRequest, EventKind, Outcome, OutcomeKind, Work
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, guarantee
from inturn.values import seconds

DONE, FAILED, RELEASED = OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.RELEASED
WORK_CLAIMED_AHEAD = Work(seconds(15), seconds(3))
"""Of a prefetched document: begun 15 seconds after the claim, done in 3."""
FILE = ResultFile("a.txt", "sha256/1", 1, "1")


def claim_and_wait(harness: StoreHarness, by: float = 20) -> Claim:
    """Claim one document and advance the clock by seconds."""
    claimed = harness.claim_one()
    harness.advance(by)
    return claimed


def work_of(harness: StoreHarness, id_: str) -> tuple[int | None, int | None]:
    """Return the processing times of the last attempt."""
    document = harness.document(id_)
    return document.began_at, document.worked


def attempt_work_of(harness: StoreHarness, id_: str) -> list[tuple[int | None, int | None]]:
    """Return the processing times of the earlier attempts."""
    return [(attempt.began_at, attempt.worked) for attempt in harness.store.attempts(id_)]


class TestAck:
    """Test the outcomes of `Store.ack_and_claim`, and `Store.finish`."""

    @guarantee("S7")
    def test_records_an_outcome_once(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        assert harness.ack(claimed, result='{"pages":3}') is AckStatus.RECORDED
        events = harness.store.events(0, limit=100)
        harness.advance(5)
        assert harness.ack(claimed, result='{"pages":4}') is AckStatus.REPEATED
        assert harness.store.result(id_) == '{"pages":3}'
        assert harness.document(id_).finished_at == START
        assert harness.store.events(0, limit=100) == events

    @guarantee("S7")
    def test_another_fence_is_stale(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        other = Claim(claimed.document, claimed.fence + 1)
        assert harness.ack(other, result="1") is AckStatus.STALE
        assert harness.state(id_) is DocumentState.RUNNING
        harness.queue.finish(claimed)
        assert harness.ack(other, result="1") is AckStatus.STALE
        with pytest.raises(StaleFenceError, match=id_):
            harness.queue.finish(other)

    @guarantee("S7")
    def test_outcomes_of_one_list_count_in_its_order(self, harness: StoreHarness) -> None:
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

    @guarantee("S7")
    def test_another_outcome_under_a_used_fence_is_stale(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.queue.finish(claimed)
        assert harness.ack(claimed, FAILED, error="late") is AckStatus.STALE
        assert harness.ack(claimed, RELEASED) is AckStatus.STALE
        assert harness.state(claimed.document.id) is DocumentState.DONE

    @guarantee("S7")
    def test_unknown_documents_are_stale(self, harness: StoreHarness) -> None:
        outcome = Outcome("018f3c5e-0000-7000-8000-000000000000", 1, DONE, result="1")
        assert harness.store.ack_and_claim([outcome], None).statuses == (AckStatus.STALE,)

    @guarantee("S7")
    def test_records_a_late_outcome_if_no_other_claim_came(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        claimed = harness.claim_one()
        harness.advance(3_600)
        assert harness.ack(claimed, result="1") is AckStatus.RECORDED

    @guarantee("S7")
    def test_stale_worker_cannot_touch_the_next_claim(self, harness: StoreHarness) -> None:
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

    @guarantee("S7")
    def test_outcomes_and_claims_share_a_call(self, harness: StoreHarness) -> None:
        harness.store.change_customer("acme", {"cap": 1}, ANNA)
        harness.submit("acme", 2)
        claimed = harness.claim_one()
        request = ClaimRequest("worker", 5, LEASE)
        outcome = Outcome(claimed.document.id, claimed.fence, DONE, result="1")
        statuses, claims = harness.store.ack_and_claim([outcome], request)
        assert statuses == (AckStatus.RECORDED,)
        assert len(claims) == 1

    @guarantee("S8")
    def test_done_stores_the_result(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        assert harness.store.result(id_) is None
        harness.queue.finish(harness.claim_one(), {"text": "ęü\u2028\ud7ff", "n": [1, None, 0.5]})
        assert harness.queue.result(id_) == {"text": "ęü\u2028\ud7ff", "n": [1, None, 0.5]}
        document = harness.document(id_)
        assert (document.state, document.finished_at) == (DocumentState.DONE, START)
        assert (document.worker, document.lease_until) == (None, None)
        assert harness.store.customer("acme").running == 0

    @guarantee("S8")
    def test_success_after_a_failure_clears_the_error(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.queue.fail(harness.claim_one(), "hiccup", retry_in=0)
        harness.queue.finish(harness.claim_one())
        assert harness.document(id_).error is None

    @guarantee("A3")
    @pytest.mark.parametrize("limit", [0, 1])
    def test_successes_of_one_call_write_an_event_for_each_customer(self, harness: StoreHarness, limit: int) -> None:
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

    @guarantee("S51")
    def test_done_document_has_its_processing_times(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = claim_and_wait(harness)
        assert (claimed.document.began_at, claimed.document.worked) == (None, None)
        assert work_of(harness, id_) == (None, None)
        harness.ack(claimed, DONE, result="1", work=WORK_CLAIMED_AHEAD)
        document = harness.document(id_)
        assert (document.began_at, document.worked) == (START + seconds(15), seconds(3))
        assert (document.started_at, document.finished_at) == (START, START + seconds(20))
        assert (document.work_began_at, document.work_ended_at) == (START + seconds(15), START + seconds(18))

    @guarantee("S51")
    def test_outcomes_of_one_call_have_separate_processing_times(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 3)]
        claimed = harness.claim(3)
        harness.advance(20)
        works = (WORK_CLAIMED_AHEAD, None, Work(0, seconds(1)))
        harness.store.ack_and_claim(
            [harness.queue.done(claim)._replace(work=work) for claim, work in zip(claimed, works, strict=True)], None
        )
        assert [work_of(harness, id_) for id_ in ids] == [
            (START + seconds(15), seconds(3)),
            (START, seconds(20)),
            (START, seconds(1)),
        ]

    @guarantee("S51")
    def test_without_work_processing_lasts_from_the_claim_on(self, harness: StoreHarness) -> None:
        done, failed = harness.submit_one("acme"), harness.submit_one("beta")
        for claimed in harness.claim(2):
            harness.advance(4)
            if claimed.document.id == done:
                harness.queue.finish(claimed)
            else:
                harness.queue.fail(claimed, "no", retry_in=0)
        assert {work_of(harness, done), work_of(harness, failed)} == {(START, seconds(4)), (START, seconds(8))}

    @guarantee("S51")
    @pytest.mark.parametrize(("kind", "files"), [(DONE, ()), (DONE, (FILE,)), (FAILED, ()), (RELEASED, ())])
    def test_processing_times_lie_between_claim_and_outcome(
        self, harness: StoreHarness, kind: OutcomeKind, files: tuple[ResultFile, ...]
    ) -> None:
        first, second, third = (harness.submit_one(customer) for customer in "abc")
        harness.ack(claim_and_wait(harness, 5), kind, result="1", work=Work(seconds(2), seconds(50)), files=files)
        assert work_of(harness, first) == (START + seconds(2), seconds(3))
        harness.store.cancel([first], ANNA)
        harness.ack(claim_and_wait(harness, 5), kind, result="1", work=Work(seconds(60), seconds(50)), files=files)
        assert work_of(harness, second) == (START + seconds(10), 0)
        harness.store.cancel([second], ANNA)
        claimed = harness.claim_one()
        harness.clock.set(START - seconds(30))
        status = harness.ack(claimed, kind, result="1", work=Work(seconds(60), seconds(50)), files=files)
        assert status is AckStatus.RECORDED
        assert work_of(harness, third) == (START + seconds(10), 0)


class TestFail:
    """Test `Store.fail`, and FAILED in `Store.ack_and_claim`."""

    @guarantee("S7")
    def test_is_repeated_though_the_document_waits_again(self, harness: StoreHarness) -> None:
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

    @guarantee("S8")
    def test_retries_in_the_old_place(self, harness: StoreHarness) -> None:
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

    @guarantee("S8")
    def test_last_attempt_fails_for_good(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        for error in ("first", "second"):
            harness.queue.fail(harness.claim_one(), error, retry_in=seconds(1))
            harness.advance(1)
        document = harness.document(id_)
        assert (document.state, document.error, document.attempt) == (DocumentState.FAILED, "second", 2)
        assert harness.claim() == ()

    @guarantee("S8")
    def test_final_failure_is_not_retried(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.queue.fail(harness.claim_one(), "not a document", final=True)
        assert harness.state(id_) is DocumentState.FAILED

    @guarantee("S51")
    @pytest.mark.parametrize("final", [False, True])
    def test_failed_attempt_has_its_processing_times(self, harness: StoreHarness, *, final: bool) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), FAILED, error="no", retry_in=None if final else 0, work=WORK_CLAIMED_AHEAD)
        stored = (START + seconds(15), seconds(3))
        assert work_of(harness, id_) == stored
        assert attempt_work_of(harness, id_) == ([] if final else [stored])


class TestRelease:
    """Test `Store.release`, and RELEASED in `Store.ack_and_claim`."""

    @guarantee("S8")
    def test_counts_no_attempt(self, harness: StoreHarness) -> None:
        first, second = (receipt.id for receipt in harness.submit("acme", 2, max_attempts=1))
        for _ in range(3):
            claimed = harness.claim_one()
            assert claimed.document.id == first
            harness.queue.release(claimed)
        document = harness.document(first)
        assert (document.attempt, document.state) == (0, DocumentState.WAITING)
        assert harness.finish_all() == [first, second]

    @guarantee("S8")
    def test_keeps_the_wait(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        for _ in range(3):
            harness.advance(400)
            harness.queue.release(harness.claim_one())
        assert harness.document(id_).ready_at == START
        (lane,) = harness.store.scheduler_snapshot().lanes
        assert lane.head.ready_at == START

    @guarantee("S8")
    def test_refunds_the_lane(self, harness: StoreHarness) -> None:
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

    @guarantee("S8")
    @pytest.mark.parametrize("swept", [False, True])
    def test_released_documents_go_before_those_behind_them(self, harness: StoreHarness, *, swept: bool) -> None:
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

    @guarantee("S51")
    def test_has_no_processing_times_unless_given(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), RELEASED)
        assert work_of(harness, id_) == (None, None)
        harness.ack(claim_and_wait(harness), RELEASED, work=WORK_CLAIMED_AHEAD)
        assert attempt_work_of(harness, id_) == [(None, None), (START + seconds(35), seconds(3))]
