"""A day as real workers would leave it in a store: clumsy hands, a worker that goes away, retries, a change of policy.

Nothing of the simulator is used, so that a replay has something to predict: every call is made on the store with the
time it would be made at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any

from inturn.model import Claim, NewDocument
from inturn.policy import Policy, PriorityPolicy
from inturn.queue import Queue
from inturn.store import Store
from inturn.store_types import Operator
from inturn.values import SECOND, seconds
from inturn.worker_report import WorkerReport

START_TIME = 1_700_000_000 * SECOND
OPERATOR = Operator("olivia", "a recorded day")
WORKERS = 6
MEAN_WORK_SECONDS = 4.0
"""Seconds of work, on average, of a lognormal document."""


def arrivals(random: Random, length: float, quiet: int) -> Iterator[tuple[float, str, int]]:
    """Second, customer and number of documents of each submission; for twelve quiet customers there is a busy one."""
    for number in range(quiet):
        at = 0.0
        while (at := at + random.expovariate(3 / length)) < length:
            yield at, f"quiet {number:03}", random.randint(1, 3)
    for number in range(quiet // 12):
        at = 0.0
        while (at := at + random.expovariate(14 / length)) < length:
            yield at, f"busy {number}", random.randint(1, 10)
    for number in range(3):
        at = random.random() * length / 6
        while at < length:
            yield at, f"bulk {number}", max(1, round(length / 7_200 * random.randint(300, 600)))
            at += length * random.uniform(0.2, 0.35)


def record(
    store: Store,
    length: float = 7_200.0,
    seed: int = 1,
    *,
    quiet: int = 120,
    policy: Policy | None = None,
    work_factors: Mapping[str, float] | None = None,
) -> None:
    """Let `length` seconds of work of so many quiet customers happen in a store, and go on until all of it is done.

    `work_factors` says whose documents take so many times as long as others.
    """
    day = _Day(store, length, seed, quiet, policy or Policy())
    day.work_factors = work_factors or {}
    day.play()


class _Day:
    def __init__(self, store: Store, length: float, seed: int, quiet: int, policy: Policy) -> None:
        self._random, self._length, self._first_policy = Random(seed), length, policy
        self.work_factors: Mapping[str, float] = {}
        self._reported_at = 0
        self._queue = Queue(store)
        self._events: list[tuple[int, int, str, Any]] = []
        self._number = 0
        self._idle: set[int] = set(range(WORKERS))
        self._away: set[int] = set()
        self._woken: set[int] = set()
        for at, customer, n in arrivals(self._random, length, quiet):
            self._schedule(START_TIME + seconds(at), "submit", (customer, n))
        self._schedule(START_TIME + seconds(length * 0.3), "leave", 5)
        self._schedule(START_TIME + seconds(length * 0.45), "return", 5)
        self._schedule(START_TIME + seconds(length * 0.6), "policy", None)
        heapify(self._events)
        if policy != Policy():
            self._queue.set_policy(policy, OPERATOR, now=START_TIME)
        store.change_customer("busy 1", {"weight": 3.0}, OPERATOR, now=START_TIME)
        store.change_customer("bulk 2", {"cap": 2}, OPERATOR, now=START_TIME)

    def _schedule(self, at: int, action: str, payload: Any) -> None:
        self._number += 1
        heappush(self._events, (at, self._number, action, payload))

    def _soon(self, now: int, longest: float) -> int:
        return now + seconds(self._random.uniform(0.001, longest))

    def play(self) -> None:
        while self._events:
            now, _, what, whom = heappop(self._events)
            getattr(self, f"_{what}")(now, whom)
            if not self._events and (due := self._queue.store.next_due()) is not None:
                self._schedule(due + SECOND, "look", min(self._idle))

    def _submit(self, now: int, payload: tuple[str, int]) -> None:
        customer, n = payload
        pages = self._random.randint(1, 30)
        self._queue.submit(customer, [NewDocument("a document", pages=pages)] * n, now=now)
        for worker in sorted(self._idle - self._away - self._woken)[:n]:
            self._woken.add(worker)
            self._schedule(self._soon(now, 0.1), "look", worker)

    def _look(self, now: int, worker: int) -> None:
        """An idle worker looks for work."""
        self._woken.discard(worker)
        if worker in self._idle and worker not in self._away:
            self._report_workers(now)
            self._take(now, worker, self._queue.claim(f"worker {worker}", 1, now=now, lease=86_400 * SECOND))

    def _report_workers(self, now: int) -> None:
        """All workers that are there report every ten seconds."""
        if now - self._reported_at >= 10 * SECOND:
            self._reported_at = now
            for worker in set(range(WORKERS)) - self._away:
                report = WorkerReport(f"worker {worker}", "host", worker, 1, 0, "processor", START_TIME)
                self._queue.record_worker(report, now=now)

    def _take(self, now: int, worker: int, claimed: tuple[Claim, ...]) -> None:
        self._idle.discard(worker)
        if not claimed:
            self._idle.add(worker)
            return
        factor = self.work_factors.get(claimed[0].document.customer, 1.0)
        service = seconds(factor * self._random.lognormvariate(0, 1) * MEAN_WORK_SECONDS / 1.6487)
        self._schedule(now + max(1_000, service), "end", (worker, claimed[0]))

    def _end(self, now: int, payload: tuple[int, Claim]) -> None:
        """The document is done, or fails one time in fifty; then the worker needs a moment to find the next one."""
        worker, claimed = payload
        if self._random.random() < 0.02 and claimed.document.attempt < 3:
            self._queue.fail(claimed, "try again", retry_in=5 * SECOND, now=now)
        else:
            self._queue.finish(claimed, now=now)
        self._idle.add(worker)
        self._schedule(self._soon(now, 0.06), "look", worker)

    def _leave(self, now: int, worker: int) -> None:
        del now
        self._away.add(worker)
        self._queue.forget_worker(f"worker {worker}")

    def _return(self, now: int, worker: int) -> None:
        self._away.discard(worker)
        self._schedule(now, "look", worker)

    def _policy(self, now: int, _: None) -> None:
        changed = replace(self._first_policy, priority=PriorityPolicy(600 * SECOND))
        self._queue.set_policy(changed, OPERATOR, now=now)
