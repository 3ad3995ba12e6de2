"""Run a scenario through the real queue with a simulated clock: same checks, same order, same leases.

The order is not implemented here. `fifo` is the classic order with a single level.
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
from inturn.model import DEFAULT_QUEUE, Claim, NewDocument, Receipt
from inturn.policy import Order, Policy, PriorityPolicy, RetryPolicy
from inturn.queue import Queue
from inturn.store_types import WORKER_TIMEOUT, AckAndClaim, Operator, Outcome, OutcomeKind, Work
from inturn.stores import open_store
from inturn.validation import MAX_BATCH
from inturn.values import SECOND
from inturn.worker_report import WorkerReport

LEASE: Final = 86_400 * SECOND
OPERATOR: Final = Operator("simulator", "the scenario says so")
SINGLE_LEVEL_THRESHOLDS: Final = (-(10**15),)
"""A threshold that no counter reaches, so all documents are level 1."""
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
        return replace(policy, priority=priority, turns=replace(policy.turns, order=order))


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


class AttemptSpan(NamedTuple):
    """An attempt at a document: its number, and from when to when a worker was busy with it."""

    number: int
    began: int
    ended: int


class SimulationResult(NamedTuple):
    """Times of each document in microseconds, by its number in the order of arrival."""

    levels: Sequence[int]
    started: Sequence[int]
    """When it was first started."""
    finished: Sequence[int]
    earlier_attempts: Sequence[AttemptSpan] = ()
    """Attempts before the last one of their documents: they failed, or were cancelled."""
    came: Sequence[int] = ()
    """When each could start: a later step or a part when the step before it ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished simulation of a scenario, with the times of `SimulationResult`."""

    scenario: Scenario
    discipline: Discipline
    arrivals: Sequence[Arrival]
    levels: Sequence[int]
    started: Sequence[int]
    finished: Sequence[int]
    earlier_attempts: Sequence[AttemptSpan] = ()
    came: Sequence[int] = ()


class ScheduledChange(NamedTuple):
    """A change at a given time: workers added or removed, or any other action on the queue."""

    at: int
    worker_delta: int = 0
    action: Callable[[int], object] | None = None


def simulated_id(number: int, resubmission: int = 0) -> str:
    """Return the id of a simulated document: a UUID that ends in the number of its arrival."""
    return f"00000000-0000-7000-8{resubmission:03d}-{number:012d}"


def arrival_number(id_: str) -> int:
    """Return the number of the arrival that a simulated document's id ends in."""
    return int(id_[-12:])


class SequentialIds:
    """Ids that end in the documents' numbers, so that a claim identifies its arrival."""

    def __init__(self) -> None:
        self._next = 0
        self.upcoming: list[str] = []
        """The ids of the next documents, if they are not the next numbers."""

    def make(self, n: int, now: int) -> list[str]:
        """Return the next n ids."""
        del now
        if self.upcoming:
            ids, self.upcoming = self.upcoming, []
            return ids
        first, self._next = self._next, self._next + n
        return [simulated_id(number) for number in range(first, first + n)]


def simulate_scenario(
    scenario: Scenario,
    discipline: Discipline = Discipline.FAIR,
    *,
    progress: Callable[[int, int], None] | None = None,
    max_documents: int = MAX_DOCUMENTS,
) -> Run:
    """Run a scenario to its end; `progress` is called with (finished, total)."""
    arrivals = generate_arrivals(scenario, max_documents)
    clock = ManualClock()
    ids = SequentialIds()
    queue = Queue(open_store("memory://", clock), clock=clock, ids=ids)
    queue.set_policy(discipline.apply_to(scenario.policy), OPERATOR, now=0)
    _apply_customer_settings(queue, scenario, arrivals)
    playing = Simulation(arrivals, document_specs(scenario), scenario.workers, queue, progress)
    playing.ids = ids
    with gc_disabled():
        result = playing.run()
    if any(arrival.follows is not None for arrival in arrivals):
        arrivals, result = in_order_of_coming(arrivals, result)
    return Run(scenario, discipline, arrivals, *result)


def in_order_of_coming(arrivals: Sequence[Arrival], result: SimulationResult) -> tuple[list[Arrival], SimulationResult]:
    """Return what was played by the times at which steps and parts came, each as an arrival of its own."""
    order = sorted(range(len(arrivals)), key=result.came.__getitem__)
    place = {number: at for at, number in enumerate(order)}
    earlier = [span._replace(number=place[span.number]) for span in result.earlier_attempts]
    levels, started, finished, came = (
        [times[number] for number in order] for times in (result.levels, result.started, result.finished, result.came)
    )
    played = [replace(arrivals[number], at=result.came[number], follows=None, is_part=False) for number in order]
    return played, SimulationResult(levels, started, finished, earlier, came)


