"""What became of the documents: times from submit to export, and the order in which they were exported."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import fmean
from typing import Final, NamedTuple

from inturn import Document, DocumentFilter, DocumentState, Queue
from inturn.values import SECOND

HEADINGS: Final = ("customer", "documents", "pages", "failed", "mean s", "worst s", "exported as number")


class Summary(NamedTuple):
    """The documents of one customer."""

    customer: str
    documents: int
    pages: int
    failed_pages: int
    mean_seconds: float
    worst_seconds: float
    places: tuple[int, ...]
    """The places of its documents in the order of all exports, from 1."""


def whole_documents(queue: Queue) -> Iterator[Document]:
    """All documents that are no parts."""
    after = None
    while True:
        page = queue.documents(DocumentFilter(parts=False), after=after)
        yield from page.items
        after = page.next
        if after is None:
            return


def summarize(queue: Queue) -> list[Summary]:
    """Return a summary for each customer, in the order of names."""
    done = [document for document in whole_documents(queue) if document.state is DocumentState.DONE]
    done.sort(key=lambda document: document.finished_at or 0)
    places = {document.id: place for place, document in enumerate(done, start=1)}
    by_customer = sorted(done, key=lambda document: document.customer)
    return [
        _summary(queue, customer, list(own), places)
        for customer, own in groupby(by_customer, key=lambda document: document.customer)
    ]


def _summary(queue: Queue, customer: str, documents: Sequence[Document], places: dict[str, int]) -> Summary:
    seconds = [((document.finished_at or 0) - document.submitted_at) / SECOND for document in documents]
    states = [part.state for document in documents for part in queue.parts(document.id)]
    failed = len(states) - states.count(DocumentState.DONE)
    own = tuple(sorted(places[document.id] for document in documents))
    return Summary(customer, len(documents), len(states), failed, fmean(seconds), max(seconds), own)


def table(summaries: Sequence[Summary]) -> str:
    """Return the summaries as lines of text."""
    rows = [HEADINGS, *(_cells(summary) for summary in summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    return "\n".join(_line(row, widths) for row in rows)


def _cells(summary: Summary) -> tuple[str, ...]:
    times = (f"{summary.mean_seconds:.1f}", f"{summary.worst_seconds:.1f}")
    counts = (str(summary.documents), str(summary.pages), str(summary.failed_pages))
    return (summary.customer, *counts, *times, _ranges(summary.places))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells, last = row
    padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
    return "  ".join([name.ljust(widths[0]), *padded, last])


def _ranges(places: Sequence[int]) -> str:
    """Return numbers as people write them: 1-3, 7."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
