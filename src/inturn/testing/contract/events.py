"""Events and the audit log."""

from collections.abc import Callable
from pathlib import Path

from inturn.clock import Clock
from inturn.model import DEFAULT_QUEUE, Claim, NewDocument
from inturn.store import Store
from inturn.store_types import Event, EventKind, Outcome, OutcomeKind, TimeRange
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.testing.contract.queues import claim
from inturn.values import seconds


def queues_by_kind(harness: StoreHarness) -> list[tuple[EventKind, str | None]]:
    """Return kind and queue of all events."""
    return [(event.kind, event.queue) for event in harness.store.events(0, limit=100)]


def events_of(harness: StoreHarness, kind: EventKind) -> list[tuple[str | None, str | None, tuple[str, ...]]]:
    """Return customer, queue and documents of the events of a kind."""
    events = harness.store.events(0, limit=100)
    return [(event.customer, event.queue, event.documents) for event in events if event.kind is kind]


def done(claimed: Claim) -> Outcome:
    """Return the outcome of a document that is done."""
    return Outcome(claimed.document.id, claimed.fence, OutcomeKind.DONE, result="1")


class TestEvents:
    """Test `Store.events` and `Store.last_event`."""

    @guarantee("S25")
    def test_events_are_numbered_and_read_on(self, harness: StoreHarness) -> None:
        for n in range(10):
            harness.submit(f"c{n}", 2)
            harness.advance(1)
        harness.finish_all()
        whole = harness.store.events(0, limit=1_000)
        numbers = [event.number for event in whole]
        assert numbers == sorted(set(numbers))
        pieces: list[Event] = []
        last = 0
        while piece := harness.store.events(last, limit=7):
            pieces += piece
            last = piece[-1].number
        assert tuple(pieces) == whole

    @guarantee("S25")
    def test_one_call_writes_one_event_for_each_customer(self, harness: StoreHarness) -> None:
        harness.submit("a", 3)
        harness.submit("b", 1)
        last = harness.store.events(0, limit=10)[-1].number
        claimed = harness.claim(4)
        a, b = harness.store.events(last, limit=10)
        assert (a.customer, b.customer) == ("a", "b")
        assert a.documents == tuple(claim.document.id for claim in claimed if claim.document.customer == "a")

    @guarantee("S82")
    def test_events_name_the_queue_of_their_documents(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue="ocr", steps=["ocr", "export"], max_attempts=2)
        harness.queue.ack([harness.queue.next_step(claim(harness, 1, "ocr")[0], "export", 1)])
        harness.queue.fail(claim(harness, 1, "export")[0], "no", retry_in=seconds(1))
        harness.advance(2)
        harness.store.sweep()
        harness.queue.release(claim(harness, 1, "export")[0])
        harness.queue.fail(claim(harness, 1, "export")[0], "no", final=True)
        harness.store.retry([id_], ANNA)
        harness.store.expedite(id_, ANNA)
        harness.store.cancel([id_], ANNA)
        harness.store.retry([id_], ANNA, from_start=True)
        harness.queue.pause(ANNA, "acme")
        assert queues_by_kind(harness) == [
            ("submitted", "ocr"), ("started", "ocr"), ("step_done", "ocr"), ("started", "export"),
            ("delayed", "export"), ("due", "export"), ("started", "export"), ("handed_back", "export"),
            ("started", "export"), ("failed", "export"), ("retried", "export"), ("expedited", "export"),
            ("cancelled", "export"), ("retried", "ocr"), ("customer_changed", None),
        ]  # fmt: skip

    @guarantee("S82")
    def test_end_of_a_step_names_the_queue_that_its_documents_go_to(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3, queue="ocr")
        claimed = claim(harness, 3, "ocr")
        targets = ("export", "check", "export")
        outcomes = [harness.queue.next_step(one, name, 1) for one, name in zip(claimed, targets, strict=True)]
        harness.queue.ack(outcomes)
        events = [event for event in harness.store.events(0, limit=10) if event.kind is EventKind.STEP_DONE]
        assert [(event.queue, event.detail, len(event.documents)) for event in events] == [
            ("ocr", {"next": "export"}, 2),
            ("ocr", {"next": "check"}, 1),
        ]

    @guarantee("S82")
    def test_events_of_parts_name_the_queues_they_wait_in(self, harness: StoreHarness) -> None:
        harness.submit("acme", queue="split")
        parts = [NewDocument("a part", queue=name) for name in ("page", "image", "page")]
        harness.queue.ack([harness.queue.split(claim(harness, 1, "split")[0], parts, "merge")])
        for claimed in claim(harness, 3, "page", "image"):
            harness.queue.finish(claimed)
        harness.queue.finish(claim(harness, 1, "merge")[0])
        kinds = queues_by_kind(harness)
        assert kinds[:5] == [
            ("submitted", "split"), ("started", "split"), ("split", "split"), ("part_added", "page"),
            ("part_added", "image"),
        ]  # fmt: skip
        assert kinds[-3:] == [("parts_ended", "merge"), ("started", "merge"), ("finished", "merge")]
        added = [event.documents for event in harness.store.events(0, limit=100) if event.kind is EventKind.PART_ADDED]
        assert list(map(len, added)) == [2, 1]

    @guarantee("S82")
    def test_a_call_writes_one_event_for_each_customer_and_queue(self, harness: StoreHarness) -> None:
        names = ["ocr", DEFAULT_QUEUE, "export", "ocr", DEFAULT_QUEUE]
        receipts = harness.queue.submit("acme", [NewDocument("a document", queue=name) for name in names])
        ids = [receipt.id for receipt in receipts]
        expected = [("ocr", (ids[0], ids[3])), (DEFAULT_QUEUE, (ids[1], ids[4])), ("export", (ids[2],))]
        events = harness.store.events(0, limit=10)
        assert [(event.queue, event.documents) for event in events] == expected
        harness.submit("beta", queue="export")
        claimed = claim(harness, 10, "ocr", "export", DEFAULT_QUEUE)
        harness.store.ack_and_claim([done(one) for one in claimed], None)
        started, finished = events_of(harness, EventKind.STARTED), events_of(harness, EventKind.FINISHED)
        assert started == finished
        assert sorted((customer, queue, len(documents)) for customer, queue, documents in finished) == [
            ("acme", DEFAULT_QUEUE, 2), ("acme", "export", 1), ("acme", "ocr", 2), ("beta", "export", 1),
        ]  # fmt: skip
        firsts = [[one.document.id for one in claimed].index(documents[0]) for _, _, documents in finished]
        assert firsts == sorted(firsts)

    @guarantee("S29", "S82")
    def test_backup_keeps_the_queues_of_events(
        self, harness: StoreHarness, tmp_path: Path, open_backup: Callable[[Path, Clock], Store]
    ) -> None:
        harness.queue.submit("acme", [NewDocument("a document", queue=name) for name in ("ocr", DEFAULT_QUEUE, "ocr")])
        harness.queue.pause(ANNA)
        expected = harness.store.events(0, limit=10)
        harness.store.backup(tmp_path / "copy")
        restored = open_backup(tmp_path / "copy", harness.clock)
        assert restored.events(0, limit=10) == expected
        restored.close()

    @guarantee("S41")
    def test_events_after_the_last_one_are_new(self, harness: StoreHarness) -> None:
        assert harness.store.last_event() == 0
        harness.submit_one("acme")
        last = harness.store.last_event()
        assert harness.store.events(last, limit=10) == ()
        harness.submit_one("acme")
        assert [event.kind for event in harness.store.events(last, limit=10)] == [EventKind.SUBMITTED]


