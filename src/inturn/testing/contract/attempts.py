"""S45: earlier attempts, with their errors, for as long as their document."""

from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import NotFoundError
from inturn.model import seconds
from inturn.store import MAX_STORED_ATTEMPTS, Attempt, EventKind, OutcomeKind
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite
from inturn.testing.contract.operations import UNKNOWN_ID

DELAYED, LOST, RELEASED = EventKind.DELAYED, EventKind.LEASE_LOST, EventKind.RELEASED


def attempt_ends(rig: StoreHarness, id_: str) -> list[tuple[int, EventKind, str | None]]:
    """Of each attempt its number, how it ended, and its error."""
    return [(attempt.number, attempt.ended, attempt.error) for attempt in rig.store.attempts(id_)]


def fail_next(rig: StoreHarness, error: str, *, final: bool = False) -> None:
    """Claim the next document, and fail with an attempt left or for good."""
    rig.queue.fail(rig.claim_one(), error, retry_in=None if final else 0, final=final)
    rig.store.sweep()


class AttemptTests(StoreSuite):
    """What is remembered of attempts."""

    def test_s45_every_attempt_that_did_not_end_its_document_is_told(self, rig: StoreHarness) -> None:
        """Failed and to be tried again, handed back, lease lost: oldest first, with who and when."""
        id_ = rig.submit_one("acme", max_attempts=5)
        assert rig.store.attempts(id_) == ()
        first = rig.claim_one()
        assert rig.store.attempts(id_) == ()
        rig.advance(3)
        rig.queue.fail(first, "page 3\nis torn", retry_in=seconds(10))
        rig.advance(10)
        (second,) = rig.claim(worker="another")
        rig.advance(1)
        rig.queue.release(second)
        third = rig.claim_one()
        rig.advance(61)
        rig.store.sweep()
        at, worked = START + seconds(14), (START, seconds(3))
        assert rig.store.attempts(id_) == (
            Attempt(first.fence, 1, START, START + seconds(3), DELAYED, "page 3\nis torn", "worker", *worked),
            Attempt(second.fence, 2, START + seconds(13), at, RELEASED, None, "another"),
            Attempt(third.fence, 2, at, at + seconds(61), LOST, None, "worker"),
        )

    def test_s45_the_attempt_that_ended_its_document_is_the_documents_own(self, rig: StoreHarness) -> None:
        """Success, failure for good, and a cancel: each is told once."""
        done, failed, cancelled = (rig.submit_one(customer, max_attempts=2) for customer in "abc")
        for claimed in rig.claim(3):
            rig.queue.fail(claimed, "not yet", retry_in=0)
        first, second, third = rig.claim(3)
        rig.queue.finish(first)
        rig.queue.fail(second, "never")
        rig.queue.cancel(third.document.id, ANNA)
        for id_ in (done, failed, cancelled):
            assert attempt_ends(rig, id_) == [(1, DELAYED, "not yet")]
        assert rig.document(failed).error == "never"

    def test_s45_an_outcome_said_twice_or_too_late_tells_nothing(self, rig: StoreHarness) -> None:
        """Only what was recorded counts."""
        id_ = rig.submit_one("acme")
        claimed = rig.claim_one()
        for _ in range(2):
            rig.ack(claimed, OutcomeKind.FAILED, error="no", retry_in=0)
        rig.claim_one()
        rig.ack(claimed, OutcomeKind.RELEASED)
        assert attempt_ends(rig, id_) == [(1, DELAYED, "no")]

    def test_s45_a_retry_by_hand_keeps_the_attempt_before_it(self, rig: StoreHarness) -> None:
        """Its error too, which the document itself forgets; attempts count from 1 again."""
        id_ = rig.submit_one("acme", max_attempts=2)
        fail_next(rig, "first")
        rig.advance(1)
        fail_next(rig, "second", final=True)
        rig.advance(5)
        rig.queue.retry(id_, ANNA)
        assert rig.document(id_).error is None
        rig.claim_one()
        rig.advance(7)
        rig.queue.cancel(id_, ANNA)
        rig.advance(1)
        rig.queue.retry(id_, ANNA)
        ended = [(1, DELAYED, "first"), (2, EventKind.FAILED, "second"), (1, EventKind.CANCELLED, None)]
        assert attempt_ends(rig, id_) == ended
        assert rig.store.attempts(id_)[1][2:4] == (START + seconds(1), START + seconds(1))
        assert rig.store.attempts(id_)[2][2:4] == (START + seconds(6), START + seconds(13))

    def test_s45_a_retry_of_what_was_not_running_adds_nothing(self, rig: StoreHarness) -> None:
        """Cancelled while it waited, before its first attempt or after one; or expired."""
        waited, tried = rig.submit_one("a"), rig.submit_one("b")
        late = rig.submit_one("c", start_by=START + seconds(5))
        rig.store.cancel([waited], ANNA)
        rig.queue.fail(rig.claim_one(), "no", retry_in=seconds(60))
        rig.store.cancel([tried], ANNA)
        rig.advance(6)
        rig.store.sweep()
        rig.store.retry([waited, tried, late], ANNA)
        assert [attempt_ends(rig, item) for item in (waited, tried, late)] == [[], [(1, DELAYED, "no")], []]

    def test_s45_the_newest_are_kept(self, rig: StoreHarness) -> None:
        """However often it is handed back."""
        id_ = rig.submit_one("acme")
        fail_next(rig, "long ago")
        for n in range(MAX_STORED_ATTEMPTS):
            assert len(rig.store.attempts(id_)) == min(n + 1, MAX_STORED_ATTEMPTS)
            rig.queue.release(rig.claim_one())
        attempts = rig.store.attempts(id_)
        assert {attempt.ended for attempt in attempts} == {RELEASED}
        assert len(attempts) == MAX_STORED_ATTEMPTS
        fences = [attempt.fence for attempt in attempts]
        assert fences == sorted(set(fences))

    def test_s45_attempts_go_with_their_document(self, rig: StoreHarness) -> None:
        """By a prune or a purge, and not before."""
        pruned, left, purged, other = (rig.submit_one(customer) for customer in ("acme", "acme", "gamma", "beta"))
        for claimed in rig.claim(10):
            rig.queue.fail(claimed, "no", retry_in=0)
        rig.store.cancel([pruned], ANNA)
        assert attempt_ends(rig, pruned) == attempt_ends(rig, purged) == [(1, DELAYED, "no")]
        rig.advance(1)
        assert rig.store.prune(rig.clock.now(), limit=10).documents == 1
        assert rig.store.purge("gamma", ANNA).documents == 1
        for id_ in (pruned, purged, UNKNOWN_ID):
            with pytest.raises(NotFoundError, match=id_):
                rig.store.attempts(id_)
        assert attempt_ends(rig, left) == attempt_ends(rig, other) == [(1, DELAYED, "no")]

    def test_s45_a_backup_has_them(self, rig: StoreHarness, tmp_path: Path) -> None:
        """And goes on with them."""
        id_ = rig.submit_one("acme")
        fail_next(rig, "ünfit: 1 \\ \t 2\n3")
        path = tmp_path / "copy.backup"
        rig.store.backup(path)
        clock = ManualClock(rig.clock.now())
        copy = StoreHarness(self.reopen(path, clock), clock)
        try:
            assert copy.store.attempts(id_) == rig.store.attempts(id_)
            copy.queue.release(copy.claim_one())
            assert [attempt.ended for attempt in copy.store.attempts(id_)] == [DELAYED, RELEASED]
        finally:
            copy.store.close()

    def test_s45_lost_leases_beyond_the_last_attempt_end_the_document(self, rig: StoreHarness) -> None:
        """Its own error says so; the attempts before are told."""
        id_ = rig.submit_one("acme", max_attempts=2)
        for _ in range(2):
            rig.claim_one()
            rig.advance(LEASE // 1_000_000 + 1)
            rig.store.sweep()
        assert attempt_ends(rig, id_) == [(1, LOST, None)]
        assert rig.document(id_).error is not None
