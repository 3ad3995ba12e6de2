"""Fold events into the queue's history, in a thread of workers, servers and `inturn maintenance`."""

import threading
import time
from typing import Final

from inturn.queue import Queue
from inturn.values import SECOND
from inturn.worker.search_index import SearchIndexer
from inturn.worker.store_errors import log_store_error

BATCH_EVENTS: Final = 5_000
PAUSE_FACTOR: Final = 25
"""The pause after a fold is this many times as long as the fold: all processes together use 4 % of a core at most."""
CHECK_INTERVAL_SECONDS: Final = 2.0
"""How often a process looks whether another has folded; the longest wait between two folds of a backlog."""
MAX_PAUSE: Final = 120 * SECOND
"""A fold that is due later was set by another clock."""


class HistoryFolder:
    """Folds when the store says that a fold is due: one process at a time, however many there are."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._last_duration = 0

    def fold_if_due(self) -> bool:
        """Fold one batch if none of the processes has done so lately; return whether it did."""
        now, due_at = self._queue.now(), self._queue.history_cursor().next_at
        if 0 < due_at - now < MAX_PAUSE:
            return False
        began = time.monotonic()
        self._queue.fold_history(limit=BATCH_EVENTS, pause=PAUSE_FACTOR * self._last_duration)
        self._last_duration = min(MAX_PAUSE // PAUSE_FACTOR, round((time.monotonic() - began) * SECOND))
        return True


class HistoryThread(threading.Thread):
    """Folds every ten seconds, and a backlog bit by bit; then indexes new documents for searches."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(name="inturn-history", daemon=True)
        self._folder = HistoryFolder(queue)
        self._indexer = SearchIndexer(queue)
        self._stop_event = threading.Event()

    def run(self) -> None:  # noqa: D102 - a thread's own
        while not self._stop_event.wait(CHECK_INTERVAL_SECONDS):
            try:
                if self._folder.fold_if_due():
                    self._indexer.index()
            except Exception as error:  # noqa: BLE001 - the next fold may succeed
                log_store_error("the history or the index of searches could not be written", error)

    def stop(self) -> None:
        """End the thread, after a fold that is under way."""
        self._stop_event.set()
        if self.is_alive():
            self.join()
