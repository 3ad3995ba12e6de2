"""The ideal: generalised processor sharing, in which all workers are one fluid that every customer with work gets its
weighted share of, at every moment. No real queue can be exactly so fair, as documents do not flow; the distance tells
how near one comes.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class Job(NamedTuple):
    """Work that comes: when, whose, how much, with what weight."""

    at: float
    customer: str
    amount: float
    weight: float


def finish_times(jobs: Iterable[Job], capacity: float) -> list[float]:
    """When each piece of work, given in order of time, would be finished by the fluid.

    In virtual time every customer's work drains at its weight, so a piece's virtual finish is known when it comes:
    `max(virtual now, the customer's last finish) + amount / weight`. Virtual time runs at capacity / active weight.
    """
    fluid = _FluidServer(capacity)
    for number, piece in enumerate(jobs):
        fluid.run_until(piece.at)
        fluid.add(number, piece)
    fluid.run_until(float("inf"))
    return [fluid.finished[number] for number in range(len(fluid.finished))]


class _FluidServer:
    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        self._now = self._virtual = self._active = 0.0
        self._last: dict[str, float] = {}
        self._heap: list[tuple[float, int, Job]] = []
        self.finished: dict[int, float] = {}

    def add(self, number: int, piece: Job) -> None:
        last = self._last.get(piece.customer)
        if last is None:
            self._active += piece.weight
        self._last[piece.customer] = end = max(self._virtual, last or 0.0) + piece.amount / piece.weight
        heappush(self._heap, (end, number, piece))

    def run_until(self, at: float) -> None:
        while self._heap:
            end, number, piece = self._heap[0]
            reached = self._now + max(0.0, end - self._virtual) * self._active / self._capacity
            if reached > at:
                self._virtual += (at - self._now) * self._capacity / self._active
                self._now = at
                return
            heappop(self._heap)
            self._now, self._virtual = reached, max(self._virtual, end)
            self.finished[number] = reached
            if self._last[piece.customer] == end:
                del self._last[piece.customer]
                self._active = self._active - piece.weight if self._last else 0.0
        self._now = at
