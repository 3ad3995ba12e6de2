"""The queries of the memory store."""

import threading
from collections.abc import Sequence
from operator import attrgetter

from inturn.errors import NotFoundError
from inturn.model import (
    DEFAULT_QUEUE,
    Customer,
    Document,
    DocumentState,
    ResultFile,
)
from inturn.store import Store
from inturn.store_answers import (
    Counts,
    CustomerSummary,
    Failure,
    Page,
    SchedulerSnapshot,
    SearchResult,
    Throughput,
    WorkLog,
)
from inturn.store_types import (
    ALL_TIME,
    Attempt,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    PartResult,
    StepResult,
    TimeRange,
)
from inturn.stores.memory import due, reader
from inturn.stores.memory.state import State
from inturn.stores.memory.steps import part_result


class MemoryQueries(Store):
    """What reads the state, under the store's lock."""

    _lock: threading.RLock
    _changed: threading.Condition
    _waiters: int
    _state: State

    # -- queries ----------------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        with self._lock:
            return self._state.row(id).view()

    def result(self, id: str) -> str | None:
        with self._lock:
            return self._state.row(id).result

    def files(self, id: str) -> tuple[ResultFile, ...]:
        with self._lock:
            return tuple(sorted(self._state.row(id).files))

    def results(self, id: str) -> tuple[StepResult, ...]:
        with self._lock:
            return self._state.steps.results_of(self._state.row(id))

    def parts(self, id: str, *, limit: int, after: int = 0) -> tuple[PartResult, ...]:
        with self._lock:
            rows = self._state.steps.parts_of(self._state.row(id))
            return tuple([part_result(row) for row in rows if (row.part or 0) > after][:limit])

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        with self._lock:
            return tuple(self._state.attempts.get(self._state.row(id).id, {}).values())

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        with self._lock:
            state = self._state
            return frozenset(blobs) - {blob for row in state.documents.values() for blob in state.steps.blobs(row)}

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        with self._lock:
            return reader.page_of_documents(self._state.documents.values(), where, limit, after, sort)

    def customer(self, name: str) -> Customer:
        with self._lock:
            self._require_customer(name)
            return reader.customer_view(self._state.lanes.customers[name], tuple(self._state.queues))

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        with self._lock:
            customers, queues = self._state.lanes.customers.values(), tuple(self._state.queues)
            return reader.page_of_customers(customers, queues, where, limit, after)

    def customer_summaries(self) -> tuple[CustomerSummary, ...]:
        with self._lock:
            rows = sorted(self._state.lanes.customers.values(), key=attrgetter("name"))
            return tuple(reader.customer_summary(row) for row in rows)

    def counts(self, where: DocumentFilter) -> Counts:
        with self._lock:
            return reader.count_documents(self._state.documents.values(), where)

    def failures(self, within: TimeRange, *, limit: int) -> tuple[Failure, ...]:
        with self._lock:
            return reader.failures(self._state.documents.values(), within, limit)

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        with self._lock:
            return self._state.journal.since(after, limit)

    def last_event(self) -> int:
        with self._lock:
            return self._state.journal.last

    def audit(
        self, *, limit: int, before: int | None = None, customer: str | None = None, within: TimeRange = ALL_TIME
    ) -> tuple[Event, ...]:
        with self._lock:
            return self._state.journal.by_operator(limit, before, customer, within)

    def search(self, text: str, *, limit: int, customer: str | None = None) -> SearchResult:
        with self._lock:
            state = self._state
            return reader.search(list(state.documents.values()), state.lanes.customers.values(), text, limit, customer)

    def index_documents(self, *, limit: int) -> int:
        del limit  # every search looks at every document
        return 0

    def clean_index(self, *, limit: int) -> int:  # noqa: ARG002 - there is no index
        return 0

    def stored_bytes(self, customer: str) -> int:
        with self._lock:
            rows = self._state.documents.values()
            return sum(row.spec.size or 0 for row in rows if row.customer == customer)

    def scheduler_snapshot(self, queue: str = DEFAULT_QUEUE) -> SchedulerSnapshot:
        with self._lock:
            known = self._state.queues.get(queue)
            if known is None:
                return reader.empty_snapshot(self._state.policy.turns)
            return reader.scheduler_snapshot(self._state.lanes, known.number)

    def ahead_in_lane(self, id: str) -> int:
        with self._lock:
            row = self._state.row(id)
            if row.state is not DocumentState.WAITING:
                return 0
            return self._state.lanes.ahead_in_lane(row)

    def throughput(self, since: int) -> Throughput:
        with self._lock:
            return reader.throughput(self._state.documents.values(), since)

    def work_between(self, since: int, until: int) -> WorkLog:
        with self._lock:
            state = self._state
            weights = {name: customer.settings.weight for name, customer in state.lanes.customers.items()}
            return reader.work_between(list(state.documents.values()), state.attempts, weights, range(since, until))

    def wait(self, timeout: float) -> None:
        with self._changed:
            self._waiters += 1
            self._changed.wait(timeout)
            self._waiters -= 1

    def next_due(self) -> int | None:
        with self._lock:
            return due.next_due(self._state, self.now())

    def _require_customer(self, customer: str) -> None:
        if customer not in self._state.lanes.customers:
            raise NotFoundError(f"there is no customer {customer!r}")
