"""Read a queue: documents, customers, counts, events, workers, scheduler state.

Every screen, report and metric reads through this class. It changes nothing.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from inturn.errors import InvalidInputError, NotFoundError
from inturn.ids import clean_id
from inturn.model import DEFAULT_QUEUE, Customer, Document, QueueStatus, ResultFile, clean_queue
from inturn.policy.forecasts import ForecastLog
from inturn.policy.history import HistorySpan
from inturn.store import Store
from inturn.store_answers import (
    AheadOfClock,
    Counts,
    CustomerSummary,
    Failure,
    MaintenanceRecord,
    Page,
    SchedulerSnapshot,
    SearchResult,
    Throughput,
    WorkLog,
)
from inturn.store_history import HistoryCursor, HistoryRow, HistoryScope
from inturn.store_types import (
    ALL_TIME,
    MAX_CANDIDATES,
    Attempt,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    Operator,
    PartResult,
    PartsChoice,
    PolicyVersion,
    StepResult,
    TimeRange,
)
from inturn.validation import clean_count
from inturn.values import clean_text
from inturn.worker_report import Worker

MAX_SEARCH_LENGTH: Final = 255
"""Characters of a search text."""


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

    def results(self, id: str) -> tuple[StepResult, ...]:
        """Return the results of all steps of a document that are done, in their order."""
        return self.store.results(clean_id(id))

    def parts(self, id: str, *, limit: int = 1_000, after: int = 0) -> tuple[PartResult, ...]:
        """Return the parts of a document's last split with a number above `after`, by number."""
        return self.store.parts(clean_id(id), limit=clean_count("limit", limit), after=after)

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

    def search(
        self, text: str, *, limit: int = 10, customer: str | None = None, parts: PartsChoice = PartsChoice.INCLUDE
    ) -> SearchResult:
        """Search documents by id, name and metadata (`key:value`), batches, customers, errors; up to `limit` of each.

        With a customer, only what is its own. Before, documents that were submitted lately may be indexed. `parts`
        chooses among documents, but one whose id begins with the text is always returned.
        """
        owner = None if customer is None else clean_text("a customer's name", customer)
        wanted = clean_text("text", text.strip(), MAX_SEARCH_LENGTH) if text.strip() else ""
        n = clean_count("limit", limit)
        result = self.store.search(wanted, limit=n, customer=owner)
        if parts is PartsChoice.INCLUDE:
            return result
        chosen = _choose_parts(result.documents, wanted, parts)
        if len(chosen) < len(result.documents) == n:  # others may match behind those that are left out
            more = self.store.search(wanted, limit=MAX_CANDIDATES, customer=owner)
            chosen = _choose_parts(more.documents, wanted, parts)
            complete = result.is_complete or (more.is_complete and len(chosen) <= n and _are_whole(result, n))
            result = result._replace(is_complete=complete)
        return result._replace(documents=tuple(chosen[:n]))

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

    def customer_summaries(self) -> tuple[CustomerSummary, ...]:
        """Return all customers by name, for lists of a hundred thousand."""
        return self.store.customer_summaries()

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

    def scheduler_snapshot(self, queue: str = DEFAULT_QUEUE) -> SchedulerSnapshot:
        """Return all open lanes of a queue and its scheduler state."""
        return self.store.scheduler_snapshot(queue)

    def ahead_in_lane(self, id: str) -> int:
        """Count the documents ahead of a waiting one in its own lane."""
        return self.store.ahead_in_lane(clean_id(id))

    def workers(self) -> tuple[Worker, ...]:
        """Return the last report of each worker, by name."""
        return self.store.workers()

    def paused(self, queue: str | None = None) -> Operator | None:
        """Return the operator who paused all queues, or this one; None if it is not paused."""
        return self.store.paused(queue)

    def queues(self) -> tuple[QueueStatus, ...]:
        """Return the queues of the store in the order in which they were made, with the numbers of their documents."""
        return self.store.queues()

    def queue_status(self, name: str) -> QueueStatus:
        """Return one queue; NotFoundError if there is none of this name."""
        clean = clean_queue(name)
        status = next((status for status in self.store.queues() if status.name == clean), None)
        if status is None:
            raise NotFoundError(
                f"there is no queue {clean!r}; it is made with its first document, or with: inturn queues set {clean}"
            )
        return status

    def policy(self) -> PolicyVersion:
        """Return the active policy."""
        return self.store.policy()

    def policies(self) -> tuple[PolicyVersion, ...]:
        """Return all policy versions, newest first."""
        return self.store.policies()

    def history(
        self, span: HistorySpan, scope: HistoryScope, since: int, until: int, *, key: str | None = None
    ) -> tuple[HistoryRow, ...]:
        """Return the minutes or hours of the history that begin at or after `since` and before `until`."""
        return self.store.history.rows(span, scope, since, until, key=key)

    def history_cursor(self) -> HistoryCursor:
        """Return how far the history reaches."""
        return self.store.history.cursor()

    def acknowledged_failures(self) -> Event | None:
        """Return the event of the operator who acknowledged failures last."""
        return self.store.history.acknowledged()

    # -- events -----------------------------------------------------------------------------------------------------

    def events(self, after: int = 0, *, limit: int = 1_000) -> tuple[Event, ...]:
        """Return the events after number `after`, oldest first."""
        return self.store.events(after, limit=clean_count("limit", limit))

    def last_event(self) -> int:
        """Return the number of the newest event; 0 before the first."""
        return self.store.last_event()

    def audit(
        self, *, limit: int, before: int | None = None, customer: str | None = None, within: TimeRange = ALL_TIME
    ) -> tuple[Event, ...]:
        """Return events with an operator and a number below `before`, newest first."""
        return self.store.audit(limit=clean_count("limit", limit), before=before, customer=customer, within=within)

    def failures(self, within: TimeRange = ALL_TIME, *, limit: int = 1_000) -> tuple[Failure, ...]:
        """Return the newest documents that failed in a range of times, newest first."""
        return self.store.failures(within, limit=clean_count("limit", limit))

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

    def forecast_log(self) -> ForecastLog:
        """Return what became of the newest forecasts of starts."""
        return self.store.forecast_log()

    def last_maintenance(self) -> MaintenanceRecord | None:
        """Return the record of the last maintenance round; None before the first."""
        return self.store.maintenance()

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        """Count the ended documents that `prune` without a limit would delete."""
        return self.store.prunable(before, customer=customer, up_to=up_to)


def _choose_parts(documents: Iterable[Document], text: str, parts: PartsChoice) -> list[Document]:
    """Leave out parts, or other documents, unless their id was searched for."""
    return [
        document
        for document in documents
        if (document.parent is None) == (parts is PartsChoice.EXCLUDE)
        or (text and document.id.startswith(text.lower()))
    ]


def _are_whole(result: SearchResult, limit: int) -> bool:
    """Return whether nothing but documents may have been cut off at the limit."""
    return all(len(matches) < limit for matches in (result.batches, result.customers, result.errors))
