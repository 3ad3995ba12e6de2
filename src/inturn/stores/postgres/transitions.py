"""Change documents in one write transaction: each transition writes the row, the lane change and the event."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from inturn.model import EXPEDITED_LEVEL, DocumentState, Receipt
from inturn.policy.scheduler import Head
from inturn.store import (
    LEASE_LOST_ERROR,
    MAX_STORED_ATTEMPTS,
    OUTCOME_EVENTS,
    AckStatus,
    EventKind,
    Operator,
    Outcome,
    OutcomeKind,
    SweepResult,
    work_times,
)
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.claim_window import ClaimWindow
from inturn.stores.postgres.deadlines import NEVER
from inturn.stores.postgres.lane_log import LaneRecorder
from inturn.stores.postgres.queries import EVENT_COLUMNS, Queries, Row, UuidList, array_literal
from inturn.stores.postgres.rows import NO_ID, normalize_id

MAX_DUE_PER_TRANSACTION: Final = 500
"""Due documents of a kind that one transaction processes at most; the next one continues."""
DUE_EVENTS: Final = (EventKind.EXPIRED, EventKind.LEASE_LOST, EventKind.FAILED, EventKind.DUE)
FILE_COLUMNS: Final = ("document", "name", "blob", "size", "sha256", "media_type")
ATTEMPT_COLUMNS: Final = (
    "customer", "document", "fence", "number", "started_at", "ended", "error", "worker", "began_at", "worked",
)  # fmt: skip


class DocumentFacts(NamedTuple):
    """The columns of a document that a transition needs."""

    seq: int
    owner: int
    state: str
    level: int
    lane: int
    attempt: int
    max_attempts: int
    fence: int | None
    last_outcome: str | None
    cost: float
    start_by: int | None
    id: str
    started_at: int | None
    worker: str | None
    began_at: int | None = None
    worked: int | None = None


class Transitions:
    """The transitions of one transaction, all at one time."""

    def __init__(self, queries: Queries, lane_recorder: LaneRecorder, cache: QueueCache, now: int) -> None:
        self.queries = queries
        self._lane_recorder = lane_recorder
        self._cache = cache
        self.now = now
        self._recorded: dict[EventKind, list[tuple[int, str]]] = {}
        self.events: list[tuple[Any, ...]] = []
        """Events to be written with this transaction."""
        self._ended_attempts: list[tuple[Any, ...]] = []
        self._capped: set[int] | None = None
        self.should_notify = False
        """Whether waiting workers should be notified."""

    # -- events ---------------------------------------------------------------------------------------------------

    def record_event(self, kind: EventKind, owner: int, id_: str) -> None:
        """Add a document to the event of this kind and customer."""
        self._recorded.setdefault(kind, []).append((owner, id_))

    def add_grouped_events(self, kinds: Sequence[EventKind], operator: Operator | None = None) -> None:
        """One event for each kind and customer, in the order of kinds, then of first documents."""
        for kind in kinds:
            if reported := self._recorded.pop(kind, None):
                names = self._cache.customer_names(self.queries, {owner for owner, _ in reported})
                self._append_event(
                    kind, [names[owner] for owner, _ in reported], [id_ for _, id_ in reported], operator
                )

    def add_event(
        self,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an event that names no document."""
        self._append_event(kind, [customer], [], operator, None if detail is None else json.dumps(detail))

    def add_started_event(self, customers: list[str]) -> None:
        """Documents of these customers will be started when the claim is written down, in this order."""
        self.events.append((str(EventKind.STARTED), array_literal(customers), None, None, None, None))

    def _append_event(
        self,
        kind: EventKind,
        customers: list[str] | list[str | None],
        ids: list[str],
        operator: Operator | None,
        detail: str | None = None,
    ) -> None:
        who, why = operator or (None, None)
        self.events.append((str(kind), array_literal(customers), array_literal(ids), who, why, detail))

    def flush(self) -> None:
        """Write events and the lane log; the last step of a transaction other than a claim."""
        if self.events:
            self.queries.execute_many("add_events", EVENT_COLUMNS, self.events, at=self.now)
            self.events = []
        self._lane_recorder.flush(self.queries)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def ack(self, outcomes: Sequence[Outcome]) -> tuple[AckStatus, ...]:
        """Record outcomes, each once: successes all at once, the others one by one."""
        if not outcomes:
            return ()
        ids = [normalize_id(outcome.id) for outcome in outcomes]
        first = {id_: at for at, id_ in reversed(list(enumerate(ids)))}
        finished = self._finish([(id_, outcomes[at]) for id_, at in first.items()])
        others = [id_ for at, id_ in enumerate(ids) if id_ not in finished or first[id_] != at]
        facts = {lock_row.id: lock_row for lock_row in self._lock_rows(others)}
        self._load_capped(facts.values())
        statuses = []
        for at, (id_, outcome) in enumerate(zip(ids, outcomes, strict=True)):
            if id_ in finished and first[id_] == at:
                self._finished(id_, *finished[id_], outcome)
                statuses.append(AckStatus.RECORDED)
            else:
                status, facts = self._ack(outcome, id_, facts)
                statuses.append(status)
        self._write_attempts()
        self.add_grouped_events(OUTCOME_EVENTS)
        return tuple(statuses)

    def _finish(self, outcomes: Sequence[tuple[str, Outcome]]) -> dict[str, tuple[int, int, bool]]:
        """Of those that are done and were running under their fence: owner, seq, and whether the owner has a cap."""
        done = [(id_, outcome) for id_, outcome in outcomes if outcome.kind is OutcomeKind.DONE]
        if not done:
            return {}
        rows = self.queries.fetch_all(
            "finish_documents",
            now=self.now,
            ids=UuidList(id_ for id_, _ in done),
            fences=[outcome.fence for _, outcome in done],
            results=[outcome.result for _, outcome in done],
            began_after=[outcome.work and outcome.work.began_after for _, outcome in done],
            worked=[outcome.work and outcome.work.worked for _, outcome in done],
        )
        return {id_: (owner, seq, capped) for id_, owner, seq, capped in rows}

    def _finished(self, id_: str, owner: int, seq: int, capped: bool, outcome: Outcome) -> None:  # noqa: FBT001
        if capped:
            self._lane_recorder.stopped(owner)
            self.should_notify = True
        if outcome.files:
            self.queries.execute_many("add_files", FILE_COLUMNS, [(seq, *file) for file in outcome.files])
        self.record_event(EventKind.FINISHED, owner, id_)

    def _ack(
        self, outcome: Outcome, id_: str, facts_by_id: dict[str, DocumentFacts]
    ) -> tuple[AckStatus, dict[str, DocumentFacts]]:
        """One outcome; what is known of the documents afterwards."""
        facts = facts_by_id.get(id_)
        if facts is None or facts.fence != outcome.fence:
            return AckStatus.STALE, facts_by_id
        if facts.state != DocumentState.RUNNING:
            return (AckStatus.REPEATED if facts.last_outcome == outcome.kind else AckStatus.STALE), facts_by_id
        if outcome.kind is OutcomeKind.DONE:
            self._finished(id_, *self._finish([(id_, outcome)])[id_], outcome)
            after = facts._replace(state=DocumentState.DONE)
        elif outcome.kind is OutcomeKind.RELEASED:
            facts = self._record_work(outcome, facts)
            self._end_attempt(facts, EventKind.RELEASED)
            after = self._release(facts)
            if facts.start_by is not None and facts.attempt == 1:
                self._lane_recorder.deadline_set(facts.owner, "start_by", facts.start_by)
            self.record_event(EventKind.RELEASED, facts.owner, facts.id)
        else:
            after = self._ack_failure(outcome, self._record_work(outcome, facts))
        return AckStatus.RECORDED, {**facts_by_id, id_: after._replace(last_outcome=outcome.kind)}

    def _record_work(self, outcome: Outcome, facts: DocumentFacts) -> DocumentFacts:
        began_at, worked = work_times(outcome, facts.started_at or 0, self.now)
        self.queries.execute("record_work", seq=facts.seq, began_at=began_at, worked=worked)
        return facts._replace(began_at=began_at, worked=worked)

    def _ack_failure(self, outcome: Outcome, facts: DocumentFacts) -> DocumentFacts:
        if outcome.retry_in is None or facts.attempt >= facts.max_attempts:
            self.end(facts, DocumentState.FAILED, error=outcome.error, last_outcome=outcome.kind)
            self.record_event(EventKind.FAILED, facts.owner, facts.id)
            return facts._replace(state=DocumentState.FAILED)
        due_at = self.now + outcome.retry_in
        self._end_attempt(facts, EventKind.DELAYED, outcome.error)
        self.queries.execute("delay_document", seq=facts.seq, due_at=due_at, error=outcome.error, now=self.now)
        self._lane_recorder.deadline_set(facts.owner, "due", due_at)
        self.should_notify = True
        self._stopped_if_capped(facts.owner)
        self.record_event(EventKind.DELAYED, facts.owner, facts.id)
        return facts._replace(state=DocumentState.DELAYED)

    # -- transitions ----------------------------------------------------------------------------------------------

    def lock_documents(self, ids: Sequence[str], states: frozenset[DocumentState]) -> list[tuple[str, DocumentFacts]]:
        """Those of the documents that are in one of these states, in the order given, each once."""
        result = {facts.id: facts for facts in self._lock_rows([normalize_id(item) for item in ids])}
        self._load_capped(result.values())
        asked = ((fromkey, result.get(normalize_id(fromkey))) for fromkey in dict.fromkeys(ids))
        return [(item, facts) for item, facts in asked if facts is not None and facts.state in states]

    def requeue(self, facts: DocumentFacts, *, attempt: int, last_outcome: str | None) -> DocumentFacts:
        """Put it back into its lane at its seq."""
        if facts.state == DocumentState.RUNNING:
            self._stopped_if_capped(facts.owner)
        self.queries.execute(
            "requeue_document", seq=facts.seq, now=self.now, attempt=attempt, last_outcome=last_outcome
        )
        self._lane_recorder.requeued(facts.owner, facts.lane, 1, Head(facts.seq, self.now, facts.cost))
        self.should_notify = True
        return facts._replace(state=DocumentState.WAITING, attempt=attempt)

    def _release(self, facts: DocumentFacts) -> DocumentFacts:
        """Undo a claim: back into its lane at its seq, with its old waiting time and the charge refunded."""
        self._stopped_if_capped(facts.owner)
        row = self.queries.fetch_one("release_document", seq=facts.seq)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        self._lane_recorder.released(facts.owner, facts.lane, Head(facts.seq, row[0], facts.cost))
        self.should_notify = True
        return facts._replace(state=DocumentState.WAITING, attempt=facts.attempt - 1)

    def end(self, facts: DocumentFacts, state: DocumentState, *, error: str | None, last_outcome: str | None) -> None:
        """End a document, whatever its state was."""
        if facts.state == DocumentState.RUNNING:
            self._stopped_if_capped(facts.owner)
        self.queries.execute(
            "end_document", seq=facts.seq, state=str(state), now=self.now, error=error, last_outcome=last_outcome
        )
        if facts.state == DocumentState.WAITING:
            self._lane_recorder.left(facts.owner, facts.lane, facts.seq)

    def cancel(self, facts: DocumentFacts) -> None:
        """End it by hand; the error of its last attempt stays."""
        if facts.state == DocumentState.RUNNING:
            self._stopped_if_capped(facts.owner)
        self.queries.execute("cancel_document", seq=facts.seq, now=self.now)
        if facts.state == DocumentState.WAITING:
            self._lane_recorder.left(facts.owner, facts.lane, facts.seq)

    def retry(self, facts: DocumentFacts, id_: str, level: int, count: int) -> Receipt:
        """Queue it again at the end of its lane; the check was made before."""
        self.queries.execute("end_last_attempt", seq=facts.seq)
        row = self.queries.fetch_one("retry_document", seq=facts.seq, level=level, count=count, now=self.now)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        self._lane_recorder.joined(facts.owner, level, 1, Head(row[0], self.now, facts.cost))
        return Receipt(id_, level, count)

    def expedite(self, facts: DocumentFacts) -> None:
        """Put it into the lane ahead of all levels."""
        row = self.queries.fetch_one("expedite_document", seq=facts.seq, now=self.now)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        if facts.state == DocumentState.WAITING:
            self._lane_recorder.left(facts.owner, facts.lane, facts.seq)
        self._lane_recorder.requeued(facts.owner, EXPEDITED_LEVEL, 1, Head(facts.seq, row[0], facts.cost))

    def _end_attempt(self, facts: DocumentFacts, ended: EventKind, error: str | None = None) -> None:
        """An attempt that does not end its document is to be remembered."""
        what = (facts.started_at, str(ended), error, facts.worker, facts.began_at, facts.worked)
        self._ended_attempts.append((facts.owner, facts.id, facts.fence, facts.attempt, *what))

    def _write_attempts(self) -> None:
        self.queries.execute_many(
            "end_attempts", ATTEMPT_COLUMNS, self._ended_attempts, now=self.now, kept=MAX_STORED_ATTEMPTS
        )
        self._ended_attempts = []

    def _stopped_if_capped(self, owner: int) -> None:
        """Record the end of a run where the customer has a cap."""
        if self._capped is None:
            raise AssertionError("nobody asked who has a cap")
        if owner in self._capped:
            self._lane_recorder.stopped(owner)
            self.should_notify = True

    def _load_capped(self, facts: Any) -> None:
        running = {fact.owner for fact in facts if fact.state == DocumentState.RUNNING}
        result = self.queries.fetch_all("capped_of", ids=list(running)) if running else ()
        self._capped = (self._capped or set()) | {owner for (owner,) in result}

    def _lock_rows(self, ids: Sequence[str]) -> list[DocumentFacts]:
        """Lock rows in the order of seq, to avoid deadlocks."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ != NO_ID]
        if not wanted:
            return []
        return [DocumentFacts(*row) for row in self.queries.fetch_all("lock_documents", ids=wanted)]

    # -- what is due ----------------------------------------------------------------------------------------------

    def process_due(self, window: ClaimWindow) -> SweepResult:
        """Process what is due: `start_by`, leases, delays, rate limits, in this order."""
        if not window.deadlines.any_due(self.now):
            return SweepResult()
        swept = SweepResult(
            self._expire(window),
            self._expire_leases(window),
            self._requeue_delayed(window),
            self._reopen_rate_limited(window),
        )
        self.add_grouped_events(DUE_EVENTS)
        return swept

    def _due_documents(self, window: ClaimWindow, kind: str, query: str) -> list[DocumentFacts]:
        floor = window.deadlines.times[kind]
        if floor > self.now:
            return []
        rows = self.queries.fetch_all(query, now=self.now, floor=floor, limit=MAX_DUE_PER_TRANSACTION)
        document_factses = [DocumentFacts(*row) for row in rows]
        self._load_capped(document_factses)
        return document_factses

    def _advance_deadline(self, window: ClaimWindow, kind: str, query: str, processed: Sequence[object]) -> None:
        """Nothing of this kind is due any more, unless there was too much for one transaction."""
        if window.deadlines.times[kind] <= self.now and len(processed) < MAX_DUE_PER_TRANSACTION:
            row: Row | None = self.queries.fetch_one(query, now=self.now)
            window.deadlines.times[kind] = NEVER if row is None else row[0]

    def _expire(self, window: ClaimWindow) -> int:
        expired = self._due_documents(window, "start_by", "late_to_start")
        for facts in expired:
            self.end(facts, DocumentState.EXPIRED, error=None, last_outcome=facts.last_outcome)
            self.record_event(EventKind.EXPIRED, facts.owner, facts.id)
        self._advance_deadline(window, "start_by", "next_start_by", expired)
        return len(expired)

    def _expire_leases(self, window: ClaimWindow) -> int:
        lost = self._due_documents(window, "lease", "expired_leases")
        for facts in lost:
            if facts.attempt >= facts.max_attempts:
                self.end(facts, DocumentState.FAILED, error=LEASE_LOST_ERROR, last_outcome=None)
                self.record_event(EventKind.FAILED, facts.owner, facts.id)
            else:
                self._end_attempt(facts, EventKind.LEASE_LOST)
                self.requeue(facts, attempt=facts.attempt, last_outcome=None)
                self.record_event(EventKind.LEASE_LOST, facts.owner, facts.id)
        self._write_attempts()
        floor = window.deadlines.times["lease"]
        if floor <= self.now and len(lost) < MAX_DUE_PER_TRANSACTION:
            self.queries.execute("postpone_lease_checks", now=self.now, floor=floor)
        self._advance_deadline(window, "lease", "next_lease_check", lost)
        return len(lost)

    def _requeue_delayed(self, window: ClaimWindow) -> int:
        due = self._due_documents(window, "due", "due_documents")
        for facts in due:
            self.requeue(facts, attempt=facts.attempt, last_outcome=facts.last_outcome)
            self.record_event(EventKind.DUE, facts.owner, facts.id)
        self._advance_deadline(window, "due", "next_due", due)
        return len(due)

    def _reopen_rate_limited(self, window: ClaimWindow) -> int:
        if window.deadlines.times["rate"] > self.now:
            return 0
        owners = self.queries.fetch_all("due_rates", now=self.now, limit=MAX_DUE_PER_TRANSACTION)
        opened = sum([window.reopen_if_rate_allows(owner, self.now) for (owner,) in owners])
        self._advance_deadline(window, "rate", "next_rate", owners)
        return opened
