"""Cache of immutable rows: names of customers, versions of the policy."""

from collections.abc import Iterable, Mapping
from typing import Final

from inturn.store import PolicyVersion
from inturn.stores.postgres.queries import Queries
from inturn.stores.postgres.rows import policy_from_row

MAX_CACHED_NAMES: Final = 100_000


class QueueCache:
    """Shared by all threads: entries are only added, and all dropped when there are too many."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._customers: set[str] = set()
        self.latest_policy: PolicyVersion | None = None
        """The policy version in force at the last read."""

    def customer_names(self, queries: Queries, owners: Iterable[int]) -> Mapping[int, str]:
        """Customers' names by their ids."""
        names = self._names
        unknown = [owner for owner in owners if owner not in names]
        if unknown:
            if len(names) >= MAX_CACHED_NAMES:
                names = self._names = {}
                unknown = list(owners)
            names.update(queries.fetch_all("customer_names", ids=unknown))
        return names

    def has_customer(self, name: str) -> bool:
        """Whether this process has seen a customer of this name."""
        return name in self._customers

    def add_customer(self, name: str) -> None:
        """Remember that this customer exists."""
        if len(self._customers) >= MAX_CACHED_NAMES:
            self._customers = set()
        self._customers.add(name)

    def policy(self, queries: Queries, number: int) -> PolicyVersion:
        """A version of the policy that is in force."""
        known = self.latest_policy
        if known is None or known.number != number:
            row = queries.fetch_one("policy", number=number)
            if row is None:
                raise AssertionError(f"policy {number} is in force and has no row")
            known = self.latest_policy = policy_from_row(row)
        return known
