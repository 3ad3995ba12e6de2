"""Events as they happen, for pages and programs that stay connected: server-sent events.

The watcher reads each event once; it is written down once as a frame for operators and once for the customer whose it
is, and all who listen get the same bytes. Numbers of events would tell a customer how busy others are, so its frames
are numbered by their time.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from anyio import to_thread

from inturn.errors import InvalidInputError
from inturn.http.errors import TooManyError
from inturn.store import Event, EventKind, Store

MAX_BUFFERED_FRAMES: Final = 1_000
"""Frames that a listener may be behind; one that is slower is told to look anew."""
MAX_REPLAYED_EVENTS: Final = 10_000
"""Events that are looked through for somebody who comes back."""
EVENTS_PAGE_SIZE: Final = 1_000
KEEPALIVE_SECONDS: Final = 15.0
"""Seconds after which a listener hears that the server is still there."""
RETRY_FRAME: Final = b"retry: 2000\n\n"
KEEPALIVE_FRAME: Final = b": still here\n\n"
RESET_EVENT: Final = "reset"
DOCUMENT_EVENT_KINDS: Final = frozenset(
    {
        EventKind.SUBMITTED,
        EventKind.STARTED,
        EventKind.FINISHED,
        EventKind.DELAYED,
        EventKind.FAILED,
        EventKind.RELEASED,
        EventKind.LEASE_LOST,
        EventKind.DUE,
        EventKind.EXPIRED,
        EventKind.CANCELLED,
        EventKind.RETRIED,
        EventKind.EXPEDITED,
    }
)
"""What a customer hears of its own documents."""


class Frame(NamedTuple):
    """One event, ready to be sent."""

    number: int
    data: bytes


class Subscriber:
    """Somebody who is connected. Frames wait for it here, and no more than it may be behind."""

    def __init__(self, customer: str | None) -> None:
        self.customer = customer
        self.frames: deque[Frame] = deque()
        self.is_overflowed = False
        self.wakeup = asyncio.Event()

    def push(self, frames: Sequence[Frame]) -> None:
        """On the event loop."""
        if len(self.frames) + len(frames) > MAX_BUFFERED_FRAMES:
            self.frames.clear()
            self.is_overflowed = True
        else:
            self.frames.extend(frames)
        self.wakeup.set()


class Broadcaster:
    """All who listen at this server. `hear` is called by the watcher's thread, everything else on the event loop."""

    def __init__(self, store: Store, *, max_subscribers: int) -> None:
        self._store = store
        self._max_subscribers = max_subscribers
        self._subscribers: set[Subscriber] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._subscribers)

    def on_events(self, events: Sequence[Event]) -> None:
        """Pass on what happened."""
        if self._subscribers and self._loop is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._broadcast, events)

    def begin_shutdown(self) -> None:
        """Let everybody go: the server stops."""
        self._is_stopping = True
        for subscriber in self._subscribers:
            subscriber.wakeup.set()

    def require_capacity(self) -> None:
        """Refuse one listener too many."""
        if len(self._subscribers) >= self._max_subscribers:
            raise TooManyError("too many listeners at this server; connect again later", 5)

    async def stream(
        self, customer: str | None, after: int | None, is_authorized: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """All events, or those of one customer's documents: what was missed since `after`, then what happens."""
        self._loop = asyncio.get_running_loop()
        listener = Subscriber(customer)
        self._subscribers.add(listener)
        try:
            async for data in self._stream_frames(listener, after, is_authorized):
                yield data
        finally:
            self._subscribers.discard(listener)

    async def _stream_frames(
        self, subscriber: Subscriber, after: int | None, is_authorized: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        yield RETRY_FRAME
        missed, seen = await to_thread.run_sync(self._replay_missed, subscriber.customer, after)
        if missed:
            yield b"".join(missed)
        look_at = asyncio.get_running_loop().time() + KEEPALIVE_SECONDS
        while not self._is_stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await subscriber.wakeup.wait()
            if asyncio.get_running_loop().time() >= look_at:  # however much there is to tell
                look_at = asyncio.get_running_loop().time() + KEEPALIVE_SECONDS
                if not await is_authorized():
                    return
                yield KEEPALIVE_FRAME
            subscriber.wakeup.clear()
            if subscriber.is_overflowed:
                subscriber.is_overflowed = False
                seen = max(seen, await to_thread.run_sync(self._store.last_event))
                yield reset_frame(seen if subscriber.customer is None else None)
            frames = [frame for frame in subscriber.frames if frame.number > seen]
            subscriber.frames.clear()
            if frames:
                seen = frames[-1].number
                yield b"".join(frame.data for frame in frames)

    def _broadcast(self, events: Sequence[Event]) -> None:
        """Each event becomes bytes once, and only if somebody listens."""
        customers = {subscriber.customer for subscriber in self._subscribers}
        for_all = [Frame(event.number, operator_frame(event)) for event in events] if None in customers else []
        of: dict[str, list[Frame]] = {}
        for event in events:
            if event.customer in customers and event.kind in DOCUMENT_EVENT_KINDS and event.customer is not None:
                of.setdefault(event.customer, []).append(Frame(event.number, customer_frame(event)))
        for subscriber in self._subscribers:
            frames = for_all if subscriber.customer is None else of.get(subscriber.customer, [])
            if frames:
                subscriber.push(frames)

    def _replay_missed(self, customer: str | None, after: int | None) -> tuple[list[bytes], int]:
        """Frames since `after`, and the number of the last event looked at."""
        last = self._store.last_event()
        if after is None:
            return [], last
        first = after if customer is None else self._event_number_before(after, last)
        events = self._store.events(first, limit=EVENTS_PAGE_SIZE)
        if last - first > MAX_REPLAYED_EVENTS or first > last or (first < last and _has_gap(events, first)):
            newest = self._store.events(last - 1, limit=1)
            return [reset_frame(last if customer is None else newest[0].at if newest else after)], last
        result: list[bytes] = []
        while events:
            first = events[-1].number
            for event in events:
                if customer is None:
                    result.append(operator_frame(event))
                elif event.customer == customer and event.kind in DOCUMENT_EVENT_KINDS:
                    result.append(customer_frame(event))
            events = (
                self._store.events(first, limit=EVENTS_PAGE_SIZE) if first < last else ()
            )  # the rest comes from the watcher
        return result, max(first, last)

    def _event_number_before(self, at: int, last: int) -> int:
        """The number of the last event before a time. What happened at that time is told once more, never left out."""
        low, high = max(0, last - MAX_REPLAYED_EVENTS - 1), last
        while low < high:
            middle = (low + high) // 2
            events = self._store.events(middle, limit=1)
            if events and events[0].at < at:
                low = events[0].number
            else:
                high = middle
        return low


def _has_gap(events: Sequence[Event], after: int) -> bool:
    """Whether events behind this one were forgotten by now: their numbers follow each other."""
    return not events or events[0].number != after + 1


def operator_frame(event: Event) -> bytes:
    """An event as operators get it."""
    reported = {
        "number": event.number,
        "at": event.at,
        "kind": event.kind,
        "customer": event.customer,
        "documents": event.documents,
        "operator": None if event.operator is None else event.operator.name,
        "detail": dict(event.detail),
    }
    return _format_frame(str(event.number), event.kind, reported)


def customer_frame(event: Event) -> bytes:
    """An event as the customer gets it whose documents it is about."""
    return _format_frame(str(event.at), event.kind, {"at": event.at, "kind": event.kind, "documents": event.documents})


def reset_frame(number: int | None) -> bytes:
    """Too much was missed to be told one by one: look at everything anew."""
    return _format_frame(None if number is None else str(number), RESET_EVENT, {})


def _format_frame(id_: str | None, kind: str, data: dict[str, Any]) -> bytes:
    head = "" if id_ is None else f"id: {id_}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def parse_last_event_id(after: str | None) -> int | None:
    """What a listener that comes back says it has heard last."""
    if after is None:
        return None
    if not (after.isascii() and after.isdigit()) or len(after) > 18:
        raise InvalidInputError("Last-Event-ID is what the last event had as its id: a whole number")
    return int(after)
