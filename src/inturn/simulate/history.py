"""What really came in and how long it took, read from a store, so that it can be played again."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from inturn.errors import InvalidInputError
from inturn.model import ENDED, CustomerSettings, Document, DocumentState, NewDocument
from inturn.simulate.engine import simulated
from inturn.simulate.scenario import Arrival
from inturn.store import CustomerFilter, DocumentFilter, Store

PAGE: Final = 1_000
SERVED: Final = frozenset({DocumentState.DONE, DocumentState.FAILED})
SIZES: Final = ((20, "1-20"), (200, "21-200"))
"""Groups of customers by how many documents they brought."""
LARGEST: Final = "201+"


@dataclass(frozen=True, slots=True)
class History:
    """Documents in the order they came. Lists are by a document's number in that order."""

    arrivals: Sequence[Arrival]
    """Their `group` is a place in `given`."""
    waits: Sequence[int | None]
    """Microseconds that it really waited for its first start; None where nobody knows."""
    levels: Sequence[int]
    given: Sequence[NewDocument]
    """What was submitted, as far as the queue minds it: pages, or else a cost."""
    settings: Mapping[str, CustomerSettings]
    """Of customers that an operator decided something about."""
    workers: int
    """The most documents that ran at a time."""
    is_cut: bool
    """There was more than was asked for: the oldest was left out."""

    def groups(self) -> dict[str, str]:
        """The group of each customer."""
        counted = Counter(each.customer for each in self.arrivals)
        return {name: next((group for most, group in SIZES if n <= most), LARGEST) for name, n in counted.items()}


def read_history(store: Store, since: int, *, most: int) -> History:
    """Up to `most` documents that were submitted since then, the newest of them; those never started left out.

    A document is told apart from its retries by their number alone: each attempt counts as long as the last one. One
    that runs or waits still counts as long as the others took on average. `delay` counts as a later arrival.
    """
    found, is_cut = _documents(store, since, most)
    if not any(each.state in SERVED for each in found):
        raise InvalidInputError(
            "no document that was submitted since then has been processed: there is nothing to play"
        )
    usual = round(fmean(_service(each) for each in found if each.state in SERVED))
    given: dict[tuple[float, int | None], int] = {}
    found.sort(key=lambda each: (_came(each), each.submitted_at, each.seq))
    arrivals = [
        Arrival(
            _came(each),
            each.customer,
            given.setdefault(_kind(each), len(given)),
            _service(each) if each.state in SERVED else usual,
            max(0, each.attempt - 1),
        )
        for each in found
    ]
    waits = [
        max(0, each.started_at - _came(each)) if each.started_at is not None and each.attempt == 1 else None
        for each in found
    ]
    customers = {each.customer for each in found}
    settings = {name: kept for name, kept in _settings(store) if name in customers}
    kinds = [simulated(*kind) for kind in given]
    return History(arrivals, waits, [each.level for each in found], kinds, settings, _workers(found), is_cut)


def _documents(store: Store, since: int, most: int) -> tuple[list[Document], bool]:
    found: list[Document] = []
    after = None
    while True:
        page = store.documents(DocumentFilter(), limit=PAGE, after=after)
        for each in page.items:
            if each.submitted_at < since:
                return found, False
            if len(found) == most:
                return found, True
            if each.started_at is not None or each.state not in ENDED:
                found.append(each)
        after = page.next
        if after is None:
            return found, False


def _kind(document: Document) -> tuple[float, int | None]:
    """With pages a document costs what the policy says, whatever it cost then."""
    return (1.0, document.given.pages) if document.given.pages is not None else (document.given.cost, None)


def _came(document: Document) -> int:
    return document.submitted_at + document.given.delay


def _service(document: Document) -> int:
    return max(1, (document.finished_at or 0) - (document.started_at or 0))


def _settings(store: Store) -> Iterator[tuple[str, CustomerSettings]]:
    """A customer that is paused now was not when its documents were processed."""
    after = None
    while True:
        page = store.customers(CustomerFilter(), limit=PAGE, after=after)
        for each in page.items:
            kept = each.settings._replace(paused=False, display_name=None, keep=None)
            if kept != CustomerSettings():
                yield each.name, kept
        after = page.next
        if after is None:
            return


def _workers(documents: Sequence[Document]) -> int:
    changes = [
        change
        for each in documents
        if each.started_at is not None and each.finished_at is not None
        for change in ((each.started_at, 1), (each.finished_at, -1))
    ]
    running = most = 0
    for _, change in sorted(changes):  # who ends at an instant has ended before another starts
        running += change
        most = max(most, running)
    return max(1, most)
