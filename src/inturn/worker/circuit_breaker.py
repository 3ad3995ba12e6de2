"""Notices that everything fails: a bad deploy must not burn every attempt of every document."""

from typing import Final

TRIP_FAILURES: Final = 20
TRIP_CUSTOMERS: Final = 5


class CircuitBreaker:
    """Blows when so many documents of so many customers failed in a row, with nothing processed in between.

    Documents are counted, not attempts: one that fails three times is one. A document that a processor rejected counts
    as processed: the processor works, and the document does not.
    """

    def __init__(self, failures: int = TRIP_FAILURES, customers: int = TRIP_CUSTOMERS) -> None:
        self._trip_failures = failures
        self._trip_customers = customers
        self._failed_documents: set[str] = set()
        self._failed_customers: set[str] = set()

    def record_success(self) -> None:
        """A document was processed."""
        self._failed_documents.clear()
        self._failed_customers.clear()

    def record_failure(self, document: str, customer: str) -> bool:
        """A document failed; whether that was one too many."""
        if len(self._failed_documents) < self._trip_failures:
            self._failed_documents.add(document)
        if len(self._failed_customers) < self._trip_customers:
            self._failed_customers.add(customer)
        if len(self._failed_documents) < self._trip_failures or len(self._failed_customers) < self._trip_customers:
            return False
        self.record_success()
        return True
