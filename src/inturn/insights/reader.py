"""Reads a store and works out what screens show."""

import math
import time
from collections import Counter as CountOf
from collections.abc import Collection, Iterator
from heapq import nlargest
from itertools import islice
from typing import Final

from inturn.clock import Clock, SystemClock
from inturn.errors import NotFoundError
from inturn.ids import clean_id
from inturn.insights.views import (
    AtWork,
    BatchNow,
    Bounds,
    Busiest,
    Closed,
    CounterNow,
    LiveView,
    NoPlace,
    NoStart,
    Overview,
    Span,
    Why,
)
from inturn.model import SECOND, Customer, Document, DocumentState
from inturn.policy import Order, PriorityPolicy
from inturn.policy.costs import Fit, Timed, fitted
from inturn.policy.places import Before, OpenLine, classic_before, fair_before
from inturn.policy.priority import Counter
from inturn.store import CustomerFilter, DocumentFilter, PolicyVersion, Standings, Store

SUMMARY_KEPT: Final = SECOND
"""How old the summary of all lines may be for places and expected starts."""
SUMMARY_TIMES: Final = 10
"""How many times as old as it takes to read it, for figures beside."""
PACE_OVER: Final = 600 * SECOND
LATELY: Final = 60 * SECOND
MOMENT: Final = 10 * SECOND
MEASURED: Final = 2_000
"""Documents that costs are measured by."""
BUSIEST: Final = 12
PAGE: Final = 1_000
CHECKED: Final = 200
ENOUGH_FINISHES: Final = 20


