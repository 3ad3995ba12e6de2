"""What happened, from the store's own records; and what first come, first served would have made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any, NamedTuple

from inturn.model import Document, DocumentState
from inturn.queue import Queue
from inturn.store_types import DocumentFilter


@dataclass(frozen=True, slots=True)
class DocumentTiming:
    """One document's way, in microseconds."""

    customer: str
    level: int
    pages: int
    submitted: int
    started: int
    finished: int

    @property
    def wait(self) -> int:
        """From submitted to started."""
        return self.started - self.submitted

    @property
    def service(self) -> int:
        """From started to finished."""
        return self.finished - self.started


@dataclass(frozen=True, slots=True)
class RunReport:
    """A whole run: records in the order of arrival, and how long each would have waited, first come first served."""

    slots: int
    records: tuple[DocumentTiming, ...]
    first_come: tuple[int, ...]

    @property
    def began(self) -> int:
        """When the first document came."""
        return self.records[0].submitted

    def to_json(self) -> dict[str, Any]:
        """As JSON, for another replay: times are microseconds since the first arrival."""
        documents = [
            {
                "customer": document_timing.customer,
                "level": document_timing.level,
                "pages": document_timing.pages,
                "arrival": document_timing.submitted - self.began,
                "service": document_timing.service,
                "wait": document_timing.wait,
                "wait_first_come": other,
            }
            for document_timing, other in zip(self.records, self.first_come, strict=True)
        ]
        return {"slots": self.slots, "unit": "microseconds", "documents": documents}


class SummaryRow(NamedTuple):
    """One customer in the summary; waits in seconds."""

    customer: str
    documents: int
    pages: int
    levels: str
    mean: float
    worst: float
    first_come_mean: float
    first_come_worst: float


def all_documents(queue: Queue) -> list[Document]:
    """Every document in the order of arrival."""
    documents: list[Document] = []
    after = None
    while True:
        page = queue.documents(DocumentFilter(), limit=1_000, after=after)
        documents += page.items
        after = page.next
        if after is None:
            return sorted(documents, key=lambda document: document.seq)


def build_report(documents: Sequence[Document], slots: int) -> RunReport:
    """The story of documents that are done, given in the order of arrival."""
    records = tuple(
        DocumentTiming(
            document.customer,
            document.level,
            document.spec.pages or 1,
            document.submitted_at,
            document.started_at,
            document.finished_at,
        )
        for document in documents
        if document.state is DocumentState.DONE and document.started_at is not None and document.finished_at is not None
    )
    pairs = [(record.submitted, record.service) for record in records]
    return RunReport(slots, records, tuple(first_come_waits(pairs, slots)))


def first_come_waits(arrivals: Sequence[tuple[int, int]], slots: int) -> list[int]:
    """How long each would wait in one common line, given as (arrival, service) in the order of arrival."""
    if not arrivals:
        return []
    free = [arrivals[0][0]] * slots
    heapify(free)
    waits = []
    for arrival, service in arrivals:
        start = max(arrival, free[0])
        heapreplace(free, start + service)
        waits.append(start - arrival)
    return waits


def summarize(report: RunReport, customers: Sequence[str]) -> list[SummaryRow]:
    """A row for each of these customers that has documents."""
    rows = []
    for customer in customers:
        mine = [number for number, document_timing in enumerate(report.records) if document_timing.customer == customer]
        if mine:
            rows.append(_row(customer, [report.records[n] for n in mine], [report.first_come[n] for n in mine]))
    return rows


def _row(customer: str, records: Sequence[DocumentTiming], first_come: Sequence[int]) -> SummaryRow:
    waits = [record.wait / 1e6 for record in records]
    others = [item / 1e6 for item in first_come]
    low, high = min(record.level for record in records), max(record.level for record in records)
    return SummaryRow(
        customer,
        len(records),
        sum(record.pages for record in records),
        str(low) if low == high else f"{low}–{high}",  # noqa: RUF001 - from one to the other
        sum(waits) / len(waits),
        max(waits),
        sum(others) / len(others),
        max(others),
    )
