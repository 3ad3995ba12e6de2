"""The queue as its users speak of it: submit, claim, finish, fail, cancel, pause. Cleans what it is given, then asks
its store; every promise stands in `inturn.store`.
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
    """A durable document queue in which no customer waits behind another customer's pile."""

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

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int = 1, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """Which levels the customer's next n documents get, for systems with a queue of their own."""
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
        """Take in documents of one customer: a receipt each, in order. Repeating a call with its `key` is safe.

        With a psycopg `connection` of your own the documents exist if and only if your transaction commits; only a
        PostgreSQL store can do that.
        """
        submission = self.submission(customer, documents, key, now)
        if connection is None:
            return self.store.submit(submission, now=now)
        ride = getattr(self.store, "submit_in", None)
        if ride is None:
            raise InvalidInputError("only a PostgreSQL store submits inside your own transaction; leave connection out")
        receipts: tuple[Receipt, ...] = ride(connection, submission, now=now)
        return receipts

    def submission(
        self, customer: str, documents: Iterable[NewDocument], key: str | None = None, now: int | None = None
    ) -> Submission:
        """One call's documents, looked through and given their ids."""
        customer = clean_text("a customer's name", customer)
        given = tuple(documents)
        if isinstance(documents, NewDocument) or not {NewDocument}.issuperset(map(type, given)):
            raise InvalidInputError("documents must be a list of NewDocument; one alone is given as [document]")
        clean_count("the number of documents", len(given))
        ids = self._ids.make(len(given), self._clock.now() if now is None else now)
        submission = Submission(customer, ids, given)
        return (
            submission
            if key is None
            else submission._replace(idempotency_key=clean_idempotency_key(key), fingerprint=fingerprint(given))
        )

    # -- workers ----------------------------------------------------------------------------------------------------

    def claim(
        self,
        worker: str,
        limit: int = 1,
        *,
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> tuple[Claim, ...]:
        """Take up to `limit` documents whose turn it is, each leased for `lease` microseconds."""
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
        """Record outcomes (made by `done`, `failed`, `handed_back`) and claim the next documents in one commit."""
        return self.store.ack_and_claim(outcomes, claim_request(worker, limit, lease), now=now)

    def done(self, claim: Claim, result: Any = None, *, work: Work | None = None) -> Outcome:
        """The outcome of a claim that succeeded, with a result that JSON can hold."""
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
        """The outcome of a claim that failed: tried again after `retry_in`, by default a delay that doubles."""
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
        """The outcome of a claim that was not begun."""
        return Outcome(claim.document.id, claim.fence, OutcomeKind.RELEASED)

    def finish(self, claim: Claim, result: Any = None, *, now: int | None = None) -> None:
        """Record success; StaleFenceError when the claim was lost meanwhile."""
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
        """Record failure; StaleFenceError when the claim was lost meanwhile."""
        outcome = self.failed(claim, error, retry_in=retry_in, final=final)
        self.store.fail(outcome.id, outcome.fence, outcome.error or "", outcome.retry_in, now=now)

    def release(self, claim: Claim, *, now: int | None = None) -> None:
        """Give a document back unstarted; StaleFenceError when the claim was lost meanwhile."""
        self.store.release(claim.document.id, claim.fence, now=now)

    def heartbeat(
        self,
        claims: Sequence[Claim],
        *,
        lease: int = DEFAULT_LEASE,
        now: int | None = None,
    ) -> tuple[LeaseStatus, ...]:
        """Renew leases; tells which claims are held, cancelled or lost."""
        pairs = tuple((claimed.document.id, claimed.fence) for claimed in claims)
        return self.store.heartbeat(pairs, clean_lease(lease), now=now)

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, id: str, operator: Operator, *, now: int | None = None) -> None:
        """Cancel one document that has not ended."""
        if not self.store.cancel((clean_id(id),), operator, now=now):
            self._raise_illegal_transition(id, "be cancelled")

    def retry(self, id: str, operator: Operator, *, now: int | None = None) -> Receipt:
        """Try one ended document again: a new check."""
        receipts = self.store.retry((clean_id(id),), operator, now=now)
        if not receipts:
            self._raise_illegal_transition(id, "be tried again")
        return receipts[0]

    def cancel_all(self, where: DocumentFilter, operator: Operator, *, now: int | None = None) -> int:
        """Cancel whatever matches and has not ended; tells how many."""
        return sum(len(self.store.cancel(ids, operator, now=now)) for ids in self._matching_ids(where))

    def retry_all(self, where: DocumentFilter, operator: Operator, *, now: int | None = None) -> int:
        """Try again whatever matches and can be; tells how many."""
        return sum(len(self.store.retry(ids, operator, now=now)) for ids in self._matching_ids(where))

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> None:
        """Move one waiting document to the front of the queue."""
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
        """Change some of a customer's settings: weight, cap, rate, paused, display_name."""
        unknown = set(changes) - set(CustomerSettings._fields)
        if unknown or not changes:
            given = ", ".join(sorted(unknown)) or "nothing"
            raise InvalidInputError(f"change one of {', '.join(CustomerSettings._fields)}, not {given}")
        if isinstance(changes.get("rate"), (tuple, list)):
            changes["rate"] = RateLimit(*changes["rate"])
        return self.store.change_customer(clean_text("a customer's name", customer), changes, operator, now=now)

    def pause(self, operator: Operator, customer: str | None = None, *, now: int | None = None) -> None:
        """Start nothing more: of one customer, or of the whole queue."""
        if customer is None:
            self.store.pause(operator, now=now)
        else:
            self.change_customer(customer, operator, paused=True, now=now)

    def resume(self, operator: Operator, customer: str | None = None, *, now: int | None = None) -> None:
        """Start again: documents of one customer, or of the whole queue."""
        if customer is None:
            self.store.resume(operator, now=now)
        else:
            self.change_customer(customer, operator, paused=False, now=now)

    def policy(self) -> PolicyVersion:
        """The policy in force."""
        return self.store.policy()

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        """Put a policy in force; `expected` guards against overwriting somebody else's change."""
        return self.store.set_policy(policy, operator, expected=expected, now=now)

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        """One document."""
        return self.store.document(clean_id(id))

    def result(self, id: str) -> Any:
        """A done document's result; None before."""
        text = self.store.result(clean_id(id))
        return None if text is None else json.loads(text)

    def files(self, id: str) -> tuple[ResultFile, ...]:
        """The files of a done document's result, by name."""
        return self.store.files(clean_id(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        """The earlier attempts at a document, oldest first, with their errors."""
        return self.store.attempts(clean_id(id))

    def documents(
        self,
        where: DocumentFilter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        """Documents, newest or oldest first, a page at a time."""
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 19):
            raise InvalidInputError(f"{after!r} is no cursor of this list; use a page's `next`")
        count = clean_count("limit", limit)
        return self.store.documents(where or DocumentFilter(), limit=count, after=after, sort=sort)

    def customer(self, name: str) -> Customer:
        """One customer."""
        return self.store.customer(clean_text("a customer's name", name))

    def customers(
        self,
        where: CustomerFilter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Customer]:
        """Customers by name, a page at a time."""
        return self.store.customers(where or CustomerFilter(), limit=clean_count("limit", limit), after=after)

    def counts(self, where: DocumentFilter | None = None) -> Counts:
        """Documents by state, and the waiting ones by level."""
        return self.store.counts(where or DocumentFilter())

    def events(self, after: int = 0, *, limit: int = 1_000) -> tuple[Event, ...]:
        """What happened since event number `after`."""
        return self.store.events(after, limit=clean_count("limit", limit))

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def _matching_ids(self, where: DocumentFilter) -> Iterable[list[str]]:
        """Oldest first, some at a time: a retry is a check, and the oldest should get the best level."""
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
        state = f"{document.state} in front already" if document.expedited else str(document.state)
        raise IllegalTransitionError(f"document {document.id} is {state} and cannot {action}")


@lru_cache(maxsize=256, typed=True)
def claim_request(worker: str, limit: int, lease: int = DEFAULT_LEASE) -> ClaimRequest:
    """A clean request for documents."""
    return ClaimRequest(clean_text("a worker's name", worker), clean_count("limit", limit), clean_lease(lease))


def fingerprint(documents: Sequence[NewDocument]) -> str:
    """Tells a repeated call from another one under the same key: what was given, not where we put its bytes."""
    digest = hashlib.sha256()
    for given in documents:
        values = given.to_dict()
        del values["blob"]
        digest.update(json.dumps(values, sort_keys=True, ensure_ascii=True).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def clean_lease(lease: int) -> int:
    """A lease of a millisecond to a day."""
    if type(lease) is not int or not 1_000 <= lease <= 86_400 * SECOND:
        raise InvalidInputError(
            f"a lease must be 1 millisecond to 1 day in microseconds, not {lease!r}; for seconds write seconds(…)",
        )
    return lease


def clean_work(work: Work | None) -> Work | None:
    """When work began and how long it took, if that is given."""
    if work is None:
        return None
    return Work(clean_time("began_after", work.began_after), clean_time("worked", work.worked))


def clean_error(error: str) -> str:
    """An error's text, cut to what a row keeps and free of what no database takes."""
    return str(error).replace("\0", "�").encode(errors="replace").decode()[:MAX_ERROR_LENGTH]


def json_text(result: Any) -> str:
    """A result as JSON."""
    try:
        text = _JSON_ENCODER.encode(result)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"a result must be JSON: {error}") from error
    return text


def fits_row(text: str) -> bool:
    """Whether a result is small enough for a row."""
    return len(text) <= MAX_RESULT_BYTES and (text.isascii() or len(text.encode()) <= MAX_RESULT_BYTES)


def result_text(result: Any) -> str:
    """A result as JSON, small enough for a row."""
    text = json_text(result)
    if not fits_row(text):
        size = len(text.encode())
        raise InvalidInputError(
            f"a result may have {MAX_RESULT_BYTES} bytes as JSON, not {size}; keep large output in a file"
        )
    return text


def clean_count(name: str, n: int) -> int:
    """How many at once; `what` names them in the error."""
    if type(n) is not int or not 1 <= n <= MAX_BATCH:
        raise InvalidInputError(f"{name} must be a whole number from 1 to {MAX_BATCH}, not {n!r}")
    return n


def clean_idempotency_key(key: str | None) -> str | None:
    """An idempotency key, if one is given."""
    return None if key is None else clean_text("an idempotency key", key)