def document_specs(scenario: Scenario) -> list[NewDocument]:
    """What customers of each group submit."""
    return [simulated_document(group.cost) for group in scenario.groups]


def simulated_document(cost: float, pages: int | None = None) -> NewDocument:
    """A document that costs so much, or has so many pages."""
    return NewDocument("simulated", cost=cost, max_attempts=100, pages=pages)


class StepPlan:
    """Which arrivals follow which, and the step that each document is in."""

    def __init__(self, next_of: dict[int, int], parts_of: dict[int, list[int]]) -> None:
        self.next_of = next_of
        self.parts_of = parts_of
        self._current: dict[int, int] = {}

    @classmethod
    def of(cls, arrivals: Sequence[Arrival]) -> "StepPlan":
        """Read it from the arrivals."""
        next_of: dict[int, int] = {}
        parts_of: dict[int, list[int]] = {}
        for number, arrival in enumerate(arrivals):
            if arrival.follows is not None and arrival.is_part:
                parts_of.setdefault(arrival.follows, []).append(number)
            elif arrival.follows is not None:
                next_of[arrival.follows] = number
        return cls(next_of, parts_of)

    def current(self, first: int) -> int:
        """Return the number of the step that a document is in, by the number of its first one."""
        return self._current.get(first, first)

    def move(self, first: int, following: int) -> None:
        """Move a document to its next step."""
        self._current[first] = following


