"""The store for many machines: a queue in a schema of a PostgreSQL database that any number of processes share."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from psycopg import Connection as UsersConnection

from inturn.clock import Clock
from inturn.errors import InvalidInputError, NotFoundError, StoreReadOnlyError, VersionConflictError
from inturn.model import (
    CANCELLABLE,
    EXPEDITED_LEVEL,
    RETRYABLE,
    Check,
    Customer,
    CustomerSettings,
    Document,
    DocumentState,
    Receipt,
    ResultFile,
    Worker,
    WorkerReport,
    report_to_json,
)
from inturn.policy import Policy
from inturn.store import (
    MAX_SEQ,
    AckAndClaim,
    AckStatus,
    AheadOfClock,
    Attempt,
    ClaimRequest,
    Counts,
    CustomerFilter,
    Discrepancy,
    DocumentFilter,
    DocumentSort,
    Event,
    EventKind,
    LeaseStatus,
    MaintenanceRecord,
    Operator,
    Outcome,
    Page,
    PolicyVersion,
    PruneResult,
    SchedulerSnapshot,
    Store,
    Submission,
    SubmitResult,
    SweepResult,
    Throughput,
)
from inturn.stores.postgres import api_keys, backup, clock_skew, schema
from inturn.stores.postgres.admin import Admin, lock_owners, number_events
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.claims import Claims
from inturn.stores.postgres.closed_marker import require_open
from inturn.stores.postgres.connection import Database, TransactionKind
from inturn.stores.postgres.errors import translate_errors
from inturn.stores.postgres.lane_log import LaneLog
from inturn.stores.postgres.notifier import Notifier
from inturn.stores.postgres.queries import Queries
from inturn.stores.postgres.reader import QueueReader
from inturn.stores.postgres.rows import normalize_id
from inturn.stores.postgres.submit import Submitter
from inturn.stores.postgres.transitions import Transitions
from inturn.stores.postgres.url import parse_url
from inturn.stores.postgres.user_transaction import submit_in

Answer = TypeVar("Answer")


class PostgresStore(Store):
    """The contract on one schema of a PostgreSQL database."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.address = parse_url(url)
        self._clock = clock
        self._cache = QueueCache()
        self._database = Database(self.address)
        try:
            with translate_errors(self.address.display_url), self._database.dedicated_connection() as first:
                first.response_timeout = None
                schema.require_current(first, self.address)
                require_open(first, self.address)
        except BaseException:
            self._database.close()
            raise
        self._notifier = Notifier(self._database)
        self._claims = Claims(self._database, self._cache, clock)
        self.api_keys = api_keys.PostgresApiKeys(
            self._write, partial(self._database.run, TransactionKind.READ), self._admin
        )

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        return self._run_submit(customer, now, lambda submitter: submitter.check(customer, n, key))

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        receipts = None if submission.idempotency_key is not None else self._submit_in_one_trip(submission, now)
        if receipts is None:
            receipts = self._run_submit(submission.customer, now, lambda submitter: submitter.submit(submission))
            self._notifier.notify()
        return receipts

    def _submit_in_one_trip(self, submission: Submission, now: int | None) -> tuple[Receipt, ...] | None:
        """Submit in one round trip with commit and notification; None, with nothing done, if that is not possible."""
        if self._database.is_behind_pooler:
            return None
        stroke = self._notifier.take_notify_statement()
        receipts = self._database.run(
            TransactionKind.SINGLE_WRITE,
            lambda queries: self._submitter(queries, now).submit_in_one_trip(submission, queries, stroke),
        )
        if stroke is None and receipts is not None:
            self._notifier.notify()
        elif receipts is None:
            self._notifier.cancel_notify(stroke)
        return receipts

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[SubmitResult, ...]:
        """Submit all calls by one commit if none has a key and no customer is locked; otherwise one by one."""
        taken: Sequence[SubmitResult | None] = [None] * len(submissions)
        if (
            len(submissions) > 1
            and not self._database.is_behind_pooler
            and all(submission.idempotency_key is None for submission in submissions)
        ):
            with suppress(InvalidInputError):
                taken = self._database.run(
                    TransactionKind.WRITE,
                    lambda queries: self._submitter(queries, now).submit_batch(submissions, queries),
                )
                if any(taken):
                    self._notifier.notify()
        return tuple(
            self._try_submit(submission, now) if receipts is None else receipts
            for submission, receipts in zip(submissions, taken, strict=True)
        )

    def submit_in(
        self,
        connection: UsersConnection[Any],
        submission: Submission,
        *,
        now: int | None = None,
    ) -> tuple[Receipt, ...]:
        """Submit inside a transaction of the user's own: the documents are there if and only if it commits.

        Until then other submits of its customer wait; claims do not. Workers find the documents by polling within
        half a second: the commit is the user's, so no notification can follow it.
        """
        with translate_errors(self.address.display_url):
            return submit_in(self.address.schema, self._cache, connection, submission, self._now(now))

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest | None,
        *,
        now: int | None = None,
    ) -> AckAndClaim:
        if request is None:
            statuses: tuple[AckStatus, ...] = self._run_transitions(now, lambda transitions: transitions.ack(outcomes))
            return AckAndClaim(statuses, ())
        may_be_idle = not outcomes and not self._claims.may_find_work
        if may_be_idle and not self._read_single(lambda reader: reader.may_be_claimed(self._now(now))):
            return AckAndClaim((), ())
        return self._claims.ack_and_claim(outcomes, request, now)

    def heartbeat(
        self,
        claims: Sequence[tuple[str, int]],
        lease: int,
        *,
        now: int | None = None,
    ) -> tuple[LeaseStatus, ...]:
        pairs = [(normalize_id(id_), fence) for id_, fence in claims]
        ids, fences = [id_ for id_, _ in pairs], [fence for _, fence in pairs]

        def work(queries: Queries) -> tuple[LeaseStatus, ...]:
            at = self._time(queries, now)
            until = at + lease
            held, lane_log = set(), LaneLog()
            for id_, fence, owner, shorter in queries.fetch_all(
                "heartbeat", ids=ids, fences=fences, until=until, now=at
            ):
                held.add((id_, fence))
                if shorter:
                    lane_log.deadline_set(owner, "lease", until)
            lane_log.flush(queries)
            others = [id_ for id_, fence in pairs if (id_, fence) not in held]
            states = {(id_, fence): state for id_, fence, state in queries.fetch_all("states_of", ids=others) if others}
            return tuple([LeaseStatus.HELD if pair in held else _lease_status(states.get(pair)) for pair in pairs])

        return self._write(work)

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        name, (text, at_work) = report.name, report_to_json(report)
        self._write(
            lambda queries: queries.execute(
                "record_worker", name=name, now=self._time(queries, now), report=text, at_work=at_work
            )
        )

    def forget_worker(self, name: str) -> None:
        self._write(lambda queries: queries.execute("forget_worker", name=name))

    def workers(self) -> tuple[Worker, ...]:
        return self._read(lambda reader: reader.workers())

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        def work(transitions: Transitions) -> tuple[str, ...]:
            cancelled = []
            for id_, facts in transitions.lock_documents(ids, CANCELLABLE):
                transitions.cancel(facts)
                transitions.record_event(EventKind.CANCELLED, facts.owner, facts.id)
                cancelled.append(id_)
            transitions.add_grouped_events((EventKind.CANCELLED,), operator)
            return tuple(cancelled)

        return self._run_transitions(now, work)

    def retry(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[Receipt, ...]:
        def work(queries: Queries) -> tuple[Receipt, ...]:
            counters = lock_owners(queries, [normalize_id(item) for item in ids])
            submitter = self._submitter(queries, now)
            number, at = submitter.policy_and_time()
            lane_log, receipts = LaneLog(), []
            transitions = Transitions(queries, lane_log, self._cache, at)
            for id_, facts in transitions.lock_documents(ids, RETRYABLE):
                checked = submitter.compute_checks(counters[facts.owner], 1, at, number)
                counters[facts.owner] = checked.counter
                submitter.save_counter(facts.owner, checked)
                receipts.append(transitions.retry(facts, id_, checked.levels[0][0], checked.counter.count))
                transitions.record_event(EventKind.RETRIED, facts.owner, facts.id)
            transitions.add_grouped_events((EventKind.RETRIED,), operator)
            transitions.flush()
            return tuple(receipts)

        receipts = self._write(work, TransactionKind.TRANSITIONS)
        self._notifier.notify()
        return receipts

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> bool:
        def work(transitions: Transitions) -> bool:
            result = transitions.lock_documents((id,), frozenset(DocumentState))
            if not result:
                raise NotFoundError(f"there is no document {id}")
            _, facts = result[0]
            if facts.lane == EXPEDITED_LEVEL or facts.state not in {DocumentState.WAITING, DocumentState.DELAYED}:
                return False
            transitions.expedite(facts)
            transitions.record_event(EventKind.EXPEDITED, facts.owner, facts.id)
            transitions.add_grouped_events((EventKind.EXPEDITED,), operator)
            transitions.should_notify = True
            return True

        return self._run_transitions(now, work)

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        def work(queries: Queries) -> PruneResult:
            queries.execute("purge_api_keys", customer=customer)
            return self._admin(queries, now).purge(customer, operator)

        return self._write(work, TransactionKind.TRANSITIONS, with_timeout=False)

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        now: int | None = None,
    ) -> CustomerSettings:
        def work(queries: Queries) -> CustomerSettings:
            return self._admin(queries, now).change_customer(customer, changes, operator)

        settings = self._write(work)
        self._notifier.notify()
        return settings

    def pause(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_PAUSED, now)

    def resume(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_RESUMED, now)
        self._notifier.notify()

    def _set_paused(self, operator: Operator, kind: EventKind, now: int | None) -> None:
        by, why = operator if kind is EventKind.QUEUE_PAUSED else (None, None)

        def work(queries: Queries) -> None:
            queries.execute("pause", by=by, why=why)
            self._admin(queries, now).add_event(kind, None, operator)

        self._write(work)

    def paused(self) -> Operator | None:
        return self._read(lambda reader: reader.paused())

    def policy(self) -> PolicyVersion:
        return self._read(lambda reader: reader.policy())

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        def work(queries: Queries) -> PolicyVersion:
            (current,) = queries.fetch_one("lock_policy") or (0,)
            if expected is not None and expected != current:
                raise VersionConflictError(
                    f"the policy in force is version {current}, not {expected}; read it again and repeat your change",
                )
            version = PolicyVersion(current + 1, policy, self._time(queries, now), operator)
            text, by, why = json.dumps(policy.to_dict()), operator.name, operator.why
            queries.execute("add_policy", number=version.number, settings=text, at=version.at, by=by, why=why)
            queries.execute("use_policy", number=version.number)
            detail = {"version": version.number}
            self._admin(queries, version.at).add_event(EventKind.POLICY_SET, None, operator, detail)
            return version

        self._claims.apply_lane_log()  # releases logged so far are refunded by the order they were made under
        version = self._write(work)
        self._notifier.notify()
        return version

    def policies(self) -> tuple[PolicyVersion, ...]:
        return self._read(lambda reader: reader.policies())

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        return self._read(lambda reader: reader.document(id))

    def result(self, id: str) -> str | None:
        return self._read(lambda reader: reader.result(id))

    def files(self, id: str) -> tuple[ResultFile, ...]:
        return self._read(lambda reader: reader.files(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        return self._read(lambda reader: reader.attempts(id))

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return self._read(lambda reader: reader.unreferenced_blobs(blobs))

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        return self._read(lambda reader: reader.documents(where, limit, after, sort))

    def customer(self, name: str) -> Customer:
        return self._read(lambda reader: reader.customer(name))

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        return self._read(lambda reader: reader.customers(where, limit, after))

    def counts(self, where: DocumentFilter) -> Counts:
        return self._read(lambda reader: reader.counts(where))

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        self._number_events()
        return self._read(lambda reader: reader.events(after, limit))

    def last_event(self) -> int:
        self._number_events()
        return self._database.run(TransactionKind.READ, api_keys.last_event)

    def audit(self, *, limit: int, before: int | None = None, customer: str | None = None) -> tuple[Event, ...]:
        self._number_events()
        return self._database.run(
            TransactionKind.READ, lambda queries: api_keys.operator_events(queries, limit, before, customer)
        )

    def stored_bytes(self, customer: str) -> int:
        return self._database.run(TransactionKind.READ, lambda queries: api_keys.stored_bytes(queries, customer))

    def scheduler_snapshot(self) -> SchedulerSnapshot:
        with suppress(StoreReadOnlyError):  # who may only read sees the lines as the last claim left them
            self._claims.apply_lane_log()
        return self._read(lambda reader: reader.scheduler_snapshot())

    def ahead_in_lane(self, id: str) -> int:
        return self._read(lambda reader: reader.ahead_in_lane(id))

    def throughput(self, since: int) -> Throughput:
        return self._read(lambda reader: reader.throughput(since))

    def next_due(self) -> int | None:
        return self._read(lambda reader: reader.next_due())

    def wait(self, timeout: float) -> None:
        if self._notifier.wait(timeout):
            self._claims.may_find_work = True

    # -- maintenance ------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        swept = self._claims.sweep(now)
        self._number_events()
        return swept

    def now(self) -> int:
        return self._database.run(TransactionKind.SINGLE_READ, lambda queries: self._time(queries, None))

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        return self._database.run(
            TransactionKind.READ, lambda queries: clock_skew.ahead_of_clock(queries, self._time(queries, now))
        )

    def maintenance(self) -> MaintenanceRecord | None:
        (text,) = self._database.run(TransactionKind.READ, lambda queries: queries.fetch_one("maintenance")) or (None,)
        return None if text is None else MaintenanceRecord.from_json(text)

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        text = record.to_json()
        self._write(lambda queries: queries.execute("record_maintenance", record=text))

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        return self._read(lambda reader: reader.prunable(before, customer, MAX_SEQ if up_to is None else up_to))

    def prune(
        self,
        before: int,
        *,
        limit: int,
        customer: str | None = None,
        up_to: int | None = None,
        now: int | None = None,
    ) -> PruneResult:
        last = MAX_SEQ if up_to is None else up_to

        def work_for(name: str) -> PruneResult:
            return self._write(lambda queries: self._admin(queries, now).prune_customer(name, before, last, limit))

        if customer is not None:
            return work_for(customer)
        self._number_events()
        return self._write(lambda queries: self._admin(queries, now).prune(before, last, limit), with_timeout=False)

    def backup(self, path: Path) -> None:
        self._database.run(TransactionKind.READ, lambda queries: backup.write(queries, path), with_timeout=False)

    @classmethod
    def restore(cls, path: Path, url: str, clock: Clock | None = None) -> "PostgresStore":
        """The queue that `backup` wrote, in a schema in which there is none yet."""
        schema.migrate_at(url)
        store = cls(url, clock)
        try:
            store._write(lambda queries: backup.read(queries, path), with_timeout=False)
        except BaseException:
            store.close()
            raise
        return store

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        return self._claims.recount(repair=repair, now=now)

    def close(self) -> None:
        self._notifier.close()
        self._database.close()

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _now(self, now: int | None) -> int | None:
        """Return the given time or the clock's; None: the server's time."""
        return self._clock.now() if now is None and self._clock is not None else now

    def _time(self, queries: Queries, now: int | None) -> int:
        return self._admin(queries, now).now()

    def _admin(self, queries: Queries, now: int | None) -> Admin:
        return Admin(queries, self._cache, self._now(now))

    def _write(
        self,
        work: Callable[[Queries], Answer],
        kind: TransactionKind = TransactionKind.WRITE,
        *,
        with_timeout: bool = True,
        **params: Any,
    ) -> Answer:
        def surely(queries: Queries) -> Answer:
            self._database.require_durable_commit(queries)
            return work(queries)

        return self._database.run(kind, surely, with_timeout=with_timeout, params=params or None)

    def _run_submit(self, customer: str, now: int | None, work: Callable[[Submitter], Answer]) -> Answer:
        """Run a submit whose first statement locks and reads the customer."""
        return self._write(lambda queries: work(self._submitter(queries, now)), TransactionKind.SUBMIT, name=customer)

    def _submitter(self, queries: Queries, now: int | None) -> Submitter:
        return Submitter(queries, self._cache, self._now(now))

    def _run_transitions(self, now: int | None, work: Callable[[Transitions], Answer]) -> Answer:
        """Run transitions that the next claim will apply, and notify waiting workers."""

        def work_and_flush(queries: Queries) -> tuple[Answer, bool]:
            transitions = Transitions(queries, LaneLog(), self._cache, self._time(queries, now))
            answer = work(transitions)
            transitions.flush()
            return answer, transitions.should_notify

        answer, wakes = self._write(work_and_flush, TransactionKind.TRANSITIONS)
        if wakes:
            self._notifier.notify()
        return answer

    def _read(self, work: Callable[[QueueReader], Answer]) -> Answer:
        """Several queries see one state of the store."""
        return self._database.run(TransactionKind.READ, lambda queries: work(QueueReader(queries, self._cache)))

    def _read_single(self, work: Callable[[QueueReader], Answer]) -> Answer:
        return self._database.run(TransactionKind.SINGLE_READ, lambda queries: work(QueueReader(queries, self._cache)))

    def _number_events(self) -> None:
        """Number pending events; a read-only role sees those numbered by others."""
        if self._read_single(lambda reader: reader.has_unnumbered_events()):
            number_events(self._database)


def _lease_status(state: str | None) -> LeaseStatus:
    return LeaseStatus.CANCELLED if state == DocumentState.CANCELLED else LeaseStatus.LOST
