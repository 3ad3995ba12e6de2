"""Measure each customer's share of worker seconds against its fair share, over the last ten minutes.

The *actual share* is the part of all worker seconds that went to a customer's documents. An ended attempt counts with
its processing time, a running document from the time at which a slot began it.

The *fair share* is what max-min fairness gives. The window is cut into slices of a minute. The worker seconds of a
slice are divided by weight among the customers that wanted some; a customer gets at most what it wanted, and the rest
is divided among the others. A customer *wanted* what it used, and more while documents waited in its open lanes: the
time that those still waiting at the end of the slice would take, at most what workers did while it waited.

So both shares add up to 1, and they are equal wherever no other customer had to wait.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, NamedTuple

from inturn.insights.at_work import begun_at
from inturn.store_answers import LaneSnapshot, RunningClaim, WorkLog
from inturn.store_types import EventKind
from inturn.values import SECOND
from inturn.worker_report import Worker

SHARE_WINDOW: Final = 600 * SECOND
SLICE_LENGTH: Final = 60 * SECOND
MAX_CUSTOMERS_PER_SLICE: Final = 10_000
"""Customers kept for a past slice: those with the largest shares."""
OVER_SHARE_FACTOR: Final = 1.1
OVER_SHARE_PART: Final = 0.01
OVER_SHARE_TIME: Final = SECOND
"""A customer is over its share if it used more than 1.1 times its fair share, and if the excess is at least a second
and 1 % of all worker seconds: less is the grain of single documents."""
ENDED_DOCUMENT: Final = frozenset({EventKind.FINISHED, EventKind.FAILED})


class CustomerShare(NamedTuple):
    """A customer in the window. Shares are parts of 1, `worked` is microseconds."""

    worked: int
    documents: int
    """Documents done or failed; parts count as documents, and a document of several steps counts at the last one."""
    received: float
    """Its actual share."""
    due: float
    """Its fair share."""
    is_over: bool
    """Whether it used more than its fair share, while others got less than theirs."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of all customers between two times."""

    since: int
    until: int
    worked: int
    """Microseconds that workers spent on documents of all customers."""
    documents: int
    customers: Mapping[str, CustomerShare]

    def of(self, customer: str) -> CustomerShare | None:
        """Return a customer's share; None if workers did nothing in the window."""
        return self.customers.get(customer, CustomerShare(0, 0, 0.0, 0.0, is_over=False)) if self.worked else None

    def top(self, limit: int) -> list[tuple[str, CustomerShare]]:
        """Return the customers with the largest shares, actual or fair, largest first."""
        return nlargest(limit, self.customers.items(), key=lambda item: (max(item[1].received, item[1].due), item[0]))


