"""What never changes once it is there, remembered by a process: names of customers, versions of the policy."""

from collections.abc import Iterable, Mapping
from typing import Final

from inturn.store import PolicyVersion
from inturn.stores.postgres.rows import policy_of
from inturn.stores.postgres.tables import Tables

MAX_NAMES: Final = 100_000


class Known:
    """Shared by all threads: entries are only added, and all dropped when there are too many."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._customers: set[str] = set()
        self.newest: PolicyVersion | None = None
        """The version of the policy that was in force when somebody last looked."""

    def names(self, tables: Tables, owners: Iterable[int]) -> Mapping[int, str]:
        """Customers' names by their ids."""
        names = self._names
        unknown = [owner for owner in owners if owner not in names]
        if unknown:
            if len(names) >= MAX_NAMES:
                names = self._names = {}
                unknown = list(owners)
            names.update(tables.all("customer_names", ids=unknown))
        return names

    def is_customer(self, name: str) -> bool:
        """Whether this process has seen a customer of this name."""
        return name in self._customers

    def see_customer(self, name: str) -> None:
        """There is a customer of this name."""
        if len(self._customers) >= MAX_NAMES:
            self._customers = set()
        self._customers.add(name)

    def policy(self, tables: Tables, number: int) -> PolicyVersion:
        """A version of the policy that is in force."""
        known = self.newest
        if known is None or known.number != number:
            found = tables.one("policy", number=number)
            if found is None:
                raise AssertionError(f"policy {number} is in force and has no row")
            known = self.newest = policy_of(found)
        return known
