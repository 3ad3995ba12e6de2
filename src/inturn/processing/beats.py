"""What goes on beside a worker's main loop, so that nothing it does can stall it: heartbeats and the doorbell."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from inturn.errors import InturnError
from inturn.model import SECOND, Claimed, WorkerReport
from inturn.queue import Queue
from inturn.store import Hold

log: Final = logging.getLogger("inturn.worker")
REPORT_EVERY: Final = 2.0
"""Seconds after which a changed report is told."""


class Beats(threading.Thread):
    """Renews the leases of what the worker holds, and tells how the worker is."""

    def __init__(
        self,
        queue: Queue,
        lease: int,
        held: Callable[[], Sequence[Claimed]],
        report: Callable[[], WorkerReport],
        lost: Callable[[Claimed, Hold], None],
    ) -> None:
        super().__init__(name="inturn-heartbeat", daemon=True)
        self._queue = queue
        self._lease = lease
        self._held = held
        self._report = report
        self._lost = lost
        self._over = threading.Event()
        self._told: WorkerReport | None = None

    def run(self) -> None:  # noqa: D102 - a thread's own
        every = self._lease / SECOND / 4
        next_beat = next_report = time.monotonic()
        while not self._over.is_set():
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + (every if self._try(self._beat) else min(every, 0.5))
            if now >= next_report:
                self._try(self._tell)
                next_report = now + min(REPORT_EVERY, every)
            self._over.wait(max(0.01, min(next_beat, next_report) - time.monotonic()))

    def stop(self) -> None:
        """No more beats."""
        self._over.set()
        self.join()

    def _try(self, what: Callable[[], None]) -> bool:
        try:
            what()
        except InturnError as wrong:
            log.warning("heartbeat failed, trying again: %s", wrong)
            return False
        return True

    def _beat(self) -> None:
        held = self._held()
        if held:
            for claimed, hold in zip(held, self._queue.heartbeat(held, lease=self._lease), strict=True):
                if hold is not Hold.HELD:
                    self._lost(claimed, hold)
        self._told = None

    def _tell(self) -> None:
        report = self._report()
        if report != self._told:
            self._queue.store.see_worker(report)
            self._told = report


class Bell(threading.Thread):
    """Waits for the store to ring while the worker's main loop listens to its children."""

    def __init__(self, queue: Queue, ring: Callable[[], None]) -> None:
        super().__init__(name="inturn-bell", daemon=True)
        self._queue = queue
        self._ring = ring
        self._armed = threading.Event()
        self._is_over = False
        self._timeout = 1.0

    def arm(self, timeout: float) -> None:
        """Ring once: when something may have become claimable, or after so many seconds."""
        self._timeout = max(0.0, timeout)
        self._armed.set()

    def run(self) -> None:  # noqa: D102 - a thread's own
        while True:
            self._armed.wait()
            self._armed.clear()
            if self._is_over:
                return
            try:
                self._queue.store.wait(self._timeout)
            except InturnError:
                time.sleep(0.5)
            if not self._is_over:
                self._ring()

    def stop(self) -> None:
        """Listen no more."""
        self._is_over = True
        self._armed.set()
        self.join()