class Insights:
    """Reads a store for people; changes nothing."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._summary: tuple[int, Standings] | None = None
        self._took = 0
        self._made_at: int | None = None

    def why(self, id: str, now: int | None = None) -> Why:
        """Everything that decides when a document starts."""
        now = self._clock.now() if now is None else now
        document = self._store.document(clean_id(id))
        customer = self._store.customer(document.customer)
        closed_by = self._closed_by(document, customer)
        before, no_place = self._before(document, closed_by, now)
        start, no_start = self._start(before, no_place, now)
        return Why(
            document=document,
            at=now,
            bounds=self._bounds(document),
            counter=self.counter(customer),
            closed_by=closed_by,
            before=before,
            no_place=no_place,
            start=start,
            no_start=no_start,
        )

    def overview(self, now: int | None = None) -> Overview:
        """The queue at a glance."""
        now = self._clock.now() if now is None else now
        counts = self._store.counts(DocumentFilter())
        lines = self._standings(now).lines
        waiting = sum(counts.waiting.values())
        return Overview(
            at=now,
            states=counts.states,
            waiting=counts.waiting,
            waiting_closed=max(0, waiting - sum(line.waiting for line in lines)),
            customers=len({line.customer for line in lines}),
            oldest_wait=max(0, now - min(line.head.ready_at for line in lines)) if lines else None,
            pace=self._store.pace(now - PACE_OVER),
            paused=self._store.paused(),
            policy=self._store.policy(),
        )

    def live(self, now: int | None = None, *, most: int = BUSIEST) -> LiveView:
        """The queue as it goes on, with `most` of its busiest customers."""
        now = self._clock.now() if now is None else now
        counts = self._store.counts(DocumentFilter())
        waits: dict[int, int] = {}
        for line in self._standings(now).lines:
            waits[line.level] = max(waits.get(line.level, 0), now - line.head.ready_at)
        return LiveView(
            at=now,
            states=counts.states,
            waiting=counts.waiting,
            oldest_waits=waits,
            per_second=self._per_second(now),
            busiest=self._busiest(now, most),
            at_work=self._at_work(),
            paused=self._store.paused(),
        )

    def counter(self, customer: Customer) -> CounterNow | None:
        """A customer's counter, if it was ever checked, and when it starts anew."""
        return counter_now(customer, self._store.policy().policy.priority)

    def level(self, customer: Customer, now: int | None = None) -> int:
        """The level that a customer's next document would get."""
        now = self._clock.now() if now is None else now
        return self._store.policy().policy.priority.check(kept_counter(customer), now).level

    def policy(self) -> PolicyVersion:
        """The policy in force."""
        return self._store.policy()

    def standings(self, now: int) -> Standings:
        """All open lines, as a summary that may be a second old, or ten times as old as it takes to read it."""
        kept = self._summary
        if kept is not None and 0 <= now - kept[0] < SUMMARY_TIMES * self._took:
            return kept[1]
        return self._standings(now)

    def batch(self, name: str) -> BatchNow:
        """How far a batch is; NotFoundError if no document is of it."""
        found: dict[str, CountOf[DocumentState]] = {}
        first, last = [], []
        for document in self._documents(DocumentFilter(batch=name)):
            found.setdefault(document.customer, CountOf())[document.state] += 1
            first.append(document.submitted_at)
            if document.finished_at is not None:
                last.append(document.finished_at)
        if not found:
            raise NotFoundError(f"there is no document of a batch {name!r}")
        states = sum(found.values(), CountOf())
        by_size = sorted(found.items(), key=lambda each: (-each[1].total(), each[0]))
        return BatchNow(states, dict(by_size), min(first), max(last, default=None))

    def measured_costs(self) -> Fit | None:
        """Seconds a document and a page took, by the newest documents that are done and have pages."""
        done = self._documents(DocumentFilter(frozenset({DocumentState.DONE})))
        return fitted(
            Timed(each.given.pages, each.finished_at - each.started_at)
            for each in islice(done, MEASURED)
            if each.given.pages is not None and each.finished_at is not None and each.started_at is not None
        )

    def _documents(self, where: DocumentFilter) -> Iterator[Document]:
        after = None
        while True:
            page = self._store.documents(where, limit=PAGE, after=after)
            yield from page.items
            after = page.next
            if after is None:
                return

    def _per_second(self, now: int) -> float:
        recent = self._store.pace(now - MOMENT).finished
        if recent >= ENOUGH_FINISHES:
            return recent * SECOND / lived(MOMENT, self._began(), now)
        return self._store.pace(now - LATELY).finished * SECOND / lived(LATELY, self._began(), now)

    def _busiest(self, now: int, most: int) -> tuple[Busiest, ...]:
        """Of a page of customers with documents waiting and, if there are more of them, of the longest open lines."""
        page = self._store.customers(CustomerFilter(waiting=True), limit=PAGE)
        found = {each.name: each for each in page.items}
        if page.next is not None:
            waiting: CountOf[str] = CountOf()
            for line in self._standings(now).lines:
                waiting[line.customer] += line.waiting
            for name, _ in waiting.most_common(most):
                found.setdefault(name, self._store.customer(name))
        priority = self._store.policy().policy.priority
        busiest = nlargest(most, found.values(), key=lambda each: each.waiting)
        busiest += self._lately_checked(now, found)[: most - len(busiest)] if len(found) < most else []
        return tuple(Busiest(each, priority.check(kept_counter(each), now).level) for each in busiest)

    def _lately_checked(self, now: int, known: Collection[str]) -> list[Customer]:
        """Of a page of the others, those whose counter runs, the lowest first: their documents wait in other queues."""
        page = self._store.customers(CustomerFilter(), limit=CHECKED).items
        counters = {
            each.name: counter for each in page if (counter := self.counter(each)) and counter.resets_after >= now
        }
        running = [each for each in page if each.name in counters and each.name not in known]
        return sorted(running, key=lambda each: counters[each.name].count)

    def _at_work(self) -> tuple[AtWork, ...]:
        running = self._store.documents(DocumentFilter(frozenset({DocumentState.RUNNING})), limit=PAGE).items
        return tuple(
            AtWork(worker, tuple(each for each in running if each.worker == worker.report.name))
            for worker in self._store.workers()
        )

    def _standings(self, now: int, *, fresh: bool = False) -> Standings:
        kept = self._summary
        if kept is None or fresh or not 0 <= now - kept[0] < SUMMARY_KEPT:
            began = time.monotonic()
            kept = self._summary = (now, self._store.standings())
            self._took = round((time.monotonic() - began) * SECOND)
        return kept[1]

    def _bounds(self, document: Document) -> Bounds | None:
        """By the policy in force when it was submitted, or the latest that fits: a retry by hand is checked later."""
        versions = [each for each in self._store.policies() if _gives(each.policy.priority, document)]
        then = next((each for each in versions if each.at <= document.submitted_at), None) or next(iter(versions), None)
        if then is None:
            return None
        thresholds = (None, *then.policy.priority.thresholds, None)
        return Bounds(thresholds[document.level - 1], thresholds[document.level])

    def _closed_by(self, document: Document, customer: Customer) -> tuple[Closed, ...]:
        """All that closes a waiting document's line, the queue's own pause first."""
        if document.state is not DocumentState.WAITING:
            return ()
        settings = customer.settings
        reasons = []
        if self._store.paused() is not None:
            reasons.append(Closed.QUEUE_PAUSED)
        if settings.paused:
            reasons.append(Closed.CUSTOMER_PAUSED)
        if settings.cap is not None and customer.running >= settings.cap:
            reasons.append(Closed.CAP)
        is_open = any(line.is_open for line in customer.lines if line.level == document.line_level)
        if not is_open and settings.rate is not None and not (settings.paused or Closed.CAP in reasons):
            reasons.append(Closed.RATE)
        return tuple(reasons)

    def _before(
        self, document: Document, closed_by: tuple[Closed, ...], now: int
    ) -> tuple[Before | None, NoPlace | None]:
        if document.state is not DocumentState.WAITING:
            return None, NoPlace(document.state)
        if closed_by:
            return None, NoPlace.CLOSED
        ahead = self._store.ahead(document.id)
        for fresh in (False, True):
            standings = self._standings(now, fresh=fresh)
            mine = _line_of(document, standings)
            if mine is not None and standings.lines[mine].waiting > ahead:
                return _count_before(standings, mine, ahead, document.seq), None
        return None, NoPlace.MOVED

    def _start(self, before: Before | None, no_place: NoPlace | None, now: int) -> tuple[Span | None, NoStart | None]:
        if before is None:
            unknown = {NoPlace.CLOSED: NoStart.CLOSED}
            return None, unknown.get(no_place or NoPlace.MOVED, NoStart.NOT_WAITING)
        lately, longer = self._store.pace(now - LATELY), self._store.pace(now - PACE_OVER)
        if not (lately.running or lately.started or self._has_worker(now)):
            return None, NoStart.NO_WORKER
        if longer.finished < ENOUGH_FINISHES:
            return None, NoStart.TOO_FEW_FINISHES
        finished, over = (
            (lately.finished, LATELY) if lately.finished >= ENOUGH_FINISHES else (longer.finished, PACE_OVER)
        )
        return expected_start(before.place, finished, lived(over, self._began(), now), now), None

    def _began(self) -> int:
        """When the queue was made: its first policy is as old."""
        if self._made_at is None:
            self._made_at = self._store.policies()[-1].at
        return self._made_at

    def _has_worker(self, now: int) -> bool:
        """One that was heard of lately, even if there was nothing to start."""
        return any(now - each.seen_at <= LATELY and not each.report.stopping for each in self._store.workers())


