"""Broadcaster: live events, missed events, and events that a customer must not get."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.http import sse
from inturn.http.errors import TooManyError
from inturn.http.event_poller import EventPoller
from inturn.http.sse import Broadcaster, parse_last_event_id
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import SECOND
from waiting import wait_until

OPERATOR = Operator("somebody with a name", "because")


class BroadcastHarness:
    """A queue with a broadcaster."""

    def __init__(self, most: int = 10) -> None:
        self.clock = ManualClock(1_000 * SECOND)
        self.queue = Queue(open_store("memory://", self.clock), clock=self.clock)
        self.broadcaster = Broadcaster(self.queue, max_subscribers=most)
        self._last_number = 0

    def submit(self, customer: str, n: int = 1) -> None:
        """Submit documents, and advance the clock."""
        self.queue.submit(customer, [NewDocument("a document")] * n)
        self.clock.advance(SECOND)

    def publish(self) -> None:
        """Pass on new events, as the event poller does."""
        events = self.queue.store.events(self._last_number, limit=100_000)
        if events:
            self._last_number = events[-1].number
            self.broadcaster.on_events(events)

    def subscribe(self, customer: str | None, after: int | None = None) -> AsyncIterator[bytes]:
        return self.broadcaster.stream(customer, after, yes)


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


def parse_frames(data: bytes) -> list[tuple[str | None, str, dict[str, Any]]]:
    """Parse frames into (id, kind, data)."""
    result = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            result.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return result


async def receive(stream: AsyncIterator[bytes]) -> list[tuple[str | None, str, dict[str, Any]]]:
    return parse_frames(await asyncio.wait_for(anext(stream), 60))


def run_script(script: Callable[[BroadcastHarness], Awaitable[None]], most: int = 10) -> None:
    asyncio.run(script(BroadcastHarness(most)))  # type: ignore[arg-type]  # a coroutine


def test_operators_get_all_events_and_customers_their_own() -> None:
    async def script(station: BroadcastHarness) -> None:
        all_, own = station.subscribe(None), station.subscribe("acme")
        assert await receive(all_) == await receive(own) == []
        waiting = asyncio.ensure_future(receive(all_)), asyncio.ensure_future(receive(own))
        station.submit("other")
        station.submit("acme", 2)
        station.queue.change_customer("acme", OPERATOR, weight=3.0)
        station.publish()
        everything, mine = await asyncio.gather(*waiting)
        assert [(kind, reported["customer"]) for _, kind, reported in everything] == [
            ("submitted", "other"),
            ("submitted", "acme"),
            ("customer_changed", "acme"),
        ]
        assert [id_ for id_, _, _ in everything] == [str(reported["number"]) for _, _, reported in everything]
        assert everything[2][2]["operator"] == "somebody with a name"
        ((id_, kind, reported),) = mine
        assert (kind, len(reported["documents"])) == ("submitted", 2)
        assert set(reported) == {"at", "kind", "documents"}
        assert id_ == str(reported["at"])

    run_script(script)


def test_new_subscriber_misses_no_event_after_its_first_frame() -> None:
    async def script(station: BroadcastHarness) -> None:
        stream = station.subscribe(None)
        await receive(stream)
        station.submit("acme")
        station.publish()
        ((_, kind, reported),) = await receive(stream)
        assert (kind, reported["number"]) == ("submitted", 1)

    run_script(script)


def test_reconnecting_subscriber_misses_no_event() -> None:
    async def script(station: BroadcastHarness) -> None:
        for n in range(30):
            station.submit("acme" if n % 3 == 0 else "other")
        events = station.queue.store.events(0, limit=100)
        all_ = station.subscribe(None, events[9].number)
        await receive(all_)
        assert [reported["number"] for _, _, reported in await receive(all_)] == [event.number for event in events[10:]]
        mine = [event for event in events if event.customer == "acme"]
        own = station.subscribe("acme", mine[4].at)
        await receive(own)
        assert [reported["at"] for _, _, reported in await receive(own)] == [
            event.at for event in mine[4:]
        ]  # its last one again

    run_script(script)


@pytest.mark.parametrize("customer", [None, "acme"])
def test_event_during_the_replay_is_sent_once(customer: str | None) -> None:
    async def script(station: BroadcastHarness) -> None:
        station.submit("acme")
        station.submit("acme")
        stream = station.subscribe(customer, 0)
        await receive(stream)
        station.publish()  # the poller is late: both are among the missed, and come from it as well
        first = await receive(stream)
        assert len(first) == 2
        waiting = asyncio.ensure_future(receive(stream))
        station.submit("acme", 3)
        station.publish()
        ((_, _, reported),) = await waiting
        assert len(reported["documents"]) == 3

    run_script(script)


def test_slow_subscriber_gets_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_BUFFERED_FRAMES", 5)

    async def script(station: BroadcastHarness) -> None:
        stream = station.subscribe(None)
        await receive(stream)
        waiting = asyncio.ensure_future(receive(stream))
        for _ in range(7):
            station.submit("acme")
        station.publish()
        assert [(id_, kind) for id_, kind, _ in await waiting] == [("7", "reset")]
        waiting = asyncio.ensure_future(receive(stream))
        station.submit("acme")
        station.publish()
        assert [reported["number"] for _, _, reported in await waiting] == [8]

    run_script(script)


@pytest.mark.parametrize("customer", [None, "acme"])
def test_subscriber_that_missed_too_much_gets_a_reset(customer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_REPLAYED_EVENTS", 5)

    async def script(station: BroadcastHarness) -> None:
        for _ in range(20):
            station.submit("acme")
        last = station.queue.store.events(19, limit=1)[0]
        stream = station.subscribe(customer, 1 if customer is None else 1_000 * SECOND)
        await receive(stream)
        ((id_, kind, _),) = await receive(stream)
        assert kind == "reset"
        assert id_ == str(last.number if customer is None else last.at)

    run_script(script)


def test_stream_sends_keepalives_and_ends_when_the_key_is_revoked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.01)

    async def script(station: BroadcastHarness) -> None:
        stream = station.subscribe(None)
        assert (await anext(stream)).startswith(b"retry:")
        assert await anext(stream) == sse.KEEPALIVE_FRAME
        assert len(station.broadcaster) == 1
        unwelcome = station.broadcaster.stream(None, None, no)
        await anext(unwelcome)
        with pytest.raises(StopAsyncIteration):
            await anext(unwelcome)
        assert len(station.broadcaster) == 1

    run_script(script)


def test_busy_stream_ends_when_the_key_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames keep coming, so the stream is never idle."""
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.05)

    async def script(station: BroadcastHarness) -> None:
        async def chatter() -> None:
            for _ in range(1_000):
                station.submit("acme")
                station.publish()
                await asyncio.sleep(0.001)

        talking = asyncio.ensure_future(chatter())
        async for _ in station.broadcaster.stream(None, None, no):
            assert not talking.done(), "it listens on"
        talking.cancel()

    run_script(script)


