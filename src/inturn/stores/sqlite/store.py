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
    EXPEDITED,
    RETRYABLE,
    Check,
    Claimed,
    Customer,
    CustomerSettings,
    Document,
    DocumentState,
    Receipt,
    ResultFile,
    Worker,
    WorkerReport,
    clean_settings,
    plain,
    report_texts,
)
from inturn.policy import Policy
from inturn.store import (
    KEY_KEPT,
    MAX_SEQ,
    WORKER_KEPT,
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
    Exchanged,
    Hold,
    MaintenanceRecord,
    Operator,
    Outcome,
    Pace,
    Page,
    PolicyVersion,
    Removed,
    Standings,
    Store,
    Submission,
    Submitted,
    Swept,
    Verdict,
)
from inturn.stores.sqlite import audit, clocks, schema
from inturn.stores.sqlite.backup import write_copy
from inturn.stores.sqlite.book import Book
from inturn.stores.sqlite.changes import LaterChanges
from inturn.stores.sqlite.closing import refuse_closed
from inturn.stores.sqlite.connection import Writer, connect, errors_of, gate_of
from inturn.stores.sqlite.doorbell import Doorbell
from inturn.stores.sqlite.intake import DELAYED, WAITING, Intake
from inturn.stores.sqlite.keys import SqliteKeys
from inturn.stores.sqlite.moves import AT_ONCE, Facts, Moves
from inturn.stores.sqlite.reading import Reading
from inturn.stores.sqlite.tables import QUERIES, Row, Tables, document_of, packed, read_settings

Answer = TypeVar("Answer")


