"""What goes on beside a worker's main loop, so that nothing it does can stall it: heartbeats and the doorbell."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from inturn.model import SECOND, Claimed, WorkerReport
from inturn.processing.store_errors import log_store_error
from inturn.queue import Queue
from inturn.store import Hold

log: Final = logging.getLogger("inturn.worker")
REPORT_EVERY: Final = 2.0
"""Seconds after which a changed report is told."""
REPORT_ANYWAY: Final = 10.0
"""Seconds after which one is told that has not changed: nobody else says that the worker is alive."""


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
        self._told_at = 0.0

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
        except Exception as error:  # noqa: BLE001 - without heartbeats every lease would be lost
            log_store_error("heartbeat failed", error)
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
        now = time.monotonic()
        if report != self._told or now >= self._told_at + REPORT_ANYWAY:
            self._queue.store.see_worker(report)
            self._told, self._told_at = report, now


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
            except Exception:  # noqa: BLE001 - the claim that follows tells what is wrong
                time.sleep(0.5)
            if not self._is_over:
                self._ring()

    def stop(self) -> None:
        """Listen no more."""
        self._is_over = True
        self._armed.set()
        self.join()
