"""One reader of events for everybody who waits: long polls, estimates, metrics, and whatever listens."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from inturn.errors import InturnError
from inturn.http.errors import TooManyError
from inturn.store import Event, EventKind, Store

log: Final = logging.getLogger("inturn.http")
LOOK_EVERY: Final = 0.5
"""Seconds after which to look even if nothing rang: some ends ring for nobody who claims."""
PAUSE: Final = 0.05
"""Between two looks, however much happens."""
AT_ONCE: Final = 1_000
ENDS: Final = frozenset(
    {EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED, EventKind.EXPIRED, EventKind.PURGED}
)
Listener = Callable[[Sequence[Event]], None]


class Watcher:
    """Reads each event once. `listeners` hear all events, on the watcher's thread; `chores` are done now and then."""

    def __init__(self, store: Store, *, most: int) -> None:
        self.listeners: list[Listener] = []
        self.chores: list[Callable[[], None]] = []
        self._store = store
        self._most = most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inturn-watcher", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._waiters = 0
        self._stopping = False
        self.last = 0

    @property
    def is_stopping(self) -> bool:
        """Whether nobody should wait any more."""
        return self._stopping

    @property
    def waiters(self) -> int:
        """Long polls that wait now."""
        return self._waiters

    def start(self) -> None:
        """Begin with what happens from now on."""
        self.last = self._store.last_event()
        self._thread.start()

    def stop(self) -> None:
        """After the look that is under way."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def release(self) -> None:
        """Let all long polls answer now, and later ones not wait: the server stops. On the event loop."""
        self._stopping = True
        for rung in [each for some in self._waiting.values() for each in some]:
            rung.set()

    @contextmanager
    def waiting(self, id_: str) -> Iterator[asyncio.Event]:
        """Something that is set when this document may have ended. On the event loop."""
        if self._waiters >= self._most:
            raise TooManyError("too many callers wait for documents at this server; ask again without ?wait", 1)
        self._loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        if self._stopping:
            rung.set()
        self._waiters += 1
        self._waiting.setdefault(id_, set()).add(rung)
        try:
            yield rung
        finally:
            self._waiters -= 1
            self._waiting[id_].discard(rung)
            if not self._waiting[id_]:
                del self._waiting[id_]

    def _run(self) -> None:
        while not self._over.is_set():
            self._store.wait(LOOK_EVERY)
            try:
                while self._look() and not self._over.is_set():
                    pass
                for chore in self.chores:
                    chore()
            except InturnError as wrong:
                log.warning("events could not be read, trying again: %s", wrong.code)
                self._over.wait(1)
            time.sleep(PAUSE)

    def _look(self) -> bool:
        """Tell what is new; whether there may be more."""
        events = self._store.events(self.last, limit=AT_ONCE)
        if not events:
            return False
        self.last = events[-1].number
        for listener in self.listeners:
            try:
                listener(events)
            except Exception as wrong:  # noqa: BLE001 - the others, and everybody who waits, still want to hear
                log.error("a listener failed: %s", type(wrong).__name__)  # noqa: TRY400 - its words may be a document's
        ended = {id_ for event in events if event.kind in ENDS for id_ in event.documents}
        everybody = any(event.kind is EventKind.PURGED for event in events)
        if self._loop is not None and (ended or everybody):
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._ring, None if everybody else ended)
        return len(events) == AT_ONCE

    def _ring(self, ids: set[str] | None) -> None:
        for id_ in list(self._waiting) if ids is None else ids & self._waiting.keys():
            for rung in self._waiting[id_]:
                rung.set()
