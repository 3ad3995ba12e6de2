"""Earlier attempts and their errors."""

import pytest

from inturn.errors import NotFoundError
from inturn.model import NewDocument
from inturn.store_types import MAX_STORED_ATTEMPTS, Attempt, EventKind, OutcomeKind, Submission
from inturn.testing.contract.harness import ANNA, LEASE, START, UNKNOWN_ID, StoreHarness, guarantee
from inturn.values import seconds

DELAYED, LOST, RELEASED = EventKind.DELAYED, EventKind.LEASE_LOST, EventKind.RELEASED


def attempt_ends(harness: StoreHarness, id_: str) -> list[tuple[int, EventKind, str | None]]:
    """Return number, end and error of each stored attempt."""
    return [(attempt.number, attempt.ended, attempt.error) for attempt in harness.store.attempts(id_)]


def fail_next(harness: StoreHarness, error: str, *, final: bool = False) -> None:
    """Claim the next document and fail it, with a retry at once or for good."""
    harness.queue.fail(harness.claim_one(), error, retry_in=None if final else 0, final=final)
    harness.store.sweep()


class TestAttempts:
    """Test `Store.attempts`."""

    @guarantee("S45")
    def test_every_attempt_that_did_not_end_its_document_is_stored(self, harness: StoreHarness) -> None:
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
        stored = harness.store.attempts(id_)
        assert [attempt.ready_at for attempt in stored] == [START, START + seconds(13), START + seconds(13)]
        assert tuple(attempt._replace(ready_at=None) for attempt in stored) == (
            Attempt(first.fence, 1, START, START + seconds(3), DELAYED, "page 3\nis torn", "worker", *worked),
            Attempt(second.fence, 2, START + seconds(13), at, RELEASED, None, "another"),
            Attempt(third.fence, 2, at, at + seconds(61), LOST, None, "worker"),
        )

    @guarantee("S45")
    def test_attempt_that_ended_its_document_is_stored_in_it(self, harness: StoreHarness) -> None:
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

    @guarantee("S45")
    def test_repeated_or_stale_outcome_adds_no_attempt(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme")
        claimed = harness.claim_one()
        for _ in range(2):
            harness.ack(claimed, OutcomeKind.FAILED, error="no", retry_in=0)
        harness.claim_one()
        harness.ack(claimed, OutcomeKind.RELEASED)
        assert attempt_ends(harness, id_) == [(1, DELAYED, "no")]

    @guarantee("S45")
    def test_newest_attempts_are_stored(self, harness: StoreHarness) -> None:
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

    @guarantee("S45")
    def test_attempts_are_deleted_with_their_document(self, harness: StoreHarness) -> None:
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

    @guarantee("S45")
    def test_lost_leases_beyond_the_last_attempt_end_the_document(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", max_attempts=2)
        for _ in range(2):
            harness.claim_one()
            harness.advance(LEASE // 1_000_000 + 1)
            harness.store.sweep()
        assert attempt_ends(harness, id_) == [(1, LOST, None)]
        assert harness.document(id_).error is not None
