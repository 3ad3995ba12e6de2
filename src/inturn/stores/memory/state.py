"""Hold the memory store's data, and change documents, lanes and deadlines together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from inturn.api_keys import ApiKey
from inturn.errors import KeyConflictError, NotFoundError
from inturn.model import DEFAULT_QUEUE, DocumentState, NewDocument, Receipt
from inturn.policy import Policy
from inturn.policy.clock_skew import Term, review_term
from inturn.policy.forecasts import ForecastLog
from inturn.policy.scheduler import FIRST_QUEUE, MAX_QUEUES, Scheduler
from inturn.store_answers import AheadOfClock, MaintenanceRecord, SweepResult
from inturn.store_types import (
    IDEMPOTENCY_KEY_RETENTION,
    LEASE_LOST_ERROR,
    MAX_STORED_ATTEMPTS,
    AckStatus,
    Attempt,
    ClaimRequest,
    EventKind,
    LeaseStatus,
    Operator,
    Outcome,
    OutcomeKind,
    PolicyVersion,
    held_time,
    too_many_queues_error,
    work_times,
)
from inturn.stores.memory.deadlines import Deadline, delay_of, lease_of, start_by_of
from inturn.stores.memory.journal import Journal
from inturn.stores.memory.lanes import Lanes
from inturn.stores.memory.rows import DELAYED, RUNNING, WAITING, CustomerRow, QueueRow, Row
from inturn.worker_report import Worker

EMPTY_SWEEP: Final = SweepResult()


class IdempotencyRecord(NamedTuple):
    """The first call under an idempotency key: content hash, time and answer."""

    fingerprint: str
    at: int
    answer: tuple[Receipt, ...]


class State:
    """All data of the store. The store holds the lock."""

    def __init__(self, first: PolicyVersion) -> None:
        self.documents: dict[str, Row] = {}
        self.attempts: dict[str, dict[int, Attempt]] = {}
        """By document and fence; documents without earlier attempts have no entry."""
        self.lanes = Lanes(first.policy.turns)
        self.journal = Journal()
        self.idempotency_keys: dict[tuple[str, str], IdempotencyRecord] = {}
        self.policies = [first]
        self.policy: Policy = first.policy
        self.paused: Operator | None = None
        self.queues: dict[str, QueueRow] = {DEFAULT_QUEUE: QueueRow(FIRST_QUEUE)}
        """By name, in the order of their numbers."""
        self.workers: dict[str, Worker] = {}
        self.maintenance: MaintenanceRecord | None = None
        self.forecasts = ForecastLog()
        self.api_keys: dict[str, ApiKey] = {}
        self.seq = 0
        self.fence = 0
        self.leases = Deadline(lease_of)
        self.delays = Deadline(delay_of)
        self.start_bys = Deadline(start_by_of)
        self._deadlines = (self.leases, self.delays, self.start_bys)

    def worker_slots(self, queue: str) -> Iterator[tuple[int, int]]:
        """Yield when each worker of a queue reported, and its slots that take documents."""
        return (
            (worker.seen_at, worker.open_slots) for worker in self.workers.values() if queue in worker.report.queues
        )

    def require_room(self, names: Iterable[str]) -> None:
        """Raise if the store cannot have all of these queues."""
        if len({*self.queues, *names}) > MAX_QUEUES:
            raise too_many_queues_error()

    def queue(self, name: str) -> QueueRow:
        """Return a queue; make it if it is new."""
        known = self.queues.get(name)
        if known is None:
            self.require_room([name])
            known = self.queues[name] = QueueRow(len(self.queues))
            self.lanes.schedulers.append(Scheduler(self.policy.turns))
        return known

    def is_paused(self, worker: str) -> bool:
        """Return whether a worker may claim nothing: the queue is paused, or the worker itself."""
        return self.paused is not None or (worker in self.workers and self.workers[worker].paused is not None)

    def set_policy(self, version: PolicyVersion) -> None:
        self.policies.append(version)
        self.policy = version.policy
        for scheduler in self.lanes.schedulers:
            scheduler.set_policy(version.policy.turns)

    def row(self, id: str) -> Row:
        try:
            return self.documents[id]
        except KeyError:
            raise NotFoundError(f"there is no document {id}") from None

    # -- submit -----------------------------------------------------------------------------------------------------

    def find_repeat(self, customer: str, key: str, fingerprint: str, now: int) -> IdempotencyRecord | None:
        """Return the first call under this key; None if there is none. KeyConflictError if its content differs."""
        record = self.idempotency_keys.get((customer, key))
        if record is None or now - record.at > IDEMPOTENCY_KEY_RETENTION:
            return None
        if record.fingerprint != fingerprint:
            raise KeyConflictError(
                f"key {key!r} of {customer!r} was used before for something else; use a new key for new content",
            )
        return record

    def check(self, customer: CustomerRow, n: int, now: int) -> Iterable[tuple[int, int]]:
        """Check the customer n times; return (level, count) of each check."""
        if n == 1:
            customer.counter, level = self.policy.priority.check(customer.counter, now)
            return ((level, customer.counter.count),)
        checked = self.policy.priority.check_many(customer.counter, now, n)
        customer.counter = checked.counter
        return checked.per_document()

    def admit(
        self,
        customer: str,
        documents: Iterable[tuple[str, NewDocument, tuple[int, int]]],
        now: int,
    ) -> tuple[Receipt, ...]:
        """Store documents, given as (id, spec, (level, count))."""
        receipts = []
        for id_, spec, (level, count) in documents:
            self.seq += 1
            number = self.queue(spec.queue).number
            row = Row(id_, customer, self.seq, spec, level, count, WAITING, now, now, queue=number)
            self.documents[id_] = row
            if spec.delay:
                self.delay(row, spec.delay, now)
            else:
                self.lanes.join(row)
            if spec.start_by is not None:
                self.start_bys.add(spec.start_by, row)
            receipts.append(Receipt(id_, level, count))
        return tuple(receipts)

    def restore_row(self, row: Row) -> None:
        """Restore a document from a backup; virtual times do not change."""
        self.documents[row.id] = row
        if row.state in {WAITING, RUNNING}:
            self.lanes.restore_document(row)
        for deadline in self._deadlines:
            at = deadline.time_of(row)
            if at is not None:
                deadline.add(at, row)

    # -- workers ----------------------------------------------------------------------------------------------------

    def open_queues(self, request: ClaimRequest) -> dict[int, float]:
        """Return the weights of the queues that a request may be served from, by number."""
        rows = [row for name, row in self.queues.items() if name in request.queues and row.paused is None]
        return {row.number: row.settings.weight for row in rows}

    def take(self, request: ClaimRequest, weights: Mapping[int, float], now: int) -> Row | None:
        """Claim the next document of some queues; None if no open lane has one."""
        row = self.lanes.take(weights, now)
        if row is not None:
            self.fence += 1
            row.attempt += 1
            row.fence, row.worker, row.last_outcome = self.fence, request.worker, None
            row.started_at, row.began_at, row.worked = now, None, None
            self.lease(row, request.lease, now)
        return row

    def ack(self, outcome: Outcome, now: int, events: list[tuple[EventKind, Row]]) -> AckStatus:
        """Record an outcome (S7, S8), and add its event to `events`."""
        row = self.documents.get(outcome.id)
        if row is None or row.fence != outcome.fence:
            return AckStatus.STALE
        kind = outcome.kind
        if row.state is not RUNNING:
            return AckStatus.REPEATED if row.last_outcome is kind else AckStatus.STALE
        row.last_outcome = kind
        row.began_at, row.worked = work_times(outcome, row.started_at or 0, now)
        if kind is OutcomeKind.DONE:
            row.result, row.files, row.error = outcome.result, outcome.files, None
            self.end(row, DocumentState.DONE, now)
            events.append((EventKind.FINISHED, row))
        elif kind is OutcomeKind.RELEASED:
            self._end_attempt(row, EventKind.RELEASED, None, now)
            row.attempt -= 1
            self._stop(row)
            row.state = WAITING
            self.lanes.release(row)
            self._add_start_by(row)
            events.append((EventKind.RELEASED, row))
        else:
            self._ack_failure(row, outcome, now, events)
        return AckStatus.RECORDED

    def _ack_failure(self, row: Row, outcome: Outcome, now: int, events: list[tuple[EventKind, Row]]) -> None:
        row.error = outcome.error
        if outcome.retry_in is None or row.attempt >= row.spec.max_attempts:
            self.end(row, DocumentState.FAILED, now)
            events.append((EventKind.FAILED, row))
        else:
            self._end_attempt(row, EventKind.DELAYED, outcome.error, now)
            self._settle(row, now)
            self._stop(row)
            self.delay(row, outcome.retry_in, now)
            events.append((EventKind.DELAYED, row))

    def renew_lease(self, id: str, fence: int, length: int, now: int) -> LeaseStatus:
        """Renew the lease of a claim if it is still held (S14)."""
        row = self.documents.get(id)
        if row is None or row.fence != fence:
            return LeaseStatus.LOST
        if row.state is not RUNNING:
            return LeaseStatus.CANCELLED if row.state is DocumentState.CANCELLED else LeaseStatus.LOST
        self.lease(row, length, now)
        return LeaseStatus.HELD

    # -- transitions ------------------------------------------------------------------------------------------------

    def lease(self, row: Row, length: int, now: int) -> None:
        row.leased_at, row.lease_until, row.doubted_at = now, now + length, None
        self.leases.add(row.lease_until, row)

    def delay(self, row: Row, length: int, now: int) -> None:
        row.state, row.delayed_at, row.due_at, row.doubted_at = DELAYED, now, now + length, None
        self.delays.add(row.due_at, row)

    def requeue(self, row: Row, now: int) -> None:
        """Put a document back into its lane; its seq decides the place."""
        self._settle(row, now)
        self._stop(row)
        row.state, row.ready_at, row.due_at = WAITING, now, None
        self.lanes.join(row)
        self._add_start_by(row)

    def _add_start_by(self, row: Row) -> None:
        if row.attempt == 0 and row.spec.start_by is not None:
            self.start_bys.add(row.spec.start_by, row)

    def end(self, row: Row, state: DocumentState, now: int) -> None:
        """Move a document to a final state, from any other state."""
        was_waiting = row.state is WAITING
        self._settle(row, now)
        self._stop(row)
        row.state, row.finished_at, row.due_at = state, now, None
        if was_waiting:
            self.lanes.left(row, row.track)

    def retry(self, row: Row, now: int) -> None:
        """Requeue an ended document by hand: a new check and seq, without `start_by` (S16)."""
        if row.started_at is not None and row.state is not DocumentState.EXPIRED:
            error = row.error if row.state is DocumentState.FAILED else None
            self._end_attempt(row, EventKind(row.state), error, row.finished_at or now)
        ((row.level, row.count),) = self.check(self.lanes.customers[row.customer], 1, now)
        self.seq += 1
        row.seq = self.seq
        row.spec = row.spec._replace(start_by=None)
        row.attempt, row.expedited, row.error, row.last_outcome = 0, False, None, None
        row.set_track()
        row.started_at = row.finished_at = row.began_at = row.worked = None
        self.requeue(row, now)

    def expedite(self, row: Row, now: int, *, undo: bool) -> None:
        """Move a document to the expedited lane, or back; a delay ends."""
        was_waiting, track = row.state is WAITING, row.track
        row.expedited = not undo
        row.set_track()
        if was_waiting:
            self.lanes.left(row, track)
            self.lanes.join(row)
        else:
            self.requeue(row, now)

    def delete(self, rows: Sequence[Row], now: int) -> tuple[str, ...]:
        """Delete documents and return their blobs.

        Running documents go last, so that no lane opens for a document that is about to be deleted. They stay charged
        as expected.
        """
        for row in sorted(rows, key=lambda row: row.state is RUNNING):
            self.lanes.forget_run(row)
            if row.finished_at is None:
                self.end(row, DocumentState.CANCELLED, now)
            del self.documents[row.id]
            self.attempts.pop(row.id, None)
        return tuple(blob for row in rows for blob in row.blobs())

    def ended_before(self, before: int, customer: str | None, up_to: int | None) -> list[Row]:
        """Return ended documents by end time: of one customer, or of all customers without a `keep` of their own."""
        customers = self.lanes.customers
        rows = [
            row
            for row in self.documents.values()
            if row.finished_at is not None
            and row.finished_at < before
            and (up_to is None or row.seq <= up_to)
            and (customers[row.customer].settings.keep is None if customer is None else row.customer == customer)
        ]
        return sorted(rows, key=attrgetter("finished_at", "seq"))

    def prune_keys(self, now: int) -> int:
        """Delete expired idempotency keys; return how many."""
        records = self.idempotency_keys.items()
        expired = [key for key, record in records if now - record.at > IDEMPOTENCY_KEY_RETENTION]
        for key in expired:
            del self.idempotency_keys[key]
        return len(expired)

    # -- due --------------------------------------------------------------------------------------------------------

    def review(self, now: int) -> None:
        """Review leases, delays and rate limits that a clock ahead of this one has set (S46)."""
        self.lanes.clamp_rates(now)
        for row in self.leases.rows():
            if (term := review_term(_lease(row), now)) != _lease(row):
                _, row.lease_until, row.doubted_at = term
                self.leases.add(term.ends_at, row)
        for row in self.delays.rows():
            if (term := review_term(_delay(row), now)) != _delay(row):
                _, row.due_at, row.doubted_at = term
                self.delays.add(term.ends_at, row)

    def ahead_of_clock(self, now: int) -> AheadOfClock:
        """Count what `review` would change (S48)."""
        leases = sum(_lease(row).began_at > now for row in self.leases.rows())
        delays = sum(_delay(row).began_at > now for row in self.delays.rows())
        return AheadOfClock(leases, delays, self.lanes.rates_ahead(now))

    def process_due(self, now: int) -> SweepResult:
        """Process due `start_by` times, leases, delays and rate limits, in this order (S9)."""
        nothing_timed = self.leases.earliest > now and self.delays.earliest > now and self.start_bys.earliest > now
        if nothing_timed and not self.lanes.has_openings:
            return EMPTY_SWEEP
        expired, lost, due = [], [], []
        for row in self.start_bys.due(now):
            self.end(row, DocumentState.EXPIRED, now)
            expired.append(row)
        for row in self.leases.due(now):
            self._lose_lease(row, now)
            lost.append(row)
        for row in self.delays.due(now):
            self.requeue(row, now)
            due.append(row)
        if expired or lost or due:
            self._log_due(expired, lost, due, now)
        return SweepResult(len(expired), len(lost), len(due), self.lanes.reopen_due(now))

    def _lose_lease(self, row: Row, now: int) -> None:
        if row.attempt >= row.spec.max_attempts:
            row.error = LEASE_LOST_ERROR
            self.end(row, DocumentState.FAILED, now)
        else:
            self._end_attempt(row, EventKind.LEASE_LOST, None, now)
            self.requeue(row, now)

    def next_due(self) -> int | None:
        times = (self.leases.next(), self.delays.next(), self.lanes.next_opening(), self.lanes.share_opens_at())
        return min((at for at in times if at is not None), default=None)

    def _log_due(self, expired: list[Row], lost: list[Row], due: list[Row], now: int) -> None:
        failed = [row for row in lost if row.state is DocumentState.FAILED]
        lost = [row for row in lost if row.state is not DocumentState.FAILED]
        for kind, rows in (
            (EventKind.EXPIRED, expired),
            (EventKind.LEASE_LOST, lost),
            (EventKind.FAILED, failed),
            (EventKind.DUE, due),
        ):
            self.journal.append_by_customer(kind, now, rows)

    def _end_attempt(self, row: Row, ended: EventKind, error: str | None, now: int) -> None:
        """Store an attempt once under its fence, and drop the oldest above the limit."""
        attempts = self.attempts.setdefault(row.id, {})
        fence = row.fence or 0
        times, work = (row.started_at or 0, now), (row.began_at, row.worked)
        attempts.setdefault(fence, Attempt(fence, row.attempt, *times, ended, error, row.worker, *work))
        if len(attempts) > MAX_STORED_ATTEMPTS:
            del attempts[next(iter(attempts))]

    def _settle(self, row: Row, now: int) -> None:
        """Settle the charge of a running document. If no outcome says how long it took, its lease says at most."""
        if row.state is RUNNING and row.charged is not None:
            learn = row.worked is not None
            worked = held_time(row.started_at, row.lease_until, now) if row.worked is None else row.worked
            self.lanes.settle(row, worked, learn=learn)

    def _stop(self, row: Row) -> None:
        if row.state is RUNNING:
            self.lanes.stopped(row)
            row.worker = row.lease_until = None


def _lease(row: Row) -> Term:
    return Term(row.leased_at or 0, row.lease_until or 0, row.doubted_at)


def _delay(row: Row) -> Term:
    return Term(row.delayed_at or 0, row.due_at or 0, row.doubted_at)
