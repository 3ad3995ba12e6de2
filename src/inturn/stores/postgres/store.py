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
    EXPEDITED,
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
    report_texts,
)
from inturn.policy import Policy
from inturn.store import (
    MAX_SEQ,
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
from inturn.stores.postgres import backup, clocks, keys, schema
from inturn.stores.postgres.address import parse
from inturn.stores.postgres.bell import Bell
from inturn.stores.postgres.changes import LaterChanges
from inturn.stores.postgres.claims import Claims
from inturn.stores.postgres.closing import refuse_closed
from inturn.stores.postgres.connection import Begin, Database
from inturn.stores.postgres.intake import Intake
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.moves import Moves
from inturn.stores.postgres.reading import Reading
from inturn.stores.postgres.riding import submit_in
from inturn.stores.postgres.rows import id_of
from inturn.stores.postgres.tables import Tables
from inturn.stores.postgres.trouble import errors_of
from inturn.stores.postgres.upkeep import Upkeep, lock_customers_of, number_events

Answer = TypeVar("Answer")


class PostgresStore(Store):
    """The contract on one schema of a PostgreSQL database."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.address = parse(url)
        self._clock = clock
        self._known = Known()
        self._database = Database(self.address)
        try:
            with errors_of(self.address.shown), self._database.connected() as first:
                first.patience = None
                schema.require_current(first, self.address)
                refuse_closed(first, self.address)
        except BaseException:
            self._database.close()
            raise
        self._bell = Bell(self._database)
        self._claims = Claims(self._database, self._known, clock)
        self.keys = keys.PostgresKeys(self._write, partial(self._database.run, Begin.READ), self._upkeep)

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        return self._take_in(customer, now, lambda intake: intake.check(customer, n, key))

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        receipts = None if submission.key is not None else self._submit_at_once(submission, now)
        if receipts is None:
            receipts = self._take_in(submission.customer, now, lambda intake: intake.submit(submission))
            self._bell.ring()
        return receipts

    def _submit_at_once(self, submission: Submission, now: int | None) -> tuple[Receipt, ...] | None:
        """In one round trip, commit and ring included; None, and nothing was done, where that does not do."""
        if self._database.pooled:
            return None
        stroke = self._bell.first_stroke()
        receipts = self._database.run(
            Begin.AT_ONCE, lambda tables: self._intake(tables, now).submit_at_once(submission, tables, stroke)
        )
        if stroke is None and receipts is not None:
            self._bell.ring()
        elif receipts is None:
            self._bell.did_not_ring(stroke)
        return receipts

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[Submitted, ...]:
        """By one commit, where no call has a key and every customer is free; otherwise one by one."""
        taken: Sequence[Submitted | None] = [None] * len(submissions)
        if len(submissions) > 1 and not self._database.pooled and all(each.key is None for each in submissions):
            with suppress(InvalidInputError):
                taken = self._database.run(
                    Begin.WRITE, lambda tables: self._intake(tables, now).submit_together(submissions, tables)
                )
                if any(taken):
                    self._bell.ring()
        return tuple(
            self._submitted(each, now) if receipts is None else receipts
            for each, receipts in zip(submissions, taken, strict=True)
        )

    def submit_in(
        self,
        connection: UsersConnection[Any],
        submission: Submission,
        *,
        now: int | None = None,
    ) -> tuple[Receipt, ...]:
        """Submit inside a transaction of the user's own: the documents are there if and only if it commits.

        Until then its customer's other submits wait; nobody's claims do. Workers find them by looking, within half a
        second: the commit is the user's, so nothing can be sent after it.
        """
        with errors_of(self.address.shown):
            return submit_in(self.address.schema, self._known, connection, submission, self._now(now))

    # -- workers ----------------------------------------------------------------------------------------------------

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest | None,
        *,
        now: int | None = None,
    ) -> Exchanged:
        if request is None:
            verdicts: tuple[Verdict, ...] = self._move(now, lambda moves: moves.settle(outcomes))
            return Exchanged(verdicts, ())
        may_be_idle = not outcomes and not self._claims.found
        if may_be_idle and not self._glance(lambda reading: reading.may_be_claimed(self._now(now))):
            return Exchanged((), ())
        return self._claims.exchange(outcomes, request, now)

    def heartbeat(
        self,
        claims: Sequence[tuple[str, int]],
        lease: int,
        *,
        now: int | None = None,
    ) -> tuple[Hold, ...]:
        pairs = [(id_of(id_), fence) for id_, fence in claims]
        ids, fences = [id_ for id_, _ in pairs], [fence for _, fence in pairs]

        def work(tables: Tables) -> tuple[Hold, ...]:
            at = self._instant(tables, now)
            until = at + lease
            held, later = set(), LaterChanges()
            for id_, fence, owner, shorter in tables.all("heartbeat", ids=ids, fences=fences, until=until, now=at):
                held.add((id_, fence))
                if shorter:
                    later.falls_due(owner, "lease", until)
            later.write(tables)
            others = [id_ for id_, fence in pairs if (id_, fence) not in held]
            states = {(id_, fence): state for id_, fence, state in tables.all("states_of", ids=others) if others}
            return tuple([Hold.HELD if pair in held else _lost(states.get(pair)) for pair in pairs])

        return self._write(work)

    def see_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        name, (text, at_work) = report.name, report_texts(report)
        self._write(
            lambda tables: tables.run(
                "see_worker", name=name, now=self._instant(tables, now), report=text, at_work=at_work
            )
        )

    def forget_worker(self, name: str) -> None:
        self._write(lambda tables: tables.run("forget_worker", name=name))

    def workers(self) -> tuple[Worker, ...]:
        return self._read(lambda reading: reading.workers())

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        def work(moves: Moves) -> tuple[str, ...]:
            cancelled = []
            for id_, facts in moves.lock(ids, CANCELLABLE):
                moves.cancel(facts)
                moves.tell(EventKind.CANCELLED, facts.owner, facts.id)
                cancelled.append(id_)
            moves.write_told((EventKind.CANCELLED,), operator)
            return tuple(cancelled)

        return self._move(now, work)

    def retry(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[Receipt, ...]:
        def work(tables: Tables) -> tuple[Receipt, ...]:
            counters = lock_customers_of(tables, [id_of(each) for each in ids])
            intake = self._intake(tables, now)
            number, at = intake.instant()
            later, receipts = LaterChanges(), []
            moves = Moves(tables, later, self._known, at)
            for id_, facts in moves.lock(ids, RETRYABLE):
                checked = intake.lowered(counters[facts.owner], 1, at, number)
                counters[facts.owner] = checked.counter
                intake.keep(facts.owner, checked)
                receipts.append(moves.begin_again(facts, id_, checked.levels[0][0], checked.counter.count))
                moves.tell(EventKind.RETRIED, facts.owner, facts.id)
            moves.write_told((EventKind.RETRIED,), operator)
            moves.write()
            return tuple(receipts)

        receipts = self._write(work, Begin.MOVES)
        self._bell.ring()
        return receipts

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> bool:
        def work(moves: Moves) -> bool:
            found = moves.lock((id,), frozenset(DocumentState))
            if not found:
                raise NotFoundError(f"there is no document {id}")
            _, facts = found[0]
            if facts.line == EXPEDITED or facts.state not in {DocumentState.WAITING, DocumentState.DELAYED}:
                return False
            moves.expedite(facts)
            moves.tell(EventKind.EXPEDITED, facts.owner, facts.id)
            moves.write_told((EventKind.EXPEDITED,), operator)
            moves.wakes = True
            return True

        return self._move(now, work)

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> Removed:
        def work(tables: Tables) -> Removed:
            tables.run("purge_access_keys", customer=customer)
            return self._upkeep(tables, now).purge(customer, operator)

        return self._write(work, Begin.MOVES, patient=False)

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        now: int | None = None,
    ) -> CustomerSettings:
        def work(tables: Tables) -> CustomerSettings:
            return self._upkeep(tables, now).change_customer(customer, changes, operator)

        settings = self._write(work)
        self._bell.ring()
        return settings

    def pause(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_PAUSED, now)

    def resume(self, operator: Operator, *, now: int | None = None) -> None:
        self._set_paused(operator, EventKind.QUEUE_RESUMED, now)
        self._bell.ring()

    def _set_paused(self, operator: Operator, kind: EventKind, now: int | None) -> None:
        by, why = operator if kind is EventKind.QUEUE_PAUSED else (None, None)

        def work(tables: Tables) -> None:
            tables.run("pause", by=by, why=why)
            self._upkeep(tables, now).note(kind, None, operator)

        self._write(work)

    def paused(self) -> Operator | None:
        return self._read(lambda reading: reading.paused())

    def policy(self) -> PolicyVersion:
        return self._read(lambda reading: reading.policy())

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        def work(tables: Tables) -> PolicyVersion:
            (current,) = tables.one("lock_policy") or (0,)
            if expected is not None and expected != current:
                raise VersionConflictError(
                    f"the policy in force is version {current}, not {expected}; read it again and repeat your change",
                )
            version = PolicyVersion(current + 1, policy, self._instant(tables, now), operator)
            text, by, why = json.dumps(policy.plain()), operator.name, operator.why
            tables.run("add_policy", number=version.number, settings=text, at=version.at, by=by, why=why)
            tables.run("use_policy", number=version.number)
            detail = {"version": version.number}
            self._upkeep(tables, version.at).note(EventKind.POLICY_SET, None, operator, detail)
            return version

        version = self._write(work)
        self._bell.ring()
        return version

    def policies(self) -> tuple[PolicyVersion, ...]:
        return self._read(lambda reading: reading.policies())

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        return self._read(lambda reading: reading.document(id))

    def result(self, id: str) -> str | None:
        return self._read(lambda reading: reading.result(id))

    def files(self, id: str) -> tuple[ResultFile, ...]:
        return self._read(lambda reading: reading.files(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        return self._read(lambda reading: reading.attempts(id))

    def unknown_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return self._read(lambda reading: reading.unknown_blobs(blobs))

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        return self._read(lambda reading: reading.documents(where, limit, after, sort))

    def customer(self, name: str) -> Customer:
        return self._read(lambda reading: reading.customer(name))

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        return self._read(lambda reading: reading.customers(where, limit, after))

    def counts(self, where: DocumentFilter) -> Counts:
        return self._read(lambda reading: reading.counts(where))

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        self._number_events()
        return self._read(lambda reading: reading.events(after, limit))

    def last_event(self) -> int:
        self._number_events()
        return self._database.run(Begin.READ, keys.last_event)

    def audit(self, *, limit: int, before: int | None = None, customer: str | None = None) -> tuple[Event, ...]:
        self._number_events()
        return self._database.run(Begin.READ, lambda tables: keys.by_hand(tables, limit, before, customer))

    def kept_bytes(self, customer: str) -> int:
        return self._database.run(Begin.READ, lambda tables: keys.kept_bytes(tables, customer))

    def standings(self) -> Standings:
        with suppress(StoreReadOnlyError):  # who may only read sees the lines as the last claim left them
            self._claims.fold()
        return self._read(lambda reading: reading.standings())

    def ahead(self, id: str) -> int:
        return self._read(lambda reading: reading.ahead(id))

    def pace(self, since: int) -> Pace:
        return self._read(lambda reading: reading.pace(since))

    def next_due(self) -> int | None:
        return self._read(lambda reading: reading.next_due())

    def wait(self, timeout: float) -> None:
        if self._bell.wait(timeout):
            self._claims.found = True

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> Swept:
        swept = self._claims.sweep(now)
        self._number_events()
        return swept

    def now(self) -> int:
        return self._database.run(Begin.GLANCE, lambda tables: self._instant(tables, None))

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        return self._database.run(Begin.READ, lambda tables: clocks.ahead_of_clock(tables, self._instant(tables, now)))

    def maintenance(self) -> MaintenanceRecord | None:
        (text,) = self._database.run(Begin.READ, lambda tables: tables.one("maintenance")) or (None,)
        return None if text is None else MaintenanceRecord.from_json(text)

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        text = record.to_json()
        self._write(lambda tables: tables.run("record_maintenance", record=text))

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        return self._read(lambda reading: reading.prunable(before, customer, MAX_SEQ if up_to is None else up_to))

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
            return self._write(lambda tables: self._upkeep(tables, now).prune_customer(name, before, last, limit))

        if customer is not None:
            return work_for(customer)
        self._number_events()
        return self._write(lambda tables: self._upkeep(tables, now).prune(before, last, limit), patient=False)

    def backup(self, path: Path) -> None:
        self._database.run(Begin.READ, lambda tables: backup.write(tables, path), patient=False)

    @classmethod
    def restore(cls, path: Path, url: str, clock: Clock | None = None) -> "PostgresStore":
        """The queue that `backup` wrote, in a schema in which there is none yet."""
        schema.migrate_at(url)
        store = cls(url, clock)
        try:
            store._write(lambda tables: backup.read(tables, path), patient=False)
        except BaseException:
            store.close()
            raise
        return store

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        return self._claims.recount(repair=repair, now=now)

    def close(self) -> None:
        self._bell.close()
        self._database.close()

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _now(self, now: int | None) -> int | None:
        """The time, where somebody gave it or gave us a clock; None: the server's own."""
        return self._clock.now() if now is None and self._clock is not None else now

    def _instant(self, tables: Tables, now: int | None) -> int:
        return self._upkeep(tables, now).now()

    def _upkeep(self, tables: Tables, now: int | None) -> Upkeep:
        return Upkeep(tables, self._known, self._now(now))

    def _write(
        self, work: Callable[[Tables], Answer], begin: Begin = Begin.WRITE, *, patient: bool = True, **given: Any
    ) -> Answer:
        def surely(tables: Tables) -> Answer:
            self._database.surely(tables)
            return work(tables)

        return self._database.run(begin, surely, patient=patient, given=given or None)

    def _take_in(self, customer: str, now: int | None, work: Callable[[Intake], Answer]) -> Answer:
        """The customer is locked and read with the first words to the server."""
        return self._write(lambda tables: work(self._intake(tables, now)), Begin.INTAKE, name=customer)

    def _intake(self, tables: Tables, now: int | None) -> Intake:
        return Intake(tables, self._known, self._now(now))

    def _move(self, now: int | None, work: Callable[[Moves], Answer]) -> Answer:
        """Moves that the next claim will hear of; those who wait for one are woken."""

        def told(tables: Tables) -> tuple[Answer, bool]:
            moves = Moves(tables, LaterChanges(), self._known, self._instant(tables, now))
            answer = work(moves)
            moves.write()
            return answer, moves.wakes

        answer, wakes = self._write(told, Begin.MOVES)
        if wakes:
            self._bell.ring()
        return answer

    def _read(self, work: Callable[[Reading], Answer]) -> Answer:
        """Several queries see one state of the store."""
        return self._database.run(Begin.READ, lambda tables: work(Reading(tables, self._known)))

    def _glance(self, work: Callable[[Reading], Answer]) -> Answer:
        return self._database.run(Begin.GLANCE, lambda tables: work(Reading(tables, self._known)))

    def _number_events(self) -> None:
        """Give numbers to what has none yet; who may only read sees what others have numbered."""
        if self._glance(lambda reading: reading.has_unnumbered()):
            number_events(self._database)


def _lost(state: str | None) -> Hold:
    return Hold.CANCELLED if state == DocumentState.CANCELLED else Hold.LOST
