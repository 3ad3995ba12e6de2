"""The port between the shared core and the two SQL stores: named queries of one transaction.

Both stores have queries of the same names, with the same parameters and the same columns, in their own dialect. A query
for `fetch_many` and `execute_many` is written for one row in SQLite, which runs it once for each, and for one array per
column in PostgreSQL, which runs it once for all.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from inturn.model import DEFAULT_QUEUE
from inturn.store_types import EventKind, Operator, PolicyVersion
from inturn.stores.sql.rows import Row, policy_from_row

MAX_CACHED_NAMES: Final = 100_000


class NewEvent(NamedTuple):
    """An event without a number.

    It becomes one for each customer and queue of its documents, in the order of first documents.
    """

    kind: EventKind
    customers: Sequence[str | None]
    """One for each document; a single one if there is no document."""
    documents: Sequence[str] = ()
    operator: Operator | None = None
    detail: str | None = None
    queues: Sequence[str] | None = None
    """One for each document; None if all are in the queue `default`, or if there is no document."""


class Queries(Protocol):
    """Named queries in one transaction."""

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        """Return every row of a query."""
        ...

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        """Return the first row of a query, or None."""
        ...

    def execute(self, query: str, /, **values: Any) -> int:
        """Run a statement; return how many rows it changed."""
        ...

    def fetch_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> list[Row]:
        """Run a query for several rows of values; return all rows, in no particular order."""
        ...

    def execute_many(self, query: str, columns: Sequence[str], rows: Sequence[Row], /, **values: Any) -> None:
        """Run a statement for several rows of values."""
        ...

    def array(self, values: Sequence[str]) -> Any:
        """Return a list of texts as a single value of a query."""
        ...

    def add_events(self, now: int, events: Sequence[NewEvent]) -> None:
        """Write events."""
        ...


def other_queues(names: Sequence[str]) -> Sequence[str] | None:
    """Return the queues of documents, or None if all of them are in the queue `default`."""
    return None if names.count(DEFAULT_QUEUE) == len(names) else names


class QueueCache:
    """Immutable rows, shared by all threads: names of customers, versions of the policy."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._customers: set[str] = set()
        self.latest_policy: PolicyVersion | None = None
        """The policy version in force at the last read."""

    def clear(self) -> None:
        """Forget everything: it may have been read in a transaction that was rolled back."""
        self._names, self._customers, self.latest_policy = {}, set(), None

    def customer_names(self, queries: Queries, owners: Iterable[int]) -> Mapping[int, str]:
        """Return customers' names by their ids."""
        names = self._names
        unknown = [owner for owner in owners if owner not in names]
        if unknown:
            if len(names) >= MAX_CACHED_NAMES:
                names = self._names = {}
                unknown = list(owners)
            names.update(queries.fetch_many("customer_names", ("id",), [(owner,) for owner in unknown]))
        return names

    def has_customer(self, name: str) -> bool:
        """Return whether this process has seen a customer of this name."""
        return name in self._customers

    def add_customer(self, name: str) -> None:
        """Remember that this customer exists."""
        if len(self._customers) >= MAX_CACHED_NAMES:
            self._customers = set()
        self._customers.add(name)

    def policy(self, queries: Queries, number: int) -> PolicyVersion:
        """Return a version of the policy."""
        known = self.latest_policy
        if known is None or known.number != number:
            row = queries.fetch_one("policy", number=number)
            if row is None:
                raise AssertionError(f"policy {number} is in force and has no row")
            known = self.latest_policy = policy_from_row(row)
        return known


def scalar(queries: Queries, query: str, /, **values: Any) -> Any:
    """Return the only column of a query's first row; 0 without a row."""
    return (queries.fetch_one(query, **values) or (0,))[0]
