"""S51: when work on a document really began, and how long it took."""

from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.model import Claim, seconds
from inturn.store import AckStatus, EventKind, OutcomeKind, Work
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite

DONE, FAILED, RELEASED = OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.RELEASED
WORK_CLAIMED_AHEAD = Work(seconds(15), seconds(3))
"""Claimed ahead: begun fifteen seconds later, and done in three."""


def claim_and_wait(rig: StoreHarness, by: float = 20) -> Claim:
    """Claim one document and let time pass."""
    claimed = rig.claim_one()
    rig.advance(by)
    return claimed


def work_of(rig: StoreHarness, id_: str) -> tuple[int | None, int | None]:
    """What the document says of its last attempt."""
    document = rig.document(id_)
    return document.began_at, document.worked


def attempt_work_of(rig: StoreHarness, id_: str) -> list[tuple[int | None, int | None]]:
    """What its earlier attempts say."""
    return [(attempt.began_at, attempt.worked) for attempt in rig.store.attempts(id_)]


class WorkTimeTests(StoreSuite):
    """What is kept of the work on a document."""

    def test_s51_a_document_that_is_done_says_when_work_began_and_how_long_it_took(self, rig: StoreHarness) -> None:
        """Not from its claim on, nor until its outcome was recorded."""
        id_ = rig.submit_one("acme")
        claimed = claim_and_wait(rig)
        assert (claimed.document.began_at, claimed.document.worked) == (None, None)
        assert work_of(rig, id_) == (None, None)
        rig.ack(claimed, DONE, result="1", work=WORK_CLAIMED_AHEAD)
        document = rig.document(id_)
        assert (document.began_at, document.worked) == (START + seconds(15), seconds(3))
        assert (document.started_at, document.finished_at) == (START, START + seconds(20))
        assert (document.work_began_at, document.work_ended_at) == (START + seconds(15), START + seconds(18))

    def test_s51_several_outcomes_at_once_keep_each_its_own(self, rig: StoreHarness) -> None:
        """Also when some say nothing of it."""
        ids = [receipt.id for receipt in rig.submit("acme", 3)]
        claimed = rig.claim(3)
        rig.advance(20)
        works = (WORK_CLAIMED_AHEAD, None, Work(0, seconds(1)))
        rig.store.ack_and_claim(
            [rig.queue.done(claim)._replace(work=work) for claim, work in zip(claimed, works, strict=True)], None
        )
        assert [work_of(rig, id_) for id_ in ids] == [
            (START + seconds(15), seconds(3)),
            (START, seconds(20)),
            (START, seconds(1)),
        ]

    @pytest.mark.parametrize("final", [False, True])
    def test_s51_a_failure_says_so_too(self, rig: StoreHarness, *, final: bool) -> None:
        """Tried again or not: the document says it, and the attempt that did not end it."""
        id_ = rig.submit_one("acme")
        rig.ack(claim_and_wait(rig), FAILED, error="no", retry_in=None if final else 0, work=WORK_CLAIMED_AHEAD)
        stored = (START + seconds(15), seconds(3))
        assert work_of(rig, id_) == stored
        assert attempt_work_of(rig, id_) == ([] if final else [stored])

    def test_s51_who_says_nothing_worked_from_the_claim_on(self, rig: StoreHarness) -> None:
        """A library's own loop claims what it begins."""
        done, failed = rig.submit_one("acme"), rig.submit_one("beta")
        for claimed in rig.claim(2):
            rig.advance(4)
            if claimed.document.id == done:
                rig.queue.finish(claimed)
            else:
                rig.queue.fail(claimed, "no", retry_in=0)
        assert {work_of(rig, done), work_of(rig, failed)} == {(START, seconds(4)), (START, seconds(8))}

    def test_s51_a_hand_back_was_not_begun_unless_it_says_so(self, rig: StoreHarness) -> None:
        """A worker that has to go may have begun it."""
        id_ = rig.submit_one("acme")
        rig.ack(claim_and_wait(rig), RELEASED)
        assert work_of(rig, id_) == (None, None)
        rig.ack(claim_and_wait(rig), RELEASED, work=WORK_CLAIMED_AHEAD)
        assert attempt_work_of(rig, id_) == [(None, None), (START + seconds(35), seconds(3))]

    @pytest.mark.parametrize("kind", [DONE, FAILED, RELEASED])
    def test_s51_work_lies_between_the_claim_and_its_record(self, rig: StoreHarness, kind: OutcomeKind) -> None:
        """Whatever a worker's clock says; a store's clock that goes back makes nothing negative."""
        first, second, third = (rig.submit_one(customer) for customer in "abc")
        rig.ack(claim_and_wait(rig, 5), kind, result="1", work=Work(seconds(2), seconds(50)))
        assert work_of(rig, first) == (START + seconds(2), seconds(3))
        rig.store.cancel([first], ANNA)
        rig.ack(claim_and_wait(rig, 5), kind, result="1", work=Work(seconds(60), seconds(50)))
        assert work_of(rig, second) == (START + seconds(10), 0)
        rig.store.cancel([second], ANNA)
        claimed = rig.claim_one()
        rig.clock.set(START - seconds(30))
        assert rig.ack(claimed, kind, result="1", work=Work(seconds(60), seconds(50))) is AckStatus.RECORDED
        assert work_of(rig, third) == (START + seconds(10), 0)

    def test_s51_a_claim_and_a_retry_by_hand_forget_it(self, rig: StoreHarness) -> None:
        """Of a lease that was lost nobody knows."""
        id_ = rig.submit_one("acme", max_attempts=2)
        rig.ack(claim_and_wait(rig), FAILED, error="no", retry_in=0, work=WORK_CLAIMED_AHEAD)
        rig.claim_one()
        assert work_of(rig, id_) == (None, None)
        rig.advance(61)
        rig.store.sweep()
        assert attempt_work_of(rig, id_)[1:] == []
        rig.queue.retry(id_, ANNA)
        assert work_of(rig, id_) == (None, None)
        assert attempt_work_of(rig, id_) == [(START + seconds(15), seconds(3)), (None, None)]
        rig.ack(claim_and_wait(rig), FAILED, error="no", work=WORK_CLAIMED_AHEAD)
        rig.queue.retry(id_, ANNA)
        assert work_of(rig, id_) == (None, None)
        assert [attempt.ended for attempt in rig.store.attempts(id_)] == [
            EventKind.DELAYED,
            EventKind.FAILED,
            EventKind.FAILED,
        ]
        assert attempt_work_of(rig, id_)[2] == (START + seconds(96), seconds(3))

    def test_s51_lists_and_a_backup_have_it(self, rig: StoreHarness, tmp_path: Path) -> None:
        """As the document itself has."""
        id_ = rig.submit_one("acme")
        rig.ack(claim_and_wait(rig), FAILED, error="no", retry_in=0, work=WORK_CLAIMED_AHEAD)
        rig.ack(claim_and_wait(rig), DONE, result="1", work=WORK_CLAIMED_AHEAD)
        assert [(document.began_at, document.worked) for document in rig.all_documents()] == [work_of(rig, id_)]
        path = tmp_path / "copy.backup"
        rig.store.backup(path)
        clock = ManualClock(rig.clock.now())
        copy = StoreHarness(self.reopen(path, clock), clock)
        try:
            assert copy.document(id_) == rig.document(id_)
            assert copy.store.attempts(id_) == rig.store.attempts(id_)
        finally:
            copy.store.close()
