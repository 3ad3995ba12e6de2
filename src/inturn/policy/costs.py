"""What a document costs in turns: 1, or by its pages if an operator chose so."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_COST, MAX_COST, MIN_COST, SECOND, NewDocument, clean_number

MIN_FIT_DOCUMENTS: Final = 20
"""Documents with pages and times below which nothing is fitted."""


@dataclass(frozen=True, slots=True)
class CostPolicy:
    """A document of so many pages costs `per_document + per_page * pages`; `per_page` 0 is the spec: each costs 1.

    The charge has a floor, because pages are counted from what the customer sent: one page, and one page for each
    `bytes_per_page` begun. The floor also prices documents whose pages cannot be counted.
    """

    per_document: float = DEFAULT_COST
    per_page: float = 0.0
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
        """Return the pages to charge for: those counted, but no fewer than the floor by size (bytes)."""
        return max(counted or 0, 1, -(-(size or 0) // self.bytes_per_page))

    def cost(self, pages: int | None, size: int | None) -> float:
        """Return what a document costs; `pages` is None where they could not be counted."""
        return min(MAX_COST, max(MIN_COST, self.per_document + self.per_page * self.charged_pages(pages, size)))

    def apply(self, documents: Sequence[NewDocument]) -> Sequence[NewDocument]:
        """Return the documents with their costs set, where none was given."""
        if not self.per_page:
            return documents
        return [self._with_cost(given) for given in documents]

    def _with_cost(self, spec: NewDocument) -> NewDocument:
        if spec.cost != DEFAULT_COST:
            return spec
        return spec._replace(cost=self.cost(spec.pages, spec.size))


class CostSample(NamedTuple):
    """How long a document of so many pages took, in microseconds."""

    pages: int
    duration: int


class CostFit(NamedTuple):
    """Seconds that documents were seen to take: `per_document + per_page * pages`."""

    per_document: float
    per_page: float
    documents: int

    def costs(self) -> tuple[float, float]:
        """The same as costs, in which a document of one page costs 1."""
        whole = self.per_document + self.per_page
        return (self.per_document / whole, self.per_page / whole) if whole > 0 else (DEFAULT_COST, 0.0)


def fit_costs(samples: Iterable[CostSample]) -> CostFit | None:
    """The line through what was measured, by least squares; neither part below 0. None without enough to go by."""
    points = [(sample.pages, sample.duration / SECOND) for sample in samples]
    n = len(points)
    if n < MIN_FIT_DOCUMENTS or len({pages for pages, _ in points}) == 1:
        return None
    mean_pages = sum(pages for pages, _ in points) / n
    mean_took = sum(took for _, took in points) / n
    spread = sum((pages - mean_pages) ** 2 for pages, _ in points)
    slope = sum((pages - mean_pages) * (took - mean_took) for pages, took in points) / spread
    start = mean_took - slope * mean_pages
    if slope < 0:
        return CostFit(mean_took, 0.0, n)
    if start < 0:
        together = sum(pages * pages for pages, _ in points)
        return CostFit(0.0, sum(pages * took for pages, took in points) / together, n)
    return CostFit(start, slope, n)
