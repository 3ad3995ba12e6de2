"""Detect that all documents fail, so that a bad deploy does not use up every attempt of every document."""

from typing import Final

TRIP_FAILURES: Final = 20
TRIP_CUSTOMERS: Final = 5


class CircuitBreaker:
    """Trips when 20 documents of at least 5 customers failed in a row, with none processed in between.

    It counts documents, not attempts: one that fails three times counts once. A rejected document counts as processed,
    because the processor works and the document is at fault.
    """

    def __init__(self, failures: int = TRIP_FAILURES, customers: int = TRIP_CUSTOMERS) -> None:
        self._trip_failures = failures
        self._trip_customers = customers
        self._failed_documents: set[str] = set()
        self._failed_customers: set[str] = set()

    def record_success(self) -> None:
        """Reset the count: a document was processed."""
        self._failed_documents.clear()
        self._failed_customers.clear()

    def record_failure(self, document: str, customer: str) -> bool:
        """Count a failed document; return whether the breaker trips, which resets it."""
        if len(self._failed_documents) < self._trip_failures:
            self._failed_documents.add(document)
        if len(self._failed_customers) < self._trip_customers:
            self._failed_customers.add(customer)
        if len(self._failed_documents) < self._trip_failures or len(self._failed_customers) < self._trip_customers:
            return False
        self.record_success()
        return True
