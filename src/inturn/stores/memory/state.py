"""Hold the memory store's data, and change documents, lanes and deadlines together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from inturn.api_keys import ApiKey
from inturn.errors import KeyConflictError, NotFoundError
from inturn.model import DEFAULT_QUEUE, RETRYABLE, DocumentState, NewDocument, Receipt
from inturn.policy import Policy, rates
from inturn.policy.forecasts import ForecastLog
from inturn.policy.scheduler import FIRST_QUEUE, MAX_QUEUES, Scheduler
from inturn.store_answers import MaintenanceRecord
from inturn.store_types import (
    IDEMPOTENCY_KEY_RETENTION,
    MAX_STORED_ATTEMPTS,
    PART_RETRYABLE,
    STEP_ENDS,
    AckStatus,
    Attempt,
    ClaimRequest,
    EventKind,
    LeaseStatus,
    Operator,
    Outcome,
    OutcomeKind,
    PolicyVersion,
    StepResult,
    held_time,
    too_many_queues_error,
    work_times,
)
from inturn.stores.memory.deadlines import Deadline, delay_of, lease_of, start_by_of
from inturn.stores.memory.journal import Change, Journal
from inturn.stores.memory.lanes import Lanes
from inturn.stores.memory.rows import DELAYED, RUNNING, WAITING, CustomerRow, QueueRow, Row, has_ended_before
from inturn.stores.memory.steps import SPLIT, Parent, Steps
from inturn.worker_report import Worker


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
        self.steps = Steps()
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
        parent: Parent | None = None,
    ) -> tuple[Receipt, ...]:
        """Store documents, given as (id, spec, (level, count)): new ones, or the parts of a document."""
        receipts = []
        for part, (id_, spec, (level, count)) in enumerate(documents, start=1):
            self.seq += 1
            number = self.queue(spec.queue).number
            row = Row(id_, customer, self.seq, spec, level, count, WAITING, now, now, queue_number=number)
            row.queue, row.ahead = spec.queue, spec.steps[1:]
            if parent is not None:
                row.parent, row.part, row.split_step = parent.id, part, parent.step
                self.steps.add_part(row)
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
        self.steps.add_part(row)
        if row.state in {WAITING, RUNNING}:
            self.lanes.restore_document(row)
        if row.state is RUNNING:
            self.queues[row.queue].running += 1
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
        row = self.lanes.take(self._without_closed(weights, now), now)
        if row is not None:
            queue = self.queues[row.queue]
            queue.running += 1
            if queue.settings.rate is not None:
                queue.tat = rates.charged_tat(queue.settings.rate, queue.tat, now)
            self.fence += 1
            row.attempt += 1
            row.fence, row.worker, row.last_outcome = self.fence, request.worker, None
            row.started_at, row.began_at, row.worked = now, None, None
            self.lease(row, request.lease, now)
        return row

    def _without_closed(self, weights: Mapping[int, float], now: int) -> Mapping[int, float]:
        """Leave out queues that their cap or rate limit closes."""
        closed = {queue.number for queue in self.queues.values() if queue.is_closed(now)}
        return {number: weight for number, weight in weights.items() if number not in closed} if closed else weights

    def ack(self, outcome: Outcome, now: int, changes: list[Change]) -> AckStatus:
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
            changes.append(Change(EventKind.FINISHED, row, row.queue))
        elif kind is OutcomeKind.RELEASED:
            self.end_attempt(row, EventKind.RELEASED, None, now)
            row.attempt -= 1
            self._stop(row)
            row.state = WAITING
            self.lanes.release(row)
            self._add_start_by(row)
            changes.append(Change(EventKind.RELEASED, row, row.queue))
        elif kind is OutcomeKind.NEXT:
            queue = row.queue
            self._end_step(row, outcome, EventKind.STEP_DONE, now)
            if self.policy.check_each_step:
                ((row.level, row.count),) = self.check(self.lanes.customers[row.customer], 1, now)
            self.enter_queue(row, now)
            changes.append(Change(EventKind.STEP_DONE, row, queue, next=row.queue))
        elif kind is OutcomeKind.SPLIT:
            split_at, queue = row.step, row.queue
            self._end_step(row, outcome, EventKind.SPLIT, now)
            row.state = DocumentState.SPLIT
            changes.append(Change(EventKind.SPLIT, row, queue))
            parts = self._admit_parts(row, outcome, split_at, now)
            changes += [Change(EventKind.PART_ADDED, part, part.queue) for part in parts]
        else:
            self._ack_failure(row, outcome, now, changes)
        return AckStatus.RECORDED

    def _end_step(self, row: Row, outcome: Outcome, ended: EventKind, now: int) -> None:
        """Store the result of a step, end its run, and let the document belong to the queue of the next one."""
        self.end_attempt(row, ended, None, now)
        result = StepResult(row.step, row.queue, outcome.result, tuple(sorted(outcome.files)))
        self.steps.results.setdefault(row.id, []).append(result)
        self._settle(row, now)
        self._stop(row)
        row.step, row.queue, row.ahead = row.step + 1, outcome.queue or row.queue, outcome.ahead
        row.queue_number = self.queue(row.queue).number
        row.attempt, row.error = 0, None
        if row.spec.start_by is not None:
            row.spec = row.spec._replace(start_by=None)

    def enter_queue(self, row: Row, now: int) -> None:
        """Put a document into the lane of its level in the queue that it belongs to."""
        row.set_track()
        row.state, row.ready_at = WAITING, now
        self.lanes.join(row)

    def _admit_parts(self, row: Row, outcome: Outcome, split_at: int, now: int) -> list[Row]:
        customer = self.lanes.customers[row.customer]
        specs = self.policy.costs.apply([spec for _, spec in outcome.parts])
        checks: Iterable[tuple[int, int]] = [(row.level, row.count)] * len(specs)
        if self.policy.check_each_step:
            checks = self.check(customer, len(specs), now)
        ids = [id_ for id_, _ in outcome.parts]
        self.admit(row.customer, zip(ids, specs, checks, strict=True), now, Parent(row.id, split_at))
        return [self.documents[id_] for id_ in ids]

    def _ack_failure(self, row: Row, outcome: Outcome, now: int, changes: list[Change]) -> None:
        row.error = outcome.error
        if outcome.retry_in is None or row.attempt >= (outcome.max_attempts or row.spec.max_attempts):
            self.end(row, DocumentState.FAILED, now)
            changes.append(Change(EventKind.FAILED, row, row.queue))
        else:
            self.end_attempt(row, EventKind.DELAYED, outcome.error, now)
            self._settle(row, now)
            self._stop(row)
            self.delay(row, outcome.retry_in, now)
            changes.append(Change(EventKind.DELAYED, row, row.queue))

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
        self.steps.part_ended(row)

    def with_unended_parts(self, rows: Iterable[Row]) -> list[Row]:
        """Return these documents, each once and followed by its unended parts and theirs."""
        all_rows: dict[str, Row] = {}
        for row in rows:
            if row.id not in all_rows:
                parts = self.with_unended_parts(self.steps.unended_parts(row)) if row.state is SPLIT else ()
                all_rows |= {other.id: other for other in (row, *parts) if other.id not in all_rows}
        return list(all_rows.values())

    def can_retry(self, row: Row) -> bool:
        """Return whether a document may be requeued by hand: a part only while its document has not succeeded (S78)."""
        if row.state not in RETRYABLE or row.parent is None:
            return row.state in RETRYABLE
        parent = self.documents.get(row.parent)
        return parent is not None and parent.state in PART_RETRYABLE

    def retry(self, row: Row, now: int, *, from_start: bool) -> None:
        """Requeue an ended document by hand: a new check and seq, without `start_by` (S16)."""
        if row.started_at is not None and row.state is not DocumentState.EXPIRED:
            error = row.error if row.state is DocumentState.FAILED else None
            self.end_attempt(row, EventKind(row.state), error, row.finished_at or now)
        ((row.level, row.count),) = self.check(self.lanes.customers[row.customer], 1, now)
        self.seq += 1
        row.seq = self.seq
        row.spec = row.spec._replace(start_by=None)
        row.attempt, row.expedited, row.error, row.last_outcome = 0, False, None, None
        row.set_track()
        row.started_at = row.finished_at = row.began_at = row.worked = None
        self.steps.part_retried(row)
        if from_start:
            self._return_to_start(row, now)
        if self.steps.has_unended_parts(row):
            row.state, row.ready_at, row.due_at = SPLIT, now, None
        else:
            self.requeue(row, now)

    def _return_to_start(self, row: Row, now: int) -> None:
        """Forget the steps that a document has behind it, and its parts."""
        parts = self.steps.all_parts(row)
        for part in sorted((part for part in parts if part.finished_at is None), key=attrgetter("seq")):
            self.end(part, DocumentState.CANCELLED, now)
        self.delete(parts, now)
        self.steps.results.pop(row.id, None)
        row.step, row.queue, row.ahead = 0, row.spec.queue, row.spec.steps[1:]
        row.queue_number = self.queue(row.queue).number
        row.set_track()

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
        blobs = tuple(blob for row in rows for blob in self.steps.blobs(row))
        for row in sorted(rows, key=lambda row: row.state is RUNNING):
            self.lanes.forget_run(row)
            if row.finished_at is None:
                self.end(row, DocumentState.CANCELLED, now)
            del self.documents[row.id]
            self.attempts.pop(row.id, None)
            self.steps.forget(row)
        return blobs

    def ended_before(self, before: int, customer: str | None, up_to: int | None) -> list[Row]:
        """Return ended documents by end time: of one customer, or of all customers without a `keep` of their own."""
        customers = self.lanes.customers
        rows = [
            row
            for row in self.documents.values()
            if has_ended_before(row, before)
            and (up_to is None or row.seq <= up_to)
            and (row.parent not in self.documents or has_ended_before(self.documents[row.parent], before))
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

    # -- attempts and runs --------------------------------------------------------------------------------------

    def end_attempt(self, row: Row, ended: EventKind, error: str | None, now: int) -> None:
        """Store an attempt once under its fence, and drop the oldest above the limit."""
        attempts = self.attempts.setdefault(row.id, {})
        fence = row.fence or 0
        times, work = (row.started_at or 0, now), (row.began_at, row.worked)
        attempt = Attempt(fence, row.attempt, *times, ended, error, row.worker, *work)
        attempts.setdefault(fence, attempt._replace(queue=row.queue, step=row.step, ready_at=row.ready_at))
        if len(attempts) > MAX_STORED_ATTEMPTS:
            others = [number for number, attempt in attempts.items() if attempt.ended not in STEP_ENDS]
            for number in others[:-MAX_STORED_ATTEMPTS]:
                del attempts[number]

    def _settle(self, row: Row, now: int) -> None:
        """Settle the charge of a running document. If no outcome says how long it took, its lease says at most."""
        if row.state is RUNNING and row.charged is not None:
            learn = row.worked is not None
            worked = held_time(row.started_at, row.lease_until, now) if row.worked is None else row.worked
            self.lanes.settle(row, worked, learn=learn)

    def _stop(self, row: Row) -> None:
        if row.state is RUNNING:
            self.queues[row.queue].running -= 1
            self.lanes.stopped(row)
            row.worker = row.lease_until = None
