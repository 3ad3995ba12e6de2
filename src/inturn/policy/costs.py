"""Compute the cost of a document in virtual time: 1, or by its pages if an operator sets that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_COST, NewDocument
from inturn.values import MAX_COST, MIN_COST, SECOND, clean_number

MIN_FIT_DOCUMENTS: Final = 20
"""Fewest samples for a fit."""


@dataclass(frozen=True, slots=True)
class CostPolicy:
    """A document costs `per_document + per_page * pages`. With `per_page` 0, every document costs 1.

    Where lanes are charged time (`inturn.policy.scheduler.Charge`), the cost is the document's size in comparison with
    others of its customer: by default its pages.

    The charged pages have a minimum, because the customer controls the counted pages: one page for every started
    `bytes_per_page`, and at least one. The minimum also applies to documents whose pages cannot be counted.
    """

    per_document: float = 0.0
    per_page: float = 1.0
    bytes_per_page: int = 1_000_000

    def __post_init__(self) -> None:
        clean_number("per_document", self.per_document, 0, MAX_COST)
        clean_number("per_page", self.per_page, 0, MAX_COST)
        if type(self.bytes_per_page) is not int or not 1_000 <= self.bytes_per_page <= 2**62:
            raise InvalidInputError(
                f"bytes_per_page must be a whole number of bytes, 1000 or more, not {self.bytes_per_page!r}"
            )
        if self.per_page == 0 and self.per_document != DEFAULT_COST:
            raise InvalidInputError("without a cost by page every document costs 1: leave per_document at 1")

    def charged_pages(self, counted: int | None, size: int | None) -> int:
        """Return the pages to charge for: the counted pages, but at least the minimum by size (bytes)."""
        return max(counted or 0, 1, -(-(size or 0) // self.bytes_per_page))

    def cost(self, pages: int | None, size: int | None) -> float:
        """Return the cost of a document; `pages` is None if they could not be counted."""
        return min(MAX_COST, max(MIN_COST, self.per_document + self.per_page * self.charged_pages(pages, size)))

    def apply(self, documents: Sequence[NewDocument]) -> Sequence[NewDocument]:
        """Set the cost of all documents that have the default cost."""
        if not self.per_page:
            return documents
        return [self._with_cost(document) for document in documents]

    def _with_cost(self, spec: NewDocument) -> NewDocument:
        if spec.cost != DEFAULT_COST:
            return spec
        return spec._replace(cost=self.cost(spec.pages, spec.size))


class CostSample(NamedTuple):
    """The pages and the processing time (microseconds) of one document."""

    pages: int
    duration: int


class CostFit(NamedTuple):
    """Measured processing time in seconds: `per_document + per_page * pages`."""

    per_document: float
    per_page: float
    documents: int

    def costs(self) -> tuple[float, float]:
        """Scale both parts so that a document of one page costs 1."""
        total = self.per_document + self.per_page
        return (self.per_document / total, self.per_page / total) if total > 0 else (DEFAULT_COST, 0.0)


def fit_costs(samples: Iterable[CostSample]) -> CostFit | None:
    """Fit a straight line by least squares, neither part below 0. None with too few or too similar samples."""
    points = [(sample.pages, sample.duration / SECOND) for sample in samples]
    n = len(points)
    if n < MIN_FIT_DOCUMENTS or len({pages for pages, _ in points}) == 1:
        return None
    mean_pages = sum(pages for pages, _ in points) / n
    mean_seconds = sum(duration for _, duration in points) / n
    spread = sum((pages - mean_pages) ** 2 for pages, _ in points)
    slope = sum((pages - mean_pages) * (duration - mean_seconds) for pages, duration in points) / spread
    intercept = mean_seconds - slope * mean_pages
    if slope < 0:
        return CostFit(mean_seconds, 0.0, n)
    if intercept < 0:
        squares = sum(pages * pages for pages, _ in points)
        return CostFit(0.0, sum(pages * duration for pages, duration in points) / squares, n)
    return CostFit(intercept, slope, n)
