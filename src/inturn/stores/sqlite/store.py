"""The embedded store: a queue in one file that several processes share."""

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from inturn.clock import Clock, SystemClock
from inturn.errors import StoreError
from inturn.model import Claim, Receipt
from inturn.store_types import AckAndClaim, AckStatus, ClaimRequest, Outcome, Submission, SubmitResult
from inturn.stores.sql.claim_types import ClaimQueries
from inturn.stores.sql.claims import ClaimRun
from inturn.stores.sql.queries import Queries, scalar
from inturn.stores.sql.reader import QueueReader
from inturn.stores.sql.store import SqlStore
from inturn.stores.sql.transitions import Transitions
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.backup import write_copy
from inturn.stores.sqlite.closed_marker import require_open
from inturn.stores.sqlite.connection import Writer, connect, translate_errors, write_lock_path
from inturn.stores.sqlite.notifier import Notifier
from inturn.stores.sqlite.queries import SqliteQueries
from inturn.stores.sqlite.submit import SqliteSubmitter

Answer = TypeVar("Answer")


class SqliteStore(SqlStore):
    """The contract on one SQLite file."""

    def __init__(self, path: Path | str, clock: Clock | None = None, *, vfs: str | None = None) -> None:
        super().__init__()
        self.path = Path(path).absolute()
        self._clock = clock or SystemClock()
        self._pid = os.getpid()
        connection = connect(self.path, vfs=vfs)
        with translate_errors(self.path):
            require_open(connection, str(self.path))
        schema.migrate(self.path, connection, self._clock.now())
        self._queries = SqliteQueries(connection, self._clock)
        self._writer = Writer(self.path, connection, self._cache.clear)
        self._read_lock = threading.Lock()
        with translate_errors(self.path):
            self._read_queries = SqliteQueries(connect(self.path, read_only=True, vfs=vfs), self._clock)
        self._reader = QueueReader(self._read_queries, self._cache)
        self._notifier = Notifier(write_lock_path(self.path))
        self._notifier.start()
        self._may_find_work = False
        """Whether the last claim found documents: then the next one claims at once."""

    # -- documents come in ------------------------------------------------------------------------------------------

    def submitter(self, queries: Queries, now: int | None) -> SqliteSubmitter:
        del queries  # there is one connection that writes
        return SqliteSubmitter(self._queries, self._cache, self.time(self._queries, now))

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[SubmitResult, ...]:
        self._require_same_process()
        return tuple(self._writer.run_all([partial(self._submit, submission, now) for submission in submissions]))

    def _submit(self, submission: Submission, now: int | None) -> tuple[Receipt, ...]:
        return self.submitter(self._queries, now).submit(submission)

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, now: int | None = None
    ) -> AckAndClaim:
        if request is None:
            return AckAndClaim(self.run_transitions(lambda transitions: self.ack(transitions, outcomes, now), now), ())
        if not (outcomes or self._may_find_work or self._anything_to_claim(request, now)):
            return AckAndClaim((), ())
        statuses, make_claims = self.write(lambda _: self._ack_and_claim(outcomes, request, now))
        while make_claims is None:  # more was due than one transaction processes
            _, make_claims = self.write(lambda _: self._ack_and_claim((), request, now))
        claimed = make_claims()
        self._may_find_work = bool(claimed)
        return AckAndClaim(statuses, claimed)

    def _anything_to_claim(self, request: ClaimRequest, now: int | None) -> bool:
        """Whether it is worth taking the write lock to claim."""

        def work(reader: QueueReader) -> bool:
            queues = reader.queries.array(request.queues)
            values = {"now": self.time(reader.queries, now), "queues": queues}
            return bool(scalar(reader.queries, "anything_to_claim", **values))

        return self.read(work)

    def _ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest, now: int | None
    ) -> tuple[tuple[AckStatus, ...], Callable[[], tuple[Claim, ...]] | None]:
        """Record outcomes and claim. The claims are made of their rows later, without the write lock."""
        transitions = Transitions(self._queries, self._cache, self.time(self._queries, now))
        statuses = self.ack(transitions, outcomes, now)
        run = ClaimRun(self._queries, self._cache, request.limit, transitions.lane_log.take())
        run.add_events(transitions.now, transitions.events)
        claimed = run.serve(request, transitions.now)
        rows = run.save()
        return statuses, None if claimed is None else partial(run.to_claims, claimed, rows)

    def wait(self, timeout: float) -> None:
        self._notifier.wait(timeout)

    # -- maintenance ------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return self._clock.now()

    def backup(self, path: Path) -> None:
        write_copy(self.path, path)

    def close(self) -> None:
        self._notifier.close()
        with self._read_lock:
            self._read_queries.connection.close()
        self._writer.close()

    # -- transactions -----------------------------------------------------------------------------------------------

    def given(self, now: int | None) -> int:
        return self._clock.now() if now is None else now

    def time(self, queries: Queries, now: int | None) -> int:
        del queries
        return self.given(now)

    def write(self, work: Callable[[Queries], Answer], *, ends_runs: bool = False, has_timeout: bool = True) -> Answer:
        del ends_runs, has_timeout  # one writer at a time: nothing else is locked, and no server can vanish
        self._require_same_process()
        return self._writer.run(lambda: work(self._queries))

    def claim_transaction(self, work: Callable[[ClaimQueries], Answer], *, has_timeout: bool = True) -> Answer:
        del has_timeout
        self._require_same_process()
        return self._writer.run(lambda: work(self._queries))

    def read(self, work: Callable[[QueueReader], Answer]) -> Answer:
        self._require_same_process()
        with self._read_lock, translate_errors(self.path):
            connection = self._read_queries.connection
            connection.execute("BEGIN")
            try:
                return work(self._reader)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _require_same_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} was opened before this process was forked; open it again in the child,"
                f" or start children with spawn",
            )
