"""The API of a queue: submit, claim, finish, fail; with `QueueReader` and `QueueAdmin`, also queries and operations.

A `Queue` validates its arguments and calls its store. The guarantees are in `inturn.store`. Only `Queue` and its base
classes use a store: all other packages use a `Queue`.
"""

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Self

from inturn.clock import Clock, SystemClock
from inturn.errors import InvalidInputError
from inturn.ids import Ids, RandomIds
from inturn.model import (
    DEFAULT_QUEUE,
    MAX_STEPS,
    Check,
    Claim,
    Document,
    NewDocument,
    Receipt,
    clean_queue,
    steps_after,
)
from inturn.policy import RetryPolicy
from inturn.queue_admin import QueueAdmin
from inturn.store import Store
from inturn.store_types import (
    AckAndClaim,
    AckStatus,
    ClaimRequest,
    LeaseStatus,
    Outcome,
    OutcomeKind,
    Submission,
    SubmitResult,
    Work,
)
from inturn.validation import (
    clean_count,
    clean_error,
    clean_idempotency_key,
    clean_lease,
    clean_queues,
    clean_work,
    fingerprint,
    result_text,
)
from inturn.values import SECOND, clean_text, clean_time
from inturn.worker_report import WorkerReport

DEFAULT_LEASE: Final = 60 * SECOND


