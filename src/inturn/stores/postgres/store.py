"""The store for many machines: a queue in a schema of a PostgreSQL database that any number of processes share."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from psycopg import Connection as UsersConnection

from inturn.clock import Clock
from inturn.errors import InvalidInputError, StoreReadOnlyError
from inturn.model import Check, Claim, Receipt, join_steps
from inturn.store_answers import SweepResult
from inturn.store_types import AckAndClaim, AckStatus, ClaimRequest, Outcome, OutcomeKind, Submission, SubmitResult
from inturn.stores.postgres import backup, schema
from inturn.stores.postgres.claims import Claims
from inturn.stores.postgres.closed_marker import require_open
from inturn.stores.postgres.connection import Database, SingleWrite, TransactionKind
from inturn.stores.postgres.errors import translate_errors
from inturn.stores.postgres.libpq import bind
from inturn.stores.postgres.notifier import Notifier
from inturn.stores.postgres.queries import PostgresQueries, UuidList
from inturn.stores.postgres.submit import PostgresSubmitter
from inturn.stores.postgres.url import parse_url
from inturn.stores.postgres.user_transaction import submit_in
from inturn.stores.sql.claim_types import ClaimQueries
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.queries import Queries, scalar
from inturn.stores.sql.reader import QueueReader
from inturn.stores.sql.rows import Row, normalize_id
from inturn.stores.sql.scheduler_state import may_have_work
from inturn.stores.sql.store import SqlStore

Answer = TypeVar("Answer")
ONE_TRIP_OUTCOMES: Final = frozenset({OutcomeKind.DONE, OutcomeKind.NEXT})


class PostgresStore(SqlStore):
    """The contract on one schema of a PostgreSQL database."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        super().__init__()
        self.address = parse_url(url)
        self._clock = clock
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
        self._claims = Claims(self._database, self._cache)
        self._may_find_work = False
        """Whether the last claim found documents, or a notification came since: the next one claims at once."""

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        return self._write_for(customer, lambda queries: self.submitter(queries, now).check(customer, n, key))

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        receipts = None if submission.idempotency_key is not None else self._submit_in_one_trip(submission, now)
        if receipts is None:
            receipts = self._write_for(
                submission.customer, lambda queries: self.submitter(queries, now).submit(submission)
            )
            self.notify()
        return receipts

    def _submit_in_one_trip(self, submission: Submission, now: int | None) -> tuple[Receipt, ...] | None:
        """Submit in one round trip with commit and notification; None, with nothing done, if that is not possible."""
        if self._database.is_behind_pooler:
            return None
        notification = self._notifier.take_notify_statement()
        receipts = self._database.run(
            TransactionKind.SINGLE_WRITE,
            lambda queries: self.submitter(queries, now).submit_in_one_trip(submission, queries, notification),
        )
        if notification is None and receipts is not None:
            self.notify()
        elif receipts is None:
            self._notifier.cancel_notify(notification)
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
                    lambda queries: self.submitter(queries, now).submit_batch(submissions, queries),
                )
                if any(taken):
                    self.notify()
        return tuple(
            self._try_submit(submission, now) if receipts is None else receipts
            for submission, receipts in zip(submissions, taken, strict=True)
        )

    def submit_in(
        self, connection: UsersConnection[Any], submission: Submission, *, now: int | None = None
    ) -> tuple[Receipt, ...]:
        """Submit inside a transaction of the user's own: the documents are there if and only if it commits.

        Until then other submits of its customer wait; claims do not. Workers find the documents by polling within
        half a second: the commit is the user's, so no notification can follow it.
        """
        with translate_errors(self.address.display_url):
            return submit_in(self.address.schema, self._cache, connection, submission, self.given(now))

    def submitter(self, queries: Queries, now: int | None) -> PostgresSubmitter:
        return PostgresSubmitter(queries, self._cache, self.given(now))  # type: ignore[arg-type]  # all ours are

    def _write_for(self, customer: str, work: Callable[[Queries], Answer]) -> Answer:
        """Run the work in a transaction whose first statement locks and reads the customer."""
        return self._write(TransactionKind.SUBMIT, work, params={"name": customer})

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, now: int | None = None
    ) -> AckAndClaim:
        """Record outcomes, by a commit that waits for the disk; then claim, by one that does not."""
        finish = self._finish_statement(outcomes, now)
        statuses = self._ack(outcomes, now) if outcomes and finish is None else ()
        claimed: tuple[Claim, ...] = ()
        if request is not None and (outcomes or self._may_find_work or self._anything_to_claim(request, now)):
            claimed = self._claims.claim(request, self.given(now), finish)
            self._may_find_work = bool(claimed)
        elif finish is not None:
            self._database.run_in_one_trip(finish)
        if finish is not None:
            statuses = self._ack_unfinished(finish.rows or (), outcomes, now)
        return AckAndClaim(statuses, claimed)

    def _ack(self, outcomes: Sequence[Outcome], now: int | None) -> tuple[AckStatus, ...]:
        return self.run_transitions(lambda transitions: self.ack(transitions, outcomes, now), now)

    def _finish_statement(self, outcomes: Sequence[Outcome], now: int | None) -> SingleWrite | None:
        """Return the statement that records outcomes which are all successes or ends of steps, without files.

        None if they are not, or if ends of steps may be checks. What the statement leaves is recorded by `_ack`.
        """
        ids = UuidList(normalize_id(outcome.id) for outcome in outcomes)
        is_plain = all(outcome.kind in ONE_TRIP_OUTCOMES and not outcome.files for outcome in outcomes)
        if not ids or not is_plain or len(set(ids)) < len(ids) or self._database.is_behind_pooler:
            return None
        values = {
            "id": ids,
            "fence": [outcome.fence for outcome in outcomes],
            "result": [outcome.result for outcome in outcomes],
            "began_after": [outcome.work and outcome.work.began_after for outcome in outcomes],
            "worked": [outcome.work and outcome.work.worked for outcome in outcomes],
            "now": self.given(now),
        }
        if all(outcome.queue is None for outcome in outcomes):
            return SingleWrite(TransactionKind.TRANSITIONS, bind("finish_documents_and_log", values))
        known = self._cache.latest_policy
        if known is None or known.policy.check_each_step:
            return None
        values["queue"] = [outcome.queue for outcome in outcomes]
        values["ahead"] = [join_steps(outcome.ahead) for outcome in outcomes]
        values["policy"] = known.number
        return SingleWrite(TransactionKind.TRANSITIONS, bind("end_steps_and_log", values))

    def _ack_unfinished(
        self, finished: Sequence[Row], outcomes: Sequence[Outcome], now: int | None
    ) -> tuple[AckStatus, ...]:
        """Return the statuses of successes and ends of steps; those that the statement left are looked at."""
        if any(should_notify for _, should_notify in finished):
            self.notify()
        ids = {id_ for id_, _ in finished}
        rest = [outcome for outcome in outcomes if normalize_id(outcome.id) not in ids]
        statuses = iter(self._ack(rest, now) if rest else ())
        return tuple(
            [AckStatus.RECORDED if normalize_id(outcome.id) in ids else next(statuses) for outcome in outcomes]
        )

    def _anything_to_claim(self, request: ClaimRequest, now: int | None) -> bool:
        """Whether it is worth waiting for the turn to claim."""
        row = self._database.run(
            TransactionKind.SINGLE_READ,
            lambda queries: queries.fetch_one("anything_to_claim", queues=list(request.queues)),
        )
        runs, states, has_changes, deadlines, server_time = row or (True, (), True, "", 0)
        at = self.given(now)
        if has_changes or Deadlines.from_json(deadlines).any_due(server_time if at is None else at):
            return True
        return bool(runs) and any(may_have_work(state) for state in states or () if state)

    def wait(self, timeout: float) -> None:
        if self._notifier.wait(timeout):
            self._may_find_work = True

    # -- maintenance ------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        """Sweep, and forget requests for claims of sessions that are gone."""
        self.write(lambda queries: queries.execute("forget_old_requests"))
        return super().sweep(now=now)

    def now(self) -> int:
        return self._database.run(TransactionKind.SINGLE_READ, lambda queries: self.time(queries, None))

    def move_search_bound(self) -> None:
        (seq,) = self._database.run(TransactionKind.SINGLE_READ, lambda queries: queries.fetch_one("last_seq")) or (0,)
        if self._database.run(
            TransactionKind.SINGLE_READ, lambda queries: bool(scalar(queries, "may_move_search_bound", seq=seq - 1))
        ):
            self.write(lambda queries: queries.execute("move_search_bound", seq=seq - 1))

    def backup(self, path: Path) -> None:
        self._database.run(TransactionKind.READ, lambda queries: backup.write(queries, path), has_timeout=False)

    @classmethod
    def restore(cls, path: Path, url: str, clock: Clock | None = None) -> "PostgresStore":
        """The queue that `backup` wrote, in a schema in which there is none yet."""
        schema.migrate_at(url)
        store = cls(url, clock)
        try:
            store._write(TransactionKind.WRITE, lambda queries: backup.read(queries, path), has_timeout=False)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._notifier.close()
        self._database.close()

    # -- transactions -----------------------------------------------------------------------------------------------

    def given(self, now: int | None) -> int | None:
        return self._clock.now() if now is None and self._clock is not None else now

    def time(self, queries: Queries, now: int | None) -> int:
        at = self.given(now)
        return int(scalar(queries, "now")) if at is None else at

    def write(self, work: Callable[[Queries], Answer], *, ends_runs: bool = False, has_timeout: bool = True) -> Answer:
        kind = TransactionKind.TRANSITIONS if ends_runs else TransactionKind.WRITE
        return self._write(kind, work, has_timeout=has_timeout)

    def _write(self, kind: TransactionKind, work: Callable[[PostgresQueries], Answer], **options: Any) -> Answer:
        def durable_work(queries: PostgresQueries) -> Answer:
            self._database.require_durable_commit(queries)
            return work(queries)

        return self._database.run(kind, durable_work, **options)

    def claim_transaction(self, work: Callable[[ClaimQueries], Answer], *, has_timeout: bool = True) -> Answer:
        return self._database.run_claim(work, has_timeout=has_timeout)

    def read(self, work: Callable[[QueueReader], Answer]) -> Answer:
        return self._database.run(TransactionKind.READ, lambda queries: work(QueueReader(queries, self._cache)))

    def notify(self) -> None:
        self._notifier.notify()

    def number_events(self) -> None:
        """Number the events of the outbox in order of insertion; a read-only role sees those numbered by others."""

        def work(queries: Queries) -> None:
            queries.fetch_one("lock_event_sequence")
            queries.execute("number_events")

        if self._database.run(
            TransactionKind.SINGLE_READ, lambda queries: bool(scalar(queries, "has_unnumbered_events"))
        ):
            with suppress(StoreReadOnlyError):
                self._database.run(TransactionKind.WRITE, work)
