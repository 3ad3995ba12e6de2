"""S45: earlier attempts and their errors."""

from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import NotFoundError
from inturn.model import NewDocument, seconds
from inturn.store import MAX_STORED_ATTEMPTS, Attempt, EventKind, OutcomeKind, Submission
from inturn.testing.contract.harness import ANNA, LEASE, START, StoreHarness, StoreSuite
from inturn.testing.contract.operations import UNKNOWN_ID

DELAYED, LOST, RELEASED = EventKind.DELAYED, EventKind.LEASE_LOST, EventKind.RELEASED


def attempt_ends(harness: StoreHarness, id_: str) -> list[tuple[int, EventKind, str | None]]:
    """Return number, end and error of each stored attempt."""
    return [(attempt.number, attempt.ended, attempt.error) for attempt in harness.store.attempts(id_)]


def fail_next(harness: StoreHarness, error: str, *, final: bool = False) -> None:
    """Claim the next document and fail it, with a retry at once or for good."""
    harness.queue.fail(harness.claim_one(), error, retry_in=None if final else 0, final=final)
    harness.store.sweep()


class AttemptTests(StoreSuite):
    """Test the stored attempts."""

    def test_s45_every_attempt_that_did_not_end_its_document_is_stored(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=5)
        assert harness.store.attempts(id_) == ()
        first = harness.claim_one()
        assert harness.store.attempts(id_) == ()
        harness.advance(3)
        harness.queue.fail(first, "page 3\nis torn", retry_in=seconds(10))
        harness.advance(10)
        (second,) = harness.claim(worker="another")
        harness.advance(1)
        harness.queue.release(second)
        third = harness.claim_one()
        harness.advance(61)
        harness.store.sweep()
        at, worked = START + seconds(14), (START, seconds(3))
        assert harness.store.attempts(id_) == (
            Attempt(first.fence, 1, START, START + seconds(3), DELAYED, "page 3\nis torn", "worker", *worked),
            Attempt(second.fence, 2, START + seconds(13), at, RELEASED, None, "another"),
            Attempt(third.fence, 2, at, at + seconds(61), LOST, None, "worker"),
        )

    def test_s45_the_attempt_that_ended_its_document_is_stored_in_it(self, harness: StoreHarness) -> None:
        done, failed, cancelled = (harness.submit_one(customer, max_attempts=2) for customer in "abc")
        for claimed in harness.claim(3):
            harness.queue.fail(claimed, "not yet", retry_in=0)
        first, second, third = harness.claim(3)
        harness.queue.finish(first)
        harness.queue.fail(second, "never")
        harness.queue.cancel(third.document.id, ANNA)
        for id_ in (done, failed, cancelled):
            assert attempt_ends(harness, id_) == [(1, DELAYED, "not yet")]
        assert harness.document(failed).error == "never"

    def test_s45_a_repeated_or_stale_outcome_adds_no_attempt(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        for _ in range(2):
            harness.ack(claimed, OutcomeKind.FAILED, error="no", retry_in=0)
        harness.claim_one()
        harness.ack(claimed, OutcomeKind.RELEASED)
        assert attempt_ends(harness, id_) == [(1, DELAYED, "no")]

    def test_s45_a_retry_by_hand_keeps_the_attempt_before_it(self, harness: StoreHarness) -> None:
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
        ended = [(1, DELAYED, "first"), (2, EventKind.FAILED, "second"), (1, EventKind.CANCELLED, None)]
        assert attempt_ends(harness, id_) == ended
        assert harness.store.attempts(id_)[1][2:4] == (START + seconds(1), START + seconds(1))
        assert harness.store.attempts(id_)[2][2:4] == (START + seconds(6), START + seconds(13))

    def test_s45_a_retry_of_what_was_not_running_adds_nothing(self, harness: StoreHarness) -> None:
        waited, tried = harness.submit_one("a"), harness.submit_one("b")
        late = harness.submit_one("c", start_by=START + seconds(5))
        harness.store.cancel([waited], ANNA)
        harness.queue.fail(harness.claim_one(), "no", retry_in=seconds(60))
        harness.store.cancel([tried], ANNA)
        harness.advance(6)
        harness.store.sweep()
        harness.store.retry([waited, tried, late], ANNA)
        assert [attempt_ends(harness, id_) for id_ in (waited, tried, late)] == [[], [(1, DELAYED, "no")], []]

    def test_s45_the_newest_attempts_are_stored(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        fail_next(harness, "long ago")
        for n in range(MAX_STORED_ATTEMPTS):
            assert len(harness.store.attempts(id_)) == min(n + 1, MAX_STORED_ATTEMPTS)
            harness.queue.release(harness.claim_one())
        attempts = harness.store.attempts(id_)
        assert {attempt.ended for attempt in attempts} == {RELEASED}
        assert len(attempts) == MAX_STORED_ATTEMPTS
        fences = [attempt.fence for attempt in attempts]
        assert fences == sorted(set(fences))

    def test_s45_attempts_go_with_their_document(self, harness: StoreHarness) -> None:
        pruned, left, purged, other = (harness.submit_one(customer) for customer in ("acme", "acme", "gamma", "beta"))
        for claimed in harness.claim(10):
            harness.queue.fail(claimed, "no", retry_in=0)
        harness.store.cancel([pruned], ANNA)
        assert attempt_ends(harness, pruned) == attempt_ends(harness, purged) == [(1, DELAYED, "no")]
        harness.advance(1)
        assert harness.store.prune(harness.clock.now(), limit=10).documents == 1
        assert harness.store.purge("gamma", ANNA).documents == 1
        for id_ in (pruned, purged, UNKNOWN_ID):
            with pytest.raises(NotFoundError, match=id_):
                harness.store.attempts(id_)
        assert attempt_ends(harness, left) == attempt_ends(harness, other) == [(1, DELAYED, "no")]
        for customer, id_ in (("acme", pruned), ("gamma", purged)):
            harness.store.submit(Submission(customer, [id_], [NewDocument("another")]))
            assert harness.store.attempts(id_) == ()

    def test_s45_a_backup_has_attempts(self, harness: StoreHarness, tmp_path: Path) -> None:
        id_ = harness.submit_one("acme")
        fail_next(harness, "ünfit: 1 \\ \t 2\n3")
        path = tmp_path / "copy.backup"
        harness.store.backup(path)
        clock = ManualClock(harness.clock.now())
        copy = StoreHarness(self.reopen(path, clock), clock)
        try:
            assert copy.store.attempts(id_) == harness.store.attempts(id_)
            copy.queue.release(copy.claim_one())
            assert [attempt.ended for attempt in copy.store.attempts(id_)] == [DELAYED, RELEASED]
        finally:
            copy.store.close()

    def test_s45_lost_leases_beyond_the_last_attempt_end_the_document(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        for _ in range(2):
            harness.claim_one()
            harness.advance(LEASE // 1_000_000 + 1)
            harness.store.sweep()
        assert attempt_ends(harness, id_) == [(1, LOST, None)]
        assert harness.document(id_).error is not None
