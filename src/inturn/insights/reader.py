"""Compute what screens show from a queue."""

import time
from collections import Counter as CountOf
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import nlargest
from itertools import islice
from typing import Final

from inturn.clock import Clock, SystemClock
from inturn.errors import NotFoundError
from inturn.insights.at_work import at_work, is_silent
from inturn.insights.flow import (
    MEDIUM_WINDOW,
    MIN_FINISHES,
    SHORT_WINDOW,
    THROUGHPUT_WINDOW,
    FlowReader,
    observed_window,
)
from inturn.insights.forecast import arrival_rates, expected_start, expected_wait
from inturn.insights.lanes_ahead import count_ahead, forecast_target, lane_index
from inturn.insights.shares import SHARE_WINDOW, ShareMeter, Shares
from inturn.insights.snapshots import SNAPSHOT_MAX_AGE, Snapshots
from inturn.insights.views import (
    AtWork,
    BatchStatus,
    Bounds,
    BusyCustomer,
    ClosedBy,
    CounterStatus,
    LiveView,
    NoPlace,
    NoStart,
    Overview,
    SlotUse,
    Span,
    Why,
)
from inturn.model import Customer, Document, DocumentState, QueueStatus
from inturn.policy import PriorityPolicy
from inturn.policy.costs import CostFit, CostSample, fit_costs
from inturn.policy.forecasts import DAY, HOUR, Forecast, ForecastLog
from inturn.policy.position import Ahead
from inturn.policy.priority import Counter
from inturn.policy.slot_share import MIN_SHARED_SLOTS, SlotShares
from inturn.queue_reader import QueueReader
from inturn.store_answers import LaneSnapshot, SchedulerSnapshot
from inturn.store_types import CustomerFilter, DocumentFilter, PolicyVersion, live_slots
from inturn.values import SECOND
from inturn.worker_report import Worker

FORECAST_LOG_MAX_AGE: Final = 10 * SECOND
SHARES_AGE_FACTOR: Final = 100
"""Measured shares may be this many times as old as their read takes: 0.1 s for 60,000 documents on SQLite."""
MAX_COST_SAMPLES: Final = 2_000
DEFAULT_BUSIEST: Final = 12
PAGE_SIZE: Final = 1_000
SMALL_PAGE_SIZE: Final = 200
PAUSES_OF_QUEUES: Final = frozenset({ClosedBy.QUEUE_PAUSED, ClosedBy.OWN_QUEUE_PAUSED})


