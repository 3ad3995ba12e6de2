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
from inturn.simulate.scenario import Arrival, Tried
from inturn.simulate.staff import ONE, Lags, Ran, Staff, Waited
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
SKEW: Final = 600 * SECOND
COUNTED: Final = frozenset({EventKind.DELAYED, EventKind.LEASE_LOST})
"""How attempts end that count and are followed by another."""
TRIED: Final = 20_000
"""Documents, the newest, whose attempts are asked for; of older ones each attempt counts as long as the last."""
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
    earlier: tuple[tuple[int, int], ...] = ()
    """Starts and ends of the attempts before the last, as many as `failures`; none if nobody knows them."""
    ready: int | None = None
    """When it could start for the last time."""

    @property
    def first_started(self) -> int | None:
        """Its first start, if that is known."""
        return self.earlier[0][0] if self.earlier else None if self.failures else self.started


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
        wait, finished, arrival = self.waits[number], self.finished[number], self.arrivals[number]
        if wait is not None and not arrival.failures:
            return arrival.at + wait
        return None if finished is None else finished - arrival.service

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

    One that runs or waits still counts as long as the others took on average. `delay` counts as a later arrival. What
    came up to `lead` microseconds before is read too, but only to be in the way of the others.
    """
    found: list[Came] = []
    kinds: dict[tuple[float, int | None], tuple[float, int | None]] = {}
    is_cut = False
    tried = _Attempts(store)
    for document in _documents(store, since - lead, until):
        if len(found) == most:
            is_cut = True
            break
        found.append(_came(document, kinds, tried.of(document)))
        if progress is not None and len(found) % (10 * PAGE) == 0:
            progress(len(found), 0)
    found.reverse()  # of one instant, first come first
    settings = dict(_settings(store))
    history = made(found, settings, idle=_closed(store, settings))
    versions = tuple((each.at, each.policy) for each in reversed(store.policies()))
    before = sum(each.at < since for each in history.arrivals)
    if before == len(history.arrivals):
        raise _nothing()
    return replace(history, policies=versions, is_cut=is_cut and not before, lead=before)


def made(found: list[Came], settings: Mapping[str, CustomerSettings], idle: frozenset[str] = frozenset()) -> History:
    """History from what is known of each document, in any order; emptied on the way, so that memory is used once.

    `idle`: customers whose documents may have waited while workers had nothing to do.
    """
    served = array("q", (each.service for each in found if each.service is not None))
    if not served:
        raise _nothing()
    usual = round(fmean(served))
    found.sort(key=lambda each: each.at)
    lags, staff = _read_off(found, idle)
    given: dict[tuple[float, int | None], int] = {}
    arrivals: list[Arrival] = []
    waits: list[int | None] = []
    tries = iter(lags.handovers[len(found) :])
    for each, handover, wake in zip(found, lags.handovers, lags.wakes, strict=False):
        group = given.setdefault(each.kind, len(given))
        service = usual if each.service is None else min(max(1, each.service), LEASE - 1)
        earlier = tuple(_tried(each, tries)) if each.earlier else ()
        arrivals.append(Arrival(each.at, each.customer, group, service, each.failures, handover, wake, earlier))
        waits.append(None if each.first_started is None else max(0, each.first_started - each.at))
    finished = [each.finished for each in found]
    levels = array("b", (each.level for each in found))
    found.clear()
    names = {each.customer for each in arrivals}
    kept = {name: each for name, each in settings.items() if name in names}
    return History(arrivals, waits, finished, levels, [simulated(*kind) for kind in given], kept, staff=staff)


def _tried(came: Came, handovers: Iterator[int]) -> Iterator[Tried]:
    for place, (started, ended) in enumerate(came.earlier, start=1):
        is_last = place == len(came.earlier)
        retry_in = max(0, came.ready - ended) if is_last and came.ready is not None else None
        yield Tried(min(max(1, ended - started), LEASE - 1), next(handovers), retry_in)


def _read_off(found: Sequence[Came], idle: frozenset[str]) -> tuple[Lags, Staff]:
    """Attempts that failed come after all documents, in their order."""
    waited = [
        Waited(number, each.at, each.first_started, each.customer not in idle)
        for number, each in enumerate(found)
        if each.first_started is not None
    ]
    for each in found:
        if each.earlier:
            starts = [*(started for started, _ in each.earlier[1:]), each.started or 0]
            waited += [Waited(None, tried[1], at, tells=False) for tried, at in zip(each.earlier, starts, strict=True)]
    begun = [each.started for each in found]
    ended = [None if each.started is None else each.finished for each in found]
    for started_at, ended_at in (tried for each in found for tried in each.earlier):
        begun.append(started_at)
        ended.append(ended_at)
    ran = Ran(begun, ended, waited)
    return ran.lags(), ran.staff()


def _nothing() -> InvalidInputError:
    return InvalidInputError("no document that was submitted in that time has been processed: there is nothing to play")


def _documents(store: Store, since: int, until: int | None) -> Iterator[Document]:
    after = None if until is None else _later_than(store, until)
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


def _later_than(store: Store, until: int) -> str | None:
    """A cursor behind which everything that came before then is listed, and not much else; found by halving.

    Machines whose clocks differ by less than `SKEW` list documents in their order as far as this needs it.
    """
    newest = store.documents(DocumentFilter(), limit=1).items
    low, high = 0, newest[0].seq + 1 if newest else 0
    while high - low > PAGE:
        middle = (low + high) // 2
        found = store.documents(DocumentFilter(), limit=1, after=str(middle)).items
        low, high = (low, middle) if found and found[0].submitted_at >= until + SKEW else (middle, high)
    return str(high) if high else None


class _Attempts:
    """Asks for the attempts before the last, of so many documents: each costs the store a question."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left = TRIED

    def of(self, document: Document) -> tuple[tuple[int, int], ...]:
        failures = document.attempt - 1
        if failures < 1 or not self._left:
            return ()
        self._left -= 1
        came = document.submitted_at
        known = [
            each for each in self._store.attempts(document.id) if each.ended in COUNTED and each.started_at >= came
        ]
        return tuple((each.started_at, each.ended_at) for each in known) if len(known) == failures else ()


def _came(
    document: Document,
    kinds: dict[tuple[float, int | None], tuple[float, int | None]],
    earlier: tuple[tuple[int, int], ...],
) -> Came:
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
        earlier,
        document.ready_at if earlier else None,
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
