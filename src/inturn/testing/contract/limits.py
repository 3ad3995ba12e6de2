"""Limits of a queue: how many of its documents run at once, and how many start in a span of time."""

from inturn.model import RateLimit
from inturn.testing.contract.harness import ANNA, StoreHarness, guarantee
from inturn.testing.contract.queues import EXPORT, OCR, claim, claimed_ids
from inturn.values import seconds


class TestQueueLimits:
    """Test `cap` and `rate` of queues."""

    @guarantee("S81")
    def test_cap_holds_for_all_customers_together(self, harness: StoreHarness) -> None:
        harness.queue.change_queue(OCR, ANNA, cap=3)
        for customer in ("acme", "beta", "gamma"):
            harness.submit(customer, 2, queue=OCR)
        first, *_ = claim(harness, 10, OCR)
        assert harness.queue.queues()[1].running == 3
        assert claimed_ids(harness, 10, OCR) == []
        harness.queue.finish(first)
        assert len(claimed_ids(harness, 10, OCR)) == 1

    @guarantee("S81")
    def test_every_end_of_a_run_makes_room(self, harness: StoreHarness) -> None:
        """Failures, releases, cancellations, lost leases, moves to another queue and purges do."""
        harness.queue.change_queue(OCR, ANNA, cap=1)
        harness.submit("acme", 6, queue=OCR, max_attempts=5)
        harness.submit("beta", 1, queue=OCR)
        (claimed,) = claim(harness, 10, OCR)
        harness.queue.fail(claimed, "torn", final=True)
        (claimed,) = claim(harness, 10, OCR)
        harness.queue.release(claimed)
        (claimed,) = claim(harness, 10, OCR)
        harness.queue.cancel(claimed.document.id, ANNA)
        claim(harness, 10, OCR)
        harness.advance(61)
        (claimed,) = claim(harness, 10, OCR)
        harness.queue.ack([harness.queue.next_step(claimed, EXPORT)])
        (claimed,) = claim(harness, 10, OCR)
        harness.submit("gamma", 2, queue=OCR)
        harness.store.purge(claimed.document.customer, ANNA)
        assert len(claimed_ids(harness, 10, OCR)) == 1

    @guarantee("S81")
    def test_another_queue_is_served_while_one_is_at_its_cap(self, harness: StoreHarness) -> None:
        harness.queue.change_queue(OCR, ANNA, cap=1)
        harness.submit("acme", 3, queue=OCR)
        harness.submit("acme", 3, queue=EXPORT)
        assert len(claimed_ids(harness, 10, OCR, EXPORT)) == 4

    @guarantee("S10", "S81")
    def test_claim_of_many_equals_claims_of_one_at_a_cap(self, harness: StoreHarness) -> None:
        harness.queue.change_queue(OCR, ANNA, cap=3, weight=2)
        for queue in (OCR, EXPORT):
            harness.submit("acme", 6, queue=queue)
        ids = claimed_ids(harness, 5, OCR, EXPORT)
        queues = [harness.document(id_).queue for id_ in ids]
        assert (queues.count(OCR), queues.count(EXPORT)) == (3, 2)

    @guarantee("S81")
    def test_rate_holds_for_all_customers_together(self, harness: StoreHarness) -> None:
        harness.queue.change_queue(OCR, ANNA, rate=RateLimit(2, seconds(60)))
        for customer in ("acme", "beta"):
            harness.submit(customer, 4, queue=OCR)
        assert len(claimed_ids(harness, 10, OCR)) == 2
        harness.advance(29)
        assert claimed_ids(harness, 10, OCR) == []
        harness.advance(1)
        assert len(claimed_ids(harness, 10, OCR)) == 1
        assert claimed_ids(harness, 10, OCR) == []

    @guarantee("S26", "S81")
    def test_next_due_names_when_a_rate_limit_opens(self, harness: StoreHarness) -> None:
        harness.queue.change_queue(OCR, ANNA, rate=RateLimit(1, seconds(30)))
        harness.submit("acme", 2, queue=OCR)
        (claimed,) = claim(harness, 10, OCR)
        harness.queue.finish(claimed)
        opens_at = harness.clock.now() + seconds(30)
        assert harness.store.next_due() == opens_at
        harness.advance(30)
        assert harness.store.next_due() is None
        assert len(claimed_ids(harness, 10, OCR)) == 1

    @guarantee("S81")
    def test_new_limits_hold_for_documents_that_wait(self, harness: StoreHarness) -> None:
        harness.submit("acme", 9, queue=OCR)
        assert len(claimed_ids(harness, 2, OCR)) == 2
        harness.queue.change_queue(OCR, ANNA, cap=2)
        assert claimed_ids(harness, 10, OCR) == []
        harness.queue.change_queue(OCR, ANNA, cap=4)
        assert len(claimed_ids(harness, 10, OCR)) == 2
        harness.queue.change_queue(OCR, ANNA, cap=None)
        assert len(claimed_ids(harness, 10, OCR)) == 5

    @guarantee("S46", "S48", "S81")
    def test_rate_of_a_clock_ahead_ends(self, harness: StoreHarness) -> None:
        harness.queue.change_queue(OCR, ANNA, rate=RateLimit(1, seconds(30)))
        harness.submit("acme", 2, queue=OCR)
        ahead = harness.clock.now() + seconds(10 * 365 * 86_400)
        harness.queue.claim("w", 1, queues=[OCR], now=ahead)
        assert harness.store.ahead_of_clock().rates == 1
        harness.store.sweep()
        harness.advance(30)
        assert harness.store.ahead_of_clock().rates == 0
        assert len(claimed_ids(harness, 10, OCR)) == 1
