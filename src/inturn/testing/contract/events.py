"""Events and the audit log."""

from inturn.store_types import Event, EventKind, TimeRange
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.values import seconds


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
