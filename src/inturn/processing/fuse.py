"""Notices that everything fails: a bad deploy must not burn every attempt of every document."""

from typing import Final

FAILURES: Final = 20
CUSTOMERS: Final = 5


class Fuse:
    """Blows when so many documents of so many customers failed in a row.

    A document that a processor rejected counts as processed: the processor works, and the document does not.
    """

    def __init__(self, failures: int = FAILURES, customers: int = CUSTOMERS) -> None:
        self._most = failures
        self._customers = customers
        self._failed: list[str] = []

    def worked(self) -> None:
        """A document was processed."""
        self._failed.clear()

    def failed(self, customer: str) -> bool:
        """A document failed; whether that was one too many."""
        self._failed.append(customer)
        if len(self._failed) < self._most or len(set(self._failed)) < self._customers:
            return False
        self._failed.clear()
        return True
