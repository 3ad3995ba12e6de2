"""S27 to S30, S35 and S36: sweep, prune, backup, recount, workers, blobs."""

from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import NotFoundError
from inturn.model import Claim, DocumentState, Progress, ResultFile, WorkerReport, seconds
from inturn.store import AckStatus, CustomerFilter, DocumentFilter, EventKind, SweepResult
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite


class MaintenanceTests(StoreSuite):
    """How a store stays in order."""

    def test_s27_a_sweep_moves_on_what_is_due(self, rig: StoreHarness) -> None:
        """Once; the second finds nothing."""
        rig.queue.change_customer("rated", ANNA, rate=(1, seconds(5)))
        rig.submit_one("rated")
        rig.submit_one("acme")
        rig.claim(2)
        rig.submit_one("acme", delay=seconds(10))
        expired = rig.submit_one("beta", start_by=START + seconds(10))
        rig.advance(60)
        assert rig.store.sweep() == SweepResult(expired=1, leases_lost=2, due=1, customers_opened=1)
        assert rig.store.sweep() == SweepResult()
        assert rig.state(expired) is DocumentState.EXPIRED
        assert len(rig.claim(10)) == 3

    def test_s27_a_sweep_forgets_no_debt(self, rig: StoreHarness) -> None:
        """Whoever was served just now does not come first again because its line was swept."""
        rig.submit("a", 1)
        rig.submit("b", 3)
        assert rig.claim_customers(2) == ["a", "b"]
        rig.store.sweep()
        rig.submit("a", 2)
        assert rig.claim_customers(4) == ["b", "a", "b", "a"]

    def test_s28_a_prune_deletes_what_ended_long_ago(self, rig: StoreHarness) -> None:
        """Oldest first, up to the limit; what lives is not touched."""
        old = [receipt.id for receipt in rig.submit("acme", 4, blob="blobs/x")]
        for claimed in rig.claim(3):
            rig.queue.finish(claimed)
            rig.advance(1)
        rig.advance(100)
        young = rig.submit_one("beta")
        rig.store.cancel([young], ANNA)
        removed = rig.store.prune(rig.clock.now(), limit=2)
        assert (removed.documents, removed.blobs) == (2, ("blobs/x",) * 2)
        with pytest.raises(NotFoundError):
            rig.document(old[0])
        assert rig.store.prune(rig.clock.now(), limit=10).documents == 1
        assert rig.state(old[3]) is DocumentState.WAITING
        assert rig.state(young) is DocumentState.CANCELLED
        assert rig.store.prune(rig.clock.now() + 1, limit=10).documents == 1

    def test_s28_a_customer_may_have_a_time_of_its_own(self, rig: StoreHarness) -> None:
        """Its documents are left to a prune that names it, and nobody else's are touched by that."""
        rig.queue.change_customer("acme", ANNA, keep=seconds(1))
        for customer in ("acme", "beta", "acme", "beta"):
            rig.queue.finish(self._claim_of(rig, customer))
        rig.advance(10)
        events = rig.store.events(0, limit=100)
        assert rig.store.prune(rig.clock.now(), limit=10, customer="acme").documents == 2
        assert rig.store.events(0, limit=100) == events
        rig.queue.finish(self._claim_of(rig, "acme"))
        rig.advance(10)
        assert rig.store.prune(rig.clock.now(), limit=10).documents == 2
        assert [document.customer for document in rig.all_documents()] == ["acme"]
        with pytest.raises(NotFoundError):
            rig.store.prune(rig.clock.now(), limit=10, customer="nobody")

    @staticmethod
    def _claim_of(rig: StoreHarness, customer: str) -> Claim:
        rig.submit(customer)
        return rig.claim_one()

    def test_s28_and_s18_the_files_of_results_go_with_their_documents(self, rig: StoreHarness) -> None:
        """Pruned and purged alike."""
        for number, customer in enumerate(("acme", "beta")):
            claimed = self._claim_of(rig, customer)
            files = (ResultFile("a", f"a{number}", 1, "0"), ResultFile("b", f"b{number}", 2, "1", "text/plain"))
            assert rig.ack(claimed, result="{}", files=files) is AckStatus.RECORDED
            assert rig.store.files(claimed.document.id) == files
        assert rig.store.purge("acme", ANNA).blobs == ("a0", "b0")
        rig.advance(1)
        assert rig.store.prune(rig.clock.now(), limit=10).blobs == ("a1", "b1")

    def test_s36_blobs_that_nothing_refers_to_are_known(self, rig: StoreHarness) -> None:
        """Documents and results both refer to blobs."""
        rig.submit("acme", blob="given")
        rig.ack(rig.claim_one(), result="{}", files=(ResultFile("a", "made", 1, "0"),))
        assert rig.store.unreferenced_blobs(["given", "made", "orphan"]) == {"orphan"}
        rig.store.purge("acme", ANNA)
        assert rig.store.unreferenced_blobs(["given", "made", "orphan"]) == {"given", "made", "orphan"}

    def test_s35_workers_are_heard_of_until_they_leave_or_fall_silent(self, rig: StoreHarness) -> None:
        """By name, the last report of each."""
        busy = WorkerReport("b", "host", 7, 2, 1, "extract", START, progress={"x": Progress(1, 4)}, at_work={"x": 5})
        other = busy._replace(name="a", at_work=None)
        for report in (busy._replace(busy=0, at_work={"y": 1}), busy, other, busy._replace(name="c")):
            rig.store.record_worker(report)
        rig.store.forget_worker("c")
        assert [worker.report for worker in rig.store.workers()] == [other, busy]
        assert rig.store.workers()[0].seen_at == START
        rig.advance(86_400)
        rig.store.record_worker(busy)
        rig.advance(1)
        rig.store.sweep()
        assert [worker.report.name for worker in rig.store.workers()] == ["b"]

    def test_s28_events_with_an_operator_are_kept(self, rig: StoreHarness) -> None:
        """The rest goes, oldest first; numbers go on."""
        rig.submit("acme")
        rig.queue.pause(ANNA, "acme")
        rig.submit("acme")
        last = rig.store.events(0, limit=10)[-1].number
        rig.advance(10)
        assert rig.store.prune(rig.clock.now(), limit=1).events == 1
        assert [event.kind for event in rig.store.events(0, limit=10)] == [
            EventKind.CUSTOMER_CHANGED,
            EventKind.SUBMITTED,
        ]
        assert rig.store.prune(rig.clock.now(), limit=10).events == 1
        rig.submit("acme")
        events = rig.store.events(0, limit=10)
        assert events[0].operator == ANNA
        assert events[-1].number > last

    def test_s28_outlived_keys_are_deleted(self, rig: StoreHarness) -> None:
        """And only those."""
        rig.submit("acme", key="old")
        rig.advance(7 * 86_400)
        rig.submit("acme", key="young")
        assert rig.store.prune(START, limit=10).keys == 0
        rig.advance(1)
        assert rig.store.prune(START, limit=10).keys == 1

    def test_s29_a_backup_is_the_store_as_it_was(self, rig: StoreHarness, tmp_path: Path) -> None:
        """With turns, fences, keys and deadlines: both go on alike."""
        rig.queue.change_customer("acme", ANNA, cap=3, weight=2)
        rig.queue.change_customer("rated", ANNA, rate=(1, seconds(50)))
        rig.queue.pause(ANNA, "quiet")
        first = rig.submit("acme", 30, key="k", metadata={"a": 1})
        for customer in ("beta", "gamma", "rated", "quiet"):
            rig.submit(customer, 4)
        claimed = rig.claim(9)
        rig.queue.finish(claimed[0], {"n": 1})
        rig.queue.fail(claimed[1], "no", retry_in=seconds(30))
        rig.queue.expedite(first[-1].id, ANNA)
        path = tmp_path / "copy.backup"
        rig.store.backup(path)
        clock = ManualClock(rig.clock.now())
        copy = StoreHarness(self.reopen(path, clock), clock)
        try:
            assert _snapshot(copy) == _snapshot(rig)
            assert copy.queue.result(claimed[0].document.id) == {"n": 1}
            assert copy.submit("acme", 30, key="k", metadata={"a": 1}) == first
            for store_harness in (rig, copy):
                store_harness.advance(61)
            taken = [store_harness.claim(40) for store_harness in (rig, copy)]
            assert [claim.document.id for claim in taken[0]] == [claim.document.id for claim in taken[1]]
            assert copy.store.recount(repair=False) == ()
            assert min(claim.fence for claim in taken[1]) > max(claim.fence for claim in claimed)
        finally:
            copy.store.close()

    def test_s30_a_recount_finds_nothing_wrong(self, rig: StoreHarness) -> None:
        """After a bit of everything."""
        rig.queue.change_customer("acme", ANNA, cap=2)
        rig.submit("acme", 30)
        rig.submit("beta", 5)
        for claimed in rig.claim(6)[:4]:
            rig.queue.fail(claimed, "no", retry_in=seconds(1))
        rig.store.cancel([rig.all_documents()[0].id], ANNA)
        rig.advance(2)
        rig.store.sweep()
        assert rig.store.recount(repair=False) == ()
        events = rig.store.events(0, limit=100)
        assert rig.store.recount(repair=True) == ()
        assert rig.store.events(0, limit=100) == events


def _snapshot(rig: StoreHarness) -> tuple[object, ...]:
    store = rig.store
    return (
        store.documents(DocumentFilter(), limit=1_000),
        store.customers(CustomerFilter(), limit=1_000),
        store.counts(DocumentFilter()),
        store.events(0, limit=1_000),
        store.policies(),
        store.paused(),
        store.next_due(),
    )
