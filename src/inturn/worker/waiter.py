"""Wait for the store's notification in a thread, while the worker's main loop serves its children."""

import threading
import time
from collections.abc import Callable

from inturn.queue import Queue


class Waiter(threading.Thread):
    """Calls back when the store notifies, or when the time is up; one call for each `start_waiting`."""

    def __init__(self, queue: Queue, on_notify: Callable[[], None]) -> None:
        super().__init__(name="inturn-waiter", daemon=True)
        self._queue = queue
        self._on_notify = on_notify
        self._wait_requested = threading.Event()
        self._is_stopping = False
        self._timeout = 1.0

    def start_waiting(self, timeout: float) -> None:
        """Call back once: when a document may have become claimable, or after `timeout` seconds."""
        self._timeout = max(0.0, timeout)
        self._wait_requested.set()

    def run(self) -> None:  # noqa: D102 - a thread's own
        while True:
            self._wait_requested.wait()
            self._wait_requested.clear()
            if self._is_stopping:
                return
            try:
                self._queue.wait(self._timeout)
            except Exception:  # noqa: BLE001 - the claim that follows logs the error
                time.sleep(0.5)
            if not self._is_stopping:
                self._on_notify()

    def stop(self) -> None:
        """End the thread; a wait that is under way ends first."""
        self._is_stopping = True
        self._wait_requested.set()
        self.join()
