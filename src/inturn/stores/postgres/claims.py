"""Claims: one at a time in a queue, each one snapshot of it. Everything that writes lines is here."""

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
    """Claims of one process go one by one before they queue up at the server: they share what is remembered.

    A claim's commit does not wait for the disk: one that is lost in a crash leaves its documents waiting. Where
    outcomes came with it, the answer waits for a second commit that does; the server's lock is free by then.
    """

    def __init__(self, database: Database, cache: QueueCache, clock: Clock | None) -> None:
        self._database = database
        self._cache = cache
        self._clock = clock
        self._lock = threading.Lock()
        self.window: ClaimWindow | None = None
        """The lines as the last claim of this process left them."""
        self.may_find_work = False
        """Whether that one found anything, or somebody has rung since: then the next may as well."""

    def ack_and_claim(self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None) -> AckAndClaim:
        """Outcomes and claim in one; again without outcomes while more is due than one transaction moves on."""
        verdicts, claimed = self._ack_and_claim(outcomes, request, now)
        while claimed is None:
            _, claimed = self._ack_and_claim((), request, now)
        self.may_find_work = bool(claimed)
        return AckAndClaim(verdicts, claimed)

    def apply_lane_log(self) -> None:
        """Let the lines stand as the next claim would find them."""
        self._claim(lambda *_: None, None)

    def sweep(self, now: int | None) -> SweepResult:
        """Move on what is due until nothing is, and forget what is spent."""
        total = SweepResult()
        while True:
            swept = self._claim(self._sweep, now)
            total = SweepResult(*(one + other for one, other in zip(total, swept, strict=True)))
            if MAX_DUE_PER_TRANSACTION not in swept:
                return total

    def recount(self, *, repair: bool, now: int | None) -> tuple[Discrepancy, ...]:
        """Compare, and set right."""
        self.apply_lane_log()

        def work(tables: Queries, book: ClaimWindow) -> tuple[Discrepancy, ...]:
            book.apply_lane_log(all_rows=True)
            book.save(ClaimWrite(0))
            discrepancies = recount.discrepancies(tables, self._cache)
            if discrepancies and repair:
                (found_now,) = tables.fetch_all("queue")
                queue = QueueRow._make(found_now)
                again = ClaimWindow(tables, queue, self._policy(tables, queue))
                recount.repair(tables, again)
                again.save(ClaimWrite(0))
                upkeep = Admin(tables, self._cache, self._time(queue, now))
                upkeep.add_event(EventKind.REPAIRED, None, None, {"counts": len(discrepancies)})
            tables.execute("commit_durably")
            return discrepancies

        with self._lock:
            self.window = None
            return self._database.run(
                TransactionKind.CLAIM, lambda tables: work(tables, self._load_window(tables)), with_timeout=False
            )

    # -- in one transaction -----------------------------------------------------------------------------------------

    def _claim(self, work: Callable[[ClaimWindow, Transitions], Answer], now: int | None) -> Answer:
        def claim(tables: Queries) -> tuple[Answer, ClaimWindow]:
            book, moves = self._begin(tables, now)
            answer = work(book, moves)
            book.save(ClaimWrite(moves.now, moves.events))
            return answer, book

        with self._lock:
            answer, book = self._database.run(TransactionKind.CLAIM, claim)
            self._cache_window(book)
        return answer

    def _ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None
    ) -> tuple[tuple[AckStatus, ...], tuple[Claim, ...] | None]:
        """None for the claim when more is due than one transaction moves on."""

        def claim(tables: Queries) -> tuple[tuple[AckStatus, ...], ClaimWindow, ClaimWrite | None, list[Row]]:
            book, moves = self._begin(tables, now)
            verdicts = moves.ack(outcomes)
            if MAX_DUE_PER_TRANSACTION in moves.process_due(book):
                return verdicts, book, None, book.save(ClaimWrite(moves.now, moves.events), is_last=True)
            work = self._take(book, request, moves)
            return verdicts, book, work, book.save(work, is_last=True)

        with self._lock:
            verdicts, book, work, rows = self._database.run(TransactionKind.CLAIM, claim, flush=bool(outcomes))
            self._cache_window(book)
        return verdicts, None if work is None else _to_claims(work, rows)

    def _begin(self, queries: Queries, now: int | None) -> tuple[ClaimWindow, Transitions]:
        book = self._load_window(queries)
        book.apply_lane_log()
        return book, Transitions(queries, book, self._cache, self._time(book.queue, now))

    def _cache_window(self, window: ClaimWindow) -> None:
        self.window = window if window.is_cacheable else None

    def _load_window(self, queries: Queries) -> ClaimWindow:
        """This process's book, if nobody else has claimed since; otherwise a new one. Kept again after the commit.

        The transaction may have begun with a look at the queue, and with taking the line changes out of their table.
        """
        (result,), changes = queries.begin_rows or (queries.fetch_all("queue"), None)
        queue = QueueRow._make(result)
        book, self.window = self.window, None
        if book is None or not book.is_current(queue):
            book = ClaimWindow(queries, queue, self._policy(queries, queue))
        book.begin(queries, queue, changes)
        return book

    def _take(self, window: ClaimWindow, request: ClaimRequest, transitions: Transitions) -> ClaimWrite:
        """Take documents in the order of turns, as far as lines and fences go; nothing from a paused queue."""
        taken: list[ClaimedRow] = []
        window.set_claim_limit(request.limit)
        if window.queue.paused_by is None:
            while len(taken) < request.limit and (sql_lanes := window.take_next(transitions.now)) is not None:
                line, head = sql_lanes
                window.fence += 1
                taken.append(ClaimedRow(line.owner, line.level, head.seq, window.fence))
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
    """The documents started, in the order in which they were taken."""
    by_seq = {row[2]: row for row in rows}
    return tuple(
        [
            Claim(document_from_row(by_seq[seq], claim.customer_names[owner]), fence)
            for owner, _, seq, fence in claim.claimed
        ]
    )
