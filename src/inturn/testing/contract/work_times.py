"""S51: the processing times of documents and attempts."""

from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.model import Claim, ResultFile, seconds
from inturn.store import AckStatus, EventKind, OutcomeKind, Work
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite

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


class WorkTimeTests(StoreSuite):
    """Test the stored processing times."""

    def test_s51_a_done_document_has_its_processing_times(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = claim_and_wait(harness)
        assert (claimed.document.began_at, claimed.document.worked) == (None, None)
        assert work_of(harness, id_) == (None, None)
        harness.ack(claimed, DONE, result="1", work=WORK_CLAIMED_AHEAD)
        document = harness.document(id_)
        assert (document.began_at, document.worked) == (START + seconds(15), seconds(3))
        assert (document.started_at, document.finished_at) == (START, START + seconds(20))
        assert (document.work_began_at, document.work_ended_at) == (START + seconds(15), START + seconds(18))

    def test_s51_outcomes_of_one_call_have_separate_processing_times(self, harness: StoreHarness) -> None:
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

    @pytest.mark.parametrize("final", [False, True])
    def test_s51_a_failed_attempt_has_its_processing_times(self, harness: StoreHarness, *, final: bool) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), FAILED, error="no", retry_in=None if final else 0, work=WORK_CLAIMED_AHEAD)
        stored = (START + seconds(15), seconds(3))
        assert work_of(harness, id_) == stored
        assert attempt_work_of(harness, id_) == ([] if final else [stored])

    def test_s51_without_work_processing_lasts_from_the_claim_on(self, harness: StoreHarness) -> None:
        done, failed = harness.submit_one("acme"), harness.submit_one("beta")
        for claimed in harness.claim(2):
            harness.advance(4)
            if claimed.document.id == done:
                harness.queue.finish(claimed)
            else:
                harness.queue.fail(claimed, "no", retry_in=0)
        assert {work_of(harness, done), work_of(harness, failed)} == {(START, seconds(4)), (START, seconds(8))}

    def test_s51_a_release_has_no_processing_times_unless_given(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), RELEASED)
        assert work_of(harness, id_) == (None, None)
        harness.ack(claim_and_wait(harness), RELEASED, work=WORK_CLAIMED_AHEAD)
        assert attempt_work_of(harness, id_) == [(None, None), (START + seconds(35), seconds(3))]

    @pytest.mark.parametrize(("kind", "files"), [(DONE, ()), (DONE, (FILE,)), (FAILED, ()), (RELEASED, ())])
    def test_s51_processing_times_lie_between_claim_and_outcome(
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

    def test_s51_a_claim_and_a_retry_by_hand_clear_processing_times(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        harness.ack(claim_and_wait(harness), FAILED, error="no", retry_in=0, work=WORK_CLAIMED_AHEAD)
        harness.claim_one()
        assert work_of(harness, id_) == (None, None)
        harness.advance(61)
        harness.store.sweep()
        assert attempt_work_of(harness, id_)[1:] == []
        harness.queue.retry(id_, ANNA)
        assert work_of(harness, id_) == (None, None)
        assert attempt_work_of(harness, id_) == [(START + seconds(15), seconds(3)), (None, None)]
        harness.ack(claim_and_wait(harness), FAILED, error="no", work=WORK_CLAIMED_AHEAD)
        harness.queue.retry(id_, ANNA)
        assert work_of(harness, id_) == (None, None)
        assert [attempt.ended for attempt in harness.store.attempts(id_)] == [
            EventKind.DELAYED,
            EventKind.FAILED,
            EventKind.FAILED,
        ]
        assert attempt_work_of(harness, id_)[2] == (START + seconds(96), seconds(3))

    def test_s51_a_claim_by_a_clock_behind_clears_processing_times(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), RELEASED, work=WORK_CLAIMED_AHEAD)
        harness.clock.set(START + seconds(10))
        assert harness.claim_one().document.began_at is None
        assert work_of(harness, id_) == (None, None)

    def test_s51_lists_and_a_backup_have_processing_times(self, harness: StoreHarness, tmp_path: Path) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), FAILED, error="no", retry_in=0, work=WORK_CLAIMED_AHEAD)
        harness.ack(claim_and_wait(harness), DONE, result="1", work=WORK_CLAIMED_AHEAD)
        assert [(document.began_at, document.worked) for document in harness.all_documents()] == [work_of(harness, id_)]
        path = tmp_path / "copy.backup"
        harness.store.backup(path)
        clock = ManualClock(harness.clock.now())
        copy = StoreHarness(self.reopen(path, clock), clock)
        try:
            assert copy.document(id_) == harness.document(id_)
            assert copy.store.attempts(id_) == harness.store.attempts(id_)
        finally:
            copy.store.close()
