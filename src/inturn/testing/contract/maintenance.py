"""S27 to S30, S35 and S36: sweep, prune, backup, recount, workers, blobs."""

from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import NotFoundError
from inturn.model import Claim, DocumentState, Progress, ResultFile, WorkerReport, seconds
from inturn.store import AckStatus, CustomerFilter, DocumentFilter, EventKind, SweepResult
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite


class MaintenanceTests(StoreSuite):
    """Test sweep, prune, backup, recount, worker reports and blobs."""

    def test_s27_a_sweep_processes_what_is_due(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("rated", ANNA, rate=(1, seconds(5)))
        harness.submit_one("rated")
        harness.submit_one("acme")
        harness.claim(2)
        harness.submit_one("acme", delay=seconds(10))
        expired = harness.submit_one("beta", start_by=START + seconds(10))
        harness.advance(60)
        assert harness.store.sweep() == SweepResult(expired=1, leases_lost=2, due=1, customers_opened=1)
        assert harness.store.sweep() == SweepResult()
        assert harness.state(expired) is DocumentState.EXPIRED
        assert len(harness.claim(10)) == 3

    def test_s27_a_sweep_keeps_lanes_that_are_ahead_of_v(self, harness: StoreHarness) -> None:
        harness.submit("a", 1)
        harness.submit("b", 3)
        assert harness.claim_customers(2) == ["a", "b"]
        harness.store.sweep()
        harness.submit("a", 2)
        assert harness.claim_customers(4) == ["b", "a", "b", "a"]

    def test_s28_a_prune_deletes_what_ended_long_ago(self, harness: StoreHarness) -> None:
        old = [receipt.id for receipt in harness.submit("acme", 4, blob="blobs/x")]
        for claimed in harness.claim(3):
            harness.queue.finish(claimed)
            harness.advance(1)
        harness.advance(100)
        young = harness.submit_one("beta")
        harness.store.cancel([young], ANNA)
        removed = harness.store.prune(harness.clock.now(), limit=2)
        assert (removed.documents, removed.blobs) == (2, ("blobs/x",) * 2)
        with pytest.raises(NotFoundError):
            harness.document(old[0])
        assert harness.store.prune(harness.clock.now(), limit=10).documents == 1
        assert harness.state(old[3]) is DocumentState.WAITING
        assert harness.state(young) is DocumentState.CANCELLED
        assert harness.store.prune(harness.clock.now() + 1, limit=10).documents == 1

    def test_s28_a_customer_may_have_a_retention_of_its_own(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, keep=seconds(1))
        for customer in ("acme", "beta", "acme", "beta"):
            harness.queue.finish(self._claim_of(harness, customer))
        harness.advance(10)
        events = harness.store.events(0, limit=100)
        assert harness.store.prune(harness.clock.now(), limit=10, customer="acme").documents == 2
        assert harness.store.events(0, limit=100) == events
        harness.queue.finish(self._claim_of(harness, "acme"))
        harness.advance(10)
        assert harness.store.prune(harness.clock.now(), limit=10).documents == 2
        assert [document.customer for document in harness.all_documents()] == ["acme"]
        with pytest.raises(NotFoundError):
            harness.store.prune(harness.clock.now(), limit=10, customer="unknown")

    @staticmethod
    def _claim_of(harness: StoreHarness, customer: str) -> Claim:
        harness.submit(customer)
        return harness.claim_one()

    def test_s28_and_s18_the_files_of_results_go_with_their_documents(self, harness: StoreHarness) -> None:
        for number, customer in enumerate(("acme", "beta")):
            claimed = self._claim_of(harness, customer)
            files = (ResultFile("a", f"a{number}", 1, "0"), ResultFile("b", f"b{number}", 2, "1", "text/plain"))
            assert harness.ack(claimed, result="{}", files=files) is AckStatus.RECORDED
            assert harness.store.files(claimed.document.id) == files
        assert harness.store.purge("acme", ANNA).blobs == ("a0", "b0")
        harness.advance(1)
        assert harness.store.prune(harness.clock.now(), limit=10).blobs == ("a1", "b1")

    def test_s36_unreferenced_blobs_are_returned(self, harness: StoreHarness) -> None:
        harness.submit("acme", blob="given")
        harness.ack(harness.claim_one(), result="{}", files=(ResultFile("a", "made", 1, "0"),))
        assert harness.store.unreferenced_blobs(["given", "made", "orphan"]) == {"orphan"}
        harness.store.purge("acme", ANNA)
        assert harness.store.unreferenced_blobs(["given", "made", "orphan"]) == {"given", "made", "orphan"}

    def test_s35_reports_are_stored_until_a_worker_stops_or_is_silent_for_a_day(self, harness: StoreHarness) -> None:
        busy = WorkerReport("b", "host", 7, 2, 1, "extract", START, progress={"x": Progress(1, 4)}, at_work={"x": 5})
        other = busy._replace(name="a", at_work=None)
        for report in (busy._replace(busy=0, at_work={"y": 1}), busy, other, busy._replace(name="c")):
            harness.store.record_worker(report)
        harness.store.forget_worker("c")
        assert [worker.report for worker in harness.store.workers()] == [other, busy]
        assert harness.store.workers()[0].seen_at == START
        harness.advance(86_400)
        harness.store.record_worker(busy)
        harness.advance(1)
        harness.store.sweep()
        assert [worker.report.name for worker in harness.store.workers()] == ["b"]

    def test_s28_events_with_an_operator_are_kept(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        harness.queue.pause(ANNA, "acme")
        harness.submit("acme")
        last = harness.store.events(0, limit=10)[-1].number
        harness.advance(10)
        assert harness.store.prune(harness.clock.now(), limit=1).events == 1
        assert [event.kind for event in harness.store.events(0, limit=10)] == [
            EventKind.CUSTOMER_CHANGED,
            EventKind.SUBMITTED,
        ]
        assert harness.store.prune(harness.clock.now(), limit=10).events == 1
        harness.submit("acme")
        events = harness.store.events(0, limit=10)
        assert events[0].operator == ANNA
        assert events[-1].number > last

    def test_s28_expired_idempotency_keys_are_deleted(self, harness: StoreHarness) -> None:
        harness.submit("acme", key="old")
        harness.advance(7 * 86_400)
        harness.submit("acme", key="young")
        assert harness.store.prune(START, limit=10).keys == 0
        harness.advance(1)
        assert harness.store.prune(START, limit=10).keys == 1

    def test_s29_a_backup_is_the_store_as_it_was(self, harness: StoreHarness, tmp_path: Path) -> None:
        harness.queue.change_customer("acme", ANNA, cap=3, weight=2)
        harness.queue.change_customer("rated", ANNA, rate=(1, seconds(50)))
        harness.queue.pause(ANNA, "quiet")
        first = harness.submit("acme", 30, key="k", metadata={"a": 1})
        for customer in ("beta", "gamma", "rated", "quiet"):
            harness.submit(customer, 4)
        claimed = harness.claim(9)
        harness.queue.finish(claimed[0], {"n": 1})
        harness.queue.fail(claimed[1], "no", retry_in=seconds(30))
        harness.queue.expedite(first[-1].id, ANNA)
        path = tmp_path / "copy.backup"
        harness.store.backup(path)
        clock = ManualClock(harness.clock.now())
        copy = StoreHarness(self.reopen(path, clock), clock)
        try:
            assert _snapshot(copy) == _snapshot(harness)
            assert copy.queue.result(claimed[0].document.id) == {"n": 1}
            assert copy.submit("acme", 30, key="k", metadata={"a": 1}) == first
            for store_harness in (harness, copy):
                store_harness.advance(61)
            taken = [store_harness.claim(40) for store_harness in (harness, copy)]
            assert [claim.document.id for claim in taken[0]] == [claim.document.id for claim in taken[1]]
            assert copy.store.recount(repair=False) == ()
            assert min(claim.fence for claim in taken[1]) > max(claim.fence for claim in claimed)
        finally:
            copy.store.close()

    def test_s30_a_recount_finds_nothing_wrong(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=2)
        harness.submit("acme", 30)
        harness.submit("beta", 5)
        for claimed in harness.claim(6)[:4]:
            harness.queue.fail(claimed, "no", retry_in=seconds(1))
        harness.store.cancel([harness.all_documents()[0].id], ANNA)
        harness.advance(2)
        harness.store.sweep()
        assert harness.store.recount(repair=False) == ()
        events = harness.store.events(0, limit=100)
        assert harness.store.recount(repair=True) == ()
        assert harness.store.events(0, limit=100) == events


def _snapshot(harness: StoreHarness) -> tuple[object, ...]:
    store = harness.store
    return (
        store.documents(DocumentFilter(), limit=1_000),
        store.customers(CustomerFilter(), limit=1_000),
        store.counts(DocumentFilter()),
        store.events(0, limit=1_000),
        store.policies(),
        store.paused(),
        store.next_due(),
    )
