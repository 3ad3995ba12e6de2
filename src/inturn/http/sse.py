"""Broadcast events to connected pages and programs as server-sent events.

The event poller reads each event once. It is encoded once for operators and once for its customer, and all subscribers
get the same bytes. Event numbers would disclose the traffic of other customers, so a customer's frames are numbered by
their time.
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
from inturn.queue_reader import QueueReader
from inturn.store_types import Event, EventKind

MAX_BUFFERED_FRAMES: Final = 1_000
"""Frames that a subscriber may lag behind; a slower one gets a reset."""
MAX_REPLAYED_EVENTS: Final = 10_000
"""Events that are read for a subscriber that reconnects; beyond that it gets a reset."""
EVENTS_PAGE_SIZE: Final = 1_000
KEEPALIVE_SECONDS: Final = 15.0
"""The interval of keepalive frames, and of checks that the key is still valid."""
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
        EventKind.EXPEDITE_UNDONE,
    }
)
"""The events that a customer gets of its own documents."""


class Frame(NamedTuple):
    """An encoded event."""

    number: int
    data: bytes


class Subscriber:
    """A connection and its buffered frames. `customer` is None for operators."""

    def __init__(self, customer: str | None) -> None:
        self.customer = customer
        self.frames: deque[Frame] = deque()
        self.is_overflowed = False
        self.wakeup = asyncio.Event()

    def push(self, frames: Sequence[Frame]) -> None:
        """Buffer frames, or drop all of them if there are too many. Runs on the event loop."""
        if len(self.frames) + len(frames) > MAX_BUFFERED_FRAMES:
            self.frames.clear()
            self.is_overflowed = True
        else:
            self.frames.extend(frames)
        self.wakeup.set()


class Broadcaster:
    """The subscribers of this server. `on_events` runs on the poller's thread, everything else on the event loop."""

    def __init__(self, queue: QueueReader, *, max_subscribers: int) -> None:
        self._queue = queue
        self._max_subscribers = max_subscribers
        self._subscribers: set[Subscriber] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._subscribers)

    def on_events(self, events: Sequence[Event]) -> None:
        """Pass events on to the event loop."""
        if self._subscribers and self._loop is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._broadcast, events)

    def begin_shutdown(self) -> None:
        """End all streams."""
        self._is_stopping = True
        for subscriber in self._subscribers:
            subscriber.wakeup.set()

    def require_capacity(self) -> None:
        """Refuse a subscriber above the limit."""
        if len(self._subscribers) >= self._max_subscribers:
            raise TooManyError("too many event streams at this server; connect again later", 5)

    async def stream(
        self, customer: str | None, after: int | None, is_authorized: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """Stream the events since `after`, then new ones: all of them, or those of one customer's documents."""
        self._loop = asyncio.get_running_loop()
        subscriber = Subscriber(customer)
        self._subscribers.add(subscriber)
        try:
            async for data in self._stream_frames(subscriber, after, is_authorized):
                yield data
        finally:
            self._subscribers.discard(subscriber)

    async def _stream_frames(
        self, subscriber: Subscriber, after: int | None, is_authorized: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        missed, seen = await to_thread.run_sync(self._replay_missed, subscriber.customer, after)
        yield RETRY_FRAME  # from here on, nothing is missed
        if missed:
            yield b"".join(missed)
        keepalive_at = asyncio.get_running_loop().time() + KEEPALIVE_SECONDS
        while not self._is_stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(keepalive_at):
                    await subscriber.wakeup.wait()
            if asyncio.get_running_loop().time() >= keepalive_at:  # also while frames keep coming
                keepalive_at = asyncio.get_running_loop().time() + KEEPALIVE_SECONDS
                if not await is_authorized():
                    return
                yield KEEPALIVE_FRAME
            subscriber.wakeup.clear()
            if subscriber.is_overflowed:
                subscriber.is_overflowed = False
                seen = max(seen, await to_thread.run_sync(self._queue.last_event))
                yield reset_frame(seen if subscriber.customer is None else None)
            frames = [frame for frame in subscriber.frames if frame.number > seen]
            subscriber.frames.clear()
            if frames:
                seen = frames[-1].number
                yield b"".join(frame.data for frame in frames)

    def _broadcast(self, events: Sequence[Event]) -> None:
        """Encode each event once, and only if it has a subscriber."""
        customers = {subscriber.customer for subscriber in self._subscribers}
        operator_frames = [Frame(event.number, operator_frame(event)) for event in events] if None in customers else []
        frames_by_customer: dict[str, list[Frame]] = {}
        for event in events:
            if event.customer in customers and event.kind in DOCUMENT_EVENT_KINDS and event.customer is not None:
                frames_by_customer.setdefault(event.customer, []).append(Frame(event.number, customer_frame(event)))
        for subscriber in self._subscribers:
            frames = operator_frames if subscriber.customer is None else frames_by_customer.get(subscriber.customer, [])
            if frames:
                subscriber.push(frames)

    def _replay_missed(self, customer: str | None, after: int | None) -> tuple[list[bytes], int]:
        """Return the frames since `after`, and the number of the last event read."""
        last = self._queue.last_event()
        if after is None:
            return [], last
        first = after if customer is None else self._event_number_before(after, last)
        events = self._queue.events(first, limit=EVENTS_PAGE_SIZE)
        if last - first > MAX_REPLAYED_EVENTS or first > last or (first < last and _has_gap(events, first)):
            newest = self._queue.events(last - 1, limit=1)
            return [reset_frame(last if customer is None else newest[0].at if newest else after)], last
        frames: list[bytes] = []
        while events:
            first = events[-1].number
            for event in events:
                if customer is None:
                    frames.append(operator_frame(event))
                elif event.customer == customer and event.kind in DOCUMENT_EVENT_KINDS:
                    frames.append(customer_frame(event))
            # Events after `last` come from the poller.
            events = self._queue.events(first, limit=EVENTS_PAGE_SIZE) if first < last else ()
        return frames, max(first, last)

    def _event_number_before(self, at: int, last: int) -> int:
        """Find the number of the last event before a time; events of that very time are repeated, never lost."""
        low, high = max(0, last - MAX_REPLAYED_EVENTS - 1), last
        while low < high:
            middle = (low + high) // 2
            events = self._queue.events(middle, limit=1)
            if events and events[0].at < at:
                low = events[0].number
            else:
                high = middle
        return low


def _has_gap(events: Sequence[Event], after: int) -> bool:
    """Whether events after this number were pruned: numbers have no gaps otherwise."""
    return not events or events[0].number != after + 1


def operator_frame(event: Event) -> bytes:
    """Encode an event for operators."""
    data = {
        "number": event.number,
        "at": event.at,
        "kind": event.kind,
        "customer": event.customer,
        "documents": event.documents,
        "operator": None if event.operator is None else event.operator.name,
        "detail": dict(event.detail),
    }
    return _format_frame(str(event.number), event.kind, data)


def customer_frame(event: Event) -> bytes:
    """Encode an event for its customer."""
    return _format_frame(str(event.at), event.kind, {"at": event.at, "kind": event.kind, "documents": event.documents})


def reset_frame(number: int | None) -> bytes:
    """Encode a reset: too many events were missed, so the subscriber must load everything again."""
    return _format_frame(None if number is None else str(number), RESET_EVENT, {})


def _format_frame(id_: str | None, kind: str, data: dict[str, Any]) -> bytes:
    head = "" if id_ is None else f"id: {id_}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def parse_last_event_id(after: str | None) -> int | None:
    """Parse the id of the last event that a subscriber received."""
    if after is None:
        return None
    if not (after.isascii() and after.isdigit()) or len(after) > 18:
        raise InvalidInputError("Last-Event-ID must be the id of an event: a whole number")
    return int(after)
