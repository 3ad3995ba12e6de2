"""Poll the store's events in one thread, for long polls, statistics, metrics and event streams."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from inturn.errors import InturnError
from inturn.http import log
from inturn.http.errors import TooManyError
from inturn.queue_reader import QueueReader
from inturn.store_types import Event, EventKind

POLL_INTERVAL_SECONDS: Final = 0.5
"""The longest pause between two polls: not every event notifies the store's waiters."""
STOP_CHECK_SECONDS: Final = 0.1
"""The longest wait for the store in one go, and so the longest that a stopping server waits for this thread."""
MIN_POLL_PAUSE_SECONDS: Final = 0.05
"""The shortest pause between two polls."""
RETRY_PAUSE_SECONDS: Final = 1.0
"""The pause after a poll that failed."""
EVENTS_PAGE_SIZE: Final = 1_000
END_EVENT_KINDS: Final = frozenset(
    {EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED, EventKind.EXPIRED, EventKind.PURGED}
)
EventListener = Callable[[Sequence[Event]], None]


class EventPoller:
    """Read each event once, and call `listeners` with it on the poller's thread.

    `periodic_tasks` run after each poll.
    """

    def __init__(self, queue: QueueReader, *, max_waiters: int) -> None:
        self.listeners: list[EventListener] = []
        self.periodic_tasks: list[Callable[[], None]] = []
        self._queue = queue
        self._max_waiters = max_waiters
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inturn-event-poller", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters_by_document: dict[str, set[asyncio.Event]] = {}
        self._waiter_count = 0
        self._stopping = False
        self.last_event_number = 0

    @property
    def is_stopping(self) -> bool:
        """Whether the server is shutting down."""
        return self._stopping

    @property
    def waiter_count(self) -> int:
        """The number of open long polls."""
        return self._waiter_count

    def start(self) -> None:
        """Start the thread; it reads events from now on."""
        self.last_event_number = self._queue.last_event()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after its current poll."""
        self._stop_requested.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin_shutdown(self) -> None:
        """Wake all long polls, and let later ones not wait. Runs on the event loop."""
        self._stopping = True
        self._wake_waiters(None)

    @contextmanager
    def document_waiter(self, id_: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the document may have ended. Runs on the event loop."""
        if self._waiter_count >= self._max_waiters:
            raise TooManyError("too many callers wait for documents at this server; send the request without ?wait", 1)
        self._loop = asyncio.get_running_loop()
        wakeup = asyncio.Event()
        if self._stopping:
            wakeup.set()
        self._waiter_count += 1
        self._waiters_by_document.setdefault(id_, set()).add(wakeup)
        try:
            yield wakeup
        finally:
            self._waiter_count -= 1
            self._waiters_by_document[id_].discard(wakeup)
            if not self._waiters_by_document[id_]:
                del self._waiters_by_document[id_]

    def _run(self) -> None:
        while not self._stop_requested.is_set():
            try:
                self._wait_for_commit()
                while self._poll() and not self._stop_requested.is_set():
                    pass
                for task in self.periodic_tasks:
                    task()
            except InturnError as error:
                log.warning("events could not be read, trying again: %s", error.code)
                self._stop_requested.wait(RETRY_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 - all streams and long polls depend on this thread
                log.error("the event poller failed, trying again: %s", type(error).__name__)
                self._stop_requested.wait(RETRY_PAUSE_SECONDS)
            self._stop_requested.wait(MIN_POLL_PAUSE_SECONDS)

    def _wait_for_commit(self) -> None:
        """Wait for a commit, the poll interval or the end of the server."""
        until = time.monotonic() + POLL_INTERVAL_SECONDS
        while not self._stop_requested.is_set() and (now := time.monotonic()) < until:
            slice_ends_at = min(now + STOP_CHECK_SECONDS, until)
            self._queue.wait(slice_ends_at - now)
            if time.monotonic() < slice_ends_at:  # notified
                return

    def _poll(self) -> bool:
        """Pass on one page of new events; return whether there may be more."""
        events = self._queue.events(self.last_event_number, limit=EVENTS_PAGE_SIZE)
        if not events:
            return False
        self.last_event_number = events[-1].number
        for listener in self.listeners:
            try:
                listener(events)
            except Exception as error:  # noqa: BLE001 - the other listeners still get the events
                log.error("a listener failed: %s", type(error).__name__)
        ended = {id_ for event in events if event.kind in END_EVENT_KINDS for id_ in event.documents}
        has_purge = any(event.kind is EventKind.PURGED for event in events)
        if self._loop is not None and (ended or has_purge):
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wake_waiters, None if has_purge else ended)
        return len(events) == EVENTS_PAGE_SIZE

    def _wake_waiters(self, ids: set[str] | None) -> None:
        """Wake the waiters of these documents, or all: a purge does not name its documents."""
        for id_ in list(self._waiters_by_document) if ids is None else ids & self._waiters_by_document.keys():
            for wakeup in self._waiters_by_document[id_]:
                wakeup.set()
