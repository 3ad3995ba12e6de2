"""What really came in and how long it took, so that it can be played again."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from statistics import fmean
from sys import intern
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_COST, ENDED, SECOND, CustomerSettings, Document, DocumentState, NewDocument
from inturn.policy import CostPolicy, Policy
from inturn.simulate.engine import LEASE, simulated
from inturn.simulate.scenario import Arrival, Tried
from inturn.simulate.staff import ONE, Lags, Ran, Staff, Waited
from inturn.store import Attempt, CustomerFilter, DocumentFilter, EventKind, Store

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
"""Events by hand that are looked through for pauses and retries."""

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
    """When work on it last began: a claim may be earlier."""
    finished: int | None
    """When that ended."""
    level: int
    earlier: tuple[tuple[int, int], ...] = ()
    """Begins and ends of the attempts before the last, as many as `failures`; none if nobody knows them."""
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
    # Names and kinds that come again are stored once: there may be a million documents.
    kinds: dict[tuple[float, int | None], tuple[float, int | None]] = {}
    costs = store.policy().policy.costs
    is_cut = False
    tried, retried = _Attempts(store), _retried(store)
    for document, at in _documents(store, retried, since - lead, until):
        if len(found) >= most:
            is_cut = True
            break
        kind = kind_of(document.given, costs)
        found.append(_came(document, at, kinds.setdefault(kind, kind), tried.of(document, at)))
        if document.id in retried:
            lives = tried.lives(document, retried[document.id])
            found += [_lived(found[-1], *life) for life in lives if since - lead <= life[0] < (until or life[0] + 1)]
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
        service = min(max(1, usual if each.service is None else each.service), LEASE - 1)
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
    knows_all = all(each.earlier or not each.failures for each in found)
    ran = Ran(begun, ended, waited, knows_all=knows_all)
    return ran.lags(), ran.staff()


def _nothing() -> InvalidInputError:
    return InvalidInputError("no document that was submitted in that time has been processed: there is nothing to play")


def _documents(
    store: Store, retried: Mapping[str, Sequence[int]], since: int, until: int | None
) -> Iterator[tuple[Document, int]]:
    """With the time from which on each could start: a retry by hand is a new check, so it came then."""
    after = None if until is None else _later_than(store, retried, until)
    while True:
        page = store.documents(DocumentFilter(), limit=PAGE, after=after)
        for each in page.items:
            came = _newest(each, retried)
            if came < since:
                return
            if (until is None or came < until) and (each.started_at is not None or each.state not in ENDED):
                yield each, came if each.id in retried else came + each.given.delay
        after = page.next
        if after is None:
            return


def _newest(document: Document, retried: Mapping[str, Sequence[int]]) -> int:
    return retried[document.id][-1] if document.id in retried else document.submitted_at


def _retried(store: Store) -> dict[str, list[int]]:
    """When documents were retried by hand, as far as the newest events by hand tell."""
    found: dict[str, list[int]] = {}
    for event in reversed(store.audit(limit=AUDITED)):
        if event.kind is EventKind.RETRIED:
            for id_ in event.documents:
                found.setdefault(id_, []).append(event.at)
    return found


def _later_than(store: Store, retried: Mapping[str, Sequence[int]], until: int) -> str | None:
    """A cursor behind which everything that came before then is listed, and not much else; found by halving.

    Machines whose clocks differ by less than `SKEW` list documents in their order as far as this needs it.
    """
    newest = store.documents(DocumentFilter(), limit=1).items
    low, high = 0, newest[0].seq + 1 if newest else 0
    while high - low > PAGE:
        middle = (low + high) // 2
        found = store.documents(DocumentFilter(), limit=1, after=str(middle)).items
        is_later = bool(found) and _newest(found[0], retried) >= until + SKEW
        low, high = (low, middle) if is_later else (middle, high)
    return str(high) if high else None


class _Attempts:
    """Asks for the attempts before the last, of so many documents: each costs the store a question."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left = TRIED

    def of(self, document: Document, came: int) -> tuple[tuple[int, int], ...]:
        """When those that count began and ended, since it came or was retried by hand."""
        failures = document.attempt - 1
        if failures < 1 or not self._left:
            return ()
        self._left -= 1
        known = [
            each for each in self._store.attempts(document.id) if each.ended in COUNTED and each.started_at >= came
        ]
        return tuple(_worked(each) for each in known) if len(known) == failures else ()

    def lives(self, document: Document, retried: Sequence[int]) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """When it could start before each retry by hand, and the attempts until then, which took workers' time."""
        if not self._left:
            return
        self._left -= 1
        known = [each for each in self._store.attempts(document.id) if each.ended in COUNTED | {EventKind.FAILED}]
        begins = (document.submitted_at + document.given.delay, *retried)
        for begin, end in pairwise(begins):
            if life := tuple(_worked(each) for each in known if begin <= each.started_at < end):
                yield begin, life


def _lived(last: Came, at: int, attempts: tuple[tuple[int, int], ...]) -> Came:
    """What a document was before a retry by hand; the level that it had then is not kept."""
    *earlier, (began, ended) = attempts
    return last._replace(
        at=at,
        service=ended - began,
        failures=len(earlier),
        started=began,
        finished=ended,
        earlier=tuple(earlier),
        ready=None,
    )


def _worked(attempt: Attempt) -> tuple[int, int]:
    """From when to when, as far as that is known."""
    if attempt.began_at is None or attempt.worked is None:
        return attempt.started_at, attempt.ended_at
    return attempt.began_at, attempt.began_at + attempt.worked


def _came(
    document: Document,
    at: int,
    kind: tuple[float, int | None],
    earlier: tuple[tuple[int, int], ...],
) -> Came:
    began, ended = document.work_began_at, document.work_ended_at
    is_served = document.state in SERVED and began is not None and ended is not None
    return Came(
        at,
        intern(document.customer),
        kind,
        ended - began if is_served else None,  # type: ignore[operator]  # both are there
        max(0, document.attempt - 1),
        began,
        ended,
        document.level,
        earlier,
        document.ready_at if earlier else None,
    )


def kind_of(given: NewDocument, costs: CostPolicy) -> tuple[float, int | None]:
    """Return what the queue minds of a document: the cost it was given, or the pages it is charged for."""
    pages, size = given.pages, given.size
    if pages is None and given.cost not in {DEFAULT_COST, costs.cost(None, size)}:
        return given.cost, None
    charged = costs.charged_pages(pages, size)
    return DEFAULT_COST, None if pages is None and charged == 1 else charged


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
