"""Who listens to events: what they hear, what they missed, and what they must not hear."""

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
from inturn.model import SECOND, NewDocument
from inturn.queue import Queue
from inturn.store import Operator
from inturn.stores import open_store

SOMEBODY = Operator("somebody with a name", "because")


class Station:
    """A queue, a hub, and what its listeners hear."""

    def __init__(self, most: int = 10) -> None:
        self.clock = ManualClock(1_000 * SECOND)
        self.queue = Queue(open_store("memory://", self.clock), clock=self.clock)
        self.hub = Broadcaster(self.queue.store, max_subscribers=most)
        self._told = 0

    def happen(self, customer: str, n: int = 1) -> None:
        """Documents come in, and some time goes by."""
        self.queue.submit(customer, [NewDocument("a document")] * n)
        self.clock.advance(SECOND)

    def tell(self) -> None:
        """As the watcher does."""
        events = self.queue.store.events(self._told, limit=100_000)
        if events:
            self._told = events[-1].number
            self.hub.on_events(events)

    def listen(self, customer: str | None, after: int | None = None) -> AsyncIterator[bytes]:
        return self.hub.stream(customer, after, yes)


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


def understood(data: bytes) -> list[tuple[str | None, str, dict[str, Any]]]:
    """Frames as (id, kind, data)."""
    result = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            result.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return result


async def heard(stream: AsyncIterator[bytes]) -> list[tuple[str | None, str, dict[str, Any]]]:
    return understood(await asyncio.wait_for(anext(stream), 10))


def played(script: Callable[[Station], Awaitable[None]], most: int = 10) -> None:
    asyncio.run(script(Station(most)))  # type: ignore[arg-type]  # a coroutine


def test_operators_get_all_events_and_customers_their_own() -> None:
    async def script(station: Station) -> None:
        all_, own = station.listen(None), station.listen("acme")
        assert await heard(all_) == await heard(own) == []
        waiting = asyncio.ensure_future(heard(all_)), asyncio.ensure_future(heard(own))
        await asyncio.sleep(0.05)  # both have looked at what they missed
        station.happen("other")
        station.happen("acme", 2)
        station.queue.change_customer("acme", SOMEBODY, weight=3.0)
        station.tell()
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

    played(script)


def test_reconnecting_subscriber_misses_no_event() -> None:
    async def script(station: Station) -> None:
        for n in range(30):
            station.happen("acme" if n % 3 == 0 else "other")
        events = station.queue.store.events(0, limit=100)
        all_ = station.listen(None, events[9].number)
        await heard(all_)
        assert [reported["number"] for _, _, reported in await heard(all_)] == [event.number for event in events[10:]]
        mine = [event for event in events if event.customer == "acme"]
        own = station.listen("acme", mine[4].at)
        await heard(own)
        assert [reported["at"] for _, _, reported in await heard(own)] == [
            event.at for event in mine[4:]
        ]  # its last one again

    played(script)


@pytest.mark.parametrize("customer", [None, "acme"])
def test_event_during_the_replay_is_sent_once(customer: str | None) -> None:
    async def script(station: Station) -> None:
        station.happen("acme")
        station.hub.on_events(())
        stream = station.listen(customer, 0)
        await heard(stream)
        station.happen("acme")
        station.tell()  # it is among the missed by now, and comes from the watcher as well
        first = await heard(stream)
        assert len(first) == 2
        waiting = asyncio.ensure_future(heard(stream))
        await asyncio.sleep(0.05)
        station.happen("acme", 3)
        station.tell()
        ((_, _, reported),) = await waiting
        assert len(reported["documents"]) == 3

    played(script)


def test_slow_subscriber_gets_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_BUFFERED_FRAMES", 5)

    async def script(station: Station) -> None:
        stream = station.listen(None)
        await heard(stream)
        waiting = asyncio.ensure_future(heard(stream))
        await asyncio.sleep(0.05)
        for _ in range(7):
            station.happen("acme")
        station.tell()
        assert [(id_, kind) for id_, kind, _ in await waiting] == [("7", "reset")]
        waiting = asyncio.ensure_future(heard(stream))
        await asyncio.sleep(0.05)
        station.happen("acme")
        station.tell()
        assert [reported["number"] for _, _, reported in await waiting] == [8]

    played(script)