@dataclass(slots=True)
class _Slice:
    """What customers used and wanted in about a minute."""

    since: int
    until: int
    used: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    ended_work: Counter[str] = field(default_factory=Counter)
    """Whole processing time of the attempts that ended."""
    waited: Counter[str] = field(default_factory=Counter)
    """Time in which documents waited in open lanes."""
    waiting: Counter[str] = field(default_factory=Counter)
    """Documents in open lanes at the end."""
    running: dict[str, int] = field(default_factory=dict)
    """Mean time that the documents running at the end have run."""
    weights: dict[str, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    """Fair time, as last computed."""
    total: int = 0
    """Time used by all customers, also by those that are dropped when the slice is closed."""
    total_documents: int = 0


class ShareMeter:
    """Add up worker time in consecutive spans, and compute the shares of the last ten minutes."""

    def __init__(self, since: int) -> None:
        self.until = since
        """The end of the last span."""
        self._slices: deque[_Slice] = deque([_Slice(since, since)])

    def add(self, log: WorkLog, until: int, *, workers: Sequence[Worker], lanes: Sequence[LaneSnapshot]) -> None:
        """Add the work of the span from the last one's end; `lanes` are the open lanes at its end."""
        current = self._slices[-1]
        if current.until - current.since >= SLICE_LENGTH:
            self._close(current)
            current = _Slice(self.until, self.until)
            self._slices.append(current)
        span = range(self.until, until)
        _add_ended(current, log)
        _add_running(current, log.running, workers, span)
        _add_waiting(current, lanes, span)
        current.until = self.until = until
        current.total, current.total_documents = current.used.total(), current.documents.total()
        while len(self._slices) > 1 and self._slices[0].since < until - SHARE_WINDOW:
            self._slices.popleft()

    def shares(self) -> Shares:
        """Compute the shares of the window."""
        current = self._slices[-1]
        current.due = self._fair_times(current)
        used, documents, due = Counter[str](), Counter[str](), dict[str, float]()
        for part in self._slices:
            used.update(part.used)
            documents.update(part.documents)
            for customer, time in part.due.items():
                due[customer] = due.get(customer, 0.0) + time
        total = sum(part.total for part in self._slices)
        customers = {
            name: _share(used[name], due.get(name, 0.0), documents[name], total) for name in used.keys() | due.keys()
        }
        ended = sum(part.total_documents for part in self._slices)
        return Shares(self._slices[0].since, self.until, total, ended, customers)

    def _close(self, part: _Slice) -> None:
        """Keep what later shares need of a slice."""
        part.due = self._fair_times(part)
        if len(part.due) > MAX_CUSTOMERS_PER_SLICE:
            largest = nlargest(MAX_CUSTOMERS_PER_SLICE, part.due, key=lambda name: max(part.due[name], part.used[name]))
            part.due = {name: part.due[name] for name in largest}
            for counts in (part.used, part.documents, part.attempts, part.ended_work):
                for name in counts.keys() - part.due.keys():
                    del counts[name]
        part.waited, part.waiting, part.running, part.weights = Counter(), Counter(), {}, {}

    def _fair_times(self, part: _Slice) -> dict[str, float]:
        """Divide the worker time of a slice fairly among the customers that wanted some."""
        capacity, length = part.total, part.until - part.since
        if not capacity or not length:
            return {}
        demands = {name: float(used) for name, used in part.used.items()}
        usual = self._mean_work()
        for name, waited in part.waited.items():
            backlog = part.waiting[name] * self._expected_work(part, name, usual) if part.waiting[name] else 0.0
            demands[name] = demands.get(name, 0.0) + min(backlog, capacity * waited / length)
        pairs = [(demand, part.weights.get(name, 1.0)) for name, demand in demands.items()]
        return dict(zip(demands, fair_shares(pairs, capacity), strict=True))

    def _expected_work(self, part: _Slice, customer: str, usual: float) -> float:
        """Estimate the processing time of a customer's document by its ended ones, by its running ones, or by all."""
        attempts = sum(other.attempts[customer] for other in self._slices)
        if attempts:
            return sum(other.ended_work[customer] for other in self._slices) / attempts
        return part.running.get(customer, usual)

    def _mean_work(self) -> float:
        """Return the mean processing time of all ended attempts; without any there is no limit."""
        attempts = sum(part.attempts.total() for part in self._slices)
        return sum(part.ended_work.total() for part in self._slices) / attempts if attempts else float("inf")


def fair_shares(demands: Sequence[tuple[float, float]], capacity: float) -> list[float]:
    """Divide a capacity by weight among (demand, weight) pairs, none above its demand."""
    result = [0.0] * len(demands)
    left, weight = capacity, sum(item for _, item in demands)
    for place in sorted(range(len(demands)), key=lambda place: demands[place][0] / demands[place][1]):
        demand, own = demands[place]
        result[place] = min(demand, left * own / weight)
        left -= result[place]
        weight -= own
    return result


def _add_ended(part: _Slice, log: WorkLog) -> None:
    for work in log.ended:
        part.weights[work.customer] = work.weight
        part.used[work.customer] += work.within
        part.attempts[work.customer] += work.attempts
        part.ended_work[work.customer] += work.worked
        if work.ended in ENDED_DOCUMENT:
            part.documents[work.customer] += work.attempts


def _add_running(part: _Slice, claims: Iterable[RunningClaim], workers: Sequence[Worker], span: range) -> None:
    """Add the running time within a span. A claim of a program that reports no work counts from its start."""
    held: dict[str, list[RunningClaim]] = {}
    for claim in claims:
        part.weights[claim.customer] = claim.weight
        held.setdefault(claim.worker, []).append(claim)
    reported = {worker.report.name: worker for worker in workers}
    elapsed: dict[str, list[int]] = {}
    for name, own in held.items():
        begun = begun_at(reported[name], own) if name in reported else {claim.id: claim.started_at for claim in own}
        for claim in own:
            began = begun.get(claim.id, span.stop)
            part.used[claim.customer] += max(0, span.stop - max(began, span.start))
            elapsed.setdefault(claim.customer, []).append(max(0, span.stop - began))
    part.running = {customer: sum(times) // len(times) for customer, times in elapsed.items() if any(times)}


def _add_waiting(part: _Slice, lanes: Sequence[LaneSnapshot], span: range) -> None:
    """Add the time in which the documents at the heads of open lanes waited."""
    part.waiting = Counter()
    oldest: dict[str, int] = {}
    for lane in lanes:
        part.weights[lane.customer] = lane.weight
        part.waiting[lane.customer] += lane.waiting
        oldest[lane.customer] = min(oldest.get(lane.customer, span.stop), lane.head.ready_at)
    for customer, ready_at in oldest.items():
        part.waited[customer] += max(0, span.stop - max(ready_at, span.start))


def _share(used: int, due: float, documents: int, total: int) -> CustomerShare:
    excess = used - due
    is_over = used > OVER_SHARE_FACTOR * due and excess >= max(OVER_SHARE_TIME, OVER_SHARE_PART * total)
    return CustomerShare(used, documents, used / total if total else 0.0, due / total if total else 0.0, is_over)
