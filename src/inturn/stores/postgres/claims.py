"""Claim documents: one claim at a time in a queue, each on one snapshot. All writes to lanes are here."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from inturn.clock import Clock
from inturn.model import Claim
from inturn.policy import TurnPolicy
from inturn.store import (
    WORKER_RETENTION,
    AckAndClaim,
    AckStatus,
    ClaimRequest,
    Discrepancy,
    EventKind,
    Outcome,
    SweepResult,
)
from inturn.stores.postgres import clock_skew, recount
from inturn.stores.postgres.admin import Admin
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.claim_rows import ClaimedRow, ClaimWrite, QueueRow
from inturn.stores.postgres.claim_window import ClaimWindow
from inturn.stores.postgres.connection import Database, TransactionKind
from inturn.stores.postgres.queries import Queries, Row
from inturn.stores.postgres.rows import document_from_row
from inturn.stores.postgres.transitions import MAX_DUE_PER_TRANSACTION, Transitions

Answer = TypeVar("Answer")


class Claims:
    """Runs the claims of one process one by one: they share the claim window.

    A claim's commit does not wait for the disk: one that is lost in a crash leaves its documents waiting. Where
    outcomes came with it, the answer waits for a second commit that does; the server's lock is free by then.
    """

    def __init__(self, database: Database, cache: QueueCache, clock: Clock | None) -> None:
        self._database = database
        self._cache = cache
        self._clock = clock
        self._lock = threading.Lock()
        self.window: ClaimWindow | None = None
        """The lanes as the last claim of this process left them."""
        self.may_find_work = False
        """Whether the last claim found documents, or a notification came since: the next one claims at once."""

    def ack_and_claim(self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None) -> AckAndClaim:
        """Record outcomes and claim in one transaction, and again while more is due than one processes."""
        statuses, claimed = self._ack_and_claim(outcomes, request, now)
        while claimed is None:
            _, claimed = self._ack_and_claim((), request, now)
        self.may_find_work = bool(claimed)
        return AckAndClaim(statuses, claimed)

    def apply_lane_log(self) -> None:
        """Apply the lane log without claiming."""
        self._claim(lambda *_: None, None)

    def sweep(self, now: int | None) -> SweepResult:
        """Process what is due until nothing is, and delete spent lanes."""
        total = SweepResult()
        while True:
            swept = self._claim(self._sweep, now)
            total = SweepResult(*(one + other for one, other in zip(total, swept, strict=True)))
            if MAX_DUE_PER_TRANSACTION not in swept:
                return total

    def recount(self, *, repair: bool, now: int | None) -> tuple[Discrepancy, ...]:
        """Compare counters with documents, and repair them if asked."""
        self.apply_lane_log()

        def work(queries: Queries, window: ClaimWindow) -> tuple[Discrepancy, ...]:
            window.apply_lane_log(all_rows=True)
            window.save(ClaimWrite(0))
            discrepancies = recount.discrepancies(queries, self._cache)
            if discrepancies and repair:
                (row,) = queries.fetch_all("queue")
                queue = QueueRow._make(row)
                again = ClaimWindow(queries, queue, self._policy(queries, queue))
                recount.repair(queries, again)
                again.save(ClaimWrite(0))
                admin = Admin(queries, self._cache, self._time(queue, now))
                admin.add_event(EventKind.REPAIRED, None, None, {"counts": len(discrepancies)})
            queries.execute("commit_durably")
            return discrepancies

        with self._lock:
            self.window = None
            return self._database.run(
                TransactionKind.CLAIM, lambda queries: work(queries, self._load_window(queries)), with_timeout=False
            )

    # -- in one transaction -----------------------------------------------------------------------------------------

    def _claim(self, work: Callable[[ClaimWindow, Transitions], Answer], now: int | None) -> Answer:
        def claim(queries: Queries) -> tuple[Answer, ClaimWindow]:
            window, transitions = self._begin(queries, now)
            answer = work(window, transitions)
            window.save(ClaimWrite(transitions.now, transitions.events))
            return answer, window

        with self._lock:
            answer, window = self._database.run(TransactionKind.CLAIM, claim)
            self._cache_window(window)
        return answer

    def _ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None
    ) -> tuple[tuple[AckStatus, ...], tuple[Claim, ...] | None]:
        """None for the claim when more is due than one transaction processes."""

        def claim(queries: Queries) -> tuple[tuple[AckStatus, ...], ClaimWindow, ClaimWrite | None, list[Row]]:
            window, transitions = self._begin(queries, now)
            statuses = transitions.ack(outcomes)
            if MAX_DUE_PER_TRANSACTION in transitions.process_due(window):
                return (
                    statuses,
                    window,
                    None,
                    window.save(ClaimWrite(transitions.now, transitions.events), is_last=True),
                )
            work = self._take(window, request, transitions)
            return statuses, window, work, window.save(work, is_last=True)

        with self._lock:
            statuses, window, work, rows = self._database.run(TransactionKind.CLAIM, claim, flush=bool(outcomes))
            self._cache_window(window)
        return statuses, None if work is None else _to_claims(work, rows)

    def _begin(self, queries: Queries, now: int | None) -> tuple[ClaimWindow, Transitions]:
        window = self._load_window(queries)
        window.apply_lane_log()
        return window, Transitions(queries, window, self._cache, self._time(window.queue, now))

    def _cache_window(self, window: ClaimWindow) -> None:
        self.window = window if window.is_cacheable else None

    def _load_window(self, queries: Queries) -> ClaimWindow:
        """Return this process's window if no other claim came since, otherwise a new one. It is kept after the commit.

        The first trip of the transaction may have read the queue and taken the lane log out of its table already.
        """
        (result,), changes = queries.begin_rows or (queries.fetch_all("queue"), None)
        queue = QueueRow._make(result)
        window, self.window = self.window, None
        if window is None or not window.is_current(queue):
            window = ClaimWindow(queries, queue, self._policy(queries, queue))
        window.begin(queries, queue, changes)
        return window

    def _take(self, window: ClaimWindow, request: ClaimRequest, transitions: Transitions) -> ClaimWrite:
        """Take documents in turn, up to the limit; none from a paused queue."""
        taken: list[ClaimedRow] = []
        window.set_claim_limit(request.limit)
        if window.queue.paused_by is None:
            while len(taken) < request.limit and (sql_lanes := window.take_next(transitions.now)) is not None:
                lane, head = sql_lanes
                window.fence += 1
                taken.append(ClaimedRow(lane.owner, lane.level, head.seq, window.fence))
        until = transitions.now + request.lease
        names = self._cache.customer_names(transitions.queries, {claimed_row.owner for claimed_row in taken})
        if taken:
            window.deadline_set(0, "lease", until)
            transitions.add_started_event([names[claimed_row.owner] for claimed_row in taken])
        return ClaimWrite(transitions.now, transitions.events, taken, request.worker, until, names)

    def _sweep(self, window: ClaimWindow, transitions: Transitions) -> SweepResult:
        clock_skew.review(transitions.queries, window, transitions.now)
        swept = transitions.process_due(window)
        window.save(ClaimWrite(transitions.now, transitions.events))
        transitions.events = []
        rested_since = transitions.now - window.scheduler.policy.out_of_turn_interval
        for level in window.scheduler.levels:
            transitions.queries.execute(
                "forget_spent_lanes", level=level.number, turn=level.virtual_time.turn, rested_since=rested_since
            )
        first, last = transitions.now - WORKER_RETENTION, transitions.now + WORKER_RETENTION
        transitions.queries.execute("forget_silent_workers", first=first, last=last)
        return swept

    def _policy(self, queries: Queries, queue: QueueRow) -> TurnPolicy:
        return self._cache.policy(queries, queue.policy).policy.turns

    def _time(self, queue: QueueRow, now: int | None) -> int:
        if now is not None:
            return now
        return queue.server_time if self._clock is None else self._clock.now()


def _to_claims(claim: ClaimWrite, rows: list[Row]) -> tuple[Claim, ...]:
    """The documents claimed, in the order in which they were taken."""
    by_seq = {row[2]: row for row in rows}
    return tuple(
        [
            Claim(document_from_row(by_seq[seq], claim.customer_names[owner]), fence)
            for owner, _, seq, fence in claim.claimed
        ]
    )
