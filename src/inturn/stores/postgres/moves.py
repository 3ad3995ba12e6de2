"""What one write transaction does to documents: each move changes the row, tells the lines, and is told as an event."""

import json
from collections.abc import Mapping, Sequence
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
from inturn.stores.postgres.book import Book
from inturn.stores.postgres.bounds import NEVER
from inturn.stores.postgres.changes import Changes
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.rows import NO_ID, id_of
from inturn.stores.postgres.tables import NEWS, Row, Tables, Uuids, array

AT_ONCE: Final = 500
"""Due documents of a kind that one transaction moves on at most: the next one goes on."""
MOVED: Final = (EventKind.EXPIRED, EventKind.LEASE_LOST, EventKind.FAILED, EventKind.DUE)
FILE: Final = ("document", "name", "blob", "size", "sha256", "media_type")
TRIED: Final = (
    "customer", "document", "fence", "number", "started_at", "ended", "error", "worker", "began_at", "worked",
)  # fmt: skip


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
    id: str
    started_at: int | None
    worker: str | None
    began_at: int | None = None
    worked: int | None = None


class Moves:
    """The moves of one transaction, at one instant."""

    def __init__(self, tables: Tables, changes: Changes, known: Known, now: int) -> None:
        self.tables = tables
        self._changes = changes
        self._known = known
        self.now = now
        self._told: dict[EventKind, list[tuple[int, str]]] = {}
        self.events: list[tuple[Any, ...]] = []
        """What was told, for whoever writes it down."""
        self._tried: list[tuple[Any, ...]] = []
        self._capped: set[int] | None = None
        self.wakes = False
        """Whether somebody who waits may find something to claim now."""

    # -- events -------------------------------------------------------------------------------------------------

    def tell(self, kind: EventKind, owner: int, id_: str) -> None:
        """An event of this kind will name this document."""
        self._told.setdefault(kind, []).append((owner, id_))

    def write_told(self, kinds: Sequence[EventKind], operator: Operator | None = None) -> None:
        """One event for each kind and customer, in the order of kinds, then of first documents."""
        for kind in kinds:
            if told := self._told.pop(kind, None):
                names = self._known.names(self.tables, {owner for owner, _ in told})
                self._add(kind, [names[owner] for owner, _ in told], [id_ for _, id_ in told], operator)

    def note(
        self,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an event that names no document."""
        self._add(kind, [customer], [], operator, None if detail is None else json.dumps(detail))

    def started(self, customers: list[str]) -> None:
        """Documents of these customers will be started when the claim is written down, in this order."""
        self.events.append((str(EventKind.STARTED), array(customers), None, None, None, None))

    def _add(
        self,
        kind: EventKind,
        customers: list[str] | list[str | None],
        ids: list[str],
        operator: Operator | None,
        detail: str | None = None,
    ) -> None:
        who, why = operator or (None, None)
        self.events.append((str(kind), array(customers), array(ids), who, why, detail))

    def write(self) -> None:
        """Write down events and line changes: the last thing in a transaction, unless it is a claim."""
        if self.events:
            self.tables.many("add_news", NEWS, self.events, at=self.now)
            self.events = []
        self._changes.write(self.tables)

    # -- outcomes -----------------------------------------------------------------------------------------------

    def settle(self, outcomes: Sequence[Outcome]) -> tuple[Verdict, ...]:
        """Record outcomes, each once: successes all at once, the others one by one."""
        if not outcomes:
            return ()
        ids = [id_of(outcome.id) for outcome in outcomes]
        first = {id_: at for at, id_ in reversed(list(enumerate(ids)))}
        finished = self._finish([(id_, outcomes[at]) for id_, at in first.items()])
        others = [id_ for at, id_ in enumerate(ids) if id_ not in finished or first[id_] != at]
        facts = {each.id: each for each in self._locked(others)}
        self._know_capped(facts.values())
        verdicts = []
        for at, (id_, outcome) in enumerate(zip(ids, outcomes, strict=True)):
            if id_ in finished and first[id_] == at:
                self._finished(id_, *finished[id_], outcome)
                verdicts.append(Verdict.RECORDED)
            else:
                verdict, facts = self._settle(outcome, id_, facts)
                verdicts.append(verdict)
        self._write_tried()
        self.write_told(OUTCOME_EVENTS)
        return tuple(verdicts)

    def _finish(self, said: Sequence[tuple[str, Outcome]]) -> dict[str, tuple[int, int, bool]]:
        """Of those that are done and were running under their fence: owner, seq, and whether the owner has a cap."""
        done = [(id_, outcome) for id_, outcome in said if outcome.kind is OutcomeKind.DONE]
        if not done:
            return {}
        found = self.tables.all(
            "finish_documents",
            now=self.now,
            ids=Uuids(id_ for id_, _ in done),
            fences=[outcome.fence for _, outcome in done],
            results=[outcome.result for _, outcome in done],
            began_after=[outcome.work and outcome.work.began_after for _, outcome in done],
            worked=[outcome.work and outcome.work.worked for _, outcome in done],
        )
        return {id_: (owner, seq, capped) for id_, owner, seq, capped in found}

    def _finished(self, id_: str, owner: int, seq: int, capped: bool, outcome: Outcome) -> None:  # noqa: FBT001
        if capped:
            self._changes.stopped(owner)
            self.wakes = True
        if outcome.files:
            self.tables.many("add_files", FILE, [(seq, *file) for file in outcome.files])
        self.tell(EventKind.FINISHED, owner, id_)

    def _settle(self, outcome: Outcome, id_: str, known: dict[str, Facts]) -> tuple[Verdict, dict[str, Facts]]:
        """One outcome; what is known of the documents afterwards."""
        facts = known.get(id_)
        if facts is None or facts.fence != outcome.fence:
            return Verdict.STALE, known
        if facts.state != DocumentState.RUNNING:
            return (Verdict.REPEATED if facts.settled == outcome.kind else Verdict.STALE), known
        if outcome.kind is OutcomeKind.DONE:
            self._finished(id_, *self._finish([(id_, outcome)])[id_], outcome)
            after = facts._replace(state=DocumentState.DONE)
        elif outcome.kind is OutcomeKind.HANDED_BACK:
            facts = self._record_work(outcome, facts)
            self._end_attempt(facts, EventKind.HANDED_BACK)
            after = self._release(facts)
            if facts.start_by is not None and facts.attempt == 1:
                self._changes.falls_due(facts.owner, "start_by", facts.start_by)
            self.tell(EventKind.HANDED_BACK, facts.owner, facts.id)
        else:
            after = self._settle_failure(outcome, self._record_work(outcome, facts))
        return Verdict.RECORDED, {**known, id_: after._replace(settled=outcome.kind)}

    def _record_work(self, outcome: Outcome, facts: Facts) -> Facts:
        began_at, worked = work_recorded(outcome, facts.started_at or 0, self.now)
        self.tables.run("record_work", seq=facts.seq, began_at=began_at, worked=worked)
        return facts._replace(began_at=began_at, worked=worked)

    def _settle_failure(self, outcome: Outcome, facts: Facts) -> Facts:
        if outcome.retry_in is None or facts.attempt >= facts.max_attempts:
            self.end(facts, DocumentState.FAILED, error=outcome.error, settled=outcome.kind)
            self.tell(EventKind.FAILED, facts.owner, facts.id)
            return facts._replace(state=DocumentState.FAILED)
        due_at = self.now + outcome.retry_in
        self._end_attempt(facts, EventKind.DELAYED, outcome.error)
        self.tables.run("delay_document", seq=facts.seq, due_at=due_at, error=outcome.error, now=self.now)
        self._changes.falls_due(facts.owner, "due", due_at)
        self.wakes = True
        self._stopped(facts.owner)
        self.tell(EventKind.DELAYED, facts.owner, facts.id)
        return facts._replace(state=DocumentState.DELAYED)

    # -- moves --------------------------------------------------------------------------------------------------

    def lock(self, ids: Sequence[str], states: frozenset[DocumentState]) -> list[tuple[str, Facts]]:
        """Those of the documents that are in one of these states, in the order given, each once."""
        found = {facts.id: facts for facts in self._locked([id_of(each) for each in ids])}
        self._know_capped(found.values())
        asked = ((each, found.get(id_of(each))) for each in dict.fromkeys(ids))
        return [(each, facts) for each, facts in asked if facts is not None and facts.state in states]

    def wait_again(self, facts: Facts, *, attempt: int, settled: str | None) -> Facts:
        """Back into its line by its seq."""
        if facts.state == DocumentState.RUNNING:
            self._stopped(facts.owner)
        self.tables.run("wait_again", seq=facts.seq, now=self.now, attempt=attempt, settled=settled)
        self._changes.returned(facts.owner, facts.line, 1, Head(facts.seq, self.now, facts.cost))
        self.wakes = True
        return facts._replace(state=DocumentState.WAITING, attempt=attempt)

    def _release(self, facts: Facts) -> Facts:
        """Back into its line by its seq as if it had not been claimed: its wait goes on, nothing is charged."""
        self._stopped(facts.owner)
        row = self.tables.one("release_document", seq=facts.seq)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        self._changes.released(facts.owner, facts.line, Head(facts.seq, row[0], facts.cost))
        self.wakes = True
        return facts._replace(state=DocumentState.WAITING, attempt=facts.attempt - 1)

    def end(self, facts: Facts, state: DocumentState, *, error: str | None, settled: str | None) -> None:
        """The document's life ends, wherever it was."""
        if facts.state == DocumentState.RUNNING:
            self._stopped(facts.owner)
        self.tables.run("end_document", seq=facts.seq, state=str(state), now=self.now, error=error, settled=settled)
        if facts.state == DocumentState.WAITING:
            self._changes.left(facts.owner, facts.line, facts.seq)

    def cancel(self, facts: Facts) -> None:
        """End it by hand; what its last attempt said stays."""
        if facts.state == DocumentState.RUNNING:
            self._stopped(facts.owner)
        self.tables.run("cancel_document", seq=facts.seq, now=self.now)
        if facts.state == DocumentState.WAITING:
            self._changes.left(facts.owner, facts.line, facts.seq)

    def begin_again(self, facts: Facts, id_: str, level: int, count: int) -> Receipt:
        """A retry by hand, checked already: a new place."""
        self.tables.run("end_last_attempt", seq=facts.seq)
        found = self.tables.one("begin_again", seq=facts.seq, level=level, count=count, now=self.now)
        if found is None:
            raise AssertionError("a document vanished inside its transaction")
        self._changes.joined(facts.owner, level, 1, Head(found[0], self.now, facts.cost))
        return Receipt(id_, level, count)

    def expedite(self, facts: Facts) -> None:
        """Into the line before all levels."""
        found = self.tables.one("expedite_document", seq=facts.seq, now=self.now)
        if found is None:
            raise AssertionError("a document vanished inside its transaction")
        if facts.state == DocumentState.WAITING:
            self._changes.left(facts.owner, facts.line, facts.seq)
        self._changes.returned(facts.owner, EXPEDITED, 1, Head(facts.seq, found[0], facts.cost))

    def _end_attempt(self, facts: Facts, ended: EventKind, error: str | None = None) -> None:
        """An attempt that does not end its document is to be remembered."""
        what = (facts.started_at, str(ended), error, facts.worker, facts.began_at, facts.worked)
        self._tried.append((facts.owner, facts.id, facts.fence, facts.attempt, *what))

    def _write_tried(self) -> None:
        self.tables.many("end_attempts", TRIED, self._tried, now=self.now, kept=ATTEMPTS_KEPT)
        self._tried = []

    def _stopped(self, owner: int) -> None:
        """Lines need to know of it only where a cap counts."""
        if self._capped is None:
            raise AssertionError("nobody asked who has a cap")
        if owner in self._capped:
            self._changes.stopped(owner)
            self.wakes = True

    def _know_capped(self, facts: Any) -> None:
        running = {each.owner for each in facts if each.state == DocumentState.RUNNING}
        found = self.tables.all("capped_of", ids=list(running)) if running else ()
        self._capped = (self._capped or set()) | {owner for (owner,) in found}

    def _locked(self, ids: Sequence[str]) -> list[Facts]:
        """One order for everybody: by seq."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ != NO_ID]
        if not wanted:
            return []
        return [Facts(*row) for row in self.tables.all("lock_documents", ids=wanted)]

    # -- what is due --------------------------------------------------------------------------------------------

    def move_on(self, book: Book) -> Swept:
        """Whatever is due: `start_by`, leases, delays, rate limits, in this order."""
        if not book.bounds.any_due(self.now):
            return Swept()
        swept = Swept(
            self._expire(book),
            self._lose_leases(book),
            self._wake(book),
            self._open(book),
        )
        self.write_told(MOVED)
        return swept

    def _due(self, book: Book, kind: str, query: str) -> list[Facts]:
        floor = book.bounds.times[kind]
        if floor > self.now:
            return []
        rows = self.tables.all(query, now=self.now, floor=floor, limit=AT_ONCE)
        found = [Facts(*row) for row in rows]
        self._know_capped(found)
        return found

    def _until_next(self, book: Book, kind: str, query: str, moved: Sequence[object]) -> None:
        """Nothing of this kind is due any more, unless there was too much for one transaction."""
        if book.bounds.times[kind] <= self.now and len(moved) < AT_ONCE:
            found: Row | None = self.tables.one(query, now=self.now)
            book.bounds.times[kind] = NEVER if found is None else found[0]

    def _expire(self, book: Book) -> int:
        expired = self._due(book, "start_by", "late_to_start")
        for facts in expired:
            self.end(facts, DocumentState.EXPIRED, error=None, settled=facts.settled)
            self.tell(EventKind.EXPIRED, facts.owner, facts.id)
        self._until_next(book, "start_by", "next_start_by", expired)
        return len(expired)

    def _lose_leases(self, book: Book) -> int:
        lost = self._due(book, "lease", "lost_leases")
        for facts in lost:
            if facts.attempt >= facts.max_attempts:
                self.end(facts, DocumentState.FAILED, error=LEASE_LOST_ERROR, settled=None)
                self.tell(EventKind.FAILED, facts.owner, facts.id)
            else:
                self._end_attempt(facts, EventKind.LEASE_LOST)
                self.wait_again(facts, attempt=facts.attempt, settled=None)
                self.tell(EventKind.LEASE_LOST, facts.owner, facts.id)
        self._write_tried()
        floor = book.bounds.times["lease"]
        if floor <= self.now and len(lost) < AT_ONCE:
            self.tables.run("look_later", now=self.now, floor=floor)
        self._until_next(book, "lease", "next_look", lost)
        return len(lost)

    def _wake(self, book: Book) -> int:
        due = self._due(book, "due", "due_documents")
        for facts in due:
            self.wait_again(facts, attempt=facts.attempt, settled=facts.settled)
            self.tell(EventKind.DUE, facts.owner, facts.id)
        self._until_next(book, "due", "next_due", due)
        return len(due)

    def _open(self, book: Book) -> int:
        if book.bounds.times["rate"] > self.now:
            return 0
        owners = self.tables.all("due_rates", now=self.now, limit=AT_ONCE)
        opened = sum([book.rate_allows(owner, self.now) for (owner,) in owners])
        self._until_next(book, "rate", "next_rate", owners)
        return opened
