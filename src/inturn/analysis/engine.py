"""Plays a scenario through the real queue: same checks, same turns, same leases, only the clock is ours.

The order stands nowhere here. `fifo` is the classic order with one level for everybody.
"""

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from inturn.analysis.scenario import MAX_DOCUMENTS, Arrival, FailedAttempt, Scenario, generate_arrivals
from inturn.clock import ManualClock
from inturn.model import SECOND, Claim, NewDocument, Receipt
from inturn.policy import Order, Policy, PriorityPolicy, RetryPolicy
from inturn.queue import MAX_BATCH, Queue
from inturn.store import AckAndClaim, Operator, Outcome, OutcomeKind, Store
from inturn.stores import open_store

LEASE: Final = 86_400 * SECOND
OPERATOR: Final = Operator("simulator", "the scenario says so")
SINGLE_LEVEL_THRESHOLDS: Final = (-(10**15),)
"""A threshold that no counter reaches: everybody is in level 1."""
DEFAULT_RETRY_POLICY: Final = RetryPolicy()
PRUNE_INTERVAL_DOCUMENTS: Final = 1_000
PROGRESS_INTERVAL_DOCUMENTS: Final = 2_000


class Discipline(StrEnum):
    """The orders that a scenario can be played in."""

    FAIR = "fair"
    CLASSIC = "classic"
    FIFO = "fifo"

    def apply_to(self, policy: Policy) -> Policy:
        """The scenario's policy in this order."""
        order = Order.FAIR if self is Discipline.FAIR else Order.CLASSIC
        priority = policy.priority
        if self is Discipline.FIFO:
            priority = PriorityPolicy(priority.reset_interval, SINGLE_LEVEL_THRESHOLDS)
        return Policy(priority, replace(policy.turns, order=order), policy.costs)


class QueueLike(Protocol):
    """The part of the queue that a run needs."""

    def submit(self, customer: str, documents: Sequence[NewDocument], *, now: int) -> Sequence[Receipt]:
        """As `Queue.submit`."""
        ...

    def ack_and_claim(
        self, outcomes: Sequence[Outcome], worker: str, limit: int, *, lease: int, now: int
    ) -> AckAndClaim:
        """As `Queue.ack_and_claim`."""
        ...


