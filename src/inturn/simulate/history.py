"""What really came in and how long it took, so that it can be played again."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean
from sys import intern
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import ENDED, SECOND, CustomerSettings, Document, DocumentState, NewDocument
from inturn.policy import Policy
from inturn.simulate.engine import LEASE, simulated
from inturn.simulate.scenario import Arrival
from inturn.simulate.staff import ONE, Staff, staff_of
from inturn.store import CustomerFilter, DocumentFilter, EventKind, Store

PAGE: Final = 1_000
MOST: Final = 2_000_000
"""Documents that are read at most: about 1.5 GB of memory to play them."""
DAY: Final = 86_400 * SECOND
LEAD: Final = 2 * 3_600 * SECOND
"""What came so long before is usually played too: it was in the way, and counters remember it."""
SERVED: Final = frozenset({DocumentState.DONE, DocumentState.FAILED})
SIZES: Final = ((20, "1-20"), (200, "21-200"))
"""Groups of customers by how many documents they bring a day."""
LARGEST: Final = "201+"
GROUPS: Final = (*(name for _, name in SIZES), LARGEST)
AUDITED: Final = 10_000
"""Events by hand that are looked through for pauses."""

Progress = Callable[[int, int], None]


class Came(NamedTuple):
    """One document as the past knows it: times in microseconds, None where nobody knows."""

    at: int
    customer: str
    kind: tuple[float, int | None]
    """Its cost, or its pages: with pages it costs what the policy says, whatever it cost then."""
    service: int | None
    """Of its last attempt."""
    failures: int
    started: int | None
    """Its last start."""
    finished: int | None
    level: int


@dataclass(frozen=True, slots=True)
class History:
    """Documents in the order they came. Lists are by a document's number in that order."""

    arrivals: Sequence[Arrival]
    """Their `group` is a place in `given`."""
    waits: Sequence[int | None]
    """Microseconds that it really waited for its first start; None where nobody knows."""
    finished: Sequence[int | None]
    levels: Sequence[int]
    given: Sequence[NewDocument]
    """What was submitted, as far as the queue minds it: pages, or else a cost."""
    settings: Mapping[str, CustomerSettings]
    """Of customers that an operator decided something about."""
    policies: Sequence[tuple[int, Policy]] = ()
    """Those in force and from when on, the oldest first; the first one holds for all time before too."""
    staff: Staff = ONE
    is_cut: bool = False
    """There was more than was asked for: the oldest was left out."""
    lead: int = 0
    """So many documents at the beginning are played, as they were in the way of the others, but not counted."""

    @property
    def workers(self) -> int:
        """The most documents that ran at a time."""
        return self.staff.most

    @property
    def days(self) -> float:
        """How long documents came, at least a day: who is there for an hour is not called busier than it was."""
        return max(1.0, (self.arrivals[-1].at - self.arrivals[self.lead].at) / DAY)

    def per_day(self) -> dict[str, float]:
        """Documents a day of each customer that counts."""
        days = self.days
        counted = Counter(self.arrivals[number].customer for number in range(self.lead, len(self.arrivals)))
        return {name: n / days for name, n in counted.items()}

    def groups(self) -> dict[str, str]:
        """The group of each customer that counts."""
        return {name: group_of(n) for name, n in self.per_day().items()}

    def counted(self) -> "History":
        """Without those that are played only to be in the way."""
        if not self.lead:
            return self
        kept = (each[self.lead :] for each in (self.arrivals, self.waits, self.finished, self.levels))
        arrivals, waits, finished, levels = kept
        return replace(self, arrivals=arrivals, waits=waits, finished=finished, levels=levels, lead=0)  # type: ignore[arg-type]

    def after(self, lead: int) -> "History":
        """The same with so many documents at the beginning that do not count."""
        return replace(self, lead=lead)

    def started(self, number: int) -> int | None:
        """When a document was last started, if that is known."""
        wait, finished = self.waits[number], self.finished[number]
        if wait is not None:
            return self.arrivals[number].at + wait
        return None if finished is None else finished - self.arrivals[number].service

    def scrubbed(self) -> "History":
        """The same without customers' names: numbers in the order they came."""
        names: dict[str, str] = {}
        for each in self.arrivals:
            names.setdefault(each.customer, f"customer {len(names) + 1}")
        return replace(
            self,
            arrivals=[replace(each, customer=names[each.customer]) for each in self.arrivals],
            settings={names[name]: kept for name, kept in self.settings.items()},
        )


def group_of(per_day: float) -> str:
    """The group of a customer that brings so many documents a day."""
    return next((group for most, group in SIZES if ceil(per_day) <= most), LARGEST)