def counter_now(customer: Customer, priority: PriorityPolicy) -> CounterNow | None:
    """A customer's counter by this policy."""
    if customer.count is None or customer.updated_at is None:
        return None
    return CounterNow(customer.count, customer.updated_at, customer.updated_at + priority.reset_interval)


def kept_counter(customer: Customer) -> Counter | None:
    """A customer's counter as a policy takes it."""
    if customer.count is None or customer.updated_at is None:
        return None
    return Counter(customer.count, customer.updated_at)


def expected_start(place: int, finished: int, over: int, now: int) -> Span:
    """When the document at this place should start, if as many finish as `finished` did within `over`.

    One start takes `each = over / finished`. Both the pace and what is still to come are counts of events, so their
    relative errors are about 1/sqrt(finished) and 1/sqrt(place + 1); with s the root of the sum of their squares the
    span goes from `place * each / (1 + 2s)` to `(place + 1) * each * (1 + 2s)`: the fewer, the wider.
    """
    each = over / finished
    wider = 1 + 2 * math.sqrt(1 / finished + 1 / (place + 1))
    return Span(now + round(place * each / wider), now + round((place + 1) * each * wider))


def lived(over: int, began: int, now: int) -> int:
    """How much of the last `over` there was a queue that began then: what was finished was finished in that time.

    At least a second; all of it where the queue says that it began later than now.
    """
    return over if now < began else min(over, max(SECOND, now - began))


def _gives(priority: PriorityPolicy, document: Document) -> bool:
    return priority.level(document.count) == document.level


def _line_of(document: Document, standings: Standings) -> int | None:
    for number, line in enumerate(standings.lines):
        if line.customer == document.customer and line.level == document.line_level:
            return number
    return None


def _count_before(standings: Standings, mine: int, ahead: int, seq: int) -> Before:
    lines = open_lines(standings)
    if standings.policy.order is Order.FAIR:
        return fair_before(lines, mine, ahead)
    return classic_before(lines, mine, ahead, seq)


def open_lines(standings: Standings) -> list[OpenLine]:
    """The standings as `inturn.policy.places` takes them."""
    return [
        OpenLine(line.level, line.turn, line.stamp, line.weight, line.waiting, line.head.cost, line.head.seq)
        for line in standings.lines
    ]
