"""What one write transaction does to documents: each move changes the row, tells the lines, and is told as an event."""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from inturn.model import EXPEDITED, DocumentState, Receipt
from inturn.policy.turns import Head
from inturn.store import (
    ATTEMPTS_KEPT,
    LEASE_LOST_ERROR,
    OUTCOME_EVENTS,
    EventKind,
    Operator,
    Outcome,
    OutcomeKind,
    Swept,
    Verdict,
    work_recorded,
)
from inturn.stores.sqlite.book import Book
from inturn.stores.sqlite.changes import Changes
from inturn.stores.sqlite.tables import Tables, packed

AT_ONCE: Final = 500
"""Due documents of a kind that one transaction moves on at most: the next one goes on."""
UNKNOWN: Final = (None, None)
"""Stands for the work that an outcome says nothing of."""
MOVED: Final = (EventKind.EXPIRED, EventKind.LEASE_LOST, EventKind.FAILED, EventKind.DUE)


class Facts(NamedTuple):
    """What a move needs to know of a document."""

    seq: int
    owner: int
    state: str
    level: int
    line: int
    attempt: int
    max_attempts: int
    fence: int | None
    settled: str | None
    cost: float
    start_by: int | None


class Moves:
    """The moves of one transaction, at one instant."""

    def __init__(self, tables: Tables, changes: Changes, now: int) -> None:
        self._tables = tables
        self._changes = changes
        self.now = now
        self._told: dict[EventKind, dict[int, list[bytes]]] = {}
        self._events: list[tuple[Any, ...]] = []
        self._has_new_deadlines = False

    # -- events -------------------------------------------------------------------------------------------------

    def tell(self, kind: EventKind, owner: int, id_: bytes) -> None:
        """An event of this kind will name this document."""
        self._told.setdefault(kind, {}).setdefault(owner, []).append(id_)

    def write_told(self, kinds: Sequence[EventKind], operator: Operator | None = None) -> None:
        """One event for each kind and customer, in the order of kinds, then of first documents."""
        for kind in kinds:
            for owner, ids in self._told.pop(kind, {}).items():
                self.note(kind, self._tables.name(owner), b"".join(ids), operator)

    def note(
        self,
        kind: EventKind,
        customer: str | None,
        ids: bytes = b"",
        operator: Operator | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an event."""
        who, why = operator or (None, None)
        text = None if detail is None else json.dumps(detail)
        self._events.append((self.now, kind, customer, ids, who, why, text))

    def write(self) -> None:
        """Write the events down: the last thing in a transaction."""
        if self._events:
            n = len(self._events)
            last = self._changes.give_events(n)
            self._tables.many("add_event", [(last - n + at, *each) for at, each in enumerate(self._events, start=1)])
            self._events = []

    # -- outcomes -----------------------------------------------------------------------------------------------

    def settle(self, outcomes: Sequence[Outcome]) -> tuple[Verdict, ...]:
        """Record outcomes, each once."""
        verdicts: list[Verdict] = []
        for are_done, each in groupby(outcomes, key=_is_done):
            run = list(each)
            verdicts += self._finish(run) if are_done else map(self._settle, run)
        if self._told:
            self.write_told(OUTCOME_EVENTS)
        return tuple(verdicts)

    def _finish(self, outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
        """Successes, all at once; the ones that come to nothing are looked at."""
        values = [
            (packed(outcome.id), outcome.fence, self.now, outcome.result, *(outcome.work or UNKNOWN))
            for outcome in outcomes
        ]
        done = deque(self._tables.each("finish_document", values))
        for outcome, (id_, fence, *_) in zip(outcomes, values, strict=True):
            if not done or done[0][:2] != (id_, fence):
                yield self._settle(outcome)
                continue
            _, _, owner, capped, seq = done.popleft()
            if capped:
                self._changes.stopped(owner)
            if outcome.files:
                self._tables.many("add_file", [(seq, *file) for file in outcome.files])
            self.tell(EventKind.FINISHED, owner, id_)
            yield Verdict.RECORDED

    def _settle(self, outcome: Outcome) -> Verdict:
        id_ = packed(outcome.id)
        found = self._tables.one("row", id=id_)
        if found is None:
            return Verdict.STALE
        facts = Facts._make(found)
        if facts.fence != outcome.fence:
            return Verdict.STALE
        if facts.state != DocumentState.RUNNING:
            return Verdict.REPEATED if facts.settled == outcome.kind else Verdict.STALE
        self._record_work(outcome, facts.seq)
        if outcome.kind is OutcomeKind.HANDED_BACK:
            self._end_attempt(facts, id_, EventKind.HANDED_BACK)
            self._release(facts)
            self._has_new_deadlines |= facts.start_by is not None
            self.tell(EventKind.HANDED_BACK, facts.owner, id_)
        else:
            self._settle_failure(outcome, facts, id_)
        return Verdict.RECORDED

    def _record_work(self, outcome: Outcome, seq: int) -> None:
        (started_at,) = self._tables.one("started_at", seq=seq) or (0,)
        self._tables.run("record_work", *work_recorded(outcome, started_at, self.now), seq)

    def _settle_failure(self, outcome: Outcome, facts: Facts, id_: bytes) -> None:
        if outcome.retry_in is None or facts.attempt >= facts.max_attempts:
            self.end(facts, DocumentState.FAILED, error=outcome.error, settled=outcome.kind)
            self.tell(EventKind.FAILED, facts.owner, id_)
        else:
            due_at = self.now + outcome.retry_in
            self._end_attempt(facts, id_, EventKind.DELAYED, outcome.error)
            self._tables.one("delay_document", seq=facts.seq, due_at=due_at, error=outcome.error, now=self.now)
            self._has_new_deadlines = True
            self._stopped(facts.owner)
            self.tell(EventKind.DELAYED, facts.owner, id_)

    # -- moves --------------------------------------------------------------------------------------------------

    def wait_again(self, facts: Facts, *, attempt: int, settled: str | None) -> None:
        """Back into its line by its seq."""
        if facts.state == DocumentState.RUNNING:
            self._stopped(facts.owner)
        self._tables.one("wait_again", seq=facts.seq, now=self.now, attempt=attempt, settled=settled)
        self._return(facts, facts.line, self.now)

    def _release(self, facts: Facts) -> None:
        """Back into its line by its seq as if it had not been claimed: its wait goes on, nothing is charged."""
        self._stopped(facts.owner)
        row = self._tables.one("release_document", seq=facts.seq)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        head = Head(facts.seq, row[0], facts.cost)
        self._tables.run("keep_returned", facts.owner, facts.line, *head)
        self._changes.released(facts.owner, facts.line, head)

    def _return(self, facts: Facts, line: int, ready_at: int) -> None:
        """Into a line whose front may have passed it."""
        head = Head(facts.seq, ready_at, facts.cost)
        self._tables.run("keep_returned", facts.owner, line, *head)
        self._changes.returned(facts.owner, line, 1, head)

    def _leave(self, facts: Facts) -> None:
        """Out of the line in which it waits."""
        self._tables.run("forget_returned", facts.owner, facts.line, facts.seq)
        self._changes.left(facts.owner, facts.line, facts.seq)

    def end(self, facts: Facts, state: DocumentState, *, error: str | None, settled: str | None) -> None:
        """The document's life ends, wherever it was."""
        if facts.state == DocumentState.RUNNING:
            self._stopped(facts.owner)
        self._tables.one("end_document", seq=facts.seq, state=state, now=self.now, error=error, settled=settled)
        if facts.state == DocumentState.WAITING:
            self._leave(facts)

    def cancel(self, facts: Facts) -> None:
        """End it by hand; what its last attempt said stays."""
        if facts.state == DocumentState.RUNNING:
            self._stopped(facts.owner)
        self._tables.one("cancel_document", seq=facts.seq, now=self.now)
        if facts.state == DocumentState.WAITING:
            self._leave(facts)

    def begin_again(self, facts: Facts, id_: str, seq: int, level: int, count: int) -> Receipt:
        """A retry by hand, checked already: a new place."""
        self._tables.one("end_last_attempt", seq=facts.seq)
        self._tables.one("begin_again", seq=facts.seq, new=seq, level=level, count=count, now=self.now)
        self._changes.joined(facts.owner, level, 1, Head(seq, self.now, facts.cost))
        return Receipt(id_, level, count)

    def expedite(self, facts: Facts) -> None:
        """Into the line before all levels."""
        found = self._tables.one("expedite_document", seq=facts.seq, now=self.now)
        if found is None:
            raise AssertionError("a document vanished inside its transaction")
        if facts.state == DocumentState.WAITING:
            self._leave(facts)
        self._return(facts, EXPEDITED, found[0])

    def _end_attempt(self, facts: Facts, id_: bytes, ended: EventKind, error: str | None = None) -> None:
        """Remember an attempt that does not end its document, before the document forgets it."""
        self._tables.one("end_attempt", seq=facts.seq, now=self.now, ended=ended, error=error)
        self._tables.one("forget_old_attempts", customer=facts.owner, document=id_, kept=ATTEMPTS_KEPT)

    def _stopped(self, owner: int) -> None:
        """Lines need to know of it only where a cap counts."""
        found = self._tables.one("is_capped", id=owner)
        if found is not None and found[0]:
            self._changes.stopped(owner)

    # -- what is due --------------------------------------------------------------------------------------------

    def move_on(self, book: Book) -> Swept:
        """Whatever is due: `start_by`, leases, delays, rate limits, in this order."""
        now = self.now
        if self._has_new_deadlines:  # of this transaction: perhaps of now
            book.next_due = 0
        if book.next_due > now:
            return Swept()
        start_by, lease, due, rate = self._tables.one("deadlines") or (None, None, None, None)
        swept = Swept(
            self._expire() if start_by is not None and start_by <= now else 0,
            self._lose_leases() if lease is not None and lease <= now else 0,
            self._wake() if due is not None and due <= now else 0,
            self._open(book) if rate is not None and rate <= now else 0,
        )
        if self._told:
            self.write_told(MOVED)
        return swept

    def _due(self, query: str) -> list[tuple[bytes, Facts]]:
        found = []
        for (seq,) in self._tables.all(query, now=self.now, limit=AT_ONCE):
            row = self._tables.one("row_by_seq", seq=seq)
            if row is not None:
                found.append((row[-1], Facts._make(row[:-1])))
        return found

    def _expire(self) -> int:
        expired = self._due("late_to_start")
        for id_, facts in expired:
            self.end(facts, DocumentState.EXPIRED, error=None, settled=facts.settled)
            self.tell(EventKind.EXPIRED, facts.owner, id_)
        return len(expired)

    def _lose_leases(self) -> int:
        lost = self._due("lost_leases")
        for id_, facts in lost:
            if facts.attempt >= facts.max_attempts:
                self.end(facts, DocumentState.FAILED, error=LEASE_LOST_ERROR, settled=None)
                self.tell(EventKind.FAILED, facts.owner, id_)
            else:
                self._end_attempt(facts, id_, EventKind.LEASE_LOST)
                self.wait_again(facts, attempt=facts.attempt, settled=None)
                self.tell(EventKind.LEASE_LOST, facts.owner, id_)
        return len(lost)

    def _wake(self) -> int:
        due = self._due("due_documents")
        for id_, facts in due:
            self.wait_again(facts, attempt=facts.attempt, settled=facts.settled)
            self.tell(EventKind.DUE, facts.owner, id_)
        return len(due)

    def _open(self, book: Book) -> int:
        return sum(
            book.rate_allows(owner, self.now) for (owner,) in self._tables.all("due_rates", now=self.now, limit=AT_ONCE)
        )


def _is_done(outcome: Outcome) -> bool:
    return outcome.kind is OutcomeKind.DONE
