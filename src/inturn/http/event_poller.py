"""One reader of events for everybody who waits: long polls, estimates, metrics, and whatever listens."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from inturn.errors import InturnError
from inturn.http import log
from inturn.http.errors import TooManyError
from inturn.store import Event, EventKind, Store

POLL_INTERVAL_SECONDS: Final = 0.5
"""Seconds after which to look even if nothing rang: some ends ring for nobody who claims."""
MIN_POLL_PAUSE_SECONDS: Final = 0.05
"""Between two looks, however much happens."""
EVENTS_PAGE_SIZE: Final = 1_000
END_EVENT_KINDS: Final = frozenset(
    {EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED, EventKind.EXPIRED, EventKind.PURGED}
)
EventListener = Callable[[Sequence[Event]], None]


class EventPoller:
    """Reads each event once. `listeners` hear all events, on the watcher's thread; `chores` are done now and then."""

    def __init__(self, store: Store, *, max_waiters: int) -> None:
        self.listeners: list[EventListener] = []
        self.periodic_tasks: list[Callable[[], None]] = []
        self._store = store
        self._max_waiters = max_waiters
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inturn-watcher", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters_by_document: dict[str, set[asyncio.Event]] = {}
        self._waiter_count = 0
        self._stopping = False
        self.last_event_number = 0

    @property
    def is_stopping(self) -> bool:
        """Whether nobody should wait any more."""
        return self._stopping

    @property
    def waiter_count(self) -> int:
        """Long polls that wait now."""
        return self._waiter_count

    def start(self) -> None:
        """Begin with what happens from now on."""
        self.last_event_number = self._store.last_event()
        self._thread.start()

    def stop(self) -> None:
        """After the look that is under way."""
        self._stop_requested.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin_shutdown(self) -> None:
        """Let all long polls answer now, and later ones not wait: the server stops. On the event loop."""
        self._stopping = True
        for rung in [event for some in self._waiters_by_document.values() for event in some]:
            rung.set()

    @contextmanager
    def document_waiter(self, id_: str) -> Iterator[asyncio.Event]:
        """Something that is set when this document may have ended. On the event loop."""
        if self._waiter_count >= self._max_waiters:
            raise TooManyError("too many callers wait for documents at this server; ask again without ?wait", 1)
        self._loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        if self._stopping:
            rung.set()
        self._waiter_count += 1
        self._waiters_by_document.setdefault(id_, set()).add(rung)
        try:
            yield rung
        finally:
            self._waiter_count -= 1
            self._waiters_by_document[id_].discard(rung)
            if not self._waiters_by_document[id_]:
                del self._waiters_by_document[id_]

    def _run(self) -> None:
        while not self._stop_requested.is_set():
            self._store.wait(POLL_INTERVAL_SECONDS)
            try:
                while self._poll() and not self._stop_requested.is_set():
                    pass
                for chore in self.periodic_tasks:
                    chore()
            except InturnError as error:
                log.warning("events could not be read, trying again: %s", error.code)
                self._stop_requested.wait(1)
            time.sleep(MIN_POLL_PAUSE_SECONDS)

    def _poll(self) -> bool:
        """Tell what is new; whether there may be more."""
        events = self._store.events(self.last_event_number, limit=EVENTS_PAGE_SIZE)
        if not events:
            return False
        self.last_event_number = events[-1].number
        for listener in self.listeners:
            try:
                listener(events)
            except Exception as error:  # noqa: BLE001 - the others, and everybody who waits, still want to hear
                log.error("a listener failed: %s", type(error).__name__)
        ended = {id_ for event in events if event.kind in END_EVENT_KINDS for id_ in event.documents}
        everybody = any(event.kind is EventKind.PURGED for event in events)
        if self._loop is not None and (ended or everybody):
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wake_waiters, None if everybody else ended)
        return len(events) == EVENTS_PAGE_SIZE

    def _wake_waiters(self, ids: set[str] | None) -> None:
        for id_ in list(self._waiters_by_document) if ids is None else ids & self._waiters_by_document.keys():
            for rung in self._waiters_by_document[id_]:
                rung.set()