class SimulationResult(NamedTuple):
    """What happened to each document, by its number in the order of arrival (microseconds)."""

    levels: Sequence[int]
    started: Sequence[int]
    """When it was first started."""
    finished: Sequence[int]


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario that was played to its end; what happened to each document as in `SimulationResult`."""

    scenario: Scenario
    discipline: Discipline
    arrivals: Sequence[Arrival]
    levels: Sequence[int]
    started: Sequence[int]
    finished: Sequence[int]


class ScheduledChange(NamedTuple):
    """What somebody does to the queue at a time: so many workers more or less, or anything else."""

    at: int
    worker_delta: int = 0
    action: Callable[[int], object] | None = None


class SequentialIds:
    """Ids that are the numbers of the documents, so that a claim tells which arrival it is."""

    def __init__(self) -> None:
        self._next = 0

    def make(self, n: int, now: int) -> list[str]:
        """The next n numbers."""
        del now
        first, self._next = self._next, self._next + n
        return [str(number) for number in range(first, first + n)]


def simulate_scenario(
    scenario: Scenario,
    discipline: Discipline = Discipline.FAIR,
    *,
    progress: Callable[[int, int], None] | None = None,
    max_documents: int = MAX_DOCUMENTS,
) -> Run:
    """Play a scenario to its end; `progress` is told how many documents of how many are finished."""
    arrivals = generate_arrivals(scenario, max_documents)
    clock = ManualClock()
    store = open_store("memory://", clock)
    queue = Queue(store, clock=clock, ids=SequentialIds())
    queue.set_policy(discipline.apply_to(scenario.policy), OPERATOR, now=0)
    _apply_customer_settings(queue, scenario, arrivals)
    playing = Simulation(arrivals, document_specs(scenario), scenario.workers, queue, store, progress)
    with gc_disabled():
        return Run(scenario, discipline, arrivals, *playing.run())


def document_specs(scenario: Scenario) -> list[NewDocument]:
    """What customers of each group submit."""
    return [simulated_document(group.cost) for group in scenario.groups]


def simulated_document(cost: float, pages: int | None = None) -> NewDocument:
    """A document that costs so much, or has so many pages."""
    return NewDocument("simulated", cost=cost, max_attempts=100, pages=pages)


class Simulation:
    """A run under way: idle workers, documents in work by the time they end, and the notes taken."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        specs: Sequence[NewDocument],
        workers: int,
        queue: QueueLike,
        store: Store | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._arrivals, self._specs, self._idle_workers = arrivals, specs, workers
        self._queue, self._store, self._progress = queue, store, progress
        self._completions: list[tuple[int, int, Claim | None]] = []
        """Documents by the time they end; None stands for a worker that looks for its next one then."""
        self._levels = array("b", bytes(len(arrivals)))
        self._started = array("q", [-1]) * len(arrivals)
        self._finished = array("q", [-1]) * len(arrivals)
        self._failures_left = {number: arrival.failures for number, arrival in enumerate(arrivals) if arrival.failures}
        self.has_delays = bool(self._failures_left)
        """Something may become due while nothing ends and nobody comes: a retry, or a rate limit."""
        self.changes: Sequence[ScheduledChange] = ()
        """In the order of their times; those of an instant come before whatever else happens then."""
        self.on_arrival: Callable[[int, int], None] | None = None
        """Told the number of each document that has come, and when, before it can start."""
        self.capped_customers: frozenset[str] = frozenset()
        """Customers whose documents make room for their next ones as soon as they end, before any worker looks."""
        self._next_change = 0
        self._arrived = self._done = self._unpruned = 0

    def run(self) -> SimulationResult:
        """Until every document is finished."""
        arrivals, working = self._arrivals, self._completions
        at = 0
        while self._done < len(arrivals):
            next_end = working[0][0] if working else None
            next_arrival = arrivals[at].at if at < len(arrivals) else None
            due = self._next_due(next_end, next_arrival)
            if due is not None:
                self._ack_and_claim(due)
            elif self._next_change < len(self.changes) and self._change_is_next(next_end, next_arrival):
                self._apply_change()
            elif next_end is not None and (next_arrival is None or next_end <= next_arrival):
                self._complete_next()
            elif next_arrival is not None:
                at = self._submit_arrivals(at)
            else:
                raise AssertionError("documents wait, workers are idle, and nothing is due")
        return SimulationResult(self._levels, self._started, self._finished)

    def _next_due(self, next_end: int | None, next_arrival: int | None) -> int | None:
        """When a retry is due before anything else happens and a worker is idle for it."""
        if not self.has_delays or self._idle_workers <= 0 or self._store is None:
            return None
        due = self._store.next_due()
        next_change = self.changes[self._next_change].at if self._next_change < len(self.changes) else None
        others = [item for item in (next_end, next_arrival, next_change) if item is not None]
        return due if due is not None and all(due < other for other in others) else None

    def _change_is_next(self, next_end: int | None, next_arrival: int | None) -> bool:
        """Whether the next change comes before anything else."""
        at = self.changes[self._next_change].at
        return (next_end is None or at <= next_end) and (next_arrival is None or at <= next_arrival)

    def _apply_change(self) -> None:
        """Workers who are told to go finish what they are at."""
        at, workers, act = self.changes[self._next_change]
        self._next_change += 1
        self._idle_workers += workers
        if act is not None:
            act(at)
        if self._idle_workers > 0:
            self._ack_and_claim(at)

    def _submit_arrivals(self, at: int) -> int:
        """Submit what one customer brings at one instant; the number of the next arrival."""
        arrivals, first = self._arrivals, self._arrivals[at]
        end = at + 1
        while end < len(arrivals) and end - at < MAX_BATCH:
            arrival = arrivals[end]
            if arrival.at != first.at or arrival.customer != first.customer or arrival.group != first.group:
                break
            end += 1
        receipts = self._queue.submit(first.customer, (self._specs[first.group],) * (end - at), now=first.at)
        for number, receipt in enumerate(receipts, start=at):
            self._levels[number] = receipt.level
            if self.on_arrival is not None:
                self.on_arrival(number, first.at)
        self._arrived = end
        if self._idle_workers > 0:
            self._ack_and_claim(first.at, is_idle=True)
        return end

    def _ack_and_claim(self, now: int, outcomes: Sequence[Outcome] = (), *, is_idle: bool = False) -> None:
        """Tell what ended, and put workers to work; those who were idle have to notice first."""
        if self._idle_workers <= 0 and self._store is not None:
            self._store.ack_and_claim(outcomes, None, now=now)
            return
        claimed = self._queue.ack_and_claim(outcomes, "simulated", self._idle_workers, lease=LEASE, now=now).claimed
        self._idle_workers -= len(claimed)
        for claim in claimed:
            number = int(claim.document.id)
            begins = now + self._arrivals[number].wakeup if is_idle else now
            if self._started[number] < 0:
                self._started[number] = begins
            under_way = self._current_attempt(number)
            ends = begins + under_way.service
            if self._arrivals[number].customer not in self.capped_customers:
                ends += under_way.handover  # its end and the next start are told in one call
            heappush(self._completions, (ends, number, claim))

    def _current_attempt(self, number: int) -> Arrival | FailedAttempt:
        """The attempt at a document that comes next, or is under way."""
        arrival = self._arrivals[number]
        left = self._failures_left.get(number, 0) if arrival.failed_attempts else 0
        return arrival.failed_attempts[-left] if left else arrival

    def _complete_next(self) -> None:
        now, number, claimed = heappop(self._completions)
        if claimed is None:
            self._idle_workers += 1
            self._ack_and_claim(now)
            return
        handover = self._current_attempt(number).handover
        if self._arrivals[number].customer in self.capped_customers and self._store is not None:
            self._store.ack_and_claim((self._end_attempt(number, claimed, now, 0),), None, now=now)
            heappush(self._completions, (now + handover, number, None))
        else:
            outcome = self._end_attempt(number, claimed, now - handover, handover)
            self._idle_workers += 1
            self._ack_and_claim(now, (outcome,))
        self._report_and_prune(now)

    def _end_attempt(self, number: int, claimed: Claim, ended: int, ack_delay: int) -> Outcome:
        """What became of an attempt that ended then, and is told so much later."""
        if left := self._failures_left.get(number, 0):
            tried = self._current_attempt(number)
            self._failures_left[number] = left - 1
            return _failure_outcome(claimed, tried, ack_delay)
        self._finished[number] = ended
        self._done += 1
        self._unpruned += 1
        return _success_outcome(claimed)

    def _report_and_prune(self, now: int) -> None:
        if self._progress is not None and self._done % PROGRESS_INTERVAL_DOCUMENTS == 0:
            self._progress(self._done, len(self._arrivals))
        if self._unpruned >= PRUNE_INTERVAL_DOCUMENTS and self._unpruned >= self._arrived - self._done:
            self._prune(now)

    def _prune(self, now: int) -> None:
        """Forget what ended, so that a long run stays small; not before it is most of what there is."""
        self._unpruned = 0
        if self._store is not None:
            self._store.prune(now, limit=len(self._arrivals), now=now)


