"""Process what is due before a claim or in a sweep: times that have come, and parts that have ended."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from inturn.model import DocumentState
from inturn.store_answers import SweepResult
from inturn.store_types import LEASE_LOST_ERROR, EventKind
from inturn.stores.sql.claim_window import ClaimWindow
from inturn.stores.sql.rows import NEVER
from inturn.stores.sql.transitions import DocumentFacts, Transitions

MAX_DUE_PER_TRANSACTION: Final = 500
"""Due documents of a kind that one transaction processes at most; the next one continues."""
DUE_EVENTS: Final = (
    EventKind.EXPIRED, EventKind.LEASE_LOST, EventKind.FAILED, EventKind.DUE, EventKind.PARTS_ENDED,
)  # fmt: skip


class DueWork:
    """What is due at the time of the transitions, in the lanes of a claim."""

    def __init__(self, transitions: Transitions, window: ClaimWindow) -> None:
        self._transitions = transitions
        self._window = window
        self._now = transitions.now

    def process(self) -> SweepResult:
        """Process what is due: `start_by`, leases, delays, ended parts, rate limits, in this order."""
        if not self._window.is_due(self._now):
            return SweepResult()
        expired, leases_lost, due = self._expire(), self._expire_leases(), self._requeue_delayed()
        self._window.apply(self._transitions.lane_log.take())
        self._continue_split()
        self._window.apply(self._transitions.lane_log.take())
        swept = SweepResult(expired, leases_lost, due, self._reopen_rate_limited())
        self._transitions.add_grouped_events(DUE_EVENTS)
        return swept

    def _due_documents(self, kind: str, query: str) -> list[DocumentFacts]:
        floor = self._window.deadlines.times[kind]
        if floor > self._now:
            return []
        rows = self._transitions.queries.fetch_all(query, now=self._now, floor=floor, limit=MAX_DUE_PER_TRANSACTION)
        due = [DocumentFacts.from_row(row) for row in rows]
        self._transitions.load_capped(due)
        return due

    def _advance_deadline(self, kind: str, query: str, processed: Sequence[object]) -> None:
        """Nothing of this kind is due any more, unless there was too much for one transaction."""
        floor = self._window.deadlines.times[kind]
        if floor <= self._now and len(processed) < MAX_DUE_PER_TRANSACTION:
            (at,) = self._transitions.queries.fetch_one(query, now=self._now, floor=floor) or (None,)
            self._window.deadlines.times[kind] = NEVER if at is None else at

    def _expire(self) -> int:
        expired = self._due_documents("start_by", "late_to_start")
        for facts in expired:
            self._transitions.end(facts, DocumentState.EXPIRED, error=None, last_outcome=facts.last_outcome)
            self._transitions.record_event(EventKind.EXPIRED, facts)
        self._advance_deadline("start_by", "next_start_by", expired)
        return len(expired)

    def _expire_leases(self) -> int:
        lost = self._due_documents("lease", "expired_leases")
        for facts in lost:
            if facts.attempt >= facts.max_attempts:
                self._transitions.end(facts, DocumentState.FAILED, error=LEASE_LOST_ERROR, last_outcome=None)
                self._transitions.record_event(EventKind.FAILED, facts)
            else:
                self._transitions.end_attempt(facts, EventKind.LEASE_LOST)
                self._transitions.requeue(facts, last_outcome=None)
                self._transitions.record_event(EventKind.LEASE_LOST, facts)
        self._transitions.write_attempts()
        self._advance_deadline("lease", "next_lease_check", lost)
        return len(lost)

    def _requeue_delayed(self) -> int:
        due = self._due_documents("due", "due_documents")
        for facts in due:
            self._transitions.requeue(facts, last_outcome=facts.last_outcome)
            self._transitions.record_event(EventKind.DUE, facts)
        self._advance_deadline("due", "next_due", due)
        return len(due)

    def _continue_split(self) -> None:
        """Move split documents to their next step, if a part of them has ended and none is unended."""
        ended = [(change.seq,) for change in self._window.take_ended_parts()]
        rows = self._transitions.queries.fetch_many("split_without_unended_parts", ("seq",), ended) if ended else ()
        for facts in sorted({DocumentFacts.from_row(row) for row in rows}, key=attrgetter("seq")):
            self._transitions.requeue(facts, last_outcome=facts.last_outcome)
            self._transitions.record_event(EventKind.PARTS_ENDED, facts)

    def _reopen_rate_limited(self) -> int:
        if self._window.deadlines.times["rate"] > self._now:
            return 0
        owners = self._transitions.queries.fetch_all("due_rates", now=self._now, limit=MAX_DUE_PER_TRANSACTION)
        opened = sum([self._window.reopen_if_rate_allows(owner, self._now) for (owner,) in owners])
        self._advance_deadline("rate", "next_rate", owners)
        return opened
