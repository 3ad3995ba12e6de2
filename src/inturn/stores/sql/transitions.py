"""Change documents in one write transaction: each transition writes the row, the lane change and the event."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from inturn.model import CANCELLABLE, DocumentState, Receipt, ResultFile
from inturn.policy.scheduler import TRACKS, Head, track_of
from inturn.store_types import (
    MAX_STORED_ATTEMPTS,
    OUTCOME_EVENTS,
    AckStatus,
    EventKind,
    LeaseStatus,
    Operator,
    Outcome,
    OutcomeKind,
    held_time,
    work_times,
)
from inturn.stores.sql.lane_log import LaneLog, lane_number, move_to_level
from inturn.stores.sql.queries import NewEvent, Queries, QueueCache, other_queues
from inturn.stores.sql.rows import NO_ID, Row, normalize_id, text_id

if TYPE_CHECKING:
    from inturn.stores.sql.steps import StepRecorder

STEP_OUTCOMES: Final = frozenset({OutcomeKind.NEXT, OutcomeKind.SPLIT})
OUTCOME_COLUMNS: Final = ("id", "fence", "result", "began_after", "worked")
FILE_COLUMNS: Final = ("document", "step", "name", "blob", "size", "sha256", "media_type")
ATTEMPT_COLUMNS: Final = (
    "customer", "document", "fence", "number", "started_at", "ended", "error", "worker", "began_at", "worked", "queue",
    "step", "ready_at", "result",
)  # fmt: skip


class StartOfSteps(NamedTuple):
    """Where a document begins that is retried from the start."""

    queue: str
    number: int
    """That of the queue."""
    ahead: str | None


class DocumentFacts(NamedTuple):
    """The columns of a document that a transition needs."""

    id: str
    seq: int
    owner: int
    state: str
    level: int
    lane: int
    """The number of its lane (`inturn.stores.sql.lane_log`)."""
    attempt: int
    max_attempts: int
    fence: int | None
    last_outcome: str | None
    cost: float
    start_by: int | None
    started_at: int | None
    worker: str | None
    charged: int | None
    lease_until: int | None
    """The end of its lease, if it runs."""
    step: int
    queue: str
    ready_at: int
    parent: str | None
    """The id of the document that it is a part of."""
    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count
    began_at: int | None = None
    worked: int | None = None

    @classmethod
    def from_row(cls, row: Row) -> "DocumentFacts":
        """Build it from the columns above, up to `count`."""
        id_, *facts, parent, count = row
        whole = None if parent is None else text_id(parent)
        return cls._make((text_id(id_), *facts, whole, count, None, None))

    @property
    def is_part(self) -> bool:
        """Whether it is a part of another document."""
        return self.parent is not None


class FinishedRow(NamedTuple):
    """The columns of a document that has just been done."""

    owner: int
    seq: int
    capped: bool
    """Whether its customer has a cap."""
    lane: int
    cost: float
    charged: int | None
    worked: int
    step: int
    is_part: bool
    queue: str


class Transitions:
    """The transitions of one transaction, all at one time."""

    def __init__(self, queries: Queries, cache: QueueCache, now: int) -> None:
        self.queries = queries
        self.cache = cache
        self.now = now
        self.lane_log = LaneLog()
        """The changes to lanes: appended to the lane log by `flush`, or applied by a claim."""
        self.events: list[NewEvent] = []
        """Events to be written with this transaction."""
        self._recorded: dict[tuple[EventKind, str | None], list[tuple[int, str, str]]] = {}
        """Owner, id and queue of documents, by kind and detail of their event."""
        self._ended_attempts: list[Row] = []
        self._capped: set[int] | None = None
        self.should_notify = False
        """Whether waiting workers should be notified."""

    def flush(self) -> None:
        """Write events and the lane log; the last step of a transaction other than a claim."""
        self.queries.add_events(self.now, self.events)
        self.events = []
        self.lane_log.append_to(self.queries)

    # -- events ---------------------------------------------------------------------------------------------------

    def record_event(self, kind: EventKind, facts: DocumentFacts, detail: str | None = None) -> None:
        """Add a document to the event of this kind and detail, its customer and its queue."""
        self._recorded.setdefault((kind, detail), []).append((facts.owner, facts.id, facts.queue))

    def add_grouped_events(self, kinds: Sequence[EventKind], operator: Operator | None = None) -> None:
        """One event for each kind, detail, customer and queue, in the order of kinds, then of first documents."""
        for key in [key for kind in kinds for key in self._recorded if key[0] is kind]:
            kind, detail = key
            owners, ids, queues = zip(*self._recorded.pop(key), strict=True)
            names = self.cache.customer_names(self.queries, set(owners))
            customers = [names[owner] for owner in owners]
            self.events.append(NewEvent(kind, customers, ids, operator, detail, other_queues(queues)))

    def add_event(
        self,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an event that names no document."""
        self.events.append(NewEvent(kind, [customer], (), operator, None if detail is None else json.dumps(detail)))

    # -- outcomes -------------------------------------------------------------------------------------------------

    def ack(self, outcomes: Sequence[Outcome], steps: "StepRecorder | None" = None) -> tuple[AckStatus, ...]:
        """Record outcomes, each once: successes all at once, the others one by one.

        `steps` records those that end a step.
        """
        if not outcomes:
            return ()
        ids = [normalize_id(outcome.id) for outcome in outcomes]
        first = {id_: at for at, id_ in reversed(list(enumerate(ids)))}
        finished = self._finish([(id_, outcomes[at]) for id_, at in first.items()])
        others = [id_ for at, id_ in enumerate(ids) if id_ not in finished or first[id_] != at]
        facts = {facts.id: facts for facts in self._lock_rows(others)}
        self.load_capped(facts.values())
        statuses = []
        for at, (id_, outcome) in enumerate(zip(ids, outcomes, strict=True)):
            if id_ in finished and first[id_] == at:
                self._finished(id_, finished[id_], outcome)
                statuses.append(AckStatus.RECORDED)
            else:
                statuses.append(self._ack(outcome, id_, facts, steps))
        if steps is not None:
            steps.write()
        self.write_attempts()
        self.add_grouped_events(OUTCOME_EVENTS)
        return tuple(statuses)

    def _finish(self, outcomes: Sequence[tuple[str, Outcome]]) -> dict[str, "FinishedRow"]:
        """Record those that are done and were running under their fence."""
        done = [
            (id_, outcome.fence, outcome.result, *(outcome.work or (None, None)))
            for id_, outcome in outcomes
            if outcome.kind is OutcomeKind.DONE
        ]
        if not done:
            return {}
        rows = self.queries.fetch_many("finish_documents", OUTCOME_COLUMNS, done, now=self.now)
        return {text_id(id_): FinishedRow._make(row) for id_, *row in rows}

    def _finished(self, id_: str, row: "FinishedRow", outcome: Outcome) -> None:
        if row.charged is not None:
            self.lane_log.ended(row.owner, row.lane, row.charged, row.worked, row.cost)
        elif row.capped:
            self.lane_log.stopped(row.owner)
        self.should_notify = True
        self.add_files(row.seq, row.step, outcome.files)
        if row.is_part:
            self._part_ended(row.owner, row.seq)
        self._recorded.setdefault((EventKind.FINISHED, None), []).append((row.owner, id_, row.queue))

    def add_files(self, seq: int, step: int, files: Sequence[ResultFile]) -> None:
        """Store the files of a step's result."""
        self.queries.execute_many("add_files", FILE_COLUMNS, [(seq, step, *file) for file in files])

    def _part_ended(self, owner: int, seq: int) -> None:
        self.lane_log.part_ended(owner, seq)
        self.should_notify = True

    def _ack(
        self, outcome: Outcome, id_: str, facts_by_id: dict[str, DocumentFacts], steps: "StepRecorder | None"
    ) -> AckStatus:
        """Record one outcome, and what is known of its document afterwards."""
        facts = facts_by_id.get(id_)
        if facts is None or facts.fence != outcome.fence:
            return AckStatus.STALE
        if facts.state != DocumentState.RUNNING:
            return AckStatus.REPEATED if facts.last_outcome == outcome.kind else AckStatus.STALE
        if outcome.kind is OutcomeKind.DONE:
            self._finished(id_, self._finish([(id_, outcome)])[id_], outcome)
            after = facts._replace(state=DocumentState.DONE)
        elif outcome.kind is OutcomeKind.RELEASED:
            after = self._release(self._record_work(outcome, facts))
        elif outcome.kind in STEP_OUTCOMES:
            if steps is None:
                raise AssertionError("an outcome that ends a step, and nothing to record it")
            after = steps.record(outcome, facts)
        else:
            after = self._ack_failure(outcome, self._record_work(outcome, facts))
        facts_by_id[id_] = after._replace(last_outcome=outcome.kind)
        return AckStatus.RECORDED

    def _record_work(self, outcome: Outcome, facts: DocumentFacts) -> DocumentFacts:
        began_at, worked = work_times(outcome, facts.started_at or 0, self.now)
        self.queries.execute("record_work", seq=facts.seq, began_at=began_at, worked=worked)
        return facts._replace(began_at=began_at, worked=worked)

    def _ack_failure(self, outcome: Outcome, facts: DocumentFacts) -> DocumentFacts:
        if outcome.retry_in is None or facts.attempt >= (outcome.max_attempts or facts.max_attempts):
            self.end(facts, DocumentState.FAILED, error=outcome.error, last_outcome=outcome.kind)
            self.record_event(EventKind.FAILED, facts)
            return facts._replace(state=DocumentState.FAILED)
        due_at = self.now + outcome.retry_in
        self.end_attempt(facts, EventKind.DELAYED, outcome.error)
        self.queries.execute("delay_document", seq=facts.seq, due_at=due_at, error=outcome.error, now=self.now)
        self.lane_log.deadline_set(facts.owner, "due", due_at)
        self.should_notify = True
        self.stop(facts)
        self.record_event(EventKind.DELAYED, facts)
        return facts._replace(state=DocumentState.DELAYED)

    def _release(self, facts: DocumentFacts) -> DocumentFacts:
        """Undo a claim: back into its lane at its seq, with its old waiting time and the charge refunded."""
        self.end_attempt(facts, EventKind.RELEASED)
        self._stopped_if_capped(facts.owner)
        (ready_at,) = self._write_and_read("release_document", facts)
        self.lane_log.released(facts.owner, facts.lane, Head(facts.seq, ready_at, facts.cost), facts.charged)
        if facts.start_by is not None and facts.attempt == 1:
            self.lane_log.deadline_set(facts.owner, "start_by", facts.start_by)
        self.should_notify = True
        self.record_event(EventKind.RELEASED, facts)
        return facts._replace(state=DocumentState.WAITING, attempt=facts.attempt - 1)

    # -- transitions ----------------------------------------------------------------------------------------------

    def lock_documents(self, ids: Sequence[str], states: frozenset[DocumentState]) -> list[tuple[str, DocumentFacts]]:
        """Return those of the documents that are in one of these states, in the order given, each once."""
        facts_by_id = {facts.id: facts for facts in self._lock_rows([normalize_id(id_) for id_ in ids])}
        self.load_capped(facts_by_id.values())
        asked = ((id_, facts_by_id.get(normalize_id(id_))) for id_ in dict.fromkeys(ids))
        return [(id_, facts) for id_, facts in asked if facts is not None and facts.state in states]

    def _lock_rows(self, ids: Sequence[str]) -> list[DocumentFacts]:
        """Lock rows in the order of seq, to avoid deadlocks."""
        wanted = [(id_,) for id_ in dict.fromkeys(ids) if id_ != NO_ID]
        if not wanted:
            return []
        return [DocumentFacts.from_row(row) for row in self.queries.fetch_many("lock_documents", ("id",), wanted)]

    def requeue(self, facts: DocumentFacts, *, last_outcome: str | None) -> None:
        """Put it back into its lane at its seq."""
        if facts.state == DocumentState.RUNNING:
            self.stop(facts)
        self.queries.execute("requeue_document", seq=facts.seq, now=self.now, last_outcome=last_outcome)
        self.lane_log.requeued(facts.owner, facts.lane, Head(facts.seq, self.now, facts.cost))
        self.should_notify = True

    def end(self, facts: DocumentFacts, state: DocumentState, *, error: str | None, last_outcome: str | None) -> None:
        """End a document, whatever its state was."""
        self._leave(facts)
        if facts.is_part:
            self._part_ended(facts.owner, facts.seq)
        self.queries.execute(
            "end_document",
            seq=facts.seq,
            customer=facts.owner,
            lane=facts.lane,
            state=str(state),
            now=self.now,
            error=error,
            last_outcome=last_outcome,
        )

    def cancel(self, facts: DocumentFacts) -> None:
        """End it by hand; the error of its last attempt stays."""
        self._leave(facts)
        if facts.is_part:
            self._part_ended(facts.owner, facts.seq)
        self.queries.execute("cancel_document", seq=facts.seq, customer=facts.owner, lane=facts.lane, now=self.now)

    def _leave(self, facts: DocumentFacts) -> None:
        """Record the end of a run, or of a wait."""
        if facts.state == DocumentState.RUNNING:
            self.stop(facts)
        elif facts.state == DocumentState.WAITING:
            self.lane_log.left(facts.owner, facts.lane, facts.seq)

    def retry(self, facts: DocumentFacts, id_: str, level: int, count: int, start: StartOfSteps | None) -> Receipt:
        """Queue it again at the end of its lane, at its present step or at the start; the check was made before.

        A document with unended parts waits for them instead.
        """
        self.queries.execute("end_last_attempt", seq=facts.seq)
        queue, lane = facts.queue, move_to_level(facts.lane, level)
        if start is not None:
            self.queries.execute("forget_steps", seq=facts.seq, ahead=start.ahead)
            queue, lane = start.queue, lane_number(track_of(start.number, level), lane // TRACKS)
        is_split = bool(self.queries.fetch_many("unended_parts", ("id",), [(facts.id,)]))
        state = DocumentState.SPLIT if is_split else DocumentState.WAITING
        values = {"level": level, "count": count, "queue": queue, "state": str(state)}
        (seq,) = self._write_and_read("retry_document", facts._replace(lane=lane), **values)
        if facts.step:
            self.queries.execute("move_files", old=facts.seq, new=seq)
        if is_split:
            self.lane_log.part_ended(facts.owner, seq)  # its last part may end before anyone can see that it waits
        else:
            self.lane_log.joined(facts.owner, lane, 1, Head(seq, self.now, facts.cost))
        return Receipt(id_, level, count)

    def unended_parts(self, facts: DocumentFacts) -> list[DocumentFacts]:
        """Lock and return the parts of a split document that have not ended, by seq, each followed by its own."""
        if facts.state != DocumentState.SPLIT:
            return []
        ids = [text_id(id_) for (id_,) in self.queries.fetch_many("unended_parts", ("id",), [(facts.id,)])]
        parts = [part for part in self._lock_rows(ids) if part.state in CANCELLABLE]  # one may have ended just now
        self.load_capped(parts)
        return [other for part in parts for other in (part, *self.unended_parts(part))]

    def delete_parts(self, facts: DocumentFacts) -> None:
        """Delete the parts of an ended document, and theirs; those that have not ended are cancelled."""
        parts: list[DocumentFacts] = []
        while len(rows := self.queries.fetch_many("parts_below", ("id",), [(facts.id,)])) > len(parts):
            parts = self._lock_rows([text_id(id_) for (id_,) in rows])  # until then, one may have been split
        self.load_capped(parts)
        for part in parts:
            if part.state in CANCELLABLE:
                self.cancel(part)
        seqs = [(part.seq,) for part in parts]
        for query in ("forget_files", "forget_attempts", "forget_documents"):
            self.queries.execute_many(query, ("seq",), seqs)

    def expedite(self, facts: DocumentFacts, *, undo: bool) -> None:
        """Put it into the lane ahead of all levels, or back into the one of its level."""
        ready_at, lane = self._write_and_read("expedite_document", facts, undo=undo)
        self._leave(facts)
        self.lane_log.requeued(facts.owner, lane, Head(facts.seq, ready_at, facts.cost))
        self.should_notify = True

    def _write_and_read(self, query: str, facts: DocumentFacts, **values: Any) -> Row:
        row = self.queries.fetch_one(
            query, seq=facts.seq, customer=facts.owner, lane=facts.lane, now=self.now, **values
        )
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        return row

    def end_attempt(
        self, facts: DocumentFacts, ended: EventKind, error: str | None = None, result: str | None = None
    ) -> None:
        """Remember an attempt that does not end its document; `write_attempts` writes it."""
        more = (facts.started_at, str(ended), error, facts.worker, facts.began_at, facts.worked)
        where = (facts.queue, facts.step, facts.ready_at, result)
        self._ended_attempts.append((facts.owner, facts.id, facts.fence, facts.attempt, *more, *where))

    def write_attempts(self) -> None:
        self.queries.execute_many(
            "end_attempts", ATTEMPT_COLUMNS, self._ended_attempts, now=self.now, kept=MAX_STORED_ATTEMPTS
        )
        self._ended_attempts = []

    def stop(self, facts: DocumentFacts) -> None:
        """Record the end of a run. If no outcome says how long it took, its lease says at most."""
        self.should_notify = True  # its customer or its queue may have been at a cap
        if facts.charged is None:
            self._stopped_if_capped(facts.owner)
            return
        learn = facts.worked is not None
        worked = held_time(facts.started_at, facts.lease_until, self.now) if facts.worked is None else facts.worked
        self.lane_log.ended(facts.owner, facts.lane, facts.charged, worked, facts.cost if learn else None)

    def _is_capped(self, owner: int) -> bool:
        if self._capped is None:
            raise AssertionError("nobody asked who has a cap")
        return owner in self._capped

    def _stopped_if_capped(self, owner: int) -> None:
        """Record the end of a run where the customer has a cap."""
        if self._is_capped(owner):
            self.lane_log.stopped(owner)
            self.should_notify = True

    def load_capped(self, facts: Iterable[DocumentFacts]) -> None:
        owners = {fact.owner for fact in facts if fact.state == DocumentState.RUNNING}
        rows = self.queries.fetch_many("capped_of", ("id",), [(owner,) for owner in owners]) if owners else ()
        self._capped = (self._capped or set()) | {owner for (owner,) in rows}

    # -- leases ---------------------------------------------------------------------------------------------------

    def heartbeat(self, claims: Sequence[tuple[str, int]], lease: int) -> tuple[LeaseStatus, ...]:
        """Renew the leases of running claims."""
        pairs = [(normalize_id(id_), fence) for id_, fence in claims]
        until = self.now + lease
        held = set()
        for id_, fence, owner, is_sooner in self.queries.fetch_many(
            "heartbeat", ("id", "fence"), pairs, now=self.now, until=until
        ):
            held.add((text_id(id_), fence))
            if is_sooner:
                self.lane_log.deadline_set(owner, "lease", until)
        others = [(id_,) for id_, fence in pairs if (id_, fence) not in held]
        rows = self.queries.fetch_many("states_of", ("id",), others) if others else ()
        cancelled = {(text_id(id_), fence) for id_, fence, state in rows if state == DocumentState.CANCELLED}
        return tuple(
            [
                LeaseStatus.HELD if pair in held else (LeaseStatus.CANCELLED if pair in cancelled else LeaseStatus.LOST)
                for pair in pairs
            ]
        )
