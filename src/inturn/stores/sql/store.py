"""The contract on SQL: everything that is the same in SQLite and PostgreSQL.

A store brings transactions (`write`, `read`, `claim_transaction`), a `Submitter`, and the queries of its dialect.
"""

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from inturn.errors import StoreError
from inturn.model import (
    DEFAULT_QUEUE,
    NO_METADATA,
    Check,
    Customer,
    CustomerSettings,
    Document,
    QueueSettings,
    QueueStatus,
    Receipt,
    ResultFile,
)
from inturn.policy import Policy
from inturn.policy.forecasts import ForecastLog, ForecastOutcome
from inturn.store import Store
from inturn.store_answers import (
    AheadOfClock,
    Counts,
    CustomerSummary,
    Discrepancy,
    Failure,
    MaintenanceRecord,
    Page,
    PruneResult,
    SchedulerSnapshot,
    SearchResult,
    SweepResult,
    Throughput,
    WorkLog,
)
from inturn.store_types import (
    ALL_TIME,
    MAX_SEQ,
    AckStatus,
    Attempt,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    EventKind,
    LeaseStatus,
    Operator,
    Outcome,
    PartResult,
    PolicyVersion,
    StepResult,
    Submission,
    TimeRange,
)
from inturn.stores.sql import claims, clock_skew, operations, search
from inturn.stores.sql.api_keys import SqlApiKeys
from inturn.stores.sql.claim_types import ClaimQueries
from inturn.stores.sql.due import MAX_DUE_PER_TRANSACTION
from inturn.stores.sql.history import SqlHistory
from inturn.stores.sql.queries import Queries, QueueCache
from inturn.stores.sql.reader import QueueReader
from inturn.stores.sql.search import ChunkIndex
from inturn.stores.sql.steps import StepRecorder
from inturn.stores.sql.submit import Submitter
from inturn.stores.sql.transitions import Transitions
from inturn.worker_report import Worker, WorkerReport, report_to_json

Answer = TypeVar("Answer")
MAX_SECONDS_BY_SEARCH: Final = 0.1
"""How long a search indexes documents first; a part that has begun is finished."""


