"""The API of a queue: submit, claim, finish, fail, cancel, pause.

A `Queue` validates its arguments and calls its store. The guarantees are in `inturn.store`.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Self

from inturn.clock import Clock, SystemClock
from inturn.errors import IllegalTransitionError, InvalidInputError
from inturn.ids import Ids, RandomIds, clean_id
from inturn.model import (
    SECOND,
    Check,
    Claim,
    Customer,
    CustomerSettings,
    Document,
    NewDocument,
    RateLimit,
    Receipt,
    ResultFile,
    clean_text,
    clean_time,
)
from inturn.policy import Policy, RetryPolicy
from inturn.store import (
    AckAndClaim,
    Attempt,
    ClaimRequest,
    Counts,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    LeaseStatus,
    Operator,
    Outcome,
    OutcomeKind,
    Page,
    PolicyVersion,
    PruneResult,
    Store,
    Submission,
    Work,
)

MAX_BATCH: Final = 10_000
MAX_RESULT_BYTES: Final = 256 * 1024
MAX_ERROR_LENGTH: Final = 8_192
DEFAULT_LEASE: Final = 60 * SECOND
_JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Queue:
    """A durable document queue that shares its workers fairly between customers."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        retries: RetryPolicy | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.store = store
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

    # -- workers ----------------------------------------------------------------------------------------------------

    def claim(
        self,
        worker: str,
        limit: int = 1,
        *,
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> tuple[Claim, ...]:
        """Claim up to `limit` documents in scheduling order, each leased for `lease` microseconds."""
        return self.store.claim(claim_request(worker, limit, lease), now=now)

    def ack_and_claim(
        self,
        outcomes: Sequence[Outcome],
        worker: str,
        limit: int,
        *,
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> AckAndClaim:
        """Record outcomes (built by `done`, `failed`, `released`) and claim the next documents in one commit."""
        return self.store.ack_and_claim(outcomes, claim_request(worker, limit, lease), now=now)

    def done(self, claim: Claim, result: Any = None, *, work: Work | None = None) -> Outcome:
        """Build the outcome of a successful claim; the result must be JSON-serializable."""
        text, work = result_text(result), clean_work(work)
        return Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result=text, work=work)

    def failed(
        self,
        claim: Claim,
        error: str,
        *,
        retry_in: int | None = None,
        final: bool = False,
        work: Work | None = None,
    ) -> Outcome:
        """Build the outcome of a failed claim.

        It is retried after `retry_in`, by default an exponential backoff with jitter; with `final`, never.
        """
        if final:
            retry_in = None
        elif retry_in is None:
            retry_in = self.retries.delay(claim.document.attempt, self._random.random())
        else:
            clean_time("retry_in", retry_in)
        id_, kind = claim.document.id, OutcomeKind.FAILED
        error, work = clean_error(error), clean_work(work)
        return Outcome(id_, claim.fence, kind, error=error, retry_in=retry_in, work=work)

    def released(self, claim: Claim) -> Outcome:
        """Build the outcome of a claim that is released unstarted."""
        return Outcome(claim.document.id, claim.fence, OutcomeKind.RELEASED)

    def finish(self, claim: Claim, result: Any = None, *, now: int | None = None) -> None:
        """Record success; StaleFenceError if the claim was lost meanwhile."""
        self.store.finish(claim.document.id, claim.fence, result_text(result), now=now)

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
        outcome = self.failed(claim, error, retry_in=retry_in, final=final)
        self.store.fail(outcome.id, outcome.fence, outcome.error or "", outcome.retry_in, now=now)

    def release(self, claim: Claim, *, now: int | None = None) -> None:
        """Release an unstarted claim; StaleFenceError if it was lost meanwhile."""
        self.store.release(claim.document.id, claim.fence, now=now)

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

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, id: str, operator: Operator, *, now: int | None = None) -> None:
        """Cancel one document that has not ended."""
        if not self.store.cancel((clean_id(id),), operator, now=now):
            self._raise_illegal_transition(id, "be cancelled")

    def retry(self, id: str, operator: Operator, *, now: int | None = None) -> Receipt:
        """Requeue one failed, cancelled or expired document: a new check."""
        receipts = self.store.retry((clean_id(id),), operator, now=now)
        if not receipts:
            self._raise_illegal_transition(id, "be tried again")
        return receipts[0]

    def cancel_all(self, where: DocumentFilter, operator: Operator, *, now: int | None = None) -> int:
        """Cancel all matching documents that have not ended; return how many."""
        return sum(len(self.store.cancel(ids, operator, now=now)) for ids in self._matching_ids(where))

    def retry_all(self, where: DocumentFilter, operator: Operator, *, now: int | None = None) -> int:
        """Requeue all matching failed, cancelled and expired documents; return how many."""
        return sum(len(self.store.retry(ids, operator, now=now)) for ids in self._matching_ids(where))

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> None:
        """Move one waiting or delayed document ahead of all levels."""
        if not self.store.expedite(clean_id(id), operator, now=now):
            self._raise_illegal_transition(id, "be expedited")

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        """Delete all documents of a customer; its counter stays."""
        return self.store.purge(clean_text("a customer's name", customer), operator, now=now)

    def change_customer(
        self,
        customer: str,
        operator: Operator,
        *,
        now: int | None = None,
        **changes: Any,
    ) -> CustomerSettings:
        """Change some of a customer's settings: weight, cap, rate, paused, display_name, keep."""
        unknown = set(changes) - set(CustomerSettings._fields)
        if unknown or not changes:
            names = ", ".join(sorted(unknown)) or "nothing"
            raise InvalidInputError(f"change one of {', '.join(CustomerSettings._fields)}, not {names}")
        if isinstance(changes.get("rate"), (tuple, list)):
            changes["rate"] = RateLimit(*changes["rate"])
        return self.store.change_customer(clean_text("a customer's name", customer), changes, operator, now=now)

    def pause(self, operator: Operator, customer: str | None = None, *, now: int | None = None) -> None:
        """Stop starting documents of one customer, or of the whole queue."""
        if customer is None:
            self.store.pause(operator, now=now)
        else:
            self.change_customer(customer, operator, paused=True, now=now)

    def resume(self, operator: Operator, customer: str | None = None, *, now: int | None = None) -> None:
        """Start documents of one customer, or of the whole queue, again."""
        if customer is None:
            self.store.resume(operator, now=now)
        else:
            self.change_customer(customer, operator, paused=False, now=now)

    def policy(self) -> PolicyVersion:
        """Return the policy in force."""
        return self.store.policy()

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        """Put a policy in force. VersionConflictError if `expected` is not the version in force."""
        return self.store.set_policy(policy, operator, expected=expected, now=now)

    # -- queries ----------------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        """Return one document."""
        return self.store.document(clean_id(id))

    def result(self, id: str) -> Any:
        """Return the parsed result of a done document; None in any other state."""
        text = self.store.result(clean_id(id))
        return None if text is None else json.loads(text)

    def files(self, id: str) -> tuple[ResultFile, ...]:
        """Return the result files of a done document, by name."""
        return self.store.files(clean_id(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        """Return the earlier attempts at a document, oldest first, with their errors."""
        return self.store.attempts(clean_id(id))

    def documents(
        self,
        where: DocumentFilter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        """Return a page of documents, newest or oldest first."""
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 19):
            raise InvalidInputError(f"{after!r} is no cursor of this list; use a page's `next`")
        count = clean_count("limit", limit)
        return self.store.documents(where or DocumentFilter(), limit=count, after=after, sort=sort)

    def customer(self, name: str) -> Customer:
        """Return one customer."""
        return self.store.customer(clean_text("a customer's name", name))

    def customers(
        self,
        where: CustomerFilter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Customer]:
        """Return a page of customers by name."""
        return self.store.customers(where or CustomerFilter(), limit=clean_count("limit", limit), after=after)

    def counts(self, where: DocumentFilter | None = None) -> Counts:
        """Count documents by state, and waiting ones by the level of their lane."""
        return self.store.counts(where or DocumentFilter())

    def events(self, after: int = 0, *, limit: int = 1_000) -> tuple[Event, ...]:
        """Return the events after number `after`, oldest first."""
        return self.store.events(after, limit=clean_count("limit", limit))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _matching_ids(self, where: DocumentFilter) -> Iterable[list[str]]:
        """Return ids in chunks, oldest first: a retry is a check, and the oldest should get the best level."""
        ids: list[str] = []
        after: str | None = None
        while True:
            page = self.store.documents(where, limit=1_000, after=after)
            ids += [document.id for document in page.items]
            after = page.next
            if after is None:
                break
        ids.reverse()
        return (ids[at : at + 1_000] for at in range(0, len(ids), 1_000))

    def _raise_illegal_transition(self, id_: str, action: str) -> None:
        document = self.store.document(clean_id(id_))
        state = f"{document.state} and expedited already" if document.expedited else str(document.state)
        raise IllegalTransitionError(f"document {document.id} is {state} and cannot {action}")


@lru_cache(maxsize=256, typed=True)
def claim_request(worker: str, limit: int, lease: int = DEFAULT_LEASE) -> ClaimRequest:
    """Build a validated claim request."""
    return ClaimRequest(clean_text("a worker's name", worker), clean_count("limit", limit), clean_lease(lease))


def fingerprint(documents: Sequence[NewDocument]) -> str:
    """Hash the submitted documents without their blob keys, to recognize a repeated call."""
    digest = hashlib.sha256()
    for document in documents:
        values = document.to_dict()
        del values["blob"]
        digest.update(json.dumps(values, sort_keys=True, ensure_ascii=True).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def clean_lease(lease: int) -> int:
    """Validate a lease: 1 millisecond to 1 day."""
    if type(lease) is not int or not 1_000 <= lease <= 86_400 * SECOND:
        raise InvalidInputError(
            f"a lease must be 1 millisecond to 1 day in microseconds, not {lease!r}; for seconds write seconds(…)",
        )
    return lease


def clean_work(work: Work | None) -> Work | None:
    """Validate the processing times of an outcome."""
    if work is None:
        return None
    return Work(clean_time("began_after", work.began_after), clean_time("worked", work.worked))


def clean_error(error: str) -> str:
    """Cut an error text to the stored length, and replace characters that databases refuse."""
    return str(error).replace("\0", "�").encode(errors="replace").decode()[:MAX_ERROR_LENGTH]


def json_text(result: Any) -> str:
    """Serialize a result."""
    try:
        text = _JSON_ENCODER.encode(result)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"a result must be JSON: {error}") from error
    return text


def fits_row(text: str) -> bool:
    """Return whether a serialized result is small enough for a row."""
    return len(text) <= MAX_RESULT_BYTES and (text.isascii() or len(text.encode()) <= MAX_RESULT_BYTES)


def result_text(result: Any) -> str:
    """Serialize a result that must be small enough for a row."""
    text = json_text(result)
    if not fits_row(text):
        size = len(text.encode())
        raise InvalidInputError(
            f"a result may have {MAX_RESULT_BYTES} bytes as JSON, not {size}; keep large output in a file"
        )
    return text


def clean_count(name: str, n: int) -> int:
    """Validate a batch size; `name` is its name in the error."""
    if type(n) is not int or not 1 <= n <= MAX_BATCH:
        raise InvalidInputError(f"{name} must be a whole number from 1 to {MAX_BATCH}, not {n!r}")
    return n


def clean_idempotency_key(key: str | None) -> str | None:
    """Validate an optional idempotency key."""
    return None if key is None else clean_text("an idempotency key", key)