class Queue(QueueAdmin):
    """A durable document queue that shares its workers fairly between customers."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        retries: RetryPolicy | None = None,
        ids: Ids | None = None,
    ) -> None:
        super().__init__(store)
        self.retries = retries or RetryPolicy()
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._random = random.SystemRandom()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- submit -----------------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int = 1, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """Check a customer n times and return the levels, for systems with a queue of their own."""
        customer = clean_text("a customer's name", customer)
        return self.store.check(
            customer, clean_count("the number of checks", n), key=clean_idempotency_key(key), now=now
        )

    def submit(
        self,
        customer: str,
        documents: Iterable[NewDocument],
        *,
        key: str | None = None,
        connection: Any = None,
        now: int | None = None,
    ) -> tuple[Receipt, ...]:
        """Submit documents of one customer; return a receipt for each, in order.

        A call with an idempotency `key` can be repeated safely for 7 days. With a psycopg `connection`, the documents
        become part of its open transaction; only a PostgreSQL store supports this.
        """
        submission = self.submission(customer, documents, key, now)
        if connection is None:
            return self.store.submit(submission, now=now)
        submit_in = getattr(self.store, "submit_in", None)
        if submit_in is None:
            raise InvalidInputError("only a PostgreSQL store submits inside your own transaction; leave connection out")
        receipts: tuple[Receipt, ...] = submit_in(connection, submission, now=now)
        return receipts

    def submission(
        self, customer: str, documents: Iterable[NewDocument], key: str | None = None, now: int | None = None
    ) -> Submission:
        """Validate documents and give them ids."""
        customer = clean_text("a customer's name", customer)
        specs = tuple(documents)
        if isinstance(documents, NewDocument) or not {NewDocument}.issuperset(map(type, specs)):
            raise InvalidInputError("documents must be a list of NewDocument; one alone is given as [document]")
        clean_count("the number of documents", len(specs))
        ids = self._ids.make(len(specs), self._clock.now() if now is None else now)
        if key is None:
            return Submission(customer, ids, specs)
        return Submission(customer, ids, specs, clean_idempotency_key(key), fingerprint(specs))

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[SubmitResult, ...]:
        """Submit for several callers (built by `submission`); return the receipts, or the error, of each."""
        return self.store.submit_all(submissions, now=now)

    # -- workers ----------------------------------------------------------------------------------------------------

    def claim(
        self,
        worker: str,
        limit: int = 1,
        *,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> tuple[Claim, ...]:
        """Claim up to `limit` documents of these queues in scheduling order, each leased for `lease` microseconds."""
        return self.store.claim(claim_request(worker, limit, lease, clean_queues(queues)), now=now)

    def ack_and_claim(
        self,
        outcomes: Sequence[Outcome],
        worker: str,
        limit: int,
        *,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> AckAndClaim:
        """Record outcomes (built by `done`, `failed`, `released`) and claim the next documents in one call."""
        request = claim_request(worker, limit, lease, clean_queues(queues))
        return self.store.ack_and_claim(outcomes, request, now=now)

    def ack(self, outcomes: Sequence[Outcome], *, now: int | None = None) -> tuple[AckStatus, ...]:
        """Record outcomes without claiming; return the status of each."""
        return self.store.ack_and_claim(outcomes, None, now=now).statuses

    def done(self, claim: Claim, result: Any = None, *, work: Work | None = None) -> Outcome:
        """Build the outcome of a successful claim; the result must be JSON-serializable.

        A document that has steps ahead goes to the queue of the next one.
        """
        if claim.document.ahead:
            return self.next_step(claim, claim.document.ahead[0], result, work=work)
        text, work = result_text(result), clean_work(work)
        return Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result=text, work=work)

    def next_step(self, claim: Claim, queue: str, result: Any = None, *, work: Work | None = None) -> Outcome:
        """Build the outcome of a step that is done: the document goes to another queue."""
        text, work = result_text(result), clean_work(work)
        queue, ahead = _next_queue(claim.document, queue)
        outcome = Outcome(claim.document.id, claim.fence, OutcomeKind.NEXT, result=text, work=work)
        return outcome._replace(queue=queue, ahead=ahead)

    def split(
        self,
        claim: Claim,
        parts: Sequence[NewDocument],
        then: str,
        result: Any = None,
        *,
        work: Work | None = None,
        now: int | None = None,
    ) -> Outcome:
        """Build the outcome of a step that splits a document.

        Each part is a document of the same customer and group. When all have ended, the document itself goes to the
        queue `then`.
        """
        outcome, group = self.next_step(claim, then, result, work=work), claim.document.spec.group
        ids = self._ids.make(clean_count("the number of parts", len(parts)), self._clock.now() if now is None else now)
        own = [part if part.group == group else part._replace(group=group) for part in parts]
        return outcome._replace(kind=OutcomeKind.SPLIT, parts=tuple(zip(ids, own, strict=True)))

    def failed(
        self,
        claim: Claim,
        error: str,
        *,
        retry_in: int | None = None,
        final: bool = False,
        max_attempts: int | None = None,
        work: Work | None = None,
    ) -> Outcome:
        """Build the outcome of a failed claim.

        It is retried after `retry_in`, by default an exponential backoff with jitter; with `final`, never. With
        `max_attempts` this step has so many instead of the document's own.
        """
        if final:
            retry_in = None
        elif retry_in is None:
            retry_in = self.retries.delay(claim.document.attempt, self._random.random())
        else:
            clean_time("retry_in", retry_in)
        id_, kind = claim.document.id, OutcomeKind.FAILED
        error, work = clean_error(error), clean_work(work)
        outcome = Outcome(id_, claim.fence, kind, error=error, retry_in=retry_in, work=work)
        return outcome if max_attempts is None else outcome._replace(max_attempts=max_attempts)

    def released(self, claim: Claim) -> Outcome:
        """Build the outcome of a claim that is released unstarted."""
        return Outcome(claim.document.id, claim.fence, OutcomeKind.RELEASED)

    def finish(self, claim: Claim, result: Any = None, *, now: int | None = None) -> None:
        """Record success; StaleFenceError if the claim was lost meanwhile. With steps ahead, the next one waits."""
        self.store.record(self.done(claim, result), now=now)

    def fail(
        self,
        claim: Claim,
        error: str,
        *,
        retry_in: int | None = None,
        final: bool = False,
        now: int | None = None,
    ) -> None:
        """Record failure; StaleFenceError if the claim was lost meanwhile."""
        self.store.record(self.failed(claim, error, retry_in=retry_in, final=final), now=now)

    def release(self, claim: Claim, *, now: int | None = None) -> None:
        """Release an unstarted claim; StaleFenceError if it was lost meanwhile."""
        self.store.record(self.released(claim), now=now)

    def heartbeat(
        self,
        claims: Sequence[Claim],
        *,
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> tuple[LeaseStatus, ...]:
        """Renew leases; return for each claim whether it is held, cancelled or lost."""
        pairs = tuple((claim.document.id, claim.fence) for claim in claims)
        return self.store.heartbeat(pairs, clean_lease(lease), now=now)

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        """Store a worker's report until `forget_worker`, or until it is a day old."""
        self.store.record_worker(report, now=now)

    def forget_worker(self, name: str) -> None:
        """Delete the report of a worker that stops."""
        self.store.forget_worker(name)


def _next_queue(document: Document, queue: str) -> tuple[str, tuple[str, ...]]:
    """Return the queue of a document's next step, and the queues after it."""
    if document.step + 1 >= MAX_STEPS:
        raise InvalidInputError(
            f"a document passes through {MAX_STEPS} steps at most; a processor may be sending it in circles"
        )
    return clean_queue(queue), steps_after(queue, document.ahead)


@lru_cache(maxsize=256, typed=True)
def claim_request(
    worker: str, limit: int, lease: int = DEFAULT_LEASE, queues: tuple[str, ...] = (DEFAULT_QUEUE,)
) -> ClaimRequest:
    """Build a validated claim request; the queues are valid."""
    return ClaimRequest(clean_text("a worker's name", worker), clean_count("limit", limit), clean_lease(lease), queues)
