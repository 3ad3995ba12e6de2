"""Prune, recount and the maintenance record."""

import pytest

from inturn.errors import NotFoundError
from inturn.model import Claim, DocumentState, ResultFile
from inturn.policy.retention import Checkpoint
from inturn.store_answers import MaintenanceRecord
from inturn.store_types import AckStatus, EventKind
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.values import seconds


def claim_of(harness: StoreHarness, customer: str) -> Claim:
    """Submit a document of a customer and claim it."""
    harness.submit(customer)
    return harness.claim_one()


class TestPrune:
    """Test `Store.prune` and `Store.prunable`."""

    @guarantee("S28")
    def test_deletes_documents_that_ended_before_a_time(self, harness: StoreHarness) -> None:
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

    @guarantee("S28")
    def test_customer_may_have_a_retention_of_its_own(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, keep=seconds(1))
        for customer in ("acme", "beta", "acme", "beta"):
            harness.queue.finish(claim_of(harness, customer))
        harness.advance(10)
        events = harness.store.events(0, limit=100)
        assert harness.store.prune(harness.clock.now(), limit=10, customer="acme").documents == 2
        assert harness.store.events(0, limit=100) == events
        harness.queue.finish(claim_of(harness, "acme"))
        harness.advance(10)
        assert harness.store.prune(harness.clock.now(), limit=10).documents == 2
        assert [document.customer for document in harness.all_documents()] == ["acme"]
        with pytest.raises(NotFoundError):
            harness.store.prune(harness.clock.now(), limit=10, customer="unknown")

    @guarantee("S28", "S18")
    def test_prune_and_purge_return_the_result_files_of_their_documents(self, harness: StoreHarness) -> None:
        for number, customer in enumerate(("acme", "beta")):
            claimed = claim_of(harness, customer)
            files = (ResultFile("a", f"a{number}", 1, "0"), ResultFile("b", f"b{number}", 2, "1", "text/plain"))
            assert harness.ack(claimed, result="{}", files=files) is AckStatus.RECORDED
            assert harness.store.files(claimed.document.id) == files
        assert harness.store.purge("acme", ANNA).blobs == ("a0", "b0")
        harness.advance(1)
        assert harness.store.prune(harness.clock.now(), limit=10).blobs == ("a1", "b1")

    @guarantee("S28")
    def test_keeps_events_with_an_operator(self, harness: StoreHarness) -> None:
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

    @guarantee("S28")
    def test_deletes_expired_idempotency_keys(self, harness: StoreHarness) -> None:
        harness.submit("acme", key="old")
        harness.advance(7 * 86_400)
        harness.submit("acme", key="young")
        assert harness.store.prune(START, limit=10).keys == 0
        harness.advance(1)
        assert harness.store.prune(START, limit=10).keys == 1

    @guarantee("S50", "S28")
    def test_prunable_counts_the_documents_that_prune_deletes(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        harness.submit("keeps", 2)
        harness.queue.change_customer("keeps", ANNA, keep=seconds(1_000))
        harness.finish_all()
        harness.advance(10)
        harness.submit("acme", 1)
        harness.finish_all()
        harness.submit("acme", 1)
        at = harness.clock.now()
        assert harness.store.prunable(at) == 3
        assert harness.store.prunable(at + 1) == 4
        assert harness.store.prunable(at, customer="keeps") == 2
        assert harness.store.prunable(0) == 0
        second = sorted(document.seq for document in harness.all_documents())[1]
        assert harness.store.prunable(at, up_to=second) == 2
        assert harness.store.prunable(at, customer="keeps", up_to=second) == 0
        assert harness.store.prune(at, limit=100, customer="keeps", up_to=second).documents == 0
        assert harness.store.prune(at, limit=100, up_to=second).documents == 2
        assert harness.store.prune(at, limit=100).documents == 1
        assert harness.store.prunable(at) == 0
        with pytest.raises(NotFoundError):
            harness.store.prunable(at, customer="unknown")


class TestRecount:
    """Test `Store.recount`."""

    @guarantee("S30")
    def test_finds_no_discrepancy(self, harness: StoreHarness) -> None:
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


class TestMaintenanceRecord:
    """Test `Store.maintenance` and `Store.record_maintenance`."""

    @guarantee("S49")
    def test_is_stored(self, harness: StoreHarness) -> None:
        assert harness.store.maintenance() is None
        for record in (
            MaintenanceRecord(START),
            MaintenanceRecord(START + 1, "boot", 17, START + 2, -5, 3, 4, (Checkpoint(1, 2), Checkpoint(3, 4))),
        ):
            harness.store.record_maintenance(record)
            assert harness.store.maintenance() == record