def read_history(
    store: Store,
    since: int,
    *,
    until: int | None = None,
    lead: int = 0,
    most: int = MOST,
    progress: Progress | None = None,
) -> History:
    """Up to `most` documents that were submitted in that time, the newest of them; those never started left out.

    A document is told apart from its retries by their number alone: each attempt counts as long as the last one. One
    that runs or waits still counts as long as the others took on average. `delay` counts as a later arrival. What
    came up to `lead` microseconds before is read too, but only to be in the way of the others.
    """
    found: list[Came] = []
    kinds: dict[tuple[float, int | None], tuple[float, int | None]] = {}
    is_cut = False
    for document in _documents(store, since - lead, until):
        if len(found) == most:
            is_cut = True
            break
        found.append(_came(document, kinds))
        if progress is not None and len(found) % (10 * PAGE) == 0:
            progress(len(found), 0)
    found.reverse()  # of one instant, first come first
    settings = dict(_settings(store))
    history = made(found, settings, idle=_closed(store, settings))
    versions = tuple((each.at, each.policy) for each in reversed(store.policies()))
    before = sum(each.at < since for each in history.arrivals)
    if before == len(history.arrivals):
        raise _nothing()
    return replace(history, policies=versions, is_cut=is_cut, lead=before)


def made(found: list[Came], settings: Mapping[str, CustomerSettings], idle: frozenset[str] = frozenset()) -> History:
    """History from what is known of each document, in any order; emptied on the way, so that memory is used once.

    `idle`: customers whose documents may have waited while workers had nothing to do.
    """
    served = array("q", (each.service for each in found if each.service is not None))
    if not served:
        raise _nothing()
    usual = round(fmean(served))
    found.sort(key=lambda each: each.at)
    staff = _staff(found, idle)
    given: dict[tuple[float, int | None], int] = {}
    arrivals: list[Arrival] = []
    waits: list[int | None] = []
    for each in found:
        group = given.setdefault(each.kind, len(given))
        service = usual if each.service is None else min(max(1, each.service), LEASE - 1)
        arrivals.append(Arrival(each.at, each.customer, group, service, each.failures))
        waits.append(None if each.started is None or each.failures else max(0, each.started - each.at))
    finished = [each.finished for each in found]
    levels = array("b", (each.level for each in found))
    found.clear()
    names = {each.customer for each in arrivals}
    kept = {name: each for name, each in settings.items() if name in names}
    return History(arrivals, waits, finished, levels, [simulated(*kind) for kind in given], kept, staff=staff)


def _staff(found: Sequence[Came], idle: frozenset[str]) -> Staff:
    begun = (each.started for each in found if each.started is not None)
    ended = (each.finished for each in found if each.started is not None and each.finished is not None)
    waited = [
        (each.at, each.started)
        for each in found
        if each.started is not None and not each.failures and each.customer not in idle
    ]
    return staff_of(begun, ended, waited)


def _nothing() -> InvalidInputError:
    return InvalidInputError("no document that was submitted in that time has been processed: there is nothing to play")


def _documents(store: Store, since: int, until: int | None) -> Iterator[Document]:
    after = None
    while True:
        page = store.documents(DocumentFilter(), limit=PAGE, after=after)
        for each in page.items:
            if each.submitted_at < since:
                return
            if (until is None or each.submitted_at < until) and (
                each.started_at is not None or each.state not in ENDED
            ):
                yield each
        after = page.next
        if after is None:
            return


def _came(document: Document, kinds: dict[tuple[float, int | None], tuple[float, int | None]]) -> Came:
    """Names and kinds that come again are kept once: there may be a million documents."""
    kind = kind_of(document.given)
    started, finished = document.started_at, document.finished_at
    is_served = document.state in SERVED and started is not None and finished is not None
    return Came(
        document.submitted_at + document.given.delay,
        intern(document.customer),
        kinds.setdefault(kind, kind),
        finished - started if is_served else None,  # type: ignore[operator]  # both are there
        max(0, document.attempt - 1),
        started,
        finished,
        document.level,
    )


def kind_of(given: NewDocument) -> tuple[float, int | None]:
    """What the queue minds of a document."""
    return (1.0, given.pages) if given.pages is not None else (given.cost, None)


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


def _closed(store: Store, settings: Mapping[str, CustomerSettings]) -> frozenset[str]:
    """Customers whose documents may wait while workers are idle: capped, limited, or paused at some time."""
    paused: Iterable[str | None] = (
        each.customer
        for each in store.audit(limit=AUDITED)
        if each.kind is EventKind.CUSTOMER_CHANGED and not {"paused", "cap", "rate"}.isdisjoint(each.detail)
    )
    held = (name for name, kept in settings.items() if kept.cap is not None or kept.rate is not None)
    return frozenset(held) | frozenset(name for name in paused if name is not None)