def _failure_outcome(claimed: Claim, attempt: Arrival | FailedAttempt, ack_delay: int) -> Outcome:
    """The time until the retry counts from the end of the attempt."""
    known = attempt.retry_in if isinstance(attempt, FailedAttempt) else None
    usual = DEFAULT_RETRY_POLICY.delay(claimed.document.attempt, 0)
    retry_in = max(0, (usual if known is None else known) - ack_delay)
    return Outcome(claimed.document.id, claimed.fence, OutcomeKind.FAILED, None, "simulated", retry_in)


def _success_outcome(claimed: Claim) -> Outcome:
    return Outcome(claimed.document.id, claimed.fence, OutcomeKind.DONE, "null")


def _apply_customer_settings(queue: Queue, scenario: Scenario, arrivals: Sequence[Arrival]) -> None:
    """Weights and caps, for those groups that have any."""
    special = {number: group for number, group in enumerate(scenario.groups) if group.weight != 1 or group.cap}
    for customer, number in {
        arrival.customer: arrival.group for arrival in arrivals if arrival.group in special
    }.items():
        group = special[number]
        queue.change_customer(customer, OPERATOR, weight=group.weight, cap=group.cap, now=0)


@contextmanager
def gc_disabled() -> Iterator[None]:
    """A run makes millions of small objects and next to no cycles: looking for them would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
