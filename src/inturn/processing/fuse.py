"""Notices that everything fails: a bad deploy must not burn every attempt of every document."""

from typing import Final

FAILURES: Final = 20
CUSTOMERS: Final = 5


class Fuse:
    """Blows when so many documents of so many customers failed in a row, with nothing processed in between.

    Documents are counted, not attempts: one that fails three times is one. A document that a processor rejected counts
    as processed: the processor works, and the document does not.
    """

    def __init__(self, failures: int = FAILURES, customers: int = CUSTOMERS) -> None:
        self._most = failures
        self._customers = customers
        self._documents: set[str] = set()
        self._names: set[str] = set()

    def worked(self) -> None:
        """A document was processed."""
        self._documents.clear()
        self._names.clear()

    def failed(self, document: str, customer: str) -> bool:
        """A document failed; whether that was one too many."""
        if len(self._documents) < self._most:
            self._documents.add(document)
        if len(self._names) < self._customers:
            self._names.add(customer)
        if len(self._documents) < self._most or len(self._names) < self._customers:
            return False
        self.worked()
        return True