class SqliteStore(Store):
    """The contract on one SQLite file."""

    def __init__(self, path: Path | str, clock: Clock | None = None, *, vfs: str | None = None) -> None:
        self.path = Path(path).absolute()
        self._clock = clock or SystemClock()
        self._process = os.getpid()
        connection = connect(self.path, vfs=vfs)
        with errors_of(self.path):
            refuse_closed(connection, str(self.path))
        schema.migrate(self.path, connection, self._clock.now())
        self._tables = Tables(connection)
        self._writer = Writer(self.path, connection, self._tables.forget)
        self._later = LaterChanges(self._tables)
        self._intake = Intake(self._tables, self._later)
        self._read_lock = threading.Lock()
        with errors_of(self.path):
            self._reader = Tables(connect(self.path, read_only=True, vfs=vfs))
        self._reading = Reading(self._reader)
        self._doorbell = Doorbell(gate_of(self.path))
        self._doorbell.arm()
        self._found = False
        """Whether the last claim found anything: then the next may as well."""
        self.keys = SqliteKeys(self._tables, self._reader, self._write, self._read, self._note)

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        return self._write(lambda: self._intake.check(customer, n, key, self._now(now)))

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        return self._write(partial(self._submit, submission, now))

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[Submitted, ...]:
        self._same_process()
        return tuple(self._writer.run_all([partial(self._submit, each, now) for each in submissions]))

    def _submit(self, submission: Submission, now: int | None) -> tuple[Receipt, ...]:
        return self._intake.submit(submission, self._now(now))

    # -- workers ----------------------------------------------------------------------------------------------------

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest | None,
        *,
        now: int | None = None,
    ) -> Exchanged:
        if request is None:
            return Exchanged(self._write(lambda: self._settle(outcomes, self._now(now))), ())
        if not (outcomes or self._found or self._read(lambda: self._reading.may_be_claimed(self._now(now)))):
            return Exchanged((), ())
        verdicts, claimed = self._write(lambda: self._exchange(outcomes, request, self._now(now)))
        while claimed is None:
            _, claimed = self._write(lambda: self._exchange((), request, self._now(now)))
        self._found = bool(claimed)
        return Exchanged(verdicts, claimed)

    def _settle(self, outcomes: Sequence[Outcome], now: int) -> tuple[Verdict, ...]:
        with self._moves(now) as moves:
            return moves.settle(outcomes)

    def _exchange(
        self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int
    ) -> tuple[tuple[Verdict, ...], tuple[Claimed, ...] | None]:
        """Outcomes and claim in one; None for the claim when more is due than one transaction moves on."""
        book = self._fold()
        moves = Moves(self._tables, book, now)
        verdicts = moves.settle(outcomes)
        claimed: tuple[Claimed, ...] | None = None
        if AT_ONCE not in moves.move_on(book):
            claimed = () if book.paused_by is not None else self._claim(book, request, moves, now)
        moves.write()
        book.save()
        return verdicts, claimed

    def _claim(self, book: Book, request: ClaimRequest, moves: Moves, now: int) -> tuple[Claimed, ...]:
        book.reach(request.limit)
        taken: list[tuple[int, str, int, int, int, str]] = []
        places: list[tuple[int, int, int]] = []
        until = now + request.lease
        while len(taken) < request.limit and (found := book.take(now)) is not None:
            line, head = found
            book.fence += 1
            taken.append((head.seq, self._tables.name(line.owner), now, until, book.fence, request.worker))
            places.append((line.owner, line.level, head.seq))
        if book.has_returned:
            self._tables.many("forget_returned", places)
        rows = self._tables.each("start_document", taken)
        if len(rows) != len(taken):
            raise AssertionError(f"of {len(taken)} documents that stand in lines, {len(rows)} wait")
        claimed = tuple(
            [Claimed(document_of(row), fence) for row, (_, _, _, _, fence, _) in zip(rows, taken, strict=True)]
        )
        for row in rows:
            moves.tell(EventKind.STARTED, row[-1], row[0])
        moves.write_told((EventKind.STARTED,))
        return claimed

    def heartbeat(
        self,
        claims: Sequence[tuple[str, int]],
        lease: int,
        *,
        now: int | None = None,
    ) -> tuple[Hold, ...]:
        def work() -> tuple[Hold, ...]:
            at = self._now(now)
            return tuple([self._beat(id_, fence, lease, at) for id_, fence in claims])

        return self._write(work)

    def see_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        name, (text, at_work) = report.name, report_texts(report)
        self._write(lambda: self._tables.one("see_worker", name=name, now=self._now(now), report=text, at_work=at_work))

    def forget_worker(self, name: str) -> None:
        self._write(lambda: self._tables.one("forget_worker", name=name))

    def workers(self) -> tuple[Worker, ...]:
        return self._read(self._reading.workers)

    def _beat(self, id_: str, fence: int, lease: int, now: int) -> Hold:
        if self._tables.one("heartbeat", id=packed(id_), fence=fence, lease=lease, now=now) is not None:
            return Hold.HELD
        facts = self._facts(id_)
        if facts is None or facts.fence != fence:
            return Hold.LOST
        return Hold.CANCELLED if facts.state == DocumentState.CANCELLED else Hold.LOST

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        def work() -> tuple[str, ...]:
            cancelled = []
            with self._moves(self._now(now)) as moves:
                for id_, facts in self._all_facts(ids, CANCELLABLE):
                    moves.cancel(facts)
                    moves.tell(EventKind.CANCELLED, facts.owner, packed(id_))
                    cancelled.append(id_)
                moves.write_told((EventKind.CANCELLED,), operator)
            return tuple(cancelled)

        return self._write(work)

    def retry(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[Receipt, ...]:
        def work() -> tuple[Receipt, ...]:
            at, receipts = self._now(now), []
            with self._moves(at) as moves:
                for id_, facts in self._all_facts(ids, RETRYABLE):
                    _, counter = self._intake.customer(self._tables.name(facts.owner))
                    seq, version = self._tables.one("give_seqs", n=1) or (0, 0)
                    checked = self._intake.lower(facts.owner, counter, 1, at, version)
                    level = checked.levels[0][0]
                    receipts.append(moves.begin_again(facts, id_, seq, level, checked.counter.count))
                    moves.tell(EventKind.RETRIED, facts.owner, packed(id_))
                moves.write_told((EventKind.RETRIED,), operator)
            return tuple(receipts)

        return self._write(work)

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> bool:
        def work() -> bool:
            facts = self._facts(id)
            if facts is None:
                raise NotFoundError(f"there is no document {id}")
            if facts.line == EXPEDITED or facts.state not in {WAITING, DELAYED}:
                return False
            with self._moves(self._now(now)) as moves:
                moves.expedite(facts)
                moves.tell(EventKind.EXPEDITED, facts.owner, packed(id))
                moves.write_told((EventKind.EXPEDITED,), operator)
            return True

        return self._write(work)

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> Removed:
        def work() -> Removed:
            owner = self._owner(customer)
            for level, n in self._tables.all("waiting_of", customer=owner):
                self._later.emptied(owner, level, n)
            if (self._tables.one("is_capped", id=owner) or (0,))[0]:
                for _ in range(self._running(owner)):
                    self._later.stopped(owner)
            blobs = tuple(blob for (blob,) in self._tables.all("blobs_of", customer=owner))
            self._tables.one("purge_files", customer=owner)
            self._tables.one("purge_attempts", customer=owner)
            self._tables.one("purge_returned", customer=owner)
            self._tables.one("purge_documents", customer=owner)
            documents = self._tables.connection.changes()
            self._tables.one("purge_keys", customer=owner)
            keys = self._tables.connection.changes()
            self._tables.one("purge_access_keys", customer=customer)
            self._note(now, EventKind.PURGED, customer, operator, {"documents": documents})
            return Removed(documents, 0, keys, blobs)

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
            found = self._tables.one("customer", name=customer)
            before = CustomerSettings() if found is None else read_settings(found[3])
            settings = clean_settings(before._replace(**changes))
            owner, _ = self._intake.customer(customer)
            self._later.changed(owner, settings, self._running(owner))
            text = json.dumps(plain(settings._asdict()))
            capped, keeps = settings.cap is not None, settings.keep is not None
            self._tables.one(
                "set_settings", id=owner, settings=text, paused=settings.paused, capped=capped, keeps=keeps
            )
            self._note(now, EventKind.CUSTOMER_CHANGED, customer, operator, plain(changes))
            return settings

        return self._write(work)

    def pause(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_PAUSED, now)

    def resume(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_RESUMED, now)

    def _set_paused(self, operator: Operator, kind: EventKind, now: int | None) -> None:
        by, why = operator if kind is EventKind.QUEUE_PAUSED else (None, None)

        def work() -> None:
            self._tables.one("pause", by=by, why=why)
            self._note(now, kind, None, operator)

        self._write(work)

    def paused(self) -> Operator | None:
        return self._read(self._reading.paused)

    def policy(self) -> PolicyVersion:
        return self._read(self._reading.policy)

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        def work() -> PolicyVersion:
            (current,) = self._tables.one("policy_number") or (0,)
            if expected is not None and expected != current:
                raise VersionConflictError(
                    f"the policy in force is version {current}, not {expected}; read it again and repeat your change",
                )
            version = PolicyVersion(current + 1, policy, self._now(now), operator)
            settings = json.dumps(policy.plain())
            self._tables.one(
                "add_policy",
                number=version.number,
                settings=settings,
                at=version.at,
                by=operator.name,
                why=operator.why,
            )
            self._tables.one("use_policy", number=version.number)
            self._note(version.at, EventKind.POLICY_SET, None, operator, {"version": version.number})
            return version

        return self._write(work)

    def policies(self) -> tuple[PolicyVersion, ...]:
        return self._read(self._reading.policies)

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        return self._read(lambda: self._reading.document(id))

    def result(self, id: str) -> str | None:
        return self._read(lambda: self._reading.result(id))

    def files(self, id: str) -> tuple[ResultFile, ...]:
        return self._read(lambda: self._reading.files(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        return self._read(lambda: self._reading.attempts(id))

    def unknown_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return self._read(lambda: self._reading.unknown_blobs(blobs))

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        return self._read(lambda: self._reading.documents(where, limit, after, sort))

    def customer(self, name: str) -> Customer:
        return self._read(lambda: self._reading.customer(name))

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        return self._read(lambda: self._reading.customers(where, limit, after))

    def counts(self, where: DocumentFilter) -> Counts:
        return self._read(lambda: self._reading.counts(where))

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        return self._read(lambda: self._reading.events(after, limit))

    def last_event(self) -> int:
        return self._read(self._reading.last_event)

    def audit(self, *, limit: int, before: int | None = None, customer: str | None = None) -> tuple[Event, ...]:
        return self._read(lambda: self._reading.by_hand(limit, before, customer))

    def kept_bytes(self, customer: str) -> int:
        return self._read(lambda: self._reading.kept_bytes(customer))

    def standings(self) -> Standings:
        self._write(lambda: self._fold().save())
        return self._read(self._reading.standings)

    def ahead(self, id: str) -> int:
        return self._read(lambda: self._reading.ahead(id))

    def pace(self, since: int) -> Pace:
        return self._read(lambda: self._reading.pace(since))

    def next_due(self) -> int | None:
        return self._read(self._reading.next_due)

    def wait(self, timeout: float) -> None:
        self._doorbell.wait(timeout)

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> Swept:
        def work() -> Swept:
            book = self._fold()
            moves = Moves(self._tables, book, self._now(now))
            clocks.review(self._tables, book, moves.now)
            swept = moves.move_on(book)
            moves.write()
            book.save()
            self._forget_spent(book, moves.now)
            first, last = moves.now - WORKER_KEPT, moves.now + WORKER_KEPT
            self._tables.one("forget_silent_workers", first=first, last=last)
            return swept

        total = Swept()
        while True:
            swept = self._write(work)
            total = Swept(*(one + other for one, other in zip(total, swept, strict=True)))
            if AT_ONCE not in swept:
                return total

    def now(self) -> int:
        return self._now(None)

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        return self._read(lambda: clocks.ahead_of_clock(self._reader, self._now(now)))

    def maintenance(self) -> MaintenanceRecord | None:
        (text,) = self._read(lambda: self._reader.one("maintenance")) or (None,)
        return None if text is None else MaintenanceRecord.from_json(text)

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        text = record.to_json()
        self._write(lambda: self._tables.one("record_maintenance", record=text))

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        return self._read(lambda: self._reading.prunable(before, customer, MAX_SEQ if up_to is None else up_to))

    def _forget_spent(self, book: Book, now: int) -> None:
        v, rested_since = [level.v.turn for level in book.turns.levels], now - book.turns.policy.out_of_turn_interval
        empty = self._tables.all("empty_lines", rested_since=rested_since)
        spent = [(owner, level) for owner, level, turn in empty if turn <= v[level]]
        self._tables.many("forget_line", spent)

    def prune(
        self,
        before: int,
        *,
        limit: int,
        customer: str | None = None,
        up_to: int | None = None,
        now: int | None = None,
    ) -> Removed:
        last = MAX_SEQ if up_to is None else up_to

        def work_for(name: str) -> Removed:
            owner = self._owner(name)
            ended = self._tables.all("ended_before_of", customer=owner, before=before, up_to=last, limit=limit)
            return self._forget_all(ended)

        def work() -> Removed:
            removed = self._forget_all(self._ended(before, last, limit))
            self._tables.one("forget_events", before=before, limit=limit)
            events = self._tables.connection.changes()
            self._tables.one("forget_keys", before=self._now(now) - KEY_KEPT)
            keys = self._tables.connection.changes()
            return removed._replace(events=events, keys=keys)

        return self._write(work if customer is None else lambda: work_for(customer))

    def _ended(self, before: int, up_to: int, limit: int) -> list[Row]:
        """The documents that ended first, however they did, but for those of customers with a time of their own."""
        where = {"before": before, "up_to": up_to, "limit": limit}
        ended = [
            (finished_at, seq, blob)
            for state in ENDED
            for seq, blob, finished_at in self._tables.all("ended_before", state=state, **where)
        ]
        return [(seq, blob) for _, seq, blob in sorted(ended, key=itemgetter(0, 1))[:limit]]

    def _forget_all(self, old: list[Row]) -> Removed:
        """Delete these documents, given as seq and blob, with their attempts and the files of their results."""
        blobs = [blob for _, blob in old if blob is not None]
        for seq, _ in old:
            blobs += [blob for (blob,) in self._tables.connection.execute(QUERIES["forget_files"], (seq,))]
        self._tables.many("forget_attempts", [(seq,) for seq, _ in old])
        self._tables.many("forget_document", [(seq,) for seq, _ in old])
        return Removed(len(old), 0, 0, tuple(blobs))

    def backup(self, path: Path) -> None:
        write_copy(self.path, path)

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        def work() -> tuple[Discrepancy, ...]:
            self._fold().save()
            found = audit.discrepancies(self._tables)
            if found and repair:
                audit.repair(self._tables)
                self._note(now, EventKind.REPAIRED, None, None, {"counts": len(found)})
            return found

        return self._write(work)

    def close(self) -> None:
        self._doorbell.close()
        with self._read_lock:
            self._reader.connection.close()
        self._writer.close()

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _now(self, now: int | None) -> int:
        return self._clock.now() if now is None else now

    def _write(self, work: Callable[[], Answer]) -> Answer:
        self._same_process()
        return self._writer.run(work)

    def _read(self, work: Callable[[], Answer]) -> Answer:
        """Several queries see one state of the store."""
        self._same_process()
        with self._read_lock, errors_of(self.path):
            self._reader.connection.execute("BEGIN")
            try:
                return work()
            finally:
                if self._reader.connection.in_transaction:
                    self._reader.connection.execute("ROLLBACK")

    def _same_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.path} was opened before this process was forked; open it again in the child,"
                f" or start children with spawn",
            )

    @contextmanager
    def _moves(self, now: int) -> Iterator[Moves]:
        """The moves of this transaction, which the next claim will hear of; their events are written at the end."""
        moves = Moves(self._tables, self._later, now)
        yield moves
        moves.write()

    def _note(
        self,
        now: int | None,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        with self._moves(self._now(now)) as moves:
            moves.note(kind, customer, b"", operator, detail)

    def _fold(self) -> Book:
        """The lines, with everything folded in; to be saved."""
        book = Book.opened(self._tables)
        book.fold()
        return book

    def _owner(self, customer: str) -> int:
        found = self._tables.one("customer", name=customer)
        if found is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        return int(found[0])

    def _running(self, owner: int) -> int:
        return int((self._tables.one("running_of", customer=owner) or (0,))[0])

    def _facts(self, id_: str) -> Facts | None:
        row = self._tables.one("row", id=packed(id_))
        return None if row is None else Facts._make(row)

    def _all_facts(self, ids: Sequence[str], states: frozenset[DocumentState]) -> Iterator[tuple[str, Facts]]:
        for id_ in dict.fromkeys(ids):
            facts = self._facts(id_)
            if facts is not None and facts.state in states:
                yield id_, facts
