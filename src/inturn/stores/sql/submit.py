"""Check customers and submit documents: what both SQL stores do alike. One transaction a call."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import DEFAULT_QUEUE, DOCUMENT_COLUMNS, Check, NewDocument, Receipt
from inturn.policy import Counter
from inturn.policy.priority import BatchCheckResult
from inturn.policy.scheduler import FIRST_QUEUE, MAX_QUEUES
from inturn.store_types import IDEMPOTENCY_KEY_RETENTION, Submission, check_fingerprint, too_many_queues_error
from inturn.stores.sql.queries import Queries, QueueCache, scalar
from inturn.stores.sql.rows import Row, normalize_id


class LockedCustomer(NamedTuple):
    """A customer whose row is locked, and the instant of its check."""

    owner: int
    counter: Counter | None
    policy: int
    """The version of the policy in force."""
    now: int


class Submitter(ABC):
    """Checks and submits. The customer's row is locked first: what happens to one customer happens in some order."""

    def __init__(self, queries: Queries, cache: QueueCache) -> None:
        self._queries = queries
        self._cache = cache

    @abstractmethod
    def lock(self, customer: str) -> LockedCustomer:
        """Lock a customer, known or new."""

    @abstractmethod
    def insert(self, submission: Submission, customer: LockedCustomer) -> tuple[Receipt, ...]:
        """Check the customer for each document, and insert the documents with their lane changes and event."""

    @abstractmethod
    def allocate_seqs(self, n: int) -> Sequence[int]:
        """Return the next n seqs, in order."""

    def check(self, customer: str, n: int, idempotency_key: str | None) -> tuple[Check, ...]:
        """Check a customer n times, for documents that are queued elsewhere."""
        fingerprint, locked = check_fingerprint(n), self.lock(customer)
        if (first := self._find_repeat(locked, customer, idempotency_key, fingerprint)) is not None:
            return tuple(Check(level, count) for _, level, count in first)
        checked = self.apply_checks(locked.owner, locked.counter, n, locked.now, locked.policy)
        answer = tuple(Check(level, count) for level, count in checked.per_document())
        self._save_idempotency_key(locked, idempotency_key, fingerprint, [("", *check) for check in answer])
        return answer

    def submit(self, submission: Submission) -> tuple[Receipt, ...]:
        """Submit the documents of one call."""
        customer, key, fingerprint = submission.customer, submission.idempotency_key, submission.fingerprint
        locked = self.lock(customer)
        if (first := self._find_repeat(locked, customer, key, fingerprint)) is not None:
            return tuple(Receipt(*item) for item in first)
        receipts = self.insert(submission, locked)
        self._save_idempotency_key(locked, key, fingerprint, receipts)
        return receipts

    def apply_checks(self, owner: int, counter: Counter | None, n: int, now: int, version: int) -> BatchCheckResult:
        """Lower a customer's counter n times."""
        checked = self._cache.policy(self._queries, version).policy.priority.check_many(counter, now, n)
        count, updated_at = checked.counter
        self._queries.execute("set_counter", id=owner, count=count, updated_at=updated_at)
        return checked

    def group_numbers(self, owner: int, names: Sequence[str | None]) -> list[int] | None:
        """Return the number of each document's group, known or new; None if no document has one."""
        wanted = dict.fromkeys(name for name in names if name is not None)
        if not wanted:
            return None
        rows = self._queries.fetch_many("group_numbers", ("customer", "name"), [(owner, name) for name in wanted])
        numbers: dict[str | None, int] = {None: 0, **dict(rows)}
        for name in wanted:
            if name not in numbers:
                numbers[name] = scalar(self._queries, "add_group", customer=owner, name=name)
        return [numbers[name] for name in names]

    def queue_number(self, name: str) -> int:
        """Return the number of a queue, known or new."""
        if name == DEFAULT_QUEUE:
            return FIRST_QUEUE
        row = self._queries.fetch_one("queue_number", name=name)
        if row is None:
            self._queries.execute("lock_queues")  # another transaction may make it now
            row = self._queries.fetch_one("queue_number", name=name)
        number = scalar(self._queries, "add_queue", name=name) if row is None else row[0]
        if number >= MAX_QUEUES:
            raise too_many_queues_error()
        return int(number)

    def lock_or_add_customer(self, name: str) -> tuple[int, Counter | None]:
        """Return a customer's id and counter; known from now on, and locked until the end of the transaction."""
        while (row := self._queries.fetch_one("lock_customer", name=name)) is None:
            self._queries.execute("add_customer", name=name, lower=search_name(name))
        return customer_from_row(row)

    def lock_owners(self, ids: Sequence[str]) -> dict[int, Counter | None]:
        """Lock the customers of these documents by id; return their counters."""
        wanted = [(normalize_id(id_),) for id_ in ids]
        owners = sorted(set(self._queries.fetch_many("owners_of", ("id",), wanted))) if wanted else []
        rows = self._queries.fetch_many("lock_customers", ("id",), owners) if owners else []
        return {owner: None if count is None else Counter(count, updated_at) for owner, count, updated_at in rows}

    def _find_repeat(
        self, customer: LockedCustomer, name: str, idempotency_key: str | None, fingerprint: str
    ) -> list[Any] | None:
        if idempotency_key is None:
            return None
        row = self._queries.fetch_one("idempotency_key", customer=customer.owner, key=idempotency_key)
        if row is None or customer.now - row[1] > IDEMPOTENCY_KEY_RETENTION:
            return None
        if row[0] != fingerprint:
            raise KeyConflictError(
                f"key {idempotency_key!r} of {name!r} was used before for something else; use a new key for new content"
            )
        answer: list[Any] = json.loads(row[2])
        return answer

    def _save_idempotency_key(
        self, customer: LockedCustomer, idempotency_key: str | None, fingerprint: str, answer: Sequence[Sequence[Any]]
    ) -> None:
        if idempotency_key is not None:
            self._queries.execute(
                "save_idempotency_key",
                customer=customer.owner,
                key=idempotency_key,
                fingerprint=fingerprint,
                at=customer.now,
                answer=json.dumps(answer),
            )


def customer_from_row(row: Row) -> tuple[int, Counter | None]:
    """A customer's id and counter from a row of `lock_customer`."""
    owner, count, updated_at, _ = row
    return owner, None if count is None else Counter(count, updated_at)


def repeated_id_error() -> InvalidInputError:
    """The error of a submit whose ids are not new."""
    return InvalidInputError("a document with one of these ids exists already; ids are given once")


def search_name(name: str) -> str | None:
    """What a search looks into, by Python's idea of lower case; None where the name itself will do."""
    lower = name.lower()
    return None if lower == name else lower


def document_columns(documents: Sequence[NewDocument]) -> dict[str, list[Any]]:
    """A list for each column."""
    return dict(zip(DOCUMENT_COLUMNS, map(list, zip(*documents, strict=True)), strict=True))


def build_receipts(ids: Sequence[str], checked: BatchCheckResult) -> tuple[Receipt, ...]:
    """The receipts of one call."""
    levels, last = checked.document_levels(), checked.counter.count
    counts = range(last + len(levels) - 1, last - 1, -1)
    return tuple(map(Receipt, ids, levels, counts))
