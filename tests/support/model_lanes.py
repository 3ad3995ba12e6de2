"""A small queue around `Scheduler`, with nothing but lines of documents in it, for the tests of the order."""

from collections import deque
from dataclasses import dataclass, field, replace

from inturn.policy.charges import cost_charge
from inturn.policy.scheduler import Head, Lane, Scheduler
from inturn.policy.turn_policy import Charge, TurnPolicy

BY_COST = TurnPolicy(charge=Charge.COST, max_share=1.0)
"""The order by documents: every dispatch is charged its cost, and nothing is corrected."""
NEVER = 10**15
STRICT = replace(BY_COST, overdue_after=NEVER)
"""The same without an overdue slot."""


@dataclass(slots=True, eq=False)
class DocumentLane(Lane):
    documents: deque[Head] = field(default_factory=deque)
    is_open: bool = True


@dataclass
class Lanes:
    """Customers with lines in levels; a customer at its cap is closed, as in the stores."""

    policy: TurnPolicy = BY_COST
    caps: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, int], DocumentLane] = field(default_factory=dict)
    seq: int = 0

    def __post_init__(self) -> None:
        self.scheduler: Scheduler[DocumentLane] = Scheduler(self.policy)

    def add(self, customer: str, level: int, *, cost: float = 1.0, ready_at: int = 0, weight: float = 1.0) -> int:
        self.seq += 1
        lane = self.lanes.setdefault((customer, level), DocumentLane(customer, level, weight))
        lane.documents.append(Head(self.seq, ready_at, cost))
        if len(lane.documents) == 1:
            lane.head = lane.documents[0]
            if lane.is_open:
                self.scheduler.activate(lane)
        return self.seq

    def take(self, now: int = 0) -> tuple[DocumentLane, Head] | None:
        lane = self.scheduler.take(now)
        if lane is None:
            return None
        head = lane.documents.popleft()
        self.scheduler.put_back(lane, lane.documents[0] if lane.documents else None)
        self.running[lane.customer] = self.running.get(lane.customer, 0) + 1
        if self.running[lane.customer] >= self.caps.get(lane.customer, 1 << 60):
            self.close(lane.customer)
        return lane, head

    def release(self, lane: DocumentLane, head: Head) -> None:
        """Give a claim back unstarted."""
        self.running[lane.customer] -= 1
        self.scheduler.correct(lane, -cost_charge(head.cost))
        lane.documents = deque(sorted([*lane.documents, head]))
        if len(lane.documents) == 1:
            lane.head = head
            if lane.is_open:
                self.scheduler.activate(lane)
        else:
            self.scheduler.change_head(lane, lane.documents[0])

    def close(self, customer: str) -> None:
        for lane in self._lanes_of(customer):
            lane.is_open = False
            self.scheduler.deactivate(lane)

    def open(self, customer: str) -> None:
        for lane in self._lanes_of(customer):
            if not lane.is_open:
                lane.is_open = True
                if lane.head is not None:
                    self.scheduler.activate(lane)

    def reweigh(self, customer: str, weight: float) -> None:
        for lane in self._lanes_of(customer):
            self.scheduler.reweigh(lane, weight)

    def backlogged(self) -> list[DocumentLane]:
        return [lane for lane in self.lanes.values() if lane.scheduled]

    def reach(self, k: int) -> "Lanes":
        """What a claim of k can reach, read as a SQL store reads it: copies of the k lowest lines and oldest heads."""
        part = Lanes(self.policy, self.caps, dict(self.running), seq=self.seq)
        part.scheduler.next_stamp = self.scheduler.next_stamp
        part.scheduler.dispatched, part.scheduler.rotation = self.scheduler.dispatched, self.scheduler.rotation
        for mine, its in zip(self.scheduler.levels, part.scheduler.levels, strict=True):
            its.virtual_time, its.max_turn, its.overdue_uses = mine.virtual_time, mine.max_turn, mine.overdue_uses
            lanes = [lane for lane in self.backlogged() if lane.level == mine.number]
            lowest = sorted(lanes, key=lambda lane: (lane.turn, lane.stamp))[:k]
            oldest = sorted(lanes, key=lambda lane: (lane.documents[0].ready_at, lane.documents[0].seq))[:k]
            for lane in dict.fromkeys([*lowest, *oldest]):
                copy = DocumentLane(
                    lane.customer, lane.level, lane.weight, lane.turn, lane.stamp, len(lane.documents), lane.head
                )
                copy.documents = deque(list(lane.documents)[: k + 1])
                part.lanes[lane.customer, lane.level] = copy
                its.open_lanes += 1
                part.scheduler.schedule(copy)
        return part

    def _lanes_of(self, customer: str) -> list[DocumentLane]:
        return [lane for (name, _), lane in sorted(self.lanes.items()) if name == customer]
