"""Read a queue: documents, customers, counts, events, workers, scheduler state.

Every screen, report and metric reads through this class. It changes nothing.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inturn.errors import InvalidInputError
from inturn.ids import clean_id
from inturn.model import Customer, Document, ResultFile, Worker, clean_text
from inturn.store import (
    AheadOfClock,
    Attempt,
    Counts,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    MaintenanceRecord,
    Operator,
    Page,
    PolicyVersion,
    SchedulerSnapshot,
    Store,
    Throughput,
    WorkLog,
)
from inturn.validation import clean_count


class QueueReader:
    """The queries of a queue."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def store_path(self) -> Path | None:
        """The file of the store; None if the store is not a file."""
        return getattr(self.store, "path", None)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    # -- documents and customers ------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        """Return one document."""
        return self.store.document(clean_id(id))

    def result(self, id: str) -> Any:
        """Return the parsed result of a done document; None in any other state."""
        text = self.result_json(id)
        return None if text is None else json.loads(text)

    def result_json(self, id: str) -> str | None:
        """Return the result of a done document as its stored JSON text; None in any other state."""
        return self.store.result(clean_id(id))

    def files(self, id: str) -> tuple[ResultFile, ...]:
        """Return the result files of a done document, by name."""
        return self.store.files(clean_id(id))

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        """Return the earlier attempts at a document, oldest first, with their errors."""
        return self.store.attempts(clean_id(id))

    def documents(
        self,
        where: DocumentFilter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        """Return a page of documents, newest or oldest first."""
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 19):
            raise InvalidInputError(f"{after!r} is no cursor of this list; use a page's `next`")
        count = clean_count("limit", limit)
        return self.store.documents(where or DocumentFilter(), limit=count, after=after, sort=sort)

    def customer(self, name: str) -> Customer:
        """Return one customer."""
        return self.store.customer(clean_text("a customer's name", name))

    def customers(
        self,
        where: CustomerFilter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Customer]:
        """Return a page of customers by name."""
        return self.store.customers(where or CustomerFilter(), limit=clean_count("limit", limit), after=after)

    def stored_bytes(self, customer: str) -> int:
        """Sum the sizes of a customer's documents in any state; 0 for an unknown customer."""
        return self.store.stored_bytes(clean_text("a customer's name", customer))

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        """Return those of the blob keys that no document and no result refers to."""
        return self.store.unreferenced_blobs(blobs)

    # -- the whole queue --------------------------------------------------------------------------------------------

    def counts(self, where: DocumentFilter | None = None) -> Counts:
        """Count documents by state, and waiting ones by the level of their lane."""
        return self.store.counts(where or DocumentFilter())

    def throughput(self, since: int) -> Throughput:
        """Count documents started and finished since a time, and documents running now."""
        return self.store.throughput(since)

    def work_between(self, since: int, until: int) -> WorkLog:
        """Sum processing times between two times by customer and outcome, and list the running claims."""
        return self.store.work_between(since, until)

    def scheduler_snapshot(self) -> SchedulerSnapshot:
        """Return all open lanes and the scheduler state."""
        return self.store.scheduler_snapshot()

    def ahead_in_lane(self, id: str) -> int:
        """Count the documents ahead of a waiting one in its own lane."""
        return self.store.ahead_in_lane(clean_id(id))

    def workers(self) -> tuple[Worker, ...]:
        """Return the last report of each worker, by name."""
        return self.store.workers()

    def paused(self) -> Operator | None:
        """Return the operator who paused the queue; None if it is not paused."""
        return self.store.paused()

    def policy(self) -> PolicyVersion:
        """Return the policy in force."""
        return self.store.policy()

    def policies(self) -> tuple[PolicyVersion, ...]:
        """Return all policy versions, newest first."""
        return self.store.policies()

    # -- events -----------------------------------------------------------------------------------------------------

    def events(self, after: int = 0, *, limit: int = 1_000) -> tuple[Event, ...]:
        """Return the events after number `after`, oldest first."""
        return self.store.events(after, limit=clean_count("limit", limit))

    def last_event(self) -> int:
        """Return the number of the newest event; 0 before the first."""
        return self.store.last_event()

    def audit(self, *, limit: int, before: int | None = None, customer: str | None = None) -> tuple[Event, ...]:
        """Return events with an operator and a number below `before`, newest first."""
        return self.store.audit(limit=clean_count("limit", limit), before=before, customer=customer)

    def wait(self, timeout: float) -> None:
        """Sleep until a document may have become claimable, or until `timeout` seconds have passed."""
        self.store.wait(timeout)

    # -- time -------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """Return the store's time in microseconds, which replaces a missing `now`."""
        return self.store.now()

    def next_due(self) -> int | None:
        """Return when the next delay, lease or rate limit is due."""
        return self.store.next_due()

    def ahead_of_clock(self) -> AheadOfClock:
        """Count the times that a clock ahead of the store's has set."""
        return self.store.ahead_of_clock()

    def last_maintenance(self) -> MaintenanceRecord | None:
        """Return the record of the last maintenance round; None before the first."""
        return self.store.maintenance()

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        """Count the ended documents that `prune` without a limit would delete."""
        return self.store.prunable(before, customer=customer, up_to=up_to)
