"""The embedded store: a queue in one file that several processes share."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from inturn.clock import Clock, SystemClock
from inturn.errors import NotFoundError, StoreError, VersionConflictError
from inturn.model import (
    CANCELLABLE,
    ENDED,
    EXPEDITED_LEVEL,
    RETRYABLE,
    Check,
    Claim,
    Customer,
    CustomerSettings,
    Document,
    DocumentState,
    Receipt,
    ResultFile,
    Worker,
    WorkerReport,
    clean_settings,
    report_to_json,
    settings_to_dict,
)
from inturn.policy import Policy
from inturn.store import (
    IDEMPOTENCY_KEY_RETENTION,
    MAX_SEQ,
    WORKER_RETENTION,
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
from inturn.stores.sqlite import clock_skew, recount, schema
from inturn.stores.sqlite.api_keys import SqliteApiKeys
from inturn.stores.sqlite.backup import write_copy
from inturn.stores.sqlite.claim_window import ClaimWindow
from inturn.stores.sqlite.closed_marker import require_open
from inturn.stores.sqlite.connection import Writer, connect, translate_errors, write_lock_path
from inturn.stores.sqlite.lane_log import LaneLog
from inturn.stores.sqlite.notifier import Notifier
from inturn.stores.sqlite.queries import QUERIES, Queries, Row, document_from_row, pack_id, parse_settings
from inturn.stores.sqlite.reader import QueueReader
from inturn.stores.sqlite.submit import DELAYED, WAITING, Submitter
from inturn.stores.sqlite.transitions import MAX_DUE_PER_TRANSACTION, DocumentFacts, Transitions

Answer = TypeVar("Answer")


class SqliteStore(Store):
    """The contract on one SQLite file."""

    def __init__(self, path: Path | str, clock: Clock | None = None, *, vfs: str | None = None) -> None:
        self.path = Path(path).absolute()
        self._clock = clock or SystemClock()
        self._pid = os.getpid()
        connection = connect(self.path, vfs=vfs)
        with translate_errors(self.path):
            require_open(connection, str(self.path))
        schema.migrate(self.path, connection, self._clock.now())
        self._queries = Queries(connection)
        self._writer = Writer(self.path, connection, self._queries.clear_cache)
        self._lane_log = LaneLog(self._queries)
        self._submitter = Submitter(self._queries, self._lane_log)
        self._read_lock = threading.Lock()
        with translate_errors(self.path):
            self._read_queries = Queries(connect(self.path, read_only=True, vfs=vfs))
        self._queue_reader = QueueReader(self._read_queries)
        self._notifier = Notifier(write_lock_path(self.path))
        self._notifier.start()
        self._may_find_work = False
        """Whether the last claim found documents: then the next one claims at once."""
        self.api_keys = SqliteApiKeys(self._queries, self._read_queries, self._write, self._read, self._add_event)

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        return self._write(lambda: self._submitter.check(customer, n, key, self._now(now)))

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        return self._write(partial(self._submit, submission, now))

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[SubmitResult, ...]:
        self._require_same_process()
        return tuple(self._writer.run_all([partial(self._submit, submission, now) for submission in submissions]))

    def _submit(self, submission: Submission, now: int | None) -> tuple[Receipt, ...]:
        return self._submitter.submit(submission, self._now(now))

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest | None,
        *,
        now: int | None = None,
    ) -> AckAndClaim:
        if request is None:
            return AckAndClaim(self._write(lambda: self._ack(outcomes, self._now(now))), ())
        if not (
            outcomes or self._may_find_work or self._read(lambda: self._queue_reader.may_be_claimed(self._now(now)))
        ):
            return AckAndClaim((), ())
        statuses, claimed = self._write(lambda: self._ack_and_claim(outcomes, request, self._now(now)))
        while claimed is None:
            _, claimed = self._write(lambda: self._ack_and_claim((), request, self._now(now)))
        self._may_find_work = bool(claimed)
        return AckAndClaim(statuses, claimed)

    def _ack(self, outcomes: Sequence[Outcome], now: int) -> tuple[AckStatus, ...]:
        with self._transitions(now) as transitions:
            return transitions.ack(outcomes)

    def _ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int
    ) -> tuple[tuple[AckStatus, ...], tuple[Claim, ...] | None]:
        """Record outcomes and claim in one transaction; None for the claim when more is due than one processes."""
        window = self._load_window()
        transitions = Transitions(self._queries, window, now)
        statuses = transitions.ack(outcomes)
        claimed: tuple[Claim, ...] | None = None
        if MAX_DUE_PER_TRANSACTION not in transitions.process_due(window):
            claimed = () if window.paused_by is not None else self._claim(window, request, transitions, now)
        transitions.flush()
        window.save()
        return statuses, claimed

    def _claim(
        self, window: ClaimWindow, request: ClaimRequest, transitions: Transitions, now: int
    ) -> tuple[Claim, ...]:
        window.set_claim_limit(request.limit)
        taken: list[tuple[int, str, int, int, int, str]] = []
        places: list[tuple[int, int, int]] = []
        until = now + request.lease
        while len(taken) < request.limit and (sql_lanes := window.take_next(now)) is not None:
            lane, head = sql_lanes
            window.fence += 1
            taken.append((head.seq, self._queries.customer_name(lane.owner), now, until, window.fence, request.worker))
            places.append((lane.owner, lane.level, head.seq))
        if window.has_requeued:
            self._queries.execute_many("forget_requeued", places)
        rows = self._queries.execute_many_returning("start_document", taken)
        if len(rows) != len(taken):
            raise AssertionError(f"of {len(taken)} documents that stand in lines, {len(rows)} wait")
        claimed = tuple(
            [Claim(document_from_row(row), fence) for row, (_, _, _, _, fence, _) in zip(rows, taken, strict=True)]
        )
        for row in rows:
            transitions.record_event(EventKind.STARTED, row[-1], row[0])
        transitions.add_grouped_events((EventKind.STARTED,))
        return claimed

    def heartbeat(
        self,
        claims: Sequence[tuple[str, int]],
        lease: int,
        *,
        now: int | None = None,
    ) -> tuple[LeaseStatus, ...]:
        def work() -> tuple[LeaseStatus, ...]:
            at = self._now(now)
            return tuple([self._renew_lease(id_, fence, lease, at) for id_, fence in claims])

        return self._write(work)

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        name, (text, at_work) = report.name, report_to_json(report)
        self._write(
            lambda: self._queries.fetch_one(
                "record_worker", name=name, now=self._now(now), report=text, at_work=at_work
            )
        )

    def forget_worker(self, name: str) -> None:
        self._write(lambda: self._queries.fetch_one("forget_worker", name=name))

    def workers(self) -> tuple[Worker, ...]:
        return self._read(self._queue_reader.workers)

    def _renew_lease(self, id_: str, fence: int, lease: int, now: int) -> LeaseStatus:
        if self._queries.fetch_one("heartbeat", id=pack_id(id_), fence=fence, lease=lease, now=now) is not None:
            return LeaseStatus.HELD
        facts = self._document_facts(id_)
        if facts is None or facts.fence != fence:
            return LeaseStatus.LOST
        return LeaseStatus.CANCELLED if facts.state == DocumentState.CANCELLED else LeaseStatus.LOST

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        def work() -> tuple[str, ...]:
            cancelled = []
            with self._transitions(self._now(now)) as transitions:
                for id_, facts in self._facts_in_states(ids, CANCELLABLE):
                    transitions.cancel(facts)
                    transitions.record_event(EventKind.CANCELLED, facts.owner, pack_id(id_))
                    cancelled.append(id_)
                transitions.add_grouped_events((EventKind.CANCELLED,), operator)
            return tuple(cancelled)

        return self._write(work)

    def retry(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[Receipt, ...]:
        def work() -> tuple[Receipt, ...]:
            at, receipts = self._now(now), []
            with self._transitions(at) as transitions:
                for id_, facts in self._facts_in_states(ids, RETRYABLE):
                    _, counter = self._submitter.get_or_add_customer(self._queries.customer_name(facts.owner))
                    seq, version = self._queries.fetch_one("allocate_seqs", n=1) or (0, 0)
                    checked = self._submitter.apply_checks(facts.owner, counter, 1, at, version)
                    level = checked.levels[0][0]
                    receipts.append(transitions.retry(facts, id_, seq, level, checked.counter.count))
                    transitions.record_event(EventKind.RETRIED, facts.owner, pack_id(id_))
                transitions.add_grouped_events((EventKind.RETRIED,), operator)
            return tuple(receipts)

        return self._write(work)

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> bool:
        def work() -> bool:
            facts = self._document_facts(id)
            if facts is None:
                raise NotFoundError(f"there is no document {id}")
            if facts.lane == EXPEDITED_LEVEL or facts.state not in {WAITING, DELAYED}:
                return False
            with self._transitions(self._now(now)) as transitions:
                transitions.expedite(facts)
                transitions.record_event(EventKind.EXPEDITED, facts.owner, pack_id(id))
                transitions.add_grouped_events((EventKind.EXPEDITED,), operator)
            return True

        return self._write(work)

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        def work() -> PruneResult:
            owner = self._customer_id(customer)
            for level, n in self._queries.fetch_all("waiting_of", customer=owner):
                self._lane_log.emptied(owner, level, n)
            if (self._queries.fetch_one("is_capped", id=owner) or (0,))[0]:
                for _ in range(self._running_count(owner)):
                    self._lane_log.stopped(owner)
            blobs = tuple(blob for (blob,) in self._queries.fetch_all("blobs_of", customer=owner))
            self._queries.fetch_one("purge_files", customer=owner)
            self._queries.fetch_one("purge_attempts", customer=owner)
            self._queries.fetch_one("purge_requeued", customer=owner)
            self._queries.fetch_one("purge_documents", customer=owner)
            documents = self._queries.connection.changes()
            self._queries.fetch_one("purge_idempotency_keys", customer=owner)
            keys = self._queries.connection.changes()
            self._queries.fetch_one("purge_api_keys", customer=customer)
            self._add_event(now, EventKind.PURGED, customer, operator, {"documents": documents})
            return PruneResult(documents, 0, keys, blobs)

        return self._write(work)

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        now: int | None = None,
    ) -> CustomerSettings:
        def work() -> CustomerSettings:
            row = self._queries.fetch_one("customer", name=customer)
            before = CustomerSettings() if row is None else parse_settings(row[3])
            settings = clean_settings(before._replace(**changes))
            owner, _ = self._submitter.get_or_add_customer(customer)
            self._lane_log.settings_changed(owner, settings, self._running_count(owner))
            text = json.dumps(settings_to_dict(settings._asdict()))
            capped, keeps = settings.cap is not None, settings.keep is not None
            self._queries.fetch_one(
                "set_settings", id=owner, settings=text, paused=settings.paused, capped=capped, keeps=keeps
            )
            self._add_event(now, EventKind.CUSTOMER_CHANGED, customer, operator, settings_to_dict(changes))
            return settings

        return self._write(work)

    def pause(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_PAUSED, now)

    def resume(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_RESUMED, now)

    def _set_paused(self, operator: Operator, kind: EventKind, now: int | None) -> None:
        by, why = operator if kind is EventKind.QUEUE_PAUSED else (None, None)

        def work() -> None:
            self._queries.fetch_one("pause", by=by, why=why)
            self._add_event(now, kind, None, operator)

        self._write(work)

    def paused(self) -> Operator | None:
        return self._read(self._queue_reader.paused)

    def policy(self) -> PolicyVersion:
        return self._read(self._queue_reader.policy)

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        def work() -> PolicyVersion:
            (current,) = self._queries.fetch_one("policy_number") or (0,)
            if expected is not None and expected != current:
                raise VersionConflictError(
                    f"the policy in force is version {current}, not {expected}; read it again and repeat your change",
                )
            self._load_window().save()  # releases logged so far are refunded by the order they were made under
            version = PolicyVersion(current + 1, policy, self._now(now), operator)
            settings = json.dumps(policy.to_dict())
            self._queries.fetch_one(
                "add_policy",
                number=version.number,
                settings=settings,
                at=version.at,
                by=operator.name,
                why=operator.why,
            )
            self._queries.fetch_one("use_policy", number=version.number)
            self._add_event(version.at, EventKind.POLICY_SET, None, operator, {"version": version.number})
            return version

        return self._write(work)

    def policies(self) -> tuple[PolicyVersion, ...]:
        return self._read(self._queue_reader.policies)

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        return self._read(lambda: self._queue_reader.document(id))

    def result(self, id: str) -> str | None:
        return self._read(lambda: self._queue_reader.result(id))

    def files(self, id: str) -> tuple[ResultFile, ...]:
        return self._read(lambda: self._queue_reader.files(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        return self._read(lambda: self._queue_reader.attempts(id))

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return self._read(lambda: self._queue_reader.unreferenced_blobs(blobs))

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        return self._read(lambda: self._queue_reader.documents(where, limit, after, sort))

    def customer(self, name: str) -> Customer:
        return self._read(lambda: self._queue_reader.customer(name))

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        return self._read(lambda: self._queue_reader.customers(where, limit, after))

    def counts(self, where: DocumentFilter) -> Counts:
        return self._read(lambda: self._queue_reader.counts(where))

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        return self._read(lambda: self._queue_reader.events(after, limit))

    def last_event(self) -> int:
        return self._read(self._queue_reader.last_event)

    def audit(self, *, limit: int, before: int | None = None, customer: str | None = None) -> tuple[Event, ...]:
        return self._read(lambda: self._queue_reader.operator_events(limit, before, customer))

    def stored_bytes(self, customer: str) -> int:
        return self._read(lambda: self._queue_reader.stored_bytes(customer))

    def scheduler_snapshot(self) -> SchedulerSnapshot:
        return self._read(self._queue_reader.scheduler_snapshot)

    def ahead_in_lane(self, id: str) -> int:
        return self._read(lambda: self._queue_reader.ahead_in_lane(id))

    def throughput(self, since: int) -> Throughput:
        return self._read(lambda: self._queue_reader.throughput(since))

    def next_due(self) -> int | None:
        return self._read(self._queue_reader.next_due)

    def wait(self, timeout: float) -> None:
        self._notifier.wait(timeout)

    # -- maintenance ------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        def work() -> SweepResult:
            window = self._load_window()
            transitions = Transitions(self._queries, window, self._now(now))
            clock_skew.review(self._queries, window, transitions.now)
            swept = transitions.process_due(window)
            transitions.flush()
            window.save()
            self._delete_spent_lanes(window, transitions.now)
            first, last = transitions.now - WORKER_RETENTION, transitions.now + WORKER_RETENTION
            self._queries.fetch_one("forget_silent_workers", first=first, last=last)
            return swept

        total = SweepResult()
        while True:
            swept = self._write(work)
            total = SweepResult(*(one + other for one, other in zip(total, swept, strict=True)))
            if MAX_DUE_PER_TRANSACTION not in swept:
                return total

    def now(self) -> int:
        return self._now(None)

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        return self._read(lambda: clock_skew.ahead_of_clock(self._read_queries, self._now(now)))

    def maintenance(self) -> MaintenanceRecord | None:
        (text,) = self._read(lambda: self._read_queries.fetch_one("maintenance")) or (None,)
        return None if text is None else MaintenanceRecord.from_json(text)

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        text = record.to_json()
        self._write(lambda: self._queries.fetch_one("record_maintenance", record=text))

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        return self._read(lambda: self._queue_reader.prunable(before, customer, MAX_SEQ if up_to is None else up_to))

    def _delete_spent_lanes(self, window: ClaimWindow, now: int) -> None:
        v, rested_since = (
            [level.virtual_time.turn for level in window.scheduler.levels],
            now - window.scheduler.policy.out_of_turn_interval,
        )
        empty = self._queries.fetch_all("empty_lanes", rested_since=rested_since)
        spent = [(owner, level) for owner, level, turn in empty if turn <= v[level]]
        self._queries.execute_many("forget_lane", spent)

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
            owner = self._customer_id(name)
            ended = self._queries.fetch_all("ended_before_of", customer=owner, before=before, up_to=last, limit=limit)
            return self._delete_documents(ended)

        def work() -> PruneResult:
            removed = self._delete_documents(self._oldest_ended(before, last, limit))
            self._queries.fetch_one("forget_events", before=before, limit=limit)
            events = self._queries.connection.changes()
            self._queries.fetch_one("forget_idempotency_keys", before=self._now(now) - IDEMPOTENCY_KEY_RETENTION)
            keys = self._queries.connection.changes()
            return removed._replace(events=events, keys=keys)

        return self._write(work if customer is None else lambda: work_for(customer))

    def _oldest_ended(self, before: int, up_to: int, limit: int) -> list[Row]:
        """The documents that ended first, however they did, but for those of customers with a time of their own."""
        where = {"before": before, "up_to": up_to, "limit": limit}
        ended = [
            (finished_at, seq, blob)
            for state in ENDED
            for seq, blob, finished_at in self._queries.fetch_all("ended_before", state=state, **where)
        ]
        return [(seq, blob) for _, seq, blob in sorted(ended, key=itemgetter(0, 1))[:limit]]

    def _delete_documents(self, rows: list[Row]) -> PruneResult:
        """Delete these documents, given as seq and blob, with their attempts and the files of their results."""
        blobs = [blob for _, blob in rows if blob is not None]
        for seq, _ in rows:
            blobs += [blob for (blob,) in self._queries.connection.execute(QUERIES["forget_files"], (seq,))]
        self._queries.execute_many("forget_attempts", [(seq,) for seq, _ in rows])
        self._queries.execute_many("forget_document", [(seq,) for seq, _ in rows])
        return PruneResult(len(rows), 0, 0, tuple(blobs))

    def backup(self, path: Path) -> None:
        write_copy(self.path, path)

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        def work() -> tuple[Discrepancy, ...]:
            self._load_window().save()
            discrepancies = recount.discrepancies(self._queries)
            if discrepancies and repair:
                recount.repair(self._queries)
                self._add_event(now, EventKind.REPAIRED, None, None, {"counts": len(discrepancies)})
            return discrepancies

        return self._write(work)

    def close(self) -> None:
        self._notifier.close()
        with self._read_lock:
            self._read_queries.connection.close()
        self._writer.close()

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _now(self, now: int | None) -> int:
        return self._clock.now() if now is None else now

    def _write(self, work: Callable[[], Answer]) -> Answer:
        self._require_same_process()
        return self._writer.run(work)

    def _read(self, work: Callable[[], Answer]) -> Answer:
        """Several queries see one state of the store."""
        self._require_same_process()
        with self._read_lock, translate_errors(self.path):
            self._read_queries.connection.execute("BEGIN")
            try:
                return work()
            finally:
                if self._read_queries.connection.in_transaction:
                    self._read_queries.connection.execute("ROLLBACK")

    def _require_same_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} was opened before this process was forked; open it again in the child,"
                f" or start children with spawn",
            )

    @contextmanager
    def _transitions(self, now: int) -> Iterator[Transitions]:
        """Run transitions that the next claim will apply; their events are written at the end."""
        transitions = Transitions(self._queries, self._lane_log, now)
        yield transitions
        transitions.flush()

    def _add_event(
        self,
        now: int | None,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        with self._transitions(self._now(now)) as transitions:
            transitions.add_event(kind, customer, b"", operator, detail)

    def _load_window(self) -> ClaimWindow:
        """Load the claim window with the lane log applied; the caller saves it."""
        window = ClaimWindow.load(self._queries)
        window.apply_lane_log()
        return window

    def _customer_id(self, customer: str) -> int:
        row = self._queries.fetch_one("customer", name=customer)
        if row is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        return int(row[0])

    def _running_count(self, owner: int) -> int:
        return int((self._queries.fetch_one("running_of", customer=owner) or (0,))[0])

    def _document_facts(self, id_: str) -> DocumentFacts | None:
        row = self._queries.fetch_one("row", id=pack_id(id_))
        return None if row is None else DocumentFacts._make(row)

    def _facts_in_states(
        self, ids: Sequence[str], states: frozenset[DocumentState]
    ) -> Iterator[tuple[str, DocumentFacts]]:
        for id_ in dict.fromkeys(ids):
            facts = self._document_facts(id_)
            if facts is not None and facts.state in states:
                yield id_, facts
