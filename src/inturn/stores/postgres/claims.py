"""Claims: one at a time in a queue, each one snapshot of it. Everything that writes lines is here."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from inturn.clock import Clock
from inturn.model import Claimed
from inturn.policy import TurnPolicy
from inturn.store import WORKER_KEPT, ClaimRequest, Discrepancy, EventKind, Exchanged, Outcome, Swept, Verdict
from inturn.stores.postgres import audit, clocks
from inturn.stores.postgres.book import Book
from inturn.stores.postgres.connection import Begin, Database
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.moves import AT_ONCE, Moves
from inturn.stores.postgres.rows import document_of
from inturn.stores.postgres.standing import QueueRow, Taken, Work
from inturn.stores.postgres.tables import Row, Tables
from inturn.stores.postgres.upkeep import Upkeep

Answer = TypeVar("Answer")


class Claims:
    """Claims of one process go one by one before they queue up at the server: they share what is remembered.

    A claim's commit does not wait for the disk: one that is lost in a crash leaves its documents waiting. Where
    outcomes came with it, the answer waits for a second commit that does; the server's lock is free by then.
    """

    def __init__(self, database: Database, known: Known, clock: Clock | None) -> None:
        self._database = database
        self._known = known
        self._clock = clock
        self._turn = threading.Lock()
        self.book: Book | None = None
        """The lines as the last claim of this process left them."""
        self.found = False
        """Whether that one found anything, or somebody has rung since: then the next may as well."""

    def exchange(self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None) -> Exchanged:
        """Outcomes and claim in one; again without outcomes while more is due than one transaction moves on."""
        verdicts, claimed = self._exchange(outcomes, request, now)
        while claimed is None:
            _, claimed = self._exchange((), request, now)
        self.found = bool(claimed)
        return Exchanged(verdicts, claimed)

    def fold(self) -> None:
        """Let the lines stand as the next claim would find them."""
        self._claim(lambda *_: None, None)

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
            book.save(Work(0))
            found = audit.discrepancies(tables, self._known)
            if found and repair:
                (found_now,) = tables.all("queue")
                queue = QueueRow._make(found_now)
                again = Book(tables, queue, self._policy(tables, queue))
                audit.repair(tables, again)
                again.save(Work(0))
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
            book, moves = self._begun(tables, now)
            answer = work(book, moves)
            book.save(Work(moves.now, moves.events))
            return answer, book

        with self._turn:
            answer, book = self._database.run(Begin.CLAIM, claim)
            self._keep(book)
        return answer

    def _exchange(
        self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None
    ) -> tuple[tuple[Verdict, ...], tuple[Claimed, ...] | None]:
        """None for the claim when more is due than one transaction moves on."""

        def claim(tables: Tables) -> tuple[tuple[Verdict, ...], Book, Work | None, list[Row]]:
            book, moves = self._begun(tables, now)
            verdicts = moves.settle(outcomes)
            if AT_ONCE in moves.move_on(book):
                return verdicts, book, None, book.save(Work(moves.now, moves.events), is_last=True)
            work = self._take(book, request, moves)
            return verdicts, book, work, book.save(work, is_last=True)

        with self._turn:
            verdicts, book, work, rows = self._database.run(Begin.CLAIM, claim, flush=bool(outcomes))
            self._keep(book)
        return verdicts, None if work is None else _claimed(work, rows)

    def _begun(self, tables: Tables, now: int | None) -> tuple[Book, Moves]:
        book = self._opened(tables)
        book.fold()
        return book, Moves(tables, book, self._known, self._at(book.queue, now))

    def _keep(self, book: Book) -> None:
        self.book = book if book.is_small else None

    def _opened(self, tables: Tables) -> Book:
        """This process's book, if nobody else has claimed since; otherwise a new one. Kept again after the commit.

        The transaction may have begun with a look at the queue, and with taking the line changes out of their table.
        """
        (found,), changes = tables.begun or (tables.all("queue"), None)
        queue = QueueRow._make(found)
        book, self.book = self.book, None
        if book is None or not book.is_current(queue):
            book = Book(tables, queue, self._policy(tables, queue))
        book.begin(tables, queue, changes)
        return book

    def _take(self, book: Book, request: ClaimRequest, moves: Moves) -> Work:
        """Take documents in the order of turns, as far as lines and fences go; nothing from a paused queue."""
        taken: list[Taken] = []
        book.reach(request.limit)
        if book.queue.paused_by is None:
            while len(taken) < request.limit and (found := book.take(moves.now)) is not None:
                line, head = found
                book.fence += 1
                taken.append(Taken(line.owner, line.level, head.seq, book.fence))
        until = moves.now + request.lease
        names = self._known.names(moves.tables, {each.owner for each in taken})
        if taken:
            book.falls_due(0, "lease", until)
            moves.started([names[each.owner] for each in taken])
        return Work(moves.now, moves.events, taken, request.worker, until, names)

    def _sweep(self, book: Book, moves: Moves) -> Swept:
        clocks.review(moves.tables, book, moves.now)
        swept = moves.move_on(book)
        book.save(Work(moves.now, moves.events))
        moves.events = []
        rested_since = moves.now - book.turns.policy.out_of_turn_interval
        for level in book.turns.levels:
            moves.tables.run("forget_spent", level=level.number, turn=level.v.turn, rested_since=rested_since)
        first, last = moves.now - WORKER_KEPT, moves.now + WORKER_KEPT
        moves.tables.run("forget_silent_workers", first=first, last=last)
        return swept

    def _policy(self, tables: Tables, queue: QueueRow) -> TurnPolicy:
        return self._known.policy(tables, queue.policy).policy.turns

    def _at(self, queue: QueueRow, now: int | None) -> int:
        if now is not None:
            return now
        return queue.at if self._clock is None else self._clock.now()


def _claimed(work: Work, rows: list[Row]) -> tuple[Claimed, ...]:
    """The documents started, in the order in which they were taken."""
    by_seq = {row[2]: row for row in rows}
    return tuple([Claimed(document_of(by_seq[seq], work.names[owner]), fence) for owner, _, seq, fence in work.taken])
