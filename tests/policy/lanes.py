"""A small queue around `Turns`, with nothing but lines of documents in it, for the tests of the order."""

from collections import deque
from dataclasses import dataclass, field

from inturn.policy.turns import Head, Line, TurnPolicy, Turns


@dataclass(slots=True, eq=False)
class Lane(Line):
    documents: deque[Head] = field(default_factory=deque)
    is_open: bool = True


@dataclass
class Lanes:
    """Customers with lines in levels; a customer at its cap is closed, as in the stores."""

    policy: TurnPolicy = field(default_factory=TurnPolicy)
    caps: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, int], Lane] = field(default_factory=dict)
    seq: int = 0

    def __post_init__(self) -> None:
        self.turns: Turns[Lane] = Turns(self.policy)

    def add(self, customer: str, level: int, *, cost: float = 1.0, ready_at: int = 0, weight: float = 1.0) -> int:
        self.seq += 1
        lane = self.lanes.setdefault((customer, level), Lane(customer, level, weight))
        lane.documents.append(Head(self.seq, ready_at, cost))
        if len(lane.documents) == 1:
            lane.head = lane.documents[0]
            if lane.is_open:
                self.turns.enter(lane)
        return self.seq

    def take(self, now: int = 0) -> tuple[Lane, Head] | None:
        lane = self.turns.take(now)
        if lane is None:
            return None
        head = lane.documents.popleft()
        self.turns.put_back(lane, lane.documents[0] if lane.documents else None)
        self.running[lane.customer] = self.running.get(lane.customer, 0) + 1
        if self.running[lane.customer] >= self.caps.get(lane.customer, 1 << 60):
            self.close(lane.customer)
        return lane, head

    def release(self, lane: Lane, head: Head) -> None:
        """Give a claim back unstarted."""
        self.running[lane.customer] -= 1
        self.turns.refund(lane, head.cost)
        lane.documents = deque(sorted([*lane.documents, head]))
        if len(lane.documents) == 1:
            lane.head = head
            if lane.is_open:
                self.turns.enter(lane)
        else:
            self.turns.change_head(lane, lane.documents[0])

    def close(self, customer: str) -> None:
        for lane in self._of(customer):
            lane.is_open = False
            self.turns.leave(lane)

    def open(self, customer: str) -> None:
        for lane in self._of(customer):
            if not lane.is_open:
                lane.is_open = True
                if lane.head is not None:
                    self.turns.enter(lane)

    def reweigh(self, customer: str, weight: float) -> None:
        for lane in self._of(customer):
            self.turns.reweigh(lane, weight)

    def backlogged(self) -> list[Lane]:
        return [lane for lane in self.lanes.values() if lane.filed]

    def reach(self, k: int) -> "Lanes":
        """What a claim of k can reach, read as a SQL store reads it: copies of the k lowest lines and oldest heads."""
        part = Lanes(self.policy, self.caps, dict(self.running), seq=self.seq)
        part.turns.next_stamp = self.turns.next_stamp
        part.turns.dispatched, part.turns.rotation = self.turns.dispatched, self.turns.rotation
        for mine, its in zip(self.turns.levels, part.turns.levels, strict=True):
            its.v, its.highest, its.overdue_uses = mine.v, mine.highest, mine.overdue_uses
            lanes = [lane for lane in self.backlogged() if lane.level == mine.number]
            lowest = sorted(lanes, key=lambda lane: (lane.turn, lane.stamp))[:k]
            oldest = sorted(lanes, key=lambda lane: (lane.documents[0].ready_at, lane.documents[0].seq))[:k]
            for lane in dict.fromkeys([*lowest, *oldest]):
                copy = Lane(
                    lane.customer, lane.level, lane.weight, lane.turn, lane.stamp, len(lane.documents), lane.head
                )
                copy.documents = deque(list(lane.documents)[: k + 1])
                part.lanes[lane.customer, lane.level] = copy
                its.open_lines += 1
                part.turns.file(copy)
        return part

    def _of(self, customer: str) -> list[Lane]:
        return [lane for (name, _), lane in sorted(self.lanes.items()) if name == customer]