class TestAudit:
    """Test `Store.audit`."""

    @guarantee("S42")
    def test_filters_by_customer(self, harness: StoreHarness) -> None:
        ids = [harness.submit_one(customer) for customer in ("acme", "beta", "acme")]
        harness.queue.pause(ANNA)
        harness.store.cancel(ids, ANNA)
        harness.queue.pause(ANNA, "acme")
        newest, oldest = harness.store.audit(limit=10, customer="acme")
        assert (newest.kind, oldest.documents) == (EventKind.CUSTOMER_CHANGED, (ids[0], ids[2]))
        assert harness.store.audit(limit=1, customer="acme") == (newest,)
        assert harness.store.audit(limit=10, before=newest.number, customer="acme") == (oldest,)
        assert harness.store.audit(limit=10, before=oldest.number, customer="acme") == ()
        assert harness.store.audit(limit=10, customer="unknown") == ()

    @guarantee("S42")
    def test_filters_by_time(self, harness: StoreHarness) -> None:
        for _ in range(3):
            harness.queue.pause(ANNA, "acme")
            harness.queue.resume(ANNA, "acme")
            harness.advance(10)
        within = TimeRange(START + seconds(10), START + seconds(20))
        for customer in (None, "acme"):
            newest, oldest = harness.store.audit(limit=10, within=within, customer=customer)
            assert newest.at == oldest.at == START + seconds(10)
            assert harness.store.audit(limit=1, within=within, customer=customer) == (newest,)
        assert len(harness.store.audit(limit=10, within=TimeRange(since=within.since))) == 4
        assert len(harness.store.audit(limit=10, within=TimeRange(until=within.since))) == 2

    @guarantee("S42")
    def test_lists_events_with_an_operator_newest_first(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        harness.queue.pause(ANNA)
        harness.submit_one("acme")
        harness.queue.resume(ANNA)
        newest, oldest = harness.store.audit(limit=10)
        assert (newest.kind, oldest.kind) == (EventKind.QUEUE_RESUMED, EventKind.QUEUE_PAUSED)
        assert harness.store.audit(limit=1) == (newest,)
        assert harness.store.audit(limit=10, before=newest.number) == (oldest,)
        harness.store.prune(START + seconds(1), limit=100)
        assert harness.store.audit(limit=10) == (newest, oldest)
        assert {event.operator for event in harness.store.events(0, limit=10)} == {ANNA}
