"""Steps: documents that pass through several queues, with a result each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.clock import Clock
from inturn.errors import InvalidInputError, StaleFenceError
from inturn.model import MAX_STEPS, Claim, DocumentState, NewDocument, ResultFile
from inturn.policy import Policy
from inturn.policy.scheduler import MAX_QUEUES
from inturn.store import Store
from inturn.store_types import (
    MAX_STORED_ATTEMPTS,
    AckStatus,
    DocumentFilter,
    EventKind,
    OutcomeKind,
    StepResult,
    Work,
)
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.testing.contract.queues import claim, claimed_ids
from inturn.values import seconds

OCR, CLASSIFY, EXPORT = "ocr", "classify", "export"
STEPS = [OCR, CLASSIFY, EXPORT]
PAGE = ResultFile("page.png", "blobs/page", 3, "ab" * 32)


def claim_one(harness: StoreHarness, queue: str) -> Claim:
    """Claim exactly one document of a queue."""
    (claimed,) = claim(harness, 1, queue)
    return claimed


def move_on(harness: StoreHarness, claimed: Claim, queue: str, result: object = None) -> AckStatus:
    """End a step, and move its document to another queue."""
    (status,) = harness.queue.ack([harness.queue.next_step(claimed, queue, result)])
    return status


class TestSteps:
    """Test outcomes that move a document to another queue, and `results`."""

    @guarantee("S74")
    def test_document_waits_in_the_next_queue_in_the_lane_of_its_level(self, harness: StoreHarness) -> None:
        harness.submit("acme", 21)
        id_ = harness.submit_one("acme", queue=OCR)
        before = harness.document(id_)
        claimed = claim_one(harness, OCR)
        harness.advance(3)
        assert move_on(harness, claimed, CLASSIFY, {"pages": 3}) is AckStatus.RECORDED
        after = harness.document(id_)
        assert (after.state, after.queue, after.step, after.attempt) == (DocumentState.WAITING, CLASSIFY, 1, 0)
        assert (after.level, after.count, after.seq) == (before.level, before.count, before.seq)
        assert (after.ready_at, after.worker, after.lease_until, after.error) == (START + seconds(3), None, None, None)
        assert after.spec.queue == OCR
        assert harness.store.customer("acme").count == before.count
        assert claimed_ids(harness, 5, OCR) == []
        assert claimed_ids(harness, 5, CLASSIFY) == [id_]

    @guarantee("S74")
    def test_steps_of_a_submission_follow_one_another(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", steps=STEPS)
        for step, queue in enumerate(STEPS):
            claimed = claim_one(harness, queue)
            assert (claimed.document.step, claimed.document.ahead) == (step, tuple(STEPS[step + 1 :]))
            assert claimed.document.spec.steps == tuple(STEPS)
            harness.queue.finish(claimed, queue.upper())
        assert harness.state(id_) is DocumentState.DONE
        assert harness.store.result(id_) == '"EXPORT"'
        assert harness.store.results(id_) == (
            StepResult(0, OCR, '"OCR"'),
            StepResult(1, CLASSIFY, '"CLASSIFY"'),
            StepResult(2, EXPORT, '"EXPORT"'),
        )

    @guarantee("S74")
    def test_processor_may_leave_out_steps_and_take_detours(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", steps=STEPS)
        harness.submit_one("beta", steps=STEPS)
        move_on(harness, claim_one(harness, OCR), EXPORT)
        assert claim_one(harness, EXPORT).document.ahead == ()
        move_on(harness, claim_one(harness, OCR), "validate")
        detour = claim_one(harness, "validate")
        assert detour.document.ahead == (CLASSIFY, EXPORT)
        harness.queue.finish(detour)
        assert claim_one(harness, CLASSIFY).document.step == 2

    @guarantee("S74")
    def test_documents_of_a_queue_go_by_their_submission(self, harness: StoreHarness) -> None:
        """One that comes from another queue stands before those that were submitted after it."""
        first = harness.submit_one("acme", queue=OCR)
        second = harness.submit_one("acme", queue=CLASSIFY)
        third = harness.submit_one("acme", queue=CLASSIFY)
        assert claimed_ids(harness, 1, CLASSIFY) == [second]
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        assert claimed_ids(harness, 5, CLASSIFY) == [first, third]

    @guarantee("S74")
    def test_document_may_come_back_to_a_queue(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR)
        for queue in (CLASSIFY, OCR, OCR, CLASSIFY):
            move_on(harness, claim_one(harness, harness.document(id_).queue), queue)
        assert claimed_ids(harness, 5, OCR) == []
        assert claimed_ids(harness, 5, CLASSIFY) == [id_]
        assert [result.queue for result in harness.store.results(id_)] == [OCR, CLASSIFY, OCR, OCR]
        assert harness.store.recount(repair=False) == ()

    @guarantee("S74")
    def test_group_and_cost_stay(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2, queue=OCR, group="a")
        harness.submit("acme", 2, queue=OCR, group="b", cost=5)
        for _ in range(4):
            move_on(harness, claim_one(harness, OCR), EXPORT)
        documents = [claim_one(harness, EXPORT).document for _ in range(4)]
        assert sorted((document.spec.group or "", document.spec.cost) for document in documents) == [
            ("a", 1), ("a", 1), ("b", 5), ("b", 5),
        ]  # fmt: skip
        assert [document.spec.group for document in documents] != ["a", "a", "b", "b"]

    @guarantee("S17", "S74")
    def test_expedited_document_stays_so(self, harness: StoreHarness) -> None:
        harness.submit("beta", 1, queue=CLASSIFY)
        id_ = harness.submit_one("acme", queue=OCR)
        harness.queue.expedite(id_, ANNA)
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        assert harness.document(id_).expedited
        assert claimed_ids(harness, 1, CLASSIFY) == [id_]

    @guarantee("S74")
    def test_each_step_has_all_attempts(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR, max_attempts=2)
        harness.queue.fail(claim_one(harness, OCR), "torn", retry_in=0)
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        harness.queue.fail(claim_one(harness, CLASSIFY), "torn", retry_in=0)
        assert claim_one(harness, CLASSIFY).document.attempt == 2
        harness.advance(61)
        harness.store.sweep()
        assert harness.state(id_) is DocumentState.FAILED
        assert harness.document(id_).queue == CLASSIFY

    @guarantee("S74")
    def test_start_by_concerns_the_first_step_alone(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR, start_by=START + seconds(10))
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        harness.advance(11)
        harness.store.sweep()
        assert harness.state(id_) is DocumentState.WAITING
        assert harness.document(id_).spec.start_by is None
        released = claim_one(harness, CLASSIFY)
        harness.queue.release(released)
        harness.store.sweep()
        assert harness.state(id_) is DocumentState.WAITING

    @guarantee("S7", "S74")
    def test_step_is_recorded_once(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR)
        claimed = claim_one(harness, OCR)
        outcome = harness.queue.next_step(claimed, CLASSIFY, 1)
        assert harness.queue.ack([outcome, outcome]) == (AckStatus.RECORDED, AckStatus.REPEATED)
        assert harness.queue.ack([outcome]) == (AckStatus.REPEATED,)
        assert harness.queue.ack([harness.queue.done(claimed, 2)]) == (AckStatus.STALE,)
        again = claim_one(harness, CLASSIFY)
        assert harness.queue.ack([outcome]) == (AckStatus.STALE,)
        harness.queue.finish(again, 3)
        assert [result.result for result in harness.store.results(id_)] == ["1", "3"]

    @guarantee("S7", "S74")
    def test_lost_claim_moves_nothing(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", steps=STEPS)
        lost = claim_one(harness, OCR)
        harness.advance(61)
        again = claim_one(harness, OCR)
        with pytest.raises(StaleFenceError):
            harness.queue.finish(lost, 1)
        assert harness.document(id_).fence == again.fence
        assert harness.store.results(id_) == ()

    @guarantee("S3", "S7", "S74")
    def test_many_outcomes_of_all_kinds_in_one_call(self, harness: StoreHarness) -> None:
        harness.submit("acme", 4, queue=OCR, max_attempts=5)
        harness.submit("beta", 4, queue=OCR, max_attempts=5)
        claims = claim(harness, 8, OCR)
        outcomes = []
        for n, claimed in enumerate(claims):
            queue = harness.queue
            outcomes.append(
                (
                    queue.done(claimed, n),
                    queue.next_step(claimed, CLASSIFY, n),
                    queue.failed(claimed, "torn", retry_in=0),
                    queue.next_step(claimed, EXPORT, n),
                )[n % 4]
            )
        assert set(harness.queue.ack(outcomes)) == {AckStatus.RECORDED}
        assert len(claimed_ids(harness, 9, CLASSIFY)) == 2
        assert len(claimed_ids(harness, 9, EXPORT)) == 2
        assert len(claimed_ids(harness, 9, OCR)) == 2
        assert harness.store.recount(repair=False) == ()

    @guarantee("S77")
    def test_files_belong_to_their_step(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR)
        outcome = harness.queue.next_step(claim_one(harness, OCR), CLASSIFY)
        harness.queue.ack([outcome._replace(files=(PAGE,))])
        assert harness.store.files(id_) == ()
        assert harness.store.unreferenced_blobs(["blobs/page", "blobs/other"]) == {"blobs/other"}
        text = PAGE._replace(blob="blobs/text")
        done = harness.queue.done(claim_one(harness, CLASSIFY))
        harness.queue.ack([done._replace(files=(text,))])
        assert harness.store.files(id_) == (text,)
        assert [result.files for result in harness.store.results(id_)] == [(PAGE,), (text,)]
        removed = harness.store.prune(harness.advance(10), limit=10)
        assert sorted(removed.blobs) == ["blobs/page", "blobs/text"]

    @guarantee("S77")
    def test_document_without_steps_has_one_result(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        assert harness.store.results(id_) == ()
        harness.queue.finish(harness.claim_one(), {"pages": 1})
        assert harness.store.results(id_) == (StepResult(0, "default", '{"pages": 1}'),)

    @guarantee("S45", "S51", "S74")
    def test_attempts_name_queue_and_step(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR)
        harness.advance(1)
        claimed = claim_one(harness, OCR)
        harness.advance(5)
        work = Work(seconds(1), seconds(3))
        harness.queue.ack([harness.queue.next_step(claimed, CLASSIFY, work=work)])
        (attempt,) = harness.store.attempts(id_)
        assert (attempt.ended, attempt.queue, attempt.step) == (EventKind.STEP_DONE, OCR, 0)
        assert (attempt.ready_at, attempt.started_at, attempt.ended_at) == (
            START, START + seconds(1), START + seconds(6),
        )  # fmt: skip
        assert (attempt.began_at, attempt.worked) == (START + seconds(2), seconds(3))

    @guarantee("S45")
    def test_attempts_that_ended_a_step_are_never_dropped(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR, max_attempts=100)
        move_on(harness, claim_one(harness, OCR), CLASSIFY, "first")
        for _ in range(MAX_STORED_ATTEMPTS + 3):
            harness.queue.release(claim_one(harness, CLASSIFY))
        attempts = harness.store.attempts(id_)
        assert len(attempts) == MAX_STORED_ATTEMPTS + 1
        assert attempts[0].ended is EventKind.STEP_DONE
        assert harness.store.results(id_) == (StepResult(0, OCR, '"first"'),)

    @guarantee("A3", "S25", "S74")
    def test_step_writes_an_event(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR)
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        event = harness.store.events(0, limit=10)[-1]
        assert (event.kind, event.customer, event.documents) == (EventKind.STEP_DONE, "acme", (id_,))

    @guarantee("S54", "S74")
    def test_each_step_is_charged_in_its_own_queue(self, harness: StoreHarness) -> None:
        harness.submit("acme", 1, queue=OCR)
        claimed = claim_one(harness, OCR)
        harness.advance(20)
        move_on(harness, claimed, CLASSIFY)
        harness.queue.finish(claim_one(harness, CLASSIFY))
        log = harness.store.work_between(START, harness.clock.now() + 1)
        assert sorted((work.ended, work.worked) for work in log.ended) == [
            (EventKind.FINISHED, 0), (EventKind.STEP_DONE, seconds(20)),
        ]  # fmt: skip

    @guarantee("S12", "S74")
    def test_step_frees_the_place_of_its_customer(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=1)
        harness.submit("acme", 2, queue=OCR)
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        assert len(claimed_ids(harness, 5, OCR, CLASSIFY)) == 1
        assert claimed_ids(harness, 5, OCR, CLASSIFY) == []

    @guarantee("S74")
    def test_check_of_each_step_lowers_the_counter_again(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(check_each_step=True))
        harness.submit("acme", 3, queue=OCR)
        id_ = claim(harness, 1, OCR)[0].document.id
        harness.advance(61)
        first = claim_one(harness, OCR)
        assert first.document.id == id_
        move_on(harness, first, CLASSIFY)
        document = harness.document(id_)
        assert (document.level, document.count) == (2, -3)
        assert harness.store.customer("acme").count == -3
        assert harness.store.policy().policy.check_each_step

    @guarantee("S72", "S74")
    def test_too_many_queues_are_refused_whole(self, harness: StoreHarness) -> None:
        for n in range(MAX_QUEUES - 2):
            harness.queue.change_queue(f"q{n}", ANNA)
        harness.submit("acme", 2, queue=OCR)
        first, second = claim(harness, 2, OCR)
        with pytest.raises(InvalidInputError, match="at most 100 queues"):
            harness.queue.ack([harness.queue.done(first), harness.queue.next_step(second, "one-too-many")])
        assert harness.state(first.document.id) is DocumentState.RUNNING
        assert harness.queue.ack([harness.queue.done(first), harness.queue.next_step(second, "q1")]) == (
            AckStatus.RECORDED, AckStatus.RECORDED,
        )  # fmt: skip

    @guarantee("S74")
    def test_circles_end(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", queue=OCR)
        for _ in range(MAX_STEPS - 1):
            move_on(harness, claim_one(harness, OCR), OCR)
        with pytest.raises(InvalidInputError, match="circles"):
            harness.queue.next_step(claim_one(harness, OCR), OCR)

    @guarantee("S23", "S74")
    def test_lists_filter_by_the_present_queue(self, harness: StoreHarness) -> None:
        id_, other = harness.submit_one("acme", steps=STEPS), harness.submit_one("acme", queue=OCR)
        harness.queue.finish(claim_one(harness, OCR))
        assert [row.id for row in harness.store.documents(DocumentFilter(queue=CLASSIFY), limit=9).items] == [id_]
        assert [row.id for row in harness.store.documents(DocumentFilter(queue=OCR), limit=9).items] == [other]
        assert harness.store.counts(DocumentFilter(queue=CLASSIFY)).states == {DocumentState.WAITING: 1}

    @guarantee("S29", "S74", "S77")
    def test_backup_has_steps(
        self, harness: StoreHarness, tmp_path: Path, open_backup: Callable[[Path, Clock], Store]
    ) -> None:
        id_ = harness.submit_one("acme", steps=STEPS)
        outcome = harness.queue.done(claim_one(harness, OCR), {"text": "a"})
        harness.queue.ack([outcome._replace(files=(PAGE,))])
        harness.store.backup(tmp_path / "copy")
        copy = open_backup(tmp_path / "copy", harness.clock)
        try:
            assert copy.document(id_) == harness.document(id_)
            assert copy.results(id_) == harness.store.results(id_)
            assert copy.attempts(id_) == harness.store.attempts(id_)
        finally:
            copy.close()


class TestRetrySteps:
    """Test `retry` of documents with steps."""

    @guarantee("S78")
    def test_retry_begins_with_the_failed_step(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", steps=STEPS)
        harness.queue.finish(claim_one(harness, OCR), "text")
        harness.queue.fail(claim_one(harness, CLASSIFY), "torn", final=True)
        receipt = harness.queue.retry(id_, ANNA)
        document = harness.document(id_)
        assert (document.queue, document.step, document.ahead) == (CLASSIFY, 1, (EXPORT,))
        assert (document.count, document.attempt) == (receipt.count, 0) == (-1, 0)
        assert [result.result for result in harness.store.results(id_)] == ['"text"']
        harness.queue.finish(claim_one(harness, CLASSIFY))
        harness.queue.finish(claim_one(harness, EXPORT))
        assert [json.loads(result.result or "") for result in harness.store.results(id_)] == ["text", None, None]

    @guarantee("S77", "S78")
    def test_retry_keeps_the_files_of_earlier_steps(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", steps=STEPS)
        outcome = harness.queue.done(claim_one(harness, OCR))
        harness.queue.ack([outcome._replace(files=(PAGE,))])
        harness.queue.fail(claim_one(harness, CLASSIFY), "torn", final=True)
        harness.queue.retry(id_, ANNA)
        assert [result.files for result in harness.store.results(id_)] == [(PAGE,)]
        assert harness.store.prune(harness.advance(10), limit=10).documents == 0
        assert harness.store.unreferenced_blobs(["blobs/page"]) == frozenset()

    @guarantee("S78")
    def test_retry_from_the_start_forgets_results(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", steps=STEPS)
        outcome = harness.queue.done(claim_one(harness, OCR), "text")
        harness.queue.ack([outcome._replace(files=(PAGE,))])
        harness.queue.fail(claim_one(harness, CLASSIFY), "torn", final=True)
        harness.queue.retry(id_, ANNA, from_start=True)
        document = harness.document(id_)
        assert (document.queue, document.step, document.ahead) == (OCR, 0, (CLASSIFY, EXPORT))
        assert harness.store.results(id_) == ()
        assert harness.store.unreferenced_blobs(["blobs/page"]) == {"blobs/page"}
        assert len(harness.store.attempts(id_)) == 2
        harness.queue.finish(claim_one(harness, OCR), "again")
        assert harness.store.results(id_) == (StepResult(0, OCR, '"again"'),)
        assert harness.store.recount(repair=False) == ()

    @guarantee("S78")
    def test_retry_from_the_start_after_a_detour(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=OCR)
        move_on(harness, claim_one(harness, OCR), CLASSIFY)
        harness.queue.cancel(id_, ANNA)
        harness.queue.retry(id_, ANNA, from_start=True)
        assert claimed_ids(harness, 5, CLASSIFY) == []
        assert claimed_ids(harness, 5, OCR) == [id_]

    @guarantee("S8")
    def test_outcome_may_bring_its_own_number_of_attempts(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=3)
        for n in range(1, 6):
            outcome = harness.queue.failed(harness.claim_one(), "torn", retry_in=0, max_attempts=5)
            harness.queue.ack([outcome])
            assert (harness.state(id_) is DocumentState.FAILED) is (n == 5)

    @guarantee("S6")
    def test_steps_are_part_of_what_a_key_stands_for(self, harness: StoreHarness) -> None:
        document = NewDocument("a", steps=STEPS)
        first = harness.queue.submit("acme", [document], key="k")
        assert harness.queue.submit("acme", [NewDocument("a", steps=STEPS)], key="k") == first
        with pytest.raises(Exception, match="used before"):
            harness.queue.submit("acme", [NewDocument("a", steps=STEPS[:2])], key="k")

    @guarantee("S8", "S74")
    def test_kinds_of_outcomes(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2, steps=STEPS)
        first, second = claim(harness, 2, OCR)
        assert harness.queue.done(first).kind is OutcomeKind.NEXT
        assert harness.ack(second, OutcomeKind.DONE, result="1") is AckStatus.RECORDED
        assert harness.state(second.document.id) is DocumentState.DONE