class Insights:
    """Read-only queries for screens, with cached snapshots."""

    def __init__(self, queue: QueueReader, clock: Clock | None = None) -> None:
        self._queue = queue
        self._clock = clock or SystemClock()
        self._snapshots = Snapshots(queue)
        self._flow = FlowReader(queue, self._snapshots)
        self._shares: Shares | None = None
        self._shares_age = 0
        self._forecasts: tuple[int, ForecastLog] | None = None
        self.open_forecasts: Callable[[], Iterable[Forecast]] = tuple
        """Forecasts whose documents still wait, as far as this process knows them."""

    def why(self, id: str, now: int | None = None) -> Why:
        """Return everything that decides when a document starts."""
        now = self._clock.now() if now is None else now
        document = self._queue.document(id)
        customer = self._queue.customer(document.customer)
        slot_use = self._slot_use(document, now) if customer.at_slot_limit else None
        closed_by = self._closed_by(document, customer, slot_use)
        ahead, no_place = self._ahead(document, closed_by, now)
        forecast, start, no_start = self._start(document, ahead, no_place, now)
        return Why(
            document=document,
            at=now,
            bounds=self._bounds(document),
            counter=self.counter(customer),
            closed_by=closed_by,
            ahead=ahead,
            no_place=no_place,
            start=start,
            no_start=no_start,
            forecast=forecast,
            held=None if start is None else self._forecast_log(now).held_between(now - DAY - HOUR, now),
            slot_use=slot_use
            if ClosedBy.SHARE in closed_by and slot_use and slot_use.slots >= MIN_SHARED_SLOTS
            else None,
        )

    def overview(self, now: int | None = None) -> Overview:
        """Return a summary of all queues."""
        now = self._clock.now() if now is None else now
        counts = self._queue.counts(DocumentFilter())
        lanes = self._snapshots.merged(now).lanes
        waiting = sum(counts.waiting.values())
        return Overview(
            at=now,
            states=counts.states,
            waiting=counts.waiting,
            waiting_closed=max(0, waiting - sum(lane.waiting for lane in lanes)),
            customers=len({lane.customer for lane in lanes}),
            oldest_wait=max(0, now - min(lane.head.ready_at for lane in lanes)) if lanes else None,
            throughput=self._queue.throughput(now - THROUGHPUT_WINDOW),
            paused=self._queue.paused(),
            policy=self._queue.policy(),
        )

    def live(self, now: int | None = None, *, busiest_limit: int = DEFAULT_BUSIEST) -> LiveView:
        """Return the live state of all queues, with up to `busiest_limit` of their busiest customers."""
        now = self._clock.now() if now is None else now
        counts = self._queue.counts(DocumentFilter())
        waits: dict[int, int] = {}
        for lane in self._snapshots.merged(now).lanes:
            waits[lane.level] = max(waits.get(lane.level, 0), now - lane.head.ready_at)
        return LiveView(
            at=now,
            states=counts.states,
            waiting=counts.waiting,
            oldest_waits=waits,
            per_second=self._per_second(now),
            busiest=self._busiest(now, busiest_limit),
            at_work=self.at_work(),
            paused=self._queue.paused(),
        )

    def lane_waits(self, customer: str, now: int) -> dict[tuple[str, int], int]:
        """Return the longest wait in each lane of a customer, by queue and level; closed lanes included."""
        return {
            (status.name, lane.level): max(0, now - lane.head.ready_at)
            for status in self.queues(now)
            for lane in self._snapshots.of(status.name, now, is_precise=False).all_lanes
            if lane.customer == customer
        }

    def counter(self, customer: Customer) -> CounterStatus | None:
        """Return a customer's counter and when it resets; None if the customer was never checked."""
        return counter_status(customer, self._queue.policy().policy.priority)

    def level(self, customer: Customer, now: int | None = None) -> int:
        """Return the level that a customer's next document would get."""
        now = self._clock.now() if now is None else now
        return self._queue.policy().policy.priority.check(stored_counter(customer), now).level

    def policy(self) -> PolicyVersion:
        """Return the active policy."""
        return self._queue.policy()

    def queues(self, now: int, *, fresh: bool = False) -> tuple[QueueStatus, ...]:
        """Return all queues: up to a second old, unless `fresh`."""
        return self._snapshots.queues(now, fresh=fresh)

    def scheduler_snapshot(self, now: int) -> SchedulerSnapshot:
        """Return a cached snapshot of the lanes of all queues: up to 1 second old, or ten times as old as its read."""
        return self._snapshots.merged(now, is_precise=False)

    def served_lanes(self, now: int) -> tuple[LaneSnapshot, ...]:
        """Return the open lanes of queues that are not paused and that a worker serves: what may start now."""
        queues = self.queues(now)
        if len(queues) == 1:
            return self.scheduler_snapshot(now).lanes
        names = [status.name for status in queues if not status.paused]
        unserved = self.unserved(names, now)
        return tuple(
            lane
            for name in names
            if name not in unserved
            for lane in self._snapshots.of(name, now, is_precise=False).lanes
        )

    def shares(self, now: int | None = None) -> Shares:
        """Measure the shares of worker seconds of the last ten minutes, by one read, cached for a second or longer.

        Waits count as the open lanes show them now. A server measures in short spans, which is closer.
        """
        now = self._queue.now() if now is None else now
        cached = self._shares
        if cached is None or not 0 <= now - cached.until < max(SNAPSHOT_MAX_AGE, self._shares_age):
            began = time.monotonic()
            meter = ShareMeter(now - SHARE_WINDOW)
            log = self._queue.work_between(meter.until, now)
            meter.add(log, now, workers=self._queue.workers(), lanes=self.served_lanes(now))
            cached = self._shares = meter.shares()
            self._shares_age = round(SHARES_AGE_FACTOR * (time.monotonic() - began) * SECOND)
        return cached

    def batch(self, name: str) -> BatchStatus:
        """Return the progress of a batch, of the documents that were submitted in it; NotFoundError if there are none.

        Parts of them are not counted.
        """
        customers: dict[str, CountOf[DocumentState]] = {}
        submitted, ended = [], []
        for document in self._documents(DocumentFilter(batch=name, parts=False)):
            customers.setdefault(document.customer, CountOf())[document.state] += 1
            submitted.append(document.submitted_at)
            if document.finished_at is not None:
                ended.append(document.finished_at)
        if not customers:
            raise NotFoundError(f"there is no document of a batch {name!r}")
        states = sum(customers.values(), CountOf())
        by_size = sorted(customers.items(), key=lambda entry: (-entry[1].total(), entry[0]))
        return BatchStatus(states, dict(by_size), min(submitted), max(ended, default=None))

    def measured_costs(self) -> CostFit | None:
        """Fit the processing time by pages of the newest done documents."""
        done = self._documents(DocumentFilter(frozenset({DocumentState.DONE})))
        return fit_costs(
            CostSample(document.spec.pages, document.work_ended_at - document.work_began_at)
            for document in islice(done, MAX_COST_SAMPLES)
            if document.spec.pages is not None
            and document.work_ended_at is not None
            and document.work_began_at is not None
        )

    def _documents(self, where: DocumentFilter) -> Iterator[Document]:
        after = None
        while True:
            page = self._queue.documents(where, limit=PAGE_SIZE, after=after)
            yield from page.items
            after = page.next
            if after is None:
                return

    def _per_second(self, now: int) -> float:
        recent = self._queue.throughput(now - SHORT_WINDOW).finished
        if recent >= MIN_FINISHES:
            return recent * SECOND / observed_window(SHORT_WINDOW, self._flow.created_at(), now)
        finished = self._queue.throughput(now - MEDIUM_WINDOW).finished
        return finished * SECOND / observed_window(MEDIUM_WINDOW, self._flow.created_at(), now)

    def _busiest(self, now: int, limit: int) -> tuple[BusyCustomer, ...]:
        """Return the customers with the most waiting documents.

        They come from one page of customers and, if there are more, from the longest lanes.
        """
        page = self._queue.customers(CustomerFilter(waiting=True), limit=PAGE_SIZE)
        customers = {customer.name: customer for customer in page.items}
        if page.next is not None:
            waiting: CountOf[str] = CountOf()
            for lane in self._snapshots.merged(now).all_lanes:
                waiting[lane.customer] += lane.waiting
            for name, _ in waiting.most_common(limit):
                customers.setdefault(name, self._queue.customer(name))
        priority = self._queue.policy().policy.priority
        busiest = nlargest(limit, customers.values(), key=lambda customer: customer.waiting)
        busiest += self._recently_checked(now, customers)[: limit - len(busiest)] if len(customers) < limit else []
        return tuple(
            BusyCustomer(customer, priority.check(stored_counter(customer), now).level) for customer in busiest
        )

    def _recently_checked(self, now: int, known: Collection[str]) -> list[Customer]:
        """Return other customers with an active counter, lowest first: their documents wait in other queues."""
        page = self._queue.customers(CustomerFilter(), limit=SMALL_PAGE_SIZE).items
        counters = {
            customer.name: counter
            for customer in page
            if (counter := self.counter(customer)) and counter.resets_after >= now
        }
        running = [customer for customer in page if customer.name in counters and customer.name not in known]
        return sorted(running, key=lambda customer: counters[customer.name].count)

    def at_work(self) -> tuple[AtWork, ...]:
        """Return the workers with the documents that their slots process."""
        running = self._queue.documents(DocumentFilter(frozenset({DocumentState.RUNNING})), limit=PAGE_SIZE).items
        return tuple(
            at_work(worker, [document for document in running if document.worker == worker.report.name])
            for worker in self._queue.workers()
        )

    def _bounds(self, document: Document) -> Bounds | None:
        """Return the thresholds of the document's level, by the policy in force at its submission.

        If that policy does not give this level, the newest that does is used: a retry by hand is checked later.
        """
        versions = [version for version in self._queue.policies() if _matches_level(version.policy.priority, document)]
        if not versions:
            return None
        applied = next((version for version in versions if version.at <= document.submitted_at), versions[0])
        thresholds = (None, *applied.policy.priority.thresholds, None)
        return Bounds(thresholds[document.level - 1], thresholds[document.level])

    def _closed_by(self, document: Document, customer: Customer, slot_use: SlotUse | None) -> tuple[ClosedBy, ...]:
        """Return everything that closes a waiting document's lane, the pauses of queues first.

        `slot_use` is given if the last claim of any queue found that the customer holds its share; documents may have
        ended since.
        """
        if document.state is not DocumentState.WAITING:
            return ()
        settings, queue = customer.settings, document.spec.queue
        is_open = any(
            lane.is_open for lane in customer.lanes if (lane.queue, lane.level) == (queue, document.lane_level)
        )
        reasons = []
        if self._queue.paused() is not None:
            reasons.append(ClosedBy.QUEUE_PAUSED)
        if self._queue.paused(queue) is not None:
            reasons.append(ClosedBy.OWN_QUEUE_PAUSED)
        if settings.paused:
            reasons.append(ClosedBy.CUSTOMER_PAUSED)
        if settings.cap is not None and customer.running >= settings.cap:
            reasons.append(ClosedBy.CAP)
        if slot_use is not None and not is_open and self._is_at_limit(slot_use):
            reasons.append(ClosedBy.SHARE)
        if not is_open and settings.rate is not None and PAUSES_OF_QUEUES.issuperset(reasons):
            reasons.append(ClosedBy.RATE)
        return tuple(reasons)

    def _slot_use(self, document: Document, now: int) -> SlotUse:
        """Return how much of its queue's live slots the customer of a document uses."""
        queue = document.spec.queue
        workers = [worker for worker in self._queue.workers() if queue in worker.report.queues]
        where = DocumentFilter(frozenset({DocumentState.RUNNING}), document.customer, queue=queue)
        running = sum(self._queue.counts(where).states.values())
        return SlotUse(running, live_slots(((worker.seen_at, worker.open_slots) for worker in workers), now))

    def _is_at_limit(self, use: SlotUse) -> bool:
        """Return whether the share of a customer is used up, or unknown since workers are gone."""
        limit = SlotShares(use.slots).limit(self._queue.policy().policy.turns.max_share)
        return use.running > 0 and (limit is None or use.running >= limit)

    def _ahead(
        self, document: Document, closed_by: tuple[ClosedBy, ...], now: int
    ) -> tuple[Ahead | None, NoPlace | None]:
        if document.state is not DocumentState.WAITING:
            return None, NoPlace(document.state)
        if closed_by:
            return None, NoPlace.CLOSED
        ahead = self._queue.ahead_in_lane(document.id)
        for fresh in (False, True):
            snapshot = self._snapshots.of(document.spec.queue, now, fresh=fresh)
            index = lane_index(document, snapshot)
            if index is not None and snapshot.lanes[index].waiting > ahead:
                return count_ahead(snapshot, index, ahead, document.seq), None
        return None, NoPlace.MOVED

    def _start(
        self, document: Document, ahead: Ahead | None, no_place: NoPlace | None, now: int
    ) -> tuple[Forecast | None, Span | None, NoStart | None]:
        if ahead is None:
            unknown = {NoPlace.CLOSED: NoStart.CLOSED}
            return None, None, unknown.get(no_place or NoPlace.MOVED, NoStart.NOT_WAITING)
        queue = document.spec.queue
        if not self.has_worker(now, queue):
            return None, None, NoStart.QUEUE_UNSERVED if self.has_worker(now) else NoStart.NO_WORKER
        flow = self._flow.recent(queue, now)
        speed = flow.starts.speed(now) or self._flow.finish_speed(queue, now)
        if speed is None:
            return None, None, NoStart.TOO_FEW_FINISHES
        target = forecast_target(document, self._snapshots.of(queue, now))
        rates = arrival_rates(target, flow.arrived, self._queue.policy().policy.priority.thresholds)
        forecast = Forecast(now, expected_wait(ahead, target, speed, rates), document.lane_level)
        outcomes = self._forecast_log(now).outcomes
        return forecast, expected_start(forecast, speed, outcomes, self.open_forecasts()), None

    def _forecast_log(self, now: int) -> ForecastLog:
        """Return what became of earlier forecasts, cached for ten seconds."""
        cached = self._forecasts
        if cached is None or not 0 <= now - cached[0] < FORECAST_LOG_MAX_AGE:
            cached = self._forecasts = (now, self._queue.forecast_log())
        return cached[1]

    @property
    def queue(self) -> QueueReader:
        """The queue that is read."""
        return self._queue

    def has_worker(self, now: int, queue: str | None = None) -> bool:
        """Return whether a live worker takes documents, of this queue if one is named.

        A program without reports (a custom loop) counts while it holds a claim.
        """
        workers = self._queue.workers()
        serving = [worker for worker in workers if queue is None or queue in worker.report.queues]
        return any(_takes_documents(worker, now) for worker in serving) or self._has_claim(workers, now, queue)

    def unserved(self, queues: Iterable[str], now: int) -> frozenset[str]:
        """Return those of the queues that `has_worker` denies; the workers are read once."""
        workers = self._queue.workers()
        live = [worker for worker in workers if _takes_documents(worker, now)]
        served = {queue for worker in live for queue in worker.report.queues}
        return frozenset(queue for queue in {*queues} - served if not self._has_claim(workers, now, queue))

    def _has_claim(self, workers: Iterable[Worker], now: int, queue: str | None) -> bool:
        """Return whether a program without reports holds a claim."""
        names = {worker.report.name for worker in workers}
        where = DocumentFilter(frozenset({DocumentState.RUNNING}), queue=queue)
        running = self._queue.documents(where, limit=SMALL_PAGE_SIZE).items
        return any(document.worker not in names and (document.lease_until or 0) > now for document in running)


def _takes_documents(worker: Worker, now: int) -> bool:
    return worker.open_slots > 0 and not is_silent(worker, now)


def counter_status(customer: Customer, priority: PriorityPolicy) -> CounterStatus | None:
    """Return a customer's counter and when it resets by this policy."""
    if customer.count is None or customer.updated_at is None:
        return None
    return CounterStatus(customer.count, customer.updated_at, customer.updated_at + priority.reset_interval)


def stored_counter(customer: Customer) -> Counter | None:
    """Return a customer's counter as input for `PriorityPolicy.check`."""
    if customer.count is None or customer.updated_at is None:
        return None
    return Counter(customer.count, customer.updated_at)


def _matches_level(priority: PriorityPolicy, document: Document) -> bool:
    return priority.level(document.count) == document.level
