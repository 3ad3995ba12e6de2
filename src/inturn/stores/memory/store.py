"""Implement the store contract in memory, under one lock. It is the reference that other stores are compared with."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inturn.clock import Clock, SystemClock
from inturn.errors import InvalidInputError, NotFoundError, VersionConflictError
from inturn.model import (
    CANCELLABLE,
    EXPEDITABLE,
    NO_METADATA,
    RETRYABLE,
    Check,
    Claim,
    CustomerSettings,
    DocumentState,
    QueueSettings,
    QueueStatus,
    Receipt,
    changed_queue_settings,
    changed_settings,
    settings_to_dict,
)
from inturn.policy import Policy
from inturn.policy.forecasts import ForecastLog, ForecastOutcome
from inturn.store_answers import (
    AheadOfClock,
    Discrepancy,
    MaintenanceRecord,
    PruneResult,
    SweepResult,
)
from inturn.store_types import (
    OUTCOME_EVENTS,
    SYSTEM_OPERATOR,
    WORKER_RETENTION,
    AckAndClaim,
    AckStatus,
    ClaimRequest,
    EventKind,
    LeaseStatus,
    Operator,
    Outcome,
    PolicyVersion,
    Submission,
    check_fingerprint,
    deepest_first,
    live_slots,
)
from inturn.stores.memory import due, reader, recount, snapshot
from inturn.stores.memory.api_keys import MemoryApiKeys
from inturn.stores.memory.history import MemoryHistory
from inturn.stores.memory.journal import Change
from inturn.stores.memory.queries import MemoryQueries
from inturn.stores.memory.rows import DEFAULT_QUEUE_SETTINGS, QueueRow, Row
from inturn.stores.memory.state import IdempotencyRecord, State
from inturn.worker_report import Worker, WorkerPause, WorkerReport


class MemoryStore(MemoryQueries):
    """The contract on plain Python objects; tests and the simulator use it."""

    def __init__(self, clock: Clock | None = None, policy: Policy | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiters = 0
        self._state = State(PolicyVersion(1, policy or Policy(), self._clock.now(), SYSTEM_OPERATOR))
        self.api_keys = MemoryApiKeys(self._lock, lambda: self._state, self._now)
        self.history = MemoryHistory(self._lock, lambda: self._state, self._now)

    @classmethod
    def restore(cls, path: Path, clock: Clock | None = None) -> "MemoryStore":
        """Read a store back from a file that `backup` wrote."""
        store = cls(clock)
        store._state = snapshot.read(path)
        return store

    # -- submit -----------------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        with self._lock:
            now, state, fingerprint = self._now(now), self._state, check_fingerprint(n)
            if key is not None and (first := state.find_repeat(customer, key, fingerprint, now)) is not None:
                return tuple(Check(receipt.level, receipt.count) for receipt in first.answer)
            checks = state.check(state.lanes.customer(customer), n, now)
            answer = tuple(Check(level, count) for level, count in checks)
            if key is not None:
                state.idempotency_keys[customer, key] = IdempotencyRecord(
                    fingerprint, now, tuple(Receipt("", *check) for check in answer)
                )
            return answer

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        with self._lock:
            now, state = self._now(now), self._state
            customer, ids, documents, key, fingerprint = submission
            if key is not None and (first := state.find_repeat(customer, key, fingerprint, now)) is not None:
                return first.answer
            self._require_new(ids)
            state.require_room(document.queue for document in documents)
            checks = state.check(state.lanes.customer(customer), len(ids), now)
            documents = state.policy.costs.apply(documents)
            answer = state.admit(customer, zip(ids, documents, checks, strict=True), now)
            state.journal.append_grouped(EventKind.SUBMITTED, now, [state.documents[id_] for id_ in ids])
            if key is not None:
                state.idempotency_keys[customer, key] = IdempotencyRecord(fingerprint, now, answer)
            self._notify()
            return answer

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, now: int | None = None
    ) -> AckAndClaim:
        with self._lock:
            now = self._now(now)
            statuses = self._ack(outcomes, now) if outcomes else ()
            self._notify()
            claimed = self._claim(request, now) if request is not None else ()
            return AckAndClaim(statuses, claimed)

    def _ack(self, outcomes: Sequence[Outcome], now: int) -> tuple[AckStatus, ...]:
        state = self._state
        self._require_possible(outcomes)
        changes: list[Change] = []
        statuses = tuple([state.ack(outcome, now, changes) for outcome in outcomes])
        kinds = OUTCOME_EVENTS if len(changes) > 1 else [change.kind for change in changes]
        for kind in kinds:
            state.journal.append_changes(kind, now, changes)
        return statuses

    def _require_possible(self, outcomes: Sequence[Outcome]) -> None:
        """Refuse queues and parts that the store cannot have, before anything is changed."""
        ending = [outcome for outcome in outcomes if outcome.queue is not None]
        if ending:
            parts = [part for outcome in ending for part in outcome.parts]
            queues = [outcome.queue for outcome in ending if outcome.queue is not None]
            self._state.require_room([*queues, *(spec.queue for _, spec in parts)])
            self._require_new(id_ for id_, _ in parts)

    def _require_new(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            if id_ in self._state.documents:
                raise InvalidInputError(f"document {id_} exists already; ids are given once")

    def _claim(self, request: ClaimRequest, now: int) -> tuple[Claim, ...]:
        state = self._state
        due.process_due(state, now)
        weights = {} if state.is_paused(request.worker) else state.open_queues(request)
        for name, queue in state.queues.items():
            if queue.number in weights:
                state.lanes.review_shares(queue.number, now, live_slots(state.worker_slots(name), now))
        rows: list[Row] = []
        while len(rows) < request.limit and weights:
            row = state.take(request, weights, now)
            if row is None:
                break
            rows.append(row)
        state.journal.append_grouped(EventKind.STARTED, now, rows)
        return tuple([Claim(row.view(), row.fence or 0) for row in rows])

    def heartbeat(
        self, claims: Sequence[tuple[str, int]], lease: int, *, now: int | None = None
    ) -> tuple[LeaseStatus, ...]:
        with self._lock:
            now = self._now(now)
            return tuple(self._state.renew_lease(id_, fence, lease, now) for id_, fence in claims)

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        with self._lock:
            known = self._state.workers.get(report.name)
            is_same = known is not None and known.report.started_at == report.started_at
            paused = known.paused if known is not None and is_same else None
            self._state.workers[report.name] = Worker(report, self._now(now), paused)

    def forget_worker(self, name: str) -> None:
        with self._lock:
            self._state.workers.pop(name, None)

    def workers(self) -> tuple[Worker, ...]:
        with self._lock:
            return tuple(worker for _, worker in sorted(self._state.workers.items()))

    def pause_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        with self._lock:
            now = self._now(now)
            self._set_worker_pause(name, WorkerPause(*operator, now))
            self._state.journal.append(EventKind.WORKER_PAUSED, now, None, operator, {"worker": name})

    def resume_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        with self._lock:
            self._set_worker_pause(name, None)
            self._state.journal.append(EventKind.WORKER_RESUMED, self._now(now), None, operator, {"worker": name})
            self._notify()

    def _set_worker_pause(self, name: str, paused: WorkerPause | None) -> None:
        worker = self._state.workers.get(name)
        if worker is None:
            raise NotFoundError(f"there is no worker {name!r}")
        self._state.workers[name] = worker._replace(paused=paused)

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        with self._lock:
            now, state = self._now(now), self._state
            rows = self._rows(ids, CANCELLABLE)
            all_rows = state.with_unended_parts(rows)
            for row in all_rows:
                state.end(row, DocumentState.CANCELLED, now)
            self._log_rows(EventKind.CANCELLED, all_rows, operator, now)
            self._notify()
            return tuple(row.id for row in rows)

    def retry(
        self, ids: Sequence[str], operator: Operator, *, from_start: bool = False, now: int | None = None
    ) -> tuple[Receipt, ...]:
        with self._lock:
            now, state = self._now(now), self._state
            rows = []
            failed = self._rows(ids, RETRYABLE)
            for row in deepest_first(failed, {row.id: row.parent for row in failed}, lambda row: row.id):
                if row.id in state.documents and state.can_retry(row):
                    state.retry(row, now, from_start=from_start)
                    rows.append(row)
            self._log_rows(EventKind.RETRIED, rows, operator, now)
            self._notify()
            return tuple(Receipt(row.id, row.level, row.count) for row in rows)

    def expedite(self, id: str, operator: Operator, *, undo: bool = False, now: int | None = None) -> bool:
        with self._lock:
            now, row = self._now(now), self._state.row(id)
            if row.expedited is not undo or row.state not in EXPEDITABLE:
                return False
            self._state.expedite(row, now, undo=undo)
            self._log_rows(EventKind.EXPEDITE_UNDONE if undo else EventKind.EXPEDITED, [row], operator, now)
            self._notify()
            return True

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        with self._lock:
            now, state = self._now(now), self._state
            self._require_customer(customer)
            rows = [row for row in state.documents.values() if row.customer == customer]
            keys = [key for key in state.idempotency_keys if key[0] == customer]
            blobs = state.delete(rows, now)
            for key in keys:
                del state.idempotency_keys[key]
            state.api_keys = {id_: api_key for id_, api_key in state.api_keys.items() if api_key.customer != customer}
            state.journal.append(EventKind.PURGED, now, customer, operator, {"documents": len(rows)})
            return PruneResult(len(rows), 0, len(keys), blobs)

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        expected: Mapping[str, Any] = NO_METADATA,
        now: int | None = None,
    ) -> CustomerSettings:
        with self._lock:
            now, state = self._now(now), self._state
            known = state.lanes.customers.get(customer)
            before = CustomerSettings() if known is None else known.settings
            settings = changed_settings(before, changes, expected)
            state.lanes.change(state.lanes.customer(customer), settings)
            state.journal.append(EventKind.CUSTOMER_CHANGED, now, customer, operator, settings_to_dict(changes))
            self._notify()
            return settings

    def pause(self, operator: Operator, *, queue: str | None = None, now: int | None = None) -> None:
        self._set_paused(EventKind.QUEUE_PAUSED, operator, queue, now)

    def resume(self, operator: Operator, *, queue: str | None = None, now: int | None = None) -> None:
        self._set_paused(EventKind.QUEUE_RESUMED, operator, queue, now)

    def _set_paused(self, kind: EventKind, operator: Operator, queue: str | None, now: int | None) -> None:
        with self._lock:
            paused = operator if kind is EventKind.QUEUE_PAUSED else None
            if queue is None:
                self._state.paused = paused
            else:
                self._require_queue(queue).paused = paused
            detail = NO_METADATA if queue is None else {"queue": queue}
            self._state.journal.append(kind, self._now(now), None, operator, detail)
            self._notify()

    def paused(self, queue: str | None = None) -> Operator | None:
        with self._lock:
            return self._state.paused if queue is None else self._require_queue(queue).paused

    def change_queue(
        self, name: str, changes: Mapping[str, Any], operator: Operator, *, now: int | None = None
    ) -> QueueSettings:
        with self._lock:
            known = self._state.queues.get(name)
            before = DEFAULT_QUEUE_SETTINGS if known is None else known.settings
            settings = changed_queue_settings(before, changes)
            self._state.queue(name).change(settings)
            self._notify()
            detail = {"queue": name, **settings_to_dict(changes)}
            self._state.journal.append(EventKind.QUEUE_CHANGED, self._now(now), None, operator, detail)
            return settings

    def queues(self) -> tuple[QueueStatus, ...]:
        with self._lock:
            return reader.queue_statuses(self._state.queues, self._state.documents.values())

    def _require_queue(self, name: str) -> QueueRow:
        try:
            return self._state.queues[name]
        except KeyError:
            raise NotFoundError(f"there is no queue {name!r}; a queue is made with its first document") from None

    def policy(self) -> PolicyVersion:
        with self._lock:
            return self._state.policies[-1]

    def set_policy(
        self, policy: Policy, operator: Operator, *, expected: int | None = None, now: int | None = None
    ) -> PolicyVersion:
        with self._lock:
            now, state = self._now(now), self._state
            current = state.policies[-1].number
            if expected is not None and expected != current:
                raise VersionConflictError(
                    f"the active policy is version {current}, not {expected}; read it again and repeat your change",
                )
            version = PolicyVersion(current + 1, policy, now, operator)
            state.set_policy(version)
            state.journal.append(EventKind.POLICY_SET, now, None, operator, {"version": version.number})
            return version

    def policies(self) -> tuple[PolicyVersion, ...]:
        with self._lock:
            return tuple(reversed(self._state.policies))

    # -- maintenance ------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        with self._lock:
            now, state = self._now(now), self._state
            due.review(state, now)
            swept = due.process_due(state, now)
            state.lanes.forget_spent(now)
            workers = state.workers.items()
            state.workers = {name: worker for name, worker in workers if abs(now - worker.seen_at) <= WORKER_RETENTION}
            self._notify()
            return swept

    def now(self) -> int:
        return self._now(None)

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        with self._lock:
            return due.ahead_of_clock(self._state, self._now(now))

    def maintenance(self) -> MaintenanceRecord | None:
        with self._lock:
            return self._state.maintenance

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        with self._lock:
            self._state.maintenance = record

    def forecast_log(self) -> ForecastLog:
        with self._lock:
            return self._state.forecasts

    def add_forecasts(self, outcomes: Sequence[ForecastOutcome]) -> None:
        with self._lock:
            self._state.forecasts = self._state.forecasts.add(outcomes)

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        with self._lock:
            if customer is not None:
                self._require_customer(customer)
            return len(self._state.ended_before(before, customer, up_to))

    def prune(
        self,
        before: int,
        *,
        limit: int,
        customer: str | None = None,
        up_to: int | None = None,
        now: int | None = None,
    ) -> PruneResult:
        with self._lock:
            now, state = self._now(now), self._state
            if customer is not None:
                self._require_customer(customer)
            rows = state.ended_before(before, customer, up_to)[:limit]
            blobs = state.delete(rows, now)
            if customer is not None:
                return PruneResult(len(rows), 0, 0, blobs)
            return PruneResult(len(rows), state.journal.prune(before, limit), state.prune_keys(now), blobs)

    def backup(self, path: Path) -> None:
        with self._lock:
            snapshot.write(self._state, path)

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        with self._lock:
            discrepancies = recount.discrepancies(self._state)
            if discrepancies and repair:
                recount.repair(self._state)
                self._state.journal.append(
                    EventKind.REPAIRED, self._now(now), None, None, {"counts": len(discrepancies)}
                )
            return discrepancies

    def close(self) -> None:
        """Do nothing: there is no file and no connection."""

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _now(self, now: int | None) -> int:
        return self._clock.now() if now is None else now

    def _notify(self) -> None:
        if self._waiters:
            self._changed.notify_all()

    def _rows(self, ids: Sequence[str], states: frozenset[DocumentState]) -> list[Row]:
        rows = (self._state.documents.get(id_) for id_ in dict.fromkeys(ids))
        return [row for row in rows if row is not None and row.state in states]

    def _log_rows(self, kind: EventKind, rows: list[Row], operator: Operator, now: int) -> None:
        self._state.journal.append_grouped(kind, now, rows, operator)
