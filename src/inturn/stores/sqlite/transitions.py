"""Change documents in one write transaction: each transition writes the row, the lane change and the event."""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
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
from inturn.stores.sqlite.claim_window import ClaimWindow
from inturn.stores.sqlite.lane_log import LaneRecorder
from inturn.stores.sqlite.queries import Queries, pack_id

MAX_DUE_PER_TRANSACTION: Final = 500
"""Due documents of a kind that one transaction processes at most; the next one continues."""
UNKNOWN_WORK: Final = (None, None)
"""Stands for the work that an outcome says nothing of."""
DUE_EVENTS: Final = (EventKind.EXPIRED, EventKind.LEASE_LOST, EventKind.FAILED, EventKind.DUE)


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


class Transitions:
    """The transitions of one transaction, all at one time."""

    def __init__(self, queries: Queries, lane_recorder: LaneRecorder, now: int) -> None:
        self._queries = queries
        self._lane_recorder = lane_recorder
        self.now = now
        self._recorded: dict[EventKind, dict[int, list[bytes]]] = {}
        self._events: list[tuple[Any, ...]] = []
        self._has_new_deadlines = False

    # -- events ---------------------------------------------------------------------------------------------------

    def record_event(self, kind: EventKind, owner: int, id_: bytes) -> None:
        """Add a document to the event of this kind and customer."""
        self._recorded.setdefault(kind, {}).setdefault(owner, []).append(id_)

    def add_grouped_events(self, kinds: Sequence[EventKind], operator: Operator | None = None) -> None:
        """One event for each kind and customer, in the order of kinds, then of first documents."""
        for kind in kinds:
            for owner, ids in self._recorded.pop(kind, {}).items():
                self.add_event(kind, self._queries.customer_name(owner), b"".join(ids), operator)

    def add_event(
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

    def flush(self) -> None:
        """Write the events down: the last thing in a transaction."""
        if self._events:
            n = len(self._events)
            last = self._lane_recorder.allocate_event_numbers(n)
            self._queries.execute_many(
                "add_event", [(last - n + at, *item) for at, item in enumerate(self._events, start=1)]
            )
            self._events = []

    # -- outcomes -------------------------------------------------------------------------------------------------

    def ack(self, outcomes: Sequence[Outcome]) -> tuple[AckStatus, ...]:
        """Record outcomes, each once."""
        statuses: list[AckStatus] = []
        for are_done, item in groupby(outcomes, key=_is_done):
            run = list(item)
            statuses += self._finish(run) if are_done else map(self._ack, run)
        if self._recorded:
            self.add_grouped_events(OUTCOME_EVENTS)
        return tuple(statuses)

    def _finish(self, outcomes: Sequence[Outcome]) -> Iterator[AckStatus]:
        """Successes, all at once; the ones that come to nothing are looked at."""
        values = [
            (pack_id(outcome.id), outcome.fence, self.now, outcome.result, *(outcome.work or UNKNOWN_WORK))
            for outcome in outcomes
        ]
        done = deque(self._queries.execute_many_returning("finish_document", values))
        for outcome, (id_, fence, *_) in zip(outcomes, values, strict=True):
            if not done or done[0][:2] != (id_, fence):
                yield self._ack(outcome)
                continue
            _, _, owner, capped, seq = done.popleft()
            if capped:
                self._lane_recorder.stopped(owner)
            if outcome.files:
                self._queries.execute_many("add_file", [(seq, *file) for file in outcome.files])
            self.record_event(EventKind.FINISHED, owner, id_)
            yield AckStatus.RECORDED

    def _ack(self, outcome: Outcome) -> AckStatus:
        id_ = pack_id(outcome.id)
        row = self._queries.fetch_one("row", id=id_)
        if row is None:
            return AckStatus.STALE
        facts = DocumentFacts._make(row)
        if facts.fence != outcome.fence:
            return AckStatus.STALE
        if facts.state != DocumentState.RUNNING:
            return AckStatus.REPEATED if facts.last_outcome == outcome.kind else AckStatus.STALE
        self._record_work(outcome, facts.seq)
        if outcome.kind is OutcomeKind.RELEASED:
            self._end_attempt(facts, id_, EventKind.RELEASED)
            self._release(facts)
            self._has_new_deadlines |= facts.start_by is not None
            self.record_event(EventKind.RELEASED, facts.owner, id_)
        else:
            self._ack_failure(outcome, facts, id_)
        return AckStatus.RECORDED

    def _record_work(self, outcome: Outcome, seq: int) -> None:
        (started_at,) = self._queries.fetch_one("started_at", seq=seq) or (0,)
        self._queries.execute("record_work", *work_times(outcome, started_at, self.now), seq)

    def _ack_failure(self, outcome: Outcome, facts: DocumentFacts, id_: bytes) -> None:
        if outcome.retry_in is None or facts.attempt >= facts.max_attempts:
            self.end(facts, DocumentState.FAILED, error=outcome.error, last_outcome=outcome.kind)
            self.record_event(EventKind.FAILED, facts.owner, id_)
        else:
            due_at = self.now + outcome.retry_in
            self._end_attempt(facts, id_, EventKind.DELAYED, outcome.error)
            self._queries.fetch_one("delay_document", seq=facts.seq, due_at=due_at, error=outcome.error, now=self.now)
            self._has_new_deadlines = True
            self._stopped_if_capped(facts.owner)
            self.record_event(EventKind.DELAYED, facts.owner, id_)

    # -- transitions ----------------------------------------------------------------------------------------------

    def requeue(self, facts: DocumentFacts, *, attempt: int, last_outcome: str | None) -> None:
        """Put it back into its lane at its seq."""
        if facts.state == DocumentState.RUNNING:
            self._stopped_if_capped(facts.owner)
        self._queries.fetch_one(
            "requeue_document", seq=facts.seq, now=self.now, attempt=attempt, last_outcome=last_outcome
        )
        self._add_requeued(facts, facts.lane, self.now)

    def _release(self, facts: DocumentFacts) -> None:
        """Undo a claim: back into its lane at its seq, with its old waiting time and the charge refunded."""
        self._stopped_if_capped(facts.owner)
        row = self._queries.fetch_one("release_document", seq=facts.seq)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        head = Head(facts.seq, row[0], facts.cost)
        self._queries.execute("add_requeued", facts.owner, facts.lane, *head)
        self._lane_recorder.released(facts.owner, facts.lane, head)

    def _add_requeued(self, facts: DocumentFacts, lane: int, ready_at: int) -> None:
        """Add it to `requeued`: the lane's scan may have passed it."""
        head = Head(facts.seq, ready_at, facts.cost)
        self._queries.execute("add_requeued", facts.owner, lane, *head)
        self._lane_recorder.requeued(facts.owner, lane, 1, head)

    def _leave_lane(self, facts: DocumentFacts) -> None:
        """Remove it from its lane."""
        self._queries.execute("forget_requeued", facts.owner, facts.lane, facts.seq)
        self._lane_recorder.left(facts.owner, facts.lane, facts.seq)

    def end(self, facts: DocumentFacts, state: DocumentState, *, error: str | None, last_outcome: str | None) -> None:
        """End a document, whatever its state was."""
        if facts.state == DocumentState.RUNNING:
            self._stopped_if_capped(facts.owner)
        self._queries.fetch_one(
            "end_document", seq=facts.seq, state=state, now=self.now, error=error, last_outcome=last_outcome
        )
        if facts.state == DocumentState.WAITING:
            self._leave_lane(facts)

    def cancel(self, facts: DocumentFacts) -> None:
        """End it by hand; the error of its last attempt stays."""
        if facts.state == DocumentState.RUNNING:
            self._stopped_if_capped(facts.owner)
        self._queries.fetch_one("cancel_document", seq=facts.seq, now=self.now)
        if facts.state == DocumentState.WAITING:
            self._leave_lane(facts)

    def retry(self, facts: DocumentFacts, id_: str, seq: int, level: int, count: int) -> Receipt:
        """Queue it again at the end of its lane; the check was made before."""
        self._queries.fetch_one("end_last_attempt", seq=facts.seq)
        self._queries.fetch_one("retry_document", seq=facts.seq, new=seq, level=level, count=count, now=self.now)
        self._lane_recorder.joined(facts.owner, level, 1, Head(seq, self.now, facts.cost))
        return Receipt(id_, level, count)

    def expedite(self, facts: DocumentFacts) -> None:
        """Put it into the lane ahead of all levels."""
        row = self._queries.fetch_one("expedite_document", seq=facts.seq, now=self.now)
        if row is None:
            raise AssertionError("a document vanished inside its transaction")
        if facts.state == DocumentState.WAITING:
            self._leave_lane(facts)
        self._add_requeued(facts, EXPEDITED_LEVEL, row[0])

    def _end_attempt(self, facts: DocumentFacts, id_: bytes, ended: EventKind, error: str | None = None) -> None:
        """Remember an attempt that does not end its document, before the document forgets it."""
        self._queries.fetch_one("end_attempt", seq=facts.seq, now=self.now, ended=ended, error=error)
        self._queries.fetch_one("forget_old_attempts", customer=facts.owner, document=id_, kept=MAX_STORED_ATTEMPTS)

    def _stopped_if_capped(self, owner: int) -> None:
        """Record the end of a run where the customer has a cap."""
        row = self._queries.fetch_one("is_capped", id=owner)
        if row is not None and row[0]:
            self._lane_recorder.stopped(owner)

    # -- what is due ----------------------------------------------------------------------------------------------

    def process_due(self, window: ClaimWindow) -> SweepResult:
        """Process what is due: `start_by`, leases, delays, rate limits, in this order."""
        now = self.now
        if self._has_new_deadlines:  # of this transaction: perhaps of now
            window.next_due = 0
        if window.next_due > now:
            return SweepResult()
        start_by, lease, due, rate = self._queries.fetch_one("deadlines") or (None, None, None, None)
        swept = SweepResult(
            self._expire() if start_by is not None and start_by <= now else 0,
            self._expire_leases() if lease is not None and lease <= now else 0,
            self._requeue_delayed() if due is not None and due <= now else 0,
            self._reopen_rate_limited(window) if rate is not None and rate <= now else 0,
        )
        if self._recorded:
            self.add_grouped_events(DUE_EVENTS)
        return swept

    def _due_documents(self, query: str) -> list[tuple[bytes, DocumentFacts]]:
        result = []
        for (seq,) in self._queries.fetch_all(query, now=self.now, limit=MAX_DUE_PER_TRANSACTION):
            row = self._queries.fetch_one("row_by_seq", seq=seq)
            if row is not None:
                result.append((row[-1], DocumentFacts._make(row[:-1])))
        return result

    def _expire(self) -> int:
        expired = self._due_documents("late_to_start")
        for id_, facts in expired:
            self.end(facts, DocumentState.EXPIRED, error=None, last_outcome=facts.last_outcome)
            self.record_event(EventKind.EXPIRED, facts.owner, id_)
        return len(expired)

    def _expire_leases(self) -> int:
        lost = self._due_documents("expired_leases")
        for id_, facts in lost:
            if facts.attempt >= facts.max_attempts:
                self.end(facts, DocumentState.FAILED, error=LEASE_LOST_ERROR, last_outcome=None)
                self.record_event(EventKind.FAILED, facts.owner, id_)
            else:
                self._end_attempt(facts, id_, EventKind.LEASE_LOST)
                self.requeue(facts, attempt=facts.attempt, last_outcome=None)
                self.record_event(EventKind.LEASE_LOST, facts.owner, id_)
        return len(lost)

    def _requeue_delayed(self) -> int:
        due = self._due_documents("due_documents")
        for id_, facts in due:
            self.requeue(facts, attempt=facts.attempt, last_outcome=facts.last_outcome)
            self.record_event(EventKind.DUE, facts.owner, id_)
        return len(due)

    def _reopen_rate_limited(self, window: ClaimWindow) -> int:
        return sum(
            window.reopen_if_rate_allows(owner, self.now)
            for (owner,) in self._queries.fetch_all("due_rates", now=self.now, limit=MAX_DUE_PER_TRANSACTION)
        )


def _is_done(outcome: Outcome) -> bool:
    return outcome.kind is OutcomeKind.DONE