@pytest.mark.parametrize("customer", [None, "acme"])
def test_subscriber_that_missed_too_much_gets_a_reset(customer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_REPLAYED_EVENTS", 5)

    async def script(station: Station) -> None:
        for _ in range(20):
            station.happen("acme")
        last = station.queue.store.events(19, limit=1)[0]
        stream = station.listen(customer, 1 if customer is None else 1_000 * SECOND)
        await heard(stream)
        ((id_, kind, _),) = await heard(stream)
        assert kind == "reset"
        assert id_ == str(last.number if customer is None else last.at)

    played(script)


def test_stream_sends_keepalives_and_ends_when_the_key_is_revoked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.01)

    async def script(station: Station) -> None:
        stream = station.listen(None)
        assert (await anext(stream)).startswith(b"retry:")
        assert await anext(stream) == sse.KEEPALIVE_FRAME
        assert len(station.hub) == 1
        unwelcome = station.hub.stream(None, None, no)
        await anext(unwelcome)
        with pytest.raises(StopAsyncIteration):
            await anext(unwelcome)
        assert len(station.hub) == 1

    played(script)


def test_busy_stream_ends_when_the_key_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always something to tell, so it never comes to rest."""
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.05)

    async def script(station: Station) -> None:
        async def chatter() -> None:
            for _ in range(1_000):
                station.happen("acme")
                station.tell()
                await asyncio.sleep(0.001)

        talking = asyncio.ensure_future(chatter())
        async for _ in station.hub.stream(None, None, no):
            assert not talking.done(), "it listens on"
        talking.cancel()

    played(script)


@pytest.mark.parametrize("customer", [None, "acme"])
def test_pruned_events_cause_a_reset(customer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are pruned by age: who comes back later than that has to look anew."""
    for most in (10_000, 3):
        monkeypatch.setattr(sse, "MAX_REPLAYED_EVENTS", most)

        async def script(station: Station) -> None:
            for _ in range(6):
                station.happen("acme")
            station.queue.store.prune(2_000 * SECOND, limit=1_000)
            assert station.queue.store.events(0, limit=10) == ()
            stream = station.listen(customer, 2 if customer is None else 1_001 * SECOND)
            await heard(stream)
            ((_, kind, _),) = await heard(stream)
            assert kind == "reset"

        played(script)


def test_failing_listener_stops_neither_poller_nor_other_listeners() -> None:
    station, reported = Station(), list[int]()
    watcher = EventPoller(station.queue.store, max_waiters=1)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    watcher.listeners += [fail, lambda events: reported.extend(event.number for event in events)]
    station.happen("acme")
    assert not watcher._poll()
    assert reported == [1]


def test_all_streams_end_when_the_server_stops() -> None:
    async def script(station: Station) -> None:
        stream = station.listen("acme")
        await heard(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        station.hub.begin_shutdown()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 10)
        assert len(station.hub) == 0

    played(script)


def test_subscriber_above_the_limit_is_refused() -> None:
    async def script(station: Station) -> None:
        station.hub.require_capacity()
        streams = [station.listen(None) for _ in range(3)]
        for stream in streams:
            await heard(stream)
        with pytest.raises(TooManyError):
            station.hub.require_capacity()

    played(script, most=3)


@pytest.mark.parametrize("after", ["", "-1", "x", "1.5", "٣", "9" * 30])
def test_a_wrong_last_event_is_refused(after: str) -> None:
    with pytest.raises(InvalidInputError, match="Last-Event-ID"):
        parse_last_event_id(after)


def test_a_last_event_is_a_number_or_nothing() -> None:
    assert parse_last_event_id(None) is None
    assert parse_last_event_id("17") == 17