@pytest.mark.parametrize("customer", [None, "acme"])
def test_pruned_events_cause_a_reset(customer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are pruned by age: a subscriber that reconnects later gets a reset."""
    for most in (10_000, 3):
        monkeypatch.setattr(sse, "MAX_REPLAYED_EVENTS", most)

        async def script(station: BroadcastHarness) -> None:
            for _ in range(6):
                station.submit("acme")
            station.queue.store.prune(2_000 * SECOND, limit=1_000)
            assert station.queue.store.events(0, limit=10) == ()
            stream = station.subscribe(customer, 2 if customer is None else 1_001 * SECOND)
            await receive(stream)
            ((_, kind, _),) = await receive(stream)
            assert kind == "reset"

        run_script(script)


def test_failing_listener_stops_neither_poller_nor_other_listeners() -> None:
    station, reported = BroadcastHarness(), list[int]()
    watcher = EventPoller(station.queue, max_waiters=1)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    watcher.listeners += [fail, lambda events: reported.extend(event.number for event in events)]
    watcher.start()
    station.submit("acme")
    wait_until(lambda: reported)
    watcher.stop()
    assert reported == [1]


def test_all_streams_end_when_the_server_stops() -> None:
    async def script(station: BroadcastHarness) -> None:
        stream = station.subscribe("acme")
        await receive(stream)
        waiting = asyncio.ensure_future(anext(stream))
        station.broadcaster.begin_shutdown()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 60)
        assert len(station.broadcaster) == 0

    run_script(script)


def test_subscriber_above_the_limit_is_refused() -> None:
    async def script(station: BroadcastHarness) -> None:
        station.broadcaster.require_capacity()
        streams = [station.subscribe(None) for _ in range(3)]
        for stream in streams:
            await receive(stream)
        with pytest.raises(TooManyError):
            station.broadcaster.require_capacity()

    run_script(script, most=3)


@pytest.mark.parametrize("after", ["", "-1", "x", "1.5", "٣", "9" * 30])
def test_a_wrong_last_event_is_refused(after: str) -> None:
    with pytest.raises(InvalidInputError, match="Last-Event-ID"):
        parse_last_event_id(after)


def test_a_last_event_is_a_number_or_nothing() -> None:
    assert parse_last_event_id(None) is None
    assert parse_last_event_id("17") == 17
