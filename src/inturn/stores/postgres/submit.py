"""Submit documents: checks, rows, idempotency keys. One transaction a call, ours or the user's."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from psycopg import errors

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import DOCUMENT_COLUMNS, Check, NewDocument, Receipt
from inturn.policy import Counter, Policy
from inturn.policy.priority import BatchCheckResult, PriorityPolicy
from inturn.store import IDEMPOTENCY_KEY_RETENTION, Submission, check_fingerprint
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.libpq import BoundStatement, LibpqQueries, bind
from inturn.stores.postgres.queries import SEPARATOR, Queries, Row, UuidList
from inturn.stores.postgres.rows import search_name
from inturn.stores.sql.columns import build_receipts, document_columns

_SHARED_COLUMNS: Final = ("cost", "max_attempts", "delay")


class Submitter:
    """Checks and submits. The customer's row is locked first: what happens to one customer happens in some order."""

    def __init__(self, queries: Queries, cache: QueueCache, now: int | None) -> None:
        self._queries = queries
        self._cache = cache
        self._fixed_now = now

    def check(self, customer: str, n: int, idempotency_key: str | None) -> tuple[Check, ...]:
        """Check a customer n times, for documents that are queued elsewhere."""
        fingerprint = check_fingerprint(n)
        owner, counter, number, now = self._customer_and_time(customer)
        if (
            idempotency_key is not None
            and (first := self._find_repeat(owner, customer, idempotency_key, fingerprint, now)) is not None
        ):
            return tuple(Check(level, count) for _, level, count in first)
        checked = self.compute_checks(counter, n, now, number)
        self.save_counter(owner, checked)
        answer = tuple(Check(level, count) for level, count in checked.per_document())
        if idempotency_key is not None:
            self._save_idempotency_key(owner, idempotency_key, fingerprint, now, [("", *check) for check in answer])
        return answer

    def submit(self, submission: Submission) -> tuple[Receipt, ...]:
        """Submit the documents of one call."""
        customer, key, fingerprint = submission.customer, submission.idempotency_key, submission.fingerprint
        owner, _, number, now = self._customer_and_time(customer)
        if key is not None and (first := self._find_repeat(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Receipt(*item) for item in first)
        version = self._cache.policy(self._queries, number)
        query, values = _submit_statement(submission, version.policy, now)
        with _require_new_ids():
            row = self._queries.fetch_one(query, **values, policy=None)
        receipts = _receipts(submission.ids, version.policy.priority, *(row or ()))
        if key is not None:
            self._save_idempotency_key(owner, key, fingerprint, now, receipts)
        return receipts

    def submit_in_one_trip(
        self, submission: Submission, queries: LibpqQueries, after_commit: BoundStatement | None
    ) -> tuple[Receipt, ...] | None:
        """The same in one trip and one commit, with a statement `behind` it; None if the policy is another by now."""
        version, customer = self._cache.latest_policy, submission.customer
        if version is None:
            return None
        query, values = _submit_statement(submission, version.policy, self._fixed_now)
        statements = [bind(query, {**values, "policy": version.number})]
        if not (is_known := self._cache.has_customer(customer)):
            statements.insert(0, bind("add_customer", {"name": customer, "lower": search_name(customer)}))
        with _require_new_ids():
            if is_known and after_commit is None:
                rows, _ = queries.connection.query(*statements)
            else:
                *_, (rows, _) = queries.connection.query_pipeline(statements, after_commit)
        if not rows:
            return None
        self._cache.add_customer(customer)
        return _receipts(submission.ids, version.policy.priority, *rows[0])

    def submit_batch(
        self, submissions: Sequence[Submission], queries: LibpqQueries
    ) -> list[tuple[Receipt, ...] | None]:
        """Submit several calls by one commit; None for calls that were not submitted.

        No lock is waited for, so lock order does not matter: if a customer is locked or unknown, nothing is
        submitted. Otherwise None means that the policy has changed.
        """
        names, version = {submission.customer for submission in submissions}, self._cache.latest_policy
        if version is None or len(queries.fetch_all("lock_free_customers", names=list(names))) < len(names):
            return [None] * len(submissions)
        several = []
        for submission in submissions:
            query, values = _submit_statement(submission, version.policy, self._fixed_now)
            several.append(bind(query, {**values, "policy": version.number}))
        with _require_new_ids():
            answers = queries.query_final(several)
        return [
            _receipts(submission.ids, version.policy.priority, *rows[0]) if rows else None
            for submission, (rows, _) in zip(submissions, answers, strict=True)
        ]

    def _customer_and_time(self, name: str) -> tuple[int, Counter | None, int, int]:
        """Customer and instant; the transaction may have begun with both."""
        result, instant = self._queries.begin_rows or (None, None)
        if result is None or instant is None:
            return *self.lock_or_add_customer(name), *self.policy_and_time()
        number, now = instant
        return *_customer_from_row(result), number, now if self._fixed_now is None else self._fixed_now

    def lock_or_add_customer(self, name: str) -> tuple[int, Counter | None]:
        """A customer's id and counter; known from now on, and locked until the end of the transaction."""
        while (row := self._queries.fetch_one("lock_customer", name=name)) is None:
            self._queries.execute("add_customer", name=name, lower=search_name(name))
        return _customer_from_row(row)

    def policy_and_time(self) -> tuple[int, int]:
        """The policy's version, and the time: the server's own, after the lock, unless one was given."""
        number, now = self._queries.fetch_one("policy_and_time") or (0, 0)
        return number, now if self._fixed_now is None else self._fixed_now

    def compute_checks(self, counter: Counter | None, n: int, now: int, version: int) -> BatchCheckResult:
        """What n checks of a customer give."""
        return self._cache.policy(self._queries, version).policy.priority.check_many(counter, now, n)

    def save_counter(self, owner: int, checked: BatchCheckResult) -> None:
        """Write the counter down."""
        count, updated_at = checked.counter
        self._queries.execute("set_counter", id=owner, count=count, updated_at=updated_at)

    def _find_repeat(
        self, owner: int, customer: str, idempotency_key: str, fingerprint: str, now: int
    ) -> list[Any] | None:
        row = self._queries.fetch_one("idempotency_key", customer=owner, key=idempotency_key)
        if row is None or now - row[1] > IDEMPOTENCY_KEY_RETENTION:
            return None
        if row[0] != fingerprint:
            raise KeyConflictError(
                f"key {idempotency_key!r} of {customer!r} was used before for something else; use a new key "
                f"for new content",
            )
        answer: list[Any] = json.loads(row[2])
        return answer

    def _save_idempotency_key(
        self, owner: int, idempotency_key: str, fingerprint: str, now: int, answer: Sequence[Sequence[Any]]
    ) -> None:
        text = json.dumps(answer)
        self._queries.execute(
            "save_idempotency_key", customer=owner, key=idempotency_key, fingerprint=fingerprint, at=now, answer=text
        )


def _customer_from_row(row: Row) -> tuple[int, Counter | None]:
    owner, count, updated_at, _ = row
    return owner, None if count is None else Counter(count, updated_at)


@contextmanager
def _require_new_ids() -> Iterator[None]:
    try:
        yield
    except errors.UniqueViolation as error:
        raise InvalidInputError("a document with one of these ids exists already; ids are given once") from error


def _receipts(ids: Sequence[str], priority: PriorityPolicy, first: int, now: int) -> tuple[Receipt, ...]:
    """Of documents whose first check gave this count."""
    checked = priority.check_many(Counter(first + 1, now), now, len(ids))
    return build_receipts(ids, checked)


def _submit_statement(submission: Submission, policy: Policy, now: int | None) -> tuple[str, dict[str, Any]]:
    """What checks and keeps the documents of a customer that there is, and its values."""
    documents = policy.costs.apply(submission.documents)
    query, given = (
        _single_insert(submission.ids[0], documents[0])
        if _is_plain(documents)
        else _bulk_insert(submission.ids, documents)
    )
    interval, thresholds = policy.priority.reset_interval, policy.priority.thresholds
    given.update(customer=submission.customer, now=now, interval=interval, thresholds=[*reversed(thresholds)])
    return query, given


def _is_plain(documents: Sequence[NewDocument]) -> bool:
    """One document that waits from now on."""
    return len(documents) == 1 and not documents[0].delay and documents[0].start_by is None


def _single_insert(id_: str, document: NewDocument) -> tuple[str, dict[str, Any]]:
    """The statement for one plain document, and its values."""
    values = dict(zip(DOCUMENT_COLUMNS, document, strict=True))
    del values["delay"], values["start_by"]
    values.update(id=id_, cost=float(document.cost), lower_name=search_name(document.name))
    return "submit_one", values


def _bulk_insert(ids: Sequence[str], documents: Sequence[NewDocument]) -> tuple[str, dict[str, Any]]:
    """The statement for any, with one list for each column; what none has, or all have alike, is not sent for each."""
    given: dict[str, Any] = {**document_columns(documents)}
    metadata = given.pop("metadata")
    texts = SEPARATOR.join([text or "" for text in metadata]) if any(metadata) else None
    given["cost"] = list(map(float, given["cost"]))
    given["lower_name"] = None if _are_lower_case(given["name"]) else list(map(search_name, given["name"]))
    soonest = {
        "soonest_delay": min(filter(None, given["delay"]), default=None),
        "soonest_start_by": min((item for item in given["start_by"] if item is not None), default=None),
    }
    alike = {f"same_{name}": given[name][0] for name in _SHARED_COLUMNS}
    for name, values in given.items():
        if values is not None and values.count(alike.get(f"same_{name}")) == len(values):
            given[name] = None
    return "submit_many", {"id": UuidList(ids), "n": len(ids), "metadata": texts, **given, **alike, **soonest}


def _are_lower_case(names: Sequence[str]) -> bool:
    """Whether a search finds them as they are: seen at once for all."""
    joined = "\n".join(names)
    return joined.lower() == joined
