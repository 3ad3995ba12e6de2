"""Claims: one at a time in a queue, each one snapshot of it. Everything that writes lines is here."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from inturn.clock import Clock
from inturn.model import Claimed
from inturn.policy import TurnPolicy
from inturn.store import WORKER_KEPT, ClaimRequest, Discrepancy, EventKind, Exchanged, Outcome, Swept, Verdict
from inturn.stores.postgres import audit
from inturn.stores.postgres.book import Book, QueueRow
from inturn.stores.postgres.connection import Begin, Database
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.lines import SqlLine
from inturn.stores.postgres.moves import AT_ONCE, Moves
from inturn.stores.postgres.rows import document_of
from inturn.stores.postgres.tables import Tables
from inturn.stores.postgres.upkeep import Upkeep

Answer = TypeVar("Answer")


class Claims:
    """Claims of one process go one by one before they queue up at the server: they share what is remembered.

    A claim's commit does not wait for the disk: one that is lost in a crash leaves its documents waiting. Where
    outcomes came with it, the answer waits, and the lock does not.
    """

    def __init__(self, database: Database, known: Known, clock: Clock | None) -> None:
        self._database = database
        self._known = known
        self._clock = clock
        self._turn = threading.Lock()
        self.book: Book | None = None
        """The lines as the last claim of this process left them."""

    def exchange(self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None) -> Exchanged:
        """Outcomes and claim in one; again without outcomes while more is due than one transaction moves on."""
        verdicts, claimed = self._claim(lambda book, moves: self._exchange(book, moves, outcomes, request), now)
        if outcomes:
            self._database.flush()
        while claimed is None:
            _, claimed = self._claim(lambda book, moves: self._exchange(book, moves, (), request), now)
        return Exchanged(verdicts, claimed)

    def fold(self) -> None:
        """Let the lines stand as the next claim would find them."""
        self._claim(lambda _, __: None, None)

    def sweep(self, now: int | None) -> Swept:
        """Move on what is due until nothing is, and forget what is spent."""
        total = Swept()
        while True:
            swept = self._claim(self._sweep, now)
            total = Swept(*(one + other for one, other in zip(total, swept, strict=True)))
            if AT_ONCE not in swept:
                return total

    def recount(self, *, repair: bool, now: int | None) -> tuple[Discrepancy, ...]:
        """Compare, and set right."""
        self.fold()

        def work(tables: Tables, book: Book) -> tuple[Discrepancy, ...]:
            book.fold(everything=True)
            book.save()
            found = audit.discrepancies(tables, self._known)
            if found and repair:
                queue = self._queue(tables)
                again = Book(tables, queue, self._policy(tables, queue))
                audit.repair(tables, again)
                again.save()
                upkeep = Upkeep(tables, self._known, self._at(queue, now))
                upkeep.note(EventKind.REPAIRED, None, None, {"counts": len(found)})
            tables.run("commit_surely")
            return found

        with self._turn:
            self.book = None
            return self._database.run(Begin.CLAIM, lambda tables: work(tables, self._opened(tables)), patient=False)

    # -- in one transaction -----------------------------------------------------------------------------------------

    def _claim(self, work: Callable[[Book, Moves], Answer], now: int | None) -> Answer:
        def claim(tables: Tables) -> tuple[Answer, Book]:
            book = self._opened(tables)
            book.fold()
            moves = Moves(tables, book, self._known, self._at(book.queue, now))
            answer = work(book, moves)
            moves.write()
            if book.save():
                tables.run("commit_surely")
            return answer, book

        with self._turn:
            answer, book = self._database.run(Begin.CLAIM, claim)
            self.book = book if book.is_small else None
        return answer

    def _opened(self, tables: Tables) -> Book:
        """This process's book, if nobody else has claimed since; otherwise a new one. Kept again after the commit."""
        queue = self._queue(tables)
        book, self.book = self.book, None
        if book is None or not book.is_current(queue):
            return Book(tables, queue, self._policy(tables, queue))
        book.begin(tables, queue)
        return book

    def _exchange(
        self, book: Book, moves: Moves, outcomes: Sequence[Outcome], request: ClaimRequest
    ) -> tuple[tuple[Verdict, ...], tuple[Claimed, ...] | None]:
        """None for the claim when more is due than one transaction moves on."""
        verdicts = moves.settle(outcomes)
        if AT_ONCE in moves.move_on(book):
            return verdicts, None
        return verdicts, () if book.queue.paused_by is not None else self._take(book, request, moves)

    def _take(self, book: Book, request: ClaimRequest, moves: Moves) -> tuple[Claimed, ...]:
        book.reach(request.limit)
        lines: list[SqlLine] = []
        fences: dict[int, int] = {}
        while len(fences) < request.limit and (taken := book.take(moves.now)) is not None:
            line, head = taken
            book.fence += 1
            lines.append(line)
            fences[head.seq] = book.fence
        if not fences:
            return ()
        until = moves.now + request.lease
        book.falls_due(0, "lease", until)
        rows = moves.tables.all(
            "start_documents",
            seqs=list(fences),
            fences=list(fences.values()),
            now=moves.now,
            until=until,
            worker=request.worker,
        )
        if len(rows) != len(fences):
            raise AssertionError(f"of {len(fences)} documents that stand in lines, {len(rows)} wait")
        by_seq = {row[2]: row for row in rows}
        names = self._known.names(moves.tables, dict.fromkeys(line.owner for line in lines))
        claimed = []
        for line, (seq, fence) in zip(lines, fences.items(), strict=True):
            claimed.append(Claimed(document_of(by_seq[seq], names[line.owner]), fence))
            moves.tell(EventKind.STARTED, line.owner, by_seq[seq][0])
        moves.write_told((EventKind.STARTED,))
        return tuple(claimed)

    def _sweep(self, book: Book, moves: Moves) -> Swept:
        swept = moves.move_on(book)
        book.save()
        for level in book.turns.levels:
            moves.tables.run("forget_spent", level=level.number, turn=level.v.turn)
        moves.tables.run("forget_silent_workers", before=moves.now - WORKER_KEPT)
        return swept

    def _queue(self, tables: Tables) -> QueueRow:
        found = tables.one("queue")
        if found is None:
            raise AssertionError("the queue has no row")
        return QueueRow._make(found)

    def _policy(self, tables: Tables, queue: QueueRow) -> TurnPolicy:
        return self._known.policy(tables, queue.policy).policy.turns

    def _at(self, queue: QueueRow, now: int | None) -> int:
        if now is not None:
            return now
        return queue.at if self._clock is None else self._clock.now()
