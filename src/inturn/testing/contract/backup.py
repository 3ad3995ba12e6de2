"""Backups."""

from collections.abc import Callable
from pathlib import Path

from inturn.clock import Clock, ManualClock
from inturn.store import Store
from inturn.store_types import CustomerFilter, DocumentFilter, EventKind, OutcomeKind
from inturn.testing.contract.api_keys import new_api_key
from inturn.testing.contract.attempts import fail_next
from inturn.testing.contract.harness import ANNA, StoreHarness, guarantee
from inturn.testing.contract.outcomes import WORK_CLAIMED_AHEAD, claim_and_wait, work_of
from inturn.values import seconds


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


class TestBackup:
    """Test `Store.backup`."""

    @guarantee("S29")
    def test_is_the_store_as_it_was(
        self, harness: StoreHarness, open_backup: Callable[[Path, Clock], Store], tmp_path: Path
    ) -> None:
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
        copy = StoreHarness(open_backup(path, clock), clock)
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

    @guarantee("S29", "S38")
    def test_has_api_keys(
        self, harness: StoreHarness, open_backup: Callable[[Path, Clock], Store], tmp_path: Path
    ) -> None:
        _, key = new_api_key()
        harness.store.api_keys.add(key, ANNA)
        harness.store.backup(tmp_path / "copy")
        copy = open_backup(tmp_path / "copy", harness.clock)
        assert copy.api_keys.all() == (key,)
        copy.close()

    @guarantee("S29", "S45")
    def test_has_attempts(
        self, harness: StoreHarness, open_backup: Callable[[Path, Clock], Store], tmp_path: Path
    ) -> None:
        id_ = harness.submit_one("acme")
        fail_next(harness, "ünfit: 1 \\ \t 2\n3")
        path = tmp_path / "copy.backup"
        harness.store.backup(path)
        clock = ManualClock(harness.clock.now())
        copy = StoreHarness(open_backup(path, clock), clock)
        try:
            assert copy.store.attempts(id_) == harness.store.attempts(id_)
            copy.queue.release(copy.claim_one())
            assert [attempt.ended for attempt in copy.store.attempts(id_)] == [EventKind.DELAYED, EventKind.RELEASED]
        finally:
            copy.store.close()

    @guarantee("S29", "S51")
    def test_lists_and_backup_have_processing_times(
        self, harness: StoreHarness, open_backup: Callable[[Path, Clock], Store], tmp_path: Path
    ) -> None:
        id_ = harness.submit_one("acme")
        harness.ack(claim_and_wait(harness), OutcomeKind.FAILED, error="no", retry_in=0, work=WORK_CLAIMED_AHEAD)
        harness.ack(claim_and_wait(harness), OutcomeKind.DONE, result="1", work=WORK_CLAIMED_AHEAD)
        assert [(document.began_at, document.worked) for document in harness.all_documents()] == [work_of(harness, id_)]
        path = tmp_path / "copy.backup"
        harness.store.backup(path)
        clock = ManualClock(harness.clock.now())
        copy = StoreHarness(open_backup(path, clock), clock)
        try:
            assert copy.document(id_) == harness.document(id_)
            assert copy.store.attempts(id_) == harness.store.attempts(id_)
        finally:
            copy.store.close()