class SqlStore(Store):
    """The contract, over transactions that a subclass provides."""

    def __init__(self) -> None:
        self._cache = QueueCache()
        self.api_keys = SqlApiKeys(self)
        self.history = SqlHistory(self)

    # -- what a store brings ----------------------------------------------------------------------------------------

    @abstractmethod
    def write(self, work: Callable[[Queries], Answer], *, ends_runs: bool = False, has_timeout: bool = True) -> Answer:
        """Run the work in a write transaction. `ends_runs`: it may end runs of customers with a cap."""

    @abstractmethod
    def read(self, work: Callable[[QueueReader], Answer]) -> Answer:
        """Run the work in a read transaction: several queries see one state of the store."""

    @abstractmethod
    def claim_transaction(self, work: Callable[[ClaimQueries], Answer], *, has_timeout: bool = True) -> Answer:
        """Run the work in a transaction that holds the claim lock."""

    @abstractmethod
    def given(self, now: int | None) -> int | None:
        """Return the given time or that of the store's clock; None: the database's own time is used."""

    @abstractmethod
    def time(self, queries: Queries, now: int | None) -> int:
        """Return the given time, that of the store's clock, or the database's own."""

    @abstractmethod
    def submitter(self, queries: Queries, now: int | None) -> Submitter:
        """Return what checks and submits in this transaction."""

    def notify(self) -> None:
        """Wake waiting workers, where a commit alone does not."""

    def number_events(self) -> None:
        """Give numbers to events that have none yet, where they are not written with one."""

    def ack(self, transitions: Transitions, outcomes: Sequence[Outcome], now: int | None) -> tuple[AckStatus, ...]:
        """Record outcomes in a transaction that is open."""
        steps = None
        if any(outcome.queue is not None for outcome in outcomes):
            steps = StepRecorder(transitions, self.submitter(transitions.queries, now), outcomes)
        return transitions.ack(outcomes, steps)

    def run_transitions(self, work: Callable[[Transitions], Answer], now: int | None) -> Answer:
        """Run transitions that the next claim will apply, and wake waiting workers if need be."""

        def work_and_flush(queries: Queries) -> tuple[Answer, bool]:
            transitions = Transitions(queries, self._cache, self.time(queries, now))
            answer = work(transitions)
            transitions.flush()
            return answer, transitions.should_notify

        answer, should_notify = self.write(work_and_flush, ends_runs=True)
        if should_notify:
            self.notify()
        return answer

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        return self.write(lambda queries: self.submitter(queries, now).check(customer, n, key))

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        receipts = self.write(lambda queries: self.submitter(queries, now).submit(submission))
        self.notify()
        return receipts

    # -- workers ----------------------------------------------------------------------------------------------------

    def heartbeat(
        self, claims: Sequence[tuple[str, int]], lease: int, *, now: int | None = None
    ) -> tuple[LeaseStatus, ...]:
        def work(queries: Queries) -> tuple[LeaseStatus, ...]:
            transitions = Transitions(queries, self._cache, self.time(queries, now))
            statuses = transitions.heartbeat(claims, lease)
            transitions.flush()
            return statuses

        return self.write(work)

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        name, (text, at_work) = report.name, report_to_json(report)
        self.write(
            lambda queries: queries.execute(
                "record_worker",
                name=name,
                now=self.time(queries, now),
                report=text,
                at_work=at_work,
                slots=report.open_slots,
                queues=None if report.queues == (DEFAULT_QUEUE,) else json.dumps(report.queues),
                version=report.version,
                started_at=report.started_at,
            )
        )

    def forget_worker(self, name: str) -> None:
        self.write(lambda queries: queries.execute("forget_worker", name=name))

    def workers(self) -> tuple[Worker, ...]:
        return self.read(lambda reader: reader.workers())

    def pause_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        self.run_transitions(lambda transitions: operations.pause_worker(transitions, name, operator), now)

    def resume_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        self.run_transitions(lambda transitions: operations.resume_worker(transitions, name, operator), now)
        self.notify()

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        return self.run_transitions(lambda transitions: operations.cancel(transitions, ids, operator), now)

    def retry(
        self, ids: Sequence[str], operator: Operator, *, from_start: bool = False, now: int | None = None
    ) -> tuple[Receipt, ...]:
        def work(transitions: Transitions) -> tuple[Receipt, ...]:
            submitter = self.submitter(transitions.queries, now)
            return operations.retry(transitions, submitter, ids, operator, from_start=from_start)

        receipts = self.run_transitions(work, now)
        self.notify()
        return receipts

    def expedite(self, id: str, operator: Operator, *, undo: bool = False, now: int | None = None) -> bool:
        return self.run_transitions(lambda transitions: operations.expedite(transitions, id, operator, undo=undo), now)

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        def work(queries: Queries) -> PruneResult:
            transitions = Transitions(queries, self._cache, self.time(queries, now))
            removed = operations.purge(transitions, customer, operator)
            transitions.flush()
            return removed

        removed = self.write(work, ends_runs=True, has_timeout=False)
        for chunks in self.read(lambda reader: search.indexed_ranges(reader.queries)):
            self.write(partial(search.purge_terms, customer=customer, chunks=chunks))
        return removed

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        expected: Mapping[str, Any] = NO_METADATA,
        now: int | None = None,
    ) -> CustomerSettings:
        def work(queries: Queries) -> CustomerSettings:
            transitions = Transitions(queries, self._cache, self.time(queries, now))
            submitter = self.submitter(queries, now)
            settings = operations.change_customer(transitions, submitter, customer, changes, expected, operator)
            transitions.flush()
            return settings

        settings = self.write(work)
        self.notify()
        return settings

    def pause(self, operator: Operator, *, queue: str | None = None, now: int | None = None) -> None:
        self.run_transitions(
            lambda transitions: operations.set_paused(transitions, EventKind.QUEUE_PAUSED, operator, queue), now
        )

    def resume(self, operator: Operator, *, queue: str | None = None, now: int | None = None) -> None:
        self.run_transitions(
            lambda transitions: operations.set_paused(transitions, EventKind.QUEUE_RESUMED, operator, queue), now
        )
        self.notify()

    def paused(self, queue: str | None = None) -> Operator | None:
        return self.read(lambda reader: reader.paused(queue))

    def change_queue(
        self, name: str, changes: Mapping[str, Any], operator: Operator, *, now: int | None = None
    ) -> QueueSettings:
        def work(transitions: Transitions) -> QueueSettings:
            submitter = self.submitter(transitions.queries, now)
            return operations.change_queue(transitions, submitter, name, changes, operator)

        settings = self.run_transitions(work, now)
        self.notify()
        return settings

    def queues(self) -> tuple[QueueStatus, ...]:
        return self.read(lambda reader: reader.queues())

    def policy(self) -> PolicyVersion:
        return self.read(lambda reader: reader.policy())

    def set_policy(
        self, policy: Policy, operator: Operator, *, expected: int | None = None, now: int | None = None
    ) -> PolicyVersion:
        self.apply_lane_log()  # releases logged so far are refunded by the order they were made under
        version = self.run_transitions(
            lambda transitions: operations.set_policy(transitions, policy, operator, expected), now
        )
        self.notify()
        return version

    def policies(self) -> tuple[PolicyVersion, ...]:
        return self.read(lambda reader: reader.policies())

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        return self.read(lambda reader: reader.document(id))

    def result(self, id: str) -> str | None:
        return self.read(lambda reader: reader.result(id))

    def files(self, id: str) -> tuple[ResultFile, ...]:
        return self.read(lambda reader: reader.files(id))

    def results(self, id: str) -> tuple[StepResult, ...]:
        return self.read(lambda reader: reader.results(id))

    def parts(self, id: str, *, limit: int, after: int = 0) -> tuple[PartResult, ...]:
        return self.read(lambda reader: reader.parts(id, limit, after))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        return self.read(lambda reader: reader.attempts(id))

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return self.read(lambda reader: reader.unreferenced_blobs(blobs))

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        return self.read(lambda reader: reader.documents(where, limit, after, sort))

    def search(self, text: str, *, limit: int, customer: str | None = None) -> SearchResult:
        with suppress(StoreError):  # read-only, full or locked: the search says that it is not complete
            self._index_for(MAX_SECONDS_BY_SEARCH)
        return self.read(lambda reader: reader.search(text, limit, customer))

    def _index_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.index_documents(limit=1) and time.monotonic() < until:
            pass

    def index_documents(self, *, limit: int) -> int:
        indexed = 0
        while indexed < limit:
            self.move_search_bound()
            new = self.read(lambda reader: search.read_next_chunk(reader.queries))
            if new is None:
                break
            if self._write_index(new, search.add_chunk):
                indexed += new.documents
        return indexed

    def clean_index(self, *, limit: int) -> int:
        stale = self.read(lambda reader: search.stale_chunks(reader.queries, limit))
        for chunk in stale:
            self._write_index(self.read(partial(_read_chunk, chunk=chunk)), search.update_chunk)
        return len(stale)

    def _write_index(self, index: ChunkIndex, finish: Callable[[Queries, ChunkIndex], bool]) -> bool:
        """Write a chunk of the index part by part; False if it is outdated, or another process was faster."""
        for part in index.parts():
            if not self.write(partial(search.write_terms, index=index, part=part)):
                return False
        return self.write(lambda queries: finish(queries, index))

    def move_search_bound(self) -> None:
        """Find out up to which seq documents can be indexed, where commits do not follow the order of seqs."""

    def customer(self, name: str) -> Customer:
        return self.read(lambda reader: reader.customer(name))

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        return self.read(lambda reader: reader.customers(where, limit, after))

    def customer_summaries(self) -> tuple[CustomerSummary, ...]:
        return self.read(lambda reader: reader.customer_summaries())

    def counts(self, where: DocumentFilter) -> Counts:
        return self.read(lambda reader: reader.counts(where))

    def failures(self, within: TimeRange, *, limit: int) -> tuple[Failure, ...]:
        return self.read(lambda reader: reader.failures(within, limit))

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        self.number_events()
        return self.read(lambda reader: reader.events(after, limit))

    def last_event(self) -> int:
        self.number_events()
        return self.read(lambda reader: reader.last_event())

    def audit(
        self, *, limit: int, before: int | None = None, customer: str | None = None, within: TimeRange = ALL_TIME
    ) -> tuple[Event, ...]:
        self.number_events()
        return self.read(lambda reader: reader.operator_events(limit, before, customer, within))

    def stored_bytes(self, customer: str) -> int:
        return self.read(lambda reader: reader.stored_bytes(customer))

    def scheduler_snapshot(self, queue: str = DEFAULT_QUEUE) -> SchedulerSnapshot:
        return self.read(lambda reader: reader.scheduler_snapshot(queue))

    def ahead_in_lane(self, id: str) -> int:
        return self.read(lambda reader: reader.ahead_in_lane(id))

    def throughput(self, since: int) -> Throughput:
        return self.read(lambda reader: reader.throughput(since))

    def work_between(self, since: int, until: int) -> WorkLog:
        return self.read(lambda reader: reader.work_between(since, until))

    def next_due(self) -> int | None:
        return self.read(lambda reader: reader.next_due(lambda: self.time(reader.queries, None)))

    # -- maintenance ------------------------------------------------------------------------------------------------

    def apply_lane_log(self) -> None:
        """Apply the lane log without claiming."""
        self.claim_transaction(lambda queries: claims.ClaimRun(queries, self._cache).save())

    def sweep(self, *, now: int | None = None) -> SweepResult:
        total = SweepResult()
        while True:
            swept = self.claim_transaction(lambda queries: claims.sweep(queries, self._cache, self.given(now)))
            total = SweepResult(*(one + other for one, other in zip(total, swept, strict=True)))
            if MAX_DUE_PER_TRANSACTION not in swept:
                break
        self.number_events()
        return total

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        return self.read(lambda reader: clock_skew.ahead_of_clock(reader.queries, self.time(reader.queries, now)))

    def maintenance(self) -> MaintenanceRecord | None:
        return self.read(lambda reader: reader.maintenance())

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        self.write(lambda queries: queries.execute("record_maintenance", record=record.to_json()))

    def forecast_log(self) -> ForecastLog:
        return self.read(lambda reader: reader.forecast_log())

    def add_forecasts(self, outcomes: Sequence[ForecastOutcome]) -> None:
        self.write(lambda queries: operations.add_forecasts(queries, outcomes))

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        return self.read(lambda reader: reader.prunable(before, customer, MAX_SEQ if up_to is None else up_to))

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
        if customer is not None:
            return self.write(lambda queries: operations.prune_customer(queries, customer, before, last, limit))
        self.number_events()
        return self.write(
            lambda queries: operations.prune(queries, before, last, limit, self.time(queries, now)), has_timeout=False
        )

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        self.apply_lane_log()
        return self.claim_transaction(
            lambda queries: claims.recount(queries, self._cache, repair=repair, now=self.given(now)), has_timeout=False
        )


def _read_chunk(reader: QueueReader, *, chunk: int) -> ChunkIndex:
    return search.read_chunk(reader.queries, chunk)
