"""Renew leases and report the worker's state in a thread, so that the main loop cannot delay them."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from inturn.model import Claim
from inturn.queue import Queue
from inturn.store_types import LeaseStatus
from inturn.values import SECOND
from inturn.worker.store_errors import log_store_error
from inturn.worker_report import WorkerReport

log: Final = logging.getLogger("inturn.worker")
REPORT_INTERVAL_SECONDS: Final = 2.0
"""Seconds between two reports, if they differ."""
MAX_REPORT_INTERVAL_SECONDS: Final = 10.0
"""Seconds after which an unchanged report is sent again: it shows that the worker is alive."""


class Heartbeat(threading.Thread):
    """Renews the leases of the worker's documents four times per lease, and reports the worker's state."""

    def __init__(
        self,
        queue: Queue,
        lease: int,
        held_claims: Callable[[], Sequence[Claim]],
        report: Callable[[], WorkerReport],
        on_lost_claim: Callable[[Claim, LeaseStatus], None],
    ) -> None:
        super().__init__(name="inturn-heartbeat", daemon=True)
        self._queue = queue
        self._lease = lease
        self._held_claims = held_claims
        self._report = report
        self._on_lost_claim = on_lost_claim
        self._stop_event = threading.Event()
        self._last_report: WorkerReport | None = None
        self._last_report_at = 0.0

    def run(self) -> None:  # noqa: D102 - a thread's own
        interval = self._lease / SECOND / 4
        next_beat = next_report = time.monotonic()
        while not self._stop_event.is_set():
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + (interval if self._try(self._renew_leases) else min(interval, 0.5))
            if now >= next_report:
                self._try(self._send_report)
                next_report = now + min(REPORT_INTERVAL_SECONDS, interval)
            self._stop_event.wait(max(0.01, min(next_beat, next_report) - time.monotonic()))

    def stop(self) -> None:
        """End the thread, after a renewal that is under way."""
        self._stop_event.set()
        self.join()

    def _try(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - without heartbeats every lease would be lost
            log_store_error("heartbeat failed", error)
            return False
        return True

    def _renew_leases(self) -> None:
        held = self._held_claims()
        if held:
            for claim, lease_status in zip(held, self._queue.heartbeat(held, lease=self._lease), strict=True):
                if lease_status is not LeaseStatus.HELD:
                    self._on_lost_claim(claim, lease_status)
        self._last_report = None

    def _send_report(self) -> None:
        report = self._report()
        now = time.monotonic()
        if report != self._last_report or now >= self._last_report_at + MAX_REPORT_INTERVAL_SECONDS:
            self._queue.record_worker(report)
            self._last_report, self._last_report_at = report, now