class Simulation:
    """A running simulation: idle workers, documents in work by their end times, recorded times."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        specs: Sequence[NewDocument],
        workers: int,
        queue: QueueLike,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._arrivals, self._specs, self._idle_workers, self._slots = arrivals, specs, workers, workers
        self._queue, self._progress = queue, progress
        self._full_queue = queue if isinstance(queue, Queue) else None
        """None for a `QueueLike` that has no more than its two methods: no delays, caps or history."""
        self._completions: list[tuple[int, int, Claim | None]] = []
        """Documents by end time; None stands for a worker that asks for its next document then."""
        self._levels = array("b", bytes(len(arrivals)))
        self._started = array("q", [-1]) * len(arrivals)
        self._finished = array("q", [-1]) * len(arrivals)
        self._failures_left = {number: arrival.failures for number, arrival in enumerate(arrivals) if arrival.failures}
        self._earlier_attempts: list[AttemptSpan] = []
        self._cancels_left = {number: arrival.cancels for number, arrival in enumerate(arrivals) if arrival.cancels}
        self.ids: SequentialIds | None = None
        """Needed for documents that are cancelled and submitted again."""
        self.changes: Sequence[ScheduledChange] = ()
        """By time; changes of an instant come before anything else at that instant."""
        self.on_arrival: Callable[[int, int], None] | None = None
        """Called with (number, time) of each arrival, before it can start."""
        self.capped_customers: frozenset[str] = frozenset()
        """Customers with a limit, whose completions are recorded before any worker claims."""
        self._steps = StepPlan.of(arrivals)
        self._came = array("q", (arrival.at for arrival in arrivals))
        self._queues = tuple(dict.fromkeys(spec.queue for spec in specs)) or (DEFAULT_QUEUE,)
        self._next_change = 0
        self._arrived = self._done = self._unpruned = self._running = 0
        self._report_due_after = -1

    def run(self) -> SimulationResult:
        """Until every document is finished."""
        arrivals, working = self._arrivals, self._completions
        at = 0
        while self._done < len(arrivals):
            while at < len(arrivals) and arrivals[at].follows is not None:
                at += 1
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
        return SimulationResult(self._levels, self._started, self._finished, self._earlier_attempts, self._came)

    def _next_due(self, next_end: int | None, next_arrival: int | None) -> int | None:
        """Return when a retry, a rate limit or a share becomes due before any other event, if a worker is idle."""
        if self._idle_workers <= 0 or self._full_queue is None or self._arrived == self._done + self._running:
            return None
        due = self._full_queue.next_due()
        next_change = self.changes[self._next_change].at if self._next_change < len(self.changes) else None
        others = [item for item in (next_end, next_arrival, next_change) if item is not None]
        return due if due is not None and all(due < other for other in others) else None

    def _change_is_next(self, next_end: int | None, next_arrival: int | None) -> bool:
        """Whether the next change comes before anything else."""
        at = self.changes[self._next_change].at
        return (next_end is None or at <= next_end) and (next_arrival is None or at <= next_arrival)

    def _apply_change(self) -> None:
        """Apply a change; removed workers finish their current document."""
        at, workers, act = self.changes[self._next_change]
        self._next_change += 1
        self._idle_workers += workers
        self._slots += workers
        self._report_due_after = -1
        if act is not None:
            act(at)
        if self._idle_workers > 0:
            self._ack_and_claim(at)

    def _submit_arrivals(self, at: int) -> int:
        """Submit one customer's documents of one instant; return the number of the next arrival."""
        arrivals, first = self._arrivals, self._arrivals[at]
        end = at + 1
        while end < len(arrivals) and end - at < MAX_BATCH:
            arrival = arrivals[end]
            if arrival.at != first.at or arrival.customer != first.customer or arrival.group != first.group:
                break
            if arrival.follows is not None:
                break
            end += 1
        if self.ids is not None:
            self.ids.upcoming = [simulated_id(number) for number in range(at, end)]
        receipts = self._queue.submit(first.customer, self._batch_specs(at, end), now=first.at)
        for number, receipt in enumerate(receipts, start=at):
            self._levels[number] = receipt.level
            if self.on_arrival is not None:
                self.on_arrival(number, first.at)
        self._arrived += end - at
        if self._idle_workers > 0:
            self._ack_and_claim(first.at, is_idle=True)
        return end

    def _batch_specs(self, at: int, end: int) -> Sequence[NewDocument]:
        """Return what a customer submits at once."""
        spec = self._specs[self._arrivals[at].group]
        if self._arrivals[at].pages is None:
            return (spec,) * (end - at)
        return [spec._replace(pages=arrival.pages) for arrival in self._arrivals[at:end]]

    def _report_slots(self, now: int) -> None:
        """Report the workers to the queue before their last report is out of date: shares depend on live slots."""
        if self._full_queue is not None:
            report = WorkerReport("simulated", "simulator", 1, max(0, self._slots), 0, "simulated", 0)
            report = report._replace(queues=self._queues)
            self._full_queue.record_worker(report, now=now)
        self._report_due_after = now + WORKER_TIMEOUT

    def _ack_and_claim(self, now: int, outcomes: Sequence[Outcome] = (), *, is_idle: bool = False) -> None:
        """Record what ended and claim for idle workers, each after its wake-up delay."""
        if now > self._report_due_after:
            self._report_slots(now)
        if self._idle_workers <= 0 and self._full_queue is not None:
            self._full_queue.ack(outcomes, now=now)
            return
        claimed = self._record_and_claim(outcomes, now)
        self._idle_workers -= len(claimed)
        self._running += len(claimed)
        for claim in claimed:
            number = self._steps.current(arrival_number(claim.document.id))
            begins = now + self._arrivals[number].wakeup if is_idle else now
            if self._started[number] < 0:
                self._started[number] = begins
                if self._arrivals[number].follows is not None:
                    self._came[number], self._levels[number] = claim.document.ready_at, claim.document.level
            under_way = self._current_attempt(number)
            ends = begins + under_way.service
            if number in self._cancels_left:
                ends = begins + self._arrivals[number].cancel_after
            elif self._arrivals[number].customer not in self.capped_customers:
                ends += under_way.handover  # its end and the next start are told in one call
            heappush(self._completions, (ends, number, claim))

    def _record_and_claim(self, outcomes: Sequence[Outcome], now: int) -> Sequence[Claim]:
        limit = self._idle_workers
        if self._full_queue is None:
            return self._queue.ack_and_claim(outcomes, "simulated", limit, lease=LEASE, now=now).claimed
        options = {"lease": LEASE, "now": now}
        return self._full_queue.ack_and_claim(outcomes, "simulated", limit, queues=self._queues, **options).claimed

    def _current_attempt(self, number: int) -> Arrival | FailedAttempt:
        """Return the current or next attempt of a document."""
        arrival = self._arrivals[number]
        left = self._failures_left.get(number, 0) if arrival.failed_attempts else 0
        return arrival.failed_attempts[-left] if left else arrival

    def _complete_next(self) -> None:
        now, number, claimed = heappop(self._completions)
        if claimed is None:
            self._idle_workers += 1
            self._ack_and_claim(now)
            return
        self._running -= 1
        if number in self._cancels_left:
            self._cancel_and_resubmit(number, claimed, now)
            return
        handover = self._current_attempt(number).handover
        if self._arrivals[number].customer in self.capped_customers and self._full_queue is not None:
            self._full_queue.ack((self._end_attempt(number, claimed, now, 0),), now=now)
            heappush(self._completions, (now + handover, number, None))
        else:
            outcome = self._end_attempt(number, claimed, now - handover, handover)
            self._idle_workers += 1
            self._ack_and_claim(now, (outcome,))
        self._report_and_prune(now)

    def _cancel_and_resubmit(self, number: int, claimed: Claim, now: int) -> None:
        """Cancel a running document, and submit it again at once: a new check, and a new place in its lane."""
        if self._full_queue is None or self.ids is None:
            raise AssertionError("a scenario with cancelled documents needs a queue, and its ids")
        arrival, left = self._arrivals[number], self._cancels_left.pop(number)
        if left > 1:
            self._cancels_left[number] = left - 1
        self._full_queue.cancel(claimed.document.id, OPERATOR, now=now)
        self._earlier_attempts.append(AttemptSpan(number, now - arrival.cancel_after, now))
        self.ids.upcoming = [simulated_id(number, 1 + arrival.cancels - left)]
        self._queue.submit(arrival.customer, self._batch_specs(number, number + 1), now=now)
        self._idle_workers += 1
        self._ack_and_claim(now)

    def _end_attempt(self, number: int, claimed: Claim, ended: int, ack_delay: int) -> Outcome:
        """Return the outcome of an attempt that ended then and is recorded later."""
        tried = self._current_attempt(number)
        began_after = ended - tried.service - (claimed.document.started_at or 0)
        work = Work(began_after, tried.service) if began_after or ack_delay else None
        if left := self._failures_left.get(number, 0):
            self._failures_left[number] = left - 1
            self._earlier_attempts.append(AttemptSpan(number, ended - tried.service, ended))
            return _failure_outcome(claimed, tried, ack_delay, work)
        self._finished[number] = ended
        self._done += 1
        following = self._steps.next_of.get(number)
        if following is not None:
            return self._end_step(number, following, claimed, work)
        self._unpruned += 1
        return Outcome(claimed.document.id, claimed.fence, OutcomeKind.DONE, "null", work=work)

    def _end_step(self, number: int, following: int, claimed: Claim, work: Work | None) -> Outcome:
        """Return the outcome that moves a document to its next step, and if it was split makes the parts."""
        if self._full_queue is None or self.ids is None:
            raise AssertionError("documents with steps need a queue, and its ids")
        self._steps.move(arrival_number(claimed.document.id), following)
        queue, parts = self._spec(following).queue, self._steps.parts_of.get(number, [])
        self._arrived += 1 + len(parts)
        if not parts:
            return self._full_queue.next_step(claimed, queue, work=work)
        self.ids.upcoming = [simulated_id(part) for part in parts]
        return self._full_queue.split(claimed, [self._spec(part) for part in parts], queue, work=work)

    def _spec(self, number: int) -> NewDocument:
        return self._specs[self._arrivals[number].group]

    def _report_and_prune(self, now: int) -> None:
        if self._progress is not None and self._done % PROGRESS_INTERVAL_DOCUMENTS == 0:
            self._progress(self._done, len(self._arrivals))
        if self._unpruned >= PRUNE_INTERVAL_DOCUMENTS and self._unpruned >= self._arrived - self._done:
            self._prune(now)

    def _prune(self, now: int) -> None:
        """Prune ended documents once they are the majority, to bound memory."""
        self._unpruned = 0
        if self._full_queue is not None:
            self._full_queue.prune(now, limit=len(self._arrivals), now=now)


def _failure_outcome(claimed: Claim, attempt: Arrival | FailedAttempt, ack_delay: int, work: Work | None) -> Outcome:
    """The time until the retry counts from the end of the attempt."""
    known = attempt.retry_in if isinstance(attempt, FailedAttempt) else None
    usual = DEFAULT_RETRY_POLICY.delay(claimed.document.attempt, 0)
    retry_in = max(0, (usual if known is None else known) - ack_delay)
    return Outcome(claimed.document.id, claimed.fence, OutcomeKind.FAILED, None, "simulated", retry_in, work=work)


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
    """Disable the cycle collector: a run makes millions of objects without cycles, and collecting takes a third of
    the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
