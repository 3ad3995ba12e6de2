"""Failed documents, newest first."""

from inturn.model import DocumentState
from inturn.store_answers import Failure
from inturn.store_types import ALL_TIME, MAX_ERROR_BEGINNING, TimeRange
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.values import seconds


class TestFailures:
    """Test `Store.failures`."""

    @guarantee("S64")
    def test_the_newest_of_the_range_are_listed(self, harness: StoreHarness) -> None:
        ids = [fail(harness, f"c{number % 2}", f"error {number}") for number in range(5)]
        span = TimeRange(START + seconds(10), START + seconds(40))
        assert harness.store.failures(span, limit=2) == (
            Failure(ids[3], "c1", "a document", START + seconds(30), "error 3"),
            Failure(ids[2], "c0", "a document", START + seconds(20), "error 2"),
        )
        assert [failure.id for failure in harness.store.failures(span, limit=9)] == [ids[3], ids[2], ids[1]]
        assert [failure.id for failure in harness.store.failures(ALL_TIME, limit=9)] == list(reversed(ids))

    @guarantee("S64")
    def test_only_documents_that_are_failed_now_are_listed(self, harness: StoreHarness) -> None:
        retried, kept, deleted = (fail(harness, "acme", "broken") for _ in range(3))
        lost = harness.submit_one("acme", max_attempts=1)
        delayed, done, cancelled = (harness.submit_one("acme") for _ in range(3))
        harness.queue.cancel(cancelled, ANNA)
        claims = {claim.document.id: claim for claim in harness.claim(3)}
        harness.queue.fail(claims[delayed], "not yet", retry_in=seconds(60))
        harness.queue.finish(claims[done])
        harness.advance(61)
        harness.store.sweep()
        harness.queue.retry(retried, ANNA)
        assert [failure.id for failure in harness.store.failures(ALL_TIME, limit=9)] == [lost, deleted, kept]
        assert harness.state(lost) is DocumentState.FAILED
        harness.queue.purge("acme", ANNA)
        assert harness.store.failures(ALL_TIME, limit=9) == ()

    @guarantee("S64")
    def test_a_long_error_is_cut(self, harness: StoreHarness) -> None:
        fail(harness, "acme", "ü" * 2 * MAX_ERROR_BEGINNING)
        (failure,) = harness.store.failures(ALL_TIME, limit=9)
        assert failure.error == "ü" * MAX_ERROR_BEGINNING

    @guarantee("S64", "S30")
    def test_a_repair_keeps_them(self, harness: StoreHarness) -> None:
        id_ = fail(harness, "acme", "broken")
        harness.store.recount(repair=True)
        assert [failure.id for failure in harness.store.failures(ALL_TIME, limit=9)] == [id_]


def fail(harness: StoreHarness, customer: str, error: str) -> str:
    """Let one document fail, ten seconds before the next call."""
    id_ = harness.submit_one(customer)
    (claim,) = harness.claim()
    harness.queue.fail(claim, error, final=True)
    harness.advance(10)
    return id_
