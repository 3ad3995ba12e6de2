"""Submit documents: checks, rows, idempotency keys. One transaction a call, ours or the user's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from psycopg import errors

from inturn.model import DOCUMENT_COLUMNS, NewDocument, Receipt
from inturn.policy import Counter, Policy
from inturn.policy.priority import PriorityPolicy
from inturn.store_types import Submission, too_many_queues_error
from inturn.stores.postgres.libpq import BoundStatement, LibpqQueries, bind
from inturn.stores.postgres.queries import SEPARATOR, PostgresQueries, UuidList
from inturn.stores.sql.queries import QueueCache
from inturn.stores.sql.submit import (
    LockedCustomer,
    Submitter,
    build_receipts,
    customer_from_row,
    document_columns,
    repeated_id_error,
    search_name,
)

TOO_MANY_QUEUES: Final = "too many queues"
"""What the function `queue_number` raises."""
_SHARED_COLUMNS: Final = ("cost", "max_attempts", "delay", "queue", "steps")


class PostgresSubmitter(Submitter):
    """Checks and submits. The time is the server's own, after the lock, unless one is given."""

    _queries: PostgresQueries

    def __init__(self, queries: PostgresQueries, cache: QueueCache, now: int | None) -> None:
        super().__init__(queries, cache)
        self._fixed_now = now

    def lock(self, customer: str) -> LockedCustomer:
        row, instant = self._queries.begin_rows or (None, None)  # the transaction may have begun with both
        owner, counter = self.lock_or_add_customer(customer) if row is None else customer_from_row(row)
        if row is None or instant is None:
            instant = self._queries.fetch_one("policy_and_time") or (0, 0)
        policy, now = instant
        return LockedCustomer(owner, counter, policy, now if self._fixed_now is None else self._fixed_now)

    def allocate_seqs(self, n: int) -> Sequence[int]:
        return [seq for (seq,) in self._queries.fetch_all("allocate_seqs", n=n)]

    def insert(self, submission: Submission, customer: LockedCustomer) -> tuple[Receipt, ...]:
        version = self._cache.policy(self._queries, customer.policy)
        query, values = _submit_statement(submission, version.policy, customer.now)
        with _translate_refusals():
            row = self._queries.fetch_one(query, **values, policy=None)
        return _receipts(submission.ids, version.policy.priority, *(row or ()))

    def submit_in_one_trip(
        self, submission: Submission, queries: LibpqQueries, after_commit: BoundStatement | None
    ) -> tuple[Receipt, ...] | None:
        """The same in one trip and one commit, with a statement behind it; None if the policy is another by now."""
        version, customer = self._cache.latest_policy, submission.customer
        if version is None:
            return None
        query, values = _submit_statement(submission, version.policy, self._fixed_now)
        statements = [bind(query, {**values, "policy": version.number})]
        if not (is_known := self._cache.has_customer(customer)):
            statements.insert(0, bind("add_customer", {"name": customer, "lower": search_name(customer)}))
        with _translate_refusals():
            if is_known and after_commit is None:
                rows, _ = queries.connection.query(*statements)
            else:
                ((*_, (rows, _)),) = queries.connection.query_pipeline(statements, last=after_commit)
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
        with _translate_refusals():
            answers = queries.query_final(several)
        return [
            _receipts(submission.ids, version.policy.priority, *rows[0]) if rows else None
            for submission, (rows, _) in zip(submissions, answers, strict=True)
        ]


@contextmanager
def _translate_refusals() -> Iterator[None]:
    try:
        yield
    except errors.UniqueViolation as error:
        raise repeated_id_error() from error
    except errors.ProgramLimitExceeded as error:
        if error.diag.message_primary != TOO_MANY_QUEUES:
            raise
        raise too_many_queues_error() from error


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
