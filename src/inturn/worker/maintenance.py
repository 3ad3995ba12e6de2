"""Run a queue's maintenance: expired leases, due delays, `start_by`, old history, unreferenced blobs.

Claims handle what is due as well; maintenance does it while no worker claims. Several processes may run it at once.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from inturn.blobs import Blobs
from inturn.clock import Clock, SystemClock, Uptime, machine_uptime
from inturn.model import ENDED
from inturn.policy.history import HistorySpan
from inturn.policy.retention import (
    Checkpoint,
    ClockJudgement,
    ClockReading,
    ClockTrust,
    Decision,
    decide,
    is_reference,
    judge_clock,
    last_prunable_seq,
    with_checkpoint,
)
from inturn.queue import Queue
from inturn.store_answers import MaintenanceRecord, SweepResult
from inturn.store_history import HistoryScope
from inturn.store_types import CustomerFilter, DocumentFilter
from inturn.values import MAX_TIME, SECOND
from inturn.worker.history import BATCH_EVENTS, HistoryThread
from inturn.worker.store_errors import log_store_error

log: Final = logging.getLogger("inturn.maintenance")
DAY: Final = 86_400 * SECOND
DEFAULT_KEEP: Final = 30 * DAY
"""Microseconds that ended documents and events are kept by default."""
MIN_ORPHAN_AGE: Final = 2 * DAY
"""Microseconds: a blob younger than a day may belong to a submit under way, and the clock may be a day ahead."""
BATCH_SIZE: Final = 500
MAX_CLEANED_PARTS: Final = 200
"""Parts of the index of searches that a round cleans, in about ten seconds."""
SWEEP_INTERVAL_SECONDS: Final = 15.0
ROUND_INTERVAL_SECONDS: Final = 600.0


class Refusal(NamedTuple):
    """Why a round deleted nothing: its clock's drift, and how many of all ended documents it considered old.

    If few or none of these are old, `old` and `ended` count hours of the history.
    """

    at: int
    drift: int
    old: int
    ended: int

    def __str__(self) -> str:
        days, when = self.drift / DAY, datetime.fromtimestamp(self.at / SECOND, UTC)
        return (
            f"nothing was deleted: by this clock it is {when:%Y-%m-%d %H:%M} UTC, {abs(days):,.1f} days"
            f" {'later' if days > 0 else 'earlier'} than expected after the last round, and {self.old:,} of"
            f" {self.ended:,} ended documents or hours of the history would be too old. If the clock is wrong, set it."
            f" If it is right, run: inturn maintenance --once --force"
        )


class MaintenanceResult(NamedTuple):
    """Counts of one round."""

    swept: SweepResult = SweepResult()
    documents: int = 0
    events: int = 0
    keys: int = 0
    blobs: int = 0
    orphans: int = 0
    refusal: Refusal | None = None


class Maintenance:
    """Runs rounds of maintenance. Ages are measured by the store's clock, if `inturn.policy.retention` trusts it."""

    def __init__(
        self,
        queue: Queue,
        blobs: Blobs | None = None,
        *,
        keep: int | None = DEFAULT_KEEP,
        clock: Clock | None = None,
        uptime: Callable[[], Uptime | None] = machine_uptime,
    ) -> None:
        self.queue = queue
        self._blobs = blobs
        self._keep = keep
        self._clock = clock or SystemClock()
        self._uptime = uptime
        self._may_clean = True
        """Whether the index of searches may have words of documents that are gone."""

    def sweep(self) -> SweepResult:
        """Expire leases, and make due documents claimable."""
        return self.queue.sweep()

    def run_round(self, *, force: bool = False) -> MaintenanceResult:
        """Sweep, then delete what is old. With a clock that cannot be trusted nothing is deleted, unless forced."""
        swept = self.sweep()
        reading = ClockReading(self.queue.now(), *(self._uptime() or ()))
        decision, refusal = self._decide(reading, force=force)
        if refusal is not None:
            self._record_refusal(refusal)
        if decision is not Decision.DELETE:
            return MaintenanceResult(swept, refusal=refusal)
        self._fold_old_events(reading.at)
        documents, events, keys, blobs = self._prune_all(reading.at)
        self._clean_index(has_deleted=documents > 0)
        self.queue.forget_old_history()
        return MaintenanceResult(swept, documents, events, keys, blobs, self._delete_orphans(reading.at))

    def _fold_old_events(self, now: int) -> None:
        """Add events to the history before they are deleted: this may be the only process that does."""
        while self._keep is not None:
            events = self.queue.events(self.queue.history_cursor().event, limit=1)
            if not events or events[0].at >= now - self._keep:
                break
            self.queue.fold_history(limit=BATCH_EVENTS)

    def _clean_index(self, *, has_deleted: bool) -> None:
        """Delete words of documents that are gone, if this process has deleted some, or may find those of another.

        To look for them, all documents are read.
        """
        if has_deleted or self._may_clean:
            self._may_clean = self.queue.clean_index(limit=MAX_CLEANED_PARTS) == MAX_CLEANED_PARTS

    def _decide(self, reading: ClockReading, *, force: bool) -> tuple[Decision, Refusal | None]:
        """Decide whether this round may delete; record its clock for the next round, unless it is refused."""
        queue = self.queue
        record = queue.last_maintenance()
        last = None if record is None else ClockReading(*record[:3])
        trust, drift = judge_clock(last or ClockReading(queue.policies()[-1].at), reading)
        if force:
            trust, last = ClockTrust.VERIFIED, reading
        old, ended = (0, 0) if trust is ClockTrust.VERIFIED else self._count_old(reading.at)
        decision = decide(trust, old, ended)
        if trust is not ClockTrust.VERIFIED and decision is not Decision.REFUSE:
            old, ended = self._count_old_hours(reading.at)
            decision = Decision.REFUSE if decide(trust, old, ended) is Decision.REFUSE else decision
        if decision is Decision.REFUSE:
            return decision, Refusal(reading.at, drift, old, ended)
        if is_reference(last, reading, ClockJudgement(trust, drift)):
            last = reading
        if last is not None:
            points = () if record is None else record.checkpoints
            if trust is ClockTrust.VERIFIED:
                points = with_checkpoint(points, Checkpoint(reading.at, self._last_seq()))
            queue.record_maintenance(MaintenanceRecord(*last, checkpoints=points))
        return decision, None

    def _last_seq(self) -> int:
        page = self.queue.documents(limit=1)
        return page.items[0].seq if page.items else 0

    def _count_old(self, now: int) -> tuple[int, int]:
        """Count the old documents, and all that have ended."""
        times = [(name, now - keep) for name, keep in self._retention_periods() if now > keep]
        old = sum(self.queue.prunable(before, customer=name, up_to=self._last_old(before)) for name, before in times)
        return old, sum(self.queue.counts(DocumentFilter(states=ENDED)).states.values())

    def _count_old_hours(self, now: int) -> tuple[int, int]:
        """Count the hours of the history that are past their retention, and all: the next round would delete them."""
        hours = self.queue.history(HistorySpan.HOUR, HistoryScope.QUEUE, 0, MAX_TIME)
        return sum(row.at < now - HistorySpan.HOUR.retention for row in hours), len(hours)

    def _record_refusal(self, refusal: Refusal) -> None:
        queue = self.queue
        record = queue.last_maintenance() or MaintenanceRecord(queue.policies()[-1].at)
        queue.record_maintenance(MaintenanceRecord(*record[:3], *refusal, checkpoints=record.checkpoints))

    def _last_old(self, before: int) -> int | None:
        record = self.queue.last_maintenance()
        return None if record is None else last_prunable_seq(record.checkpoints, before)

    def _prune_all(self, now: int) -> tuple[int, int, int, int]:
        """Delete history by age; return counts of documents, events, keys and blobs."""
        removed = [self._prune(now - keep, name) for name, keep in self._retention_periods()]
        documents, events, keys, blobs = (sum(column) for column in zip(*removed, strict=True)) if removed else (0,) * 4
        return documents, events, keys, blobs

    def _retention_periods(self) -> list[tuple[str | None, int]]:
        """List retention times in microseconds: of customers with a setting of their own, then of all others (None)."""
        periods: list[tuple[str | None, int]] = []
        after = None
        while True:
            page = self.queue.customers(CustomerFilter(), limit=1_000, after=after)
            periods += [
                (customer.name, customer.settings.keep) for customer in page.items if customer.settings.keep is not None
            ]
            after = page.next
            if after is None:
                return periods if self._keep is None else [*periods, (None, self._keep)]

    def _prune(self, before: int, customer: str | None) -> tuple[int, int, int, int]:
        total, up_to = [0, 0, 0, 0], self._last_old(before)
        while before > 0:
            removed = self.queue.prune(before, limit=BATCH_SIZE, customer=customer, up_to=up_to)
            if self._blobs is not None:
                self._blobs.delete(removed.blobs)
            for at, n in enumerate((removed.documents, removed.events, removed.keys, len(removed.blobs))):
                total[at] += n
            if removed.documents < BATCH_SIZE and removed.events < BATCH_SIZE:
                break
        return total[0], total[1], total[2], total[3]

    def _delete_orphans(self, now: int) -> int:
        """Delete blobs that no document refers to, if they are old by the store's clock and by this machine's."""
        if self._blobs is None:
            return 0
        before = min(now, self._clock.now()) - MIN_ORPHAN_AGE
        deleted, keys = self._blobs.remove_unfinished(before), iter(self._blobs.keys(before))
        while batch := list(islice(keys, BATCH_SIZE)):
            orphans = self.queue.unreferenced_blobs(batch)
            self._blobs.delete(orphans)
            deleted += len(orphans)
        return deleted


class MaintenanceThread(threading.Thread):
    """Sweeps every 15 seconds, runs a round every 10 minutes, and has a thread beside it for the history."""

    def __init__(self, maintenance: Maintenance) -> None:
        super().__init__(name="inturn-maintenance", daemon=True)
        self._maintenance = maintenance
        self._history = HistoryThread(maintenance.queue)
        self._stop_event = threading.Event()

    def run(self) -> None:  # noqa: D102 - a thread's own
        self._history.start()
        next_round = time.monotonic()  # at once: a worker that is restarted often would never get to it
        while not self._stop_event.wait(SWEEP_INTERVAL_SECONDS):
            try:
                if time.monotonic() >= next_round:
                    next_round = time.monotonic() + ROUND_INTERVAL_SECONDS
                    refusal = self._maintenance.run_round().refusal
                    if refusal is not None:
                        log.warning("maintenance: %s", refusal)
                else:
                    self._maintenance.sweep()
            except Exception as error:  # noqa: BLE001 - the next round may succeed
                log_store_error("maintenance failed", error)

    def stop(self) -> None:
        """End the thread, after a round that is under way."""
        self._stop_event.set()
        self.join()
        self._history.stop()
