"""Schedule lanes: start-time fair queueing inside a level, strict priority between levels, and the overdue slot.

Definitions. A *lane* holds one customer's waiting documents of one level, oldest first; its *head* is the first of
them. Each lane has a virtual time `(turn, stamp)`. `turn` is the start time of its head in virtual time. `stamp` is a
queue-wide sequence number, renewed whenever the turn is set, so that ties go to the lane that got there first. `V` of a
level is the virtual time of the lane last taken as its lowest.

- A claim takes the lowest open lane of the first level that has one. V moves there; the lane's turn grows by
  `charge / weight`.
- The charge is the document's cost, or the worker time expected for it. In the second case the lane is corrected once
  the time is known: by `worked - charge`. The expectation is a moving average per customer.
- A lane that gets its first document, or reopens, joins at V at the earliest: idle or closed time earns no credit.
- When a level has no open lane left, V jumps to the highest turn ever set in it: no lane keeps an advantage.
- Every `overdue_every`-th document goes to a level whose oldest head has waited `overdue_after` or longer. Overdue
  levels take this slot by rotation. Every tenth use by a level goes to its longest waiting head, not its lowest lane.
- Each queue of a store has a scheduler of its own: levels, virtual times, overdue slot and shares. What a customer's
  settings allow, such as its cap, counts over all queues.
- No customer holds more than `max_share` of the live slots while documents of other customers are started too
  (`inturn.policy.slot_share`): running documents are not taken away, so no order alone keeps slots free for them.

`Scheduler` works on the lanes it is given. The memory store gives it all lanes. SQL stores load those that one
claim can reach: for k documents, the k lowest open lanes and the k longest waiting heads of each
level. The order is the same.

The order inside a level stands in four places that must agree: the heap entries of `Scheduler.schedule`; for SQL stores
`TableLane.sort_key` and the query `order_lanes`, which applies a new policy; and `inturn.policy.position`, which
predicts it. The order inside one lane is that of `inturn.policy.groups`.
"""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Self, TypeVar

from inturn.model import EXPEDITED_LEVEL
from inturn.policy.charges import (
    CUSTOMER_MEAN_WEIGHT,
    MAX_WORK,
    MIN_WORK,
    QUEUE_MEAN_WEIGHT,
    VIRTUAL_TIME_UNIT,
    cost_charge,
    increment,
    moved_mean,
)
from inturn.policy.slot_share import SlotShares
from inturn.policy.turn_policy import Charge, Order, TurnPolicy

if TYPE_CHECKING:
    from inturn.policy.groups import Groups

LEVELS: Final = range(EXPEDITED_LEVEL, 10)
FIRST_QUEUE: Final = 0
"""The number of the queue `default`, which every store has."""
MAX_QUEUES: Final = 100
TRACKS: Final = MAX_QUEUES * len(LEVELS)
"""Tracks of all queues. A track is a level of a queue, as one number: ten times the queue's number, plus the level."""
OLDEST_HEAD_INTERVAL: Final = 10
"""Every n-th use of the overdue slot by a level goes to its longest waiting head."""


def track_of(queue: int, level: int) -> int:
    """Return the number of a level of a queue."""
    return queue * len(LEVELS) + level


def tracks_of(queue: int) -> range:
    """Return the numbers of all levels of a queue."""
    first = track_of(queue, EXPEDITED_LEVEL)
    return range(first, first + len(LEVELS))


class VirtualTime(NamedTuple):
    """A point in a level's virtual time."""

    turn: int
    stamp: int


class Head(NamedTuple):
    """The fields of a lane's first document that the order depends on."""

    seq: int
    ready_at: int
    cost: float


@dataclass(slots=True)
class CustomerWork:
    """What is known of a customer's work in one queue. All of its lanes there share one."""

    unit_time: int | None = None
    """Expected worker time for a document of cost 1, in microseconds; None before its first document has ended."""
    in_flight: int = 0
    """Documents that run and whose start was charged while runs were tracked."""

    def learn(self, unit_time: int) -> None:
        """Move the expectation towards the time of a document that has ended."""
        self.unit_time = moved_mean(self.unit_time, unit_time, CUSTOMER_MEAN_WEIGHT)


@dataclass(slots=True, eq=False)
class Lane:
    """The scheduling state of one lane. `scheduled` while it is open and has a head."""

    customer: str
    level: int
    weight: float = 1.0
    turn: int = 0
    stamp: int = 0
    waiting: int = 0
    head: Head | None = None
    scheduled: bool = False
    out_of_turn_at: int = 0
    """When the overdue slot last started its head out of turn; 0: never."""
    work: CustomerWork = field(default_factory=CustomerWork)
    """Its customer's."""
    turn_entry: tuple[int, int, Self] | None = None
    age_entry: tuple[int, int, int, Self] | None = None
    groups: "Groups[Self] | None" = None
    """The groups that its documents belong to; None if none of them has one."""
    queue: int = FIRST_QUEUE
    """The number of the queue that its documents belong to."""

    @property
    def track(self) -> int:
        """Its queue and its level as one number."""
        return track_of(self.queue, self.level)


LaneT = TypeVar("LaneT", bound=Lane)
VIRTUAL_START: Final = VirtualTime(0, 0)


@dataclass(slots=True, eq=False)
class Level(Generic[LaneT]):
    """One level: its virtual time, and heaps of its open lanes by turn and by age."""

    number: int
    virtual_time: VirtualTime = VIRTUAL_START
    max_turn: int = 0
    overdue_uses: int = 0
    open_lanes: int = 0
    by_turn: list[tuple[int, int, LaneT]] = field(default_factory=list)
    by_age: list[tuple[int, int, int, LaneT]] = field(default_factory=list)

    def lowest(self) -> LaneT | None:
        """Return the open lane with the lowest virtual time."""
        heap = self.by_turn
        while heap:
            entry = heap[0]
            if entry[2].turn_entry is entry:
                return entry[2]
            heappop(heap)
        return None

    def oldest(self) -> LaneT | None:
        """Return the open lane whose head has waited longest."""
        heap = self.by_age
        while heap:
            entry = heap[0]
            if entry[3].age_entry is entry:
                return entry[3]
            heappop(heap)
        return None

    def oldest_eligible(self, now: int, interval: int) -> LaneT | None:
        """Return the lane with the oldest head among those not started out of turn within the interval."""
        skipped = []
        while (lane := self.oldest()) is not None and now - interval < lane.out_of_turn_at <= now:
            skipped.append(heappop(self.by_age))
        for entry in skipped:
            heappush(self.by_age, entry)
        return lane

    @property
    def next_use_is_out_of_turn(self) -> bool:
        """Whether the level's next use of the overdue slot goes to its longest waiting head."""
        return (self.overdue_uses + 1) % OLDEST_HEAD_INTERVAL == 0


class Scheduler(Generic[LaneT]):
    """The levels of one queue, and the choice of the next lane."""

    __slots__ = (
        "_fair", "_tick", "dispatched", "last_charge", "last_group", "last_head", "last_queue_turn", "levels",
        "mean_unit_time", "next_stamp", "policy", "queue_turn", "rotation", "shares",
    )  # fmt: skip

    def __init__(self, policy: TurnPolicy, levels: list[Level[LaneT]] | None = None) -> None:
        self.policy = policy
        self._fair = policy.order is Order.FAIR
        self.levels: list[Level[LaneT]] = levels or [Level(number) for number in LEVELS]
        self.next_stamp = 1
        self.dispatched = 0
        self.rotation = 0
        self.mean_unit_time: int | None = None
        """Expected worker time for a document of cost 1 of a customer of whom nothing is known."""
        self.last_charge: int | None = None
        """The charge of the last document taken, to be stored with it; None if runs are not tracked."""
        self.last_head: Head | None = None
        """The last document taken: the head of its lane or, in a lane with groups, of `last_group`."""
        self.last_group: LaneT | None = None
        self.shares = SlotShares()
        self.queue_turn = 0
        """The turn of the queue itself among those that a worker serves (`inturn.policy.queue_turns`)."""
        self.last_queue_turn = 0
        """Its turn when it was last served."""
        self._tick = 0

    def set_policy(self, policy: TurnPolicy) -> None:
        """Put a policy in force. A new order applies to open lanes at once; their virtual times stay."""
        reorder = policy.order is not self.policy.order
        self.policy = policy
        self._fair = policy.order is Order.FAIR
        for level in self.levels if reorder else ():
            lanes = [entry[3] for entry in level.by_age if entry[3].age_entry is entry]
            level.by_turn.clear()
            level.by_age.clear()
            for lane in lanes:
                self.schedule(lane)

    @property
    def has_open_lanes(self) -> bool:
        """Whether any lane is open and has a document."""
        return any(level.open_lanes for level in self.levels)

    def activate(self, lane: LaneT) -> None:
        """Add a lane that got its first document, or reopened: at V at the earliest, behind lanes already there."""
        level = self.levels[lane.level]
        if level.open_lanes == 0 and level.max_turn > level.virtual_time.turn:
            level.virtual_time = VirtualTime(level.max_turn, 0)
        self._set_turn(lane, level, max(lane.turn, level.virtual_time.turn))
        level.open_lanes += 1
        self.schedule(lane)

    def schedule(self, lane: LaneT) -> None:
        """Add a lane at its present virtual time to the heaps of its level."""
        level, head = self.levels[lane.level], lane.head
        if head is None:
            raise AssertionError(f"an empty lane of {lane.customer!r} cannot be scheduled")
        self._tick = tick = self._tick + 1
        by_turn = (lane.turn, lane.stamp, lane) if self._fair else (head.seq, tick, lane)
        by_age = (head.ready_at, head.seq, tick, lane)
        lane.turn_entry, lane.age_entry, lane.scheduled = by_turn, by_age, True
        heappush(level.by_turn, by_turn)
        heappush(level.by_age, by_age)
        if len(level.by_age) > 2 * level.open_lanes + 64:
            _drop_stale(level)

    def deactivate(self, lane: LaneT) -> None:
        """Remove a lane that closed or became empty. It keeps its turn, so that leaving and rejoining gains nothing."""
        if lane.scheduled:
            self._unschedule(lane)
            self.levels[lane.level].open_lanes -= 1

    def change_head(self, lane: LaneT, head: Head | None) -> None:
        """Replace the head: it left the lane, or an older document came back."""
        if not lane.scheduled:
            lane.head = head
        elif head is None:
            self.deactivate(lane)
            lane.head = None
        elif head != lane.head:
            self._unschedule(lane)
            lane.head = head
            self.schedule(lane)

    def take(self, now: int) -> LaneT | None:
        """Choose the lane whose document is started next, and charge it. The caller then calls `put_back`.

        The document is `last_head`.
        """
        slot = self._overdue_level(now) if (self.dispatched + 1) % self.policy.overdue_every == 0 else None
        out_of_turn = None if slot is None else self._use_overdue_slot(slot, now)
        lane = out_of_turn or (self._next_lane() if slot is None else slot.lowest())
        if lane is not None:
            self.dispatched += 1
            self._choose_document(lane, by_turn=self._fair and out_of_turn is None)
            self._charge(lane, advance_virtual_time=out_of_turn is None)
        return lane

    def _choose_document(self, lane: LaneT, *, by_turn: bool) -> None:
        """Choose the document of a lane: of the group whose turn it is, or the one with the lowest seq."""
        groups = lane.groups
        if groups is None:
            self.last_head, self.last_group = lane.head, None
            return
        self.last_group = group = groups.lowest() if by_turn else groups.oldest()
        if group is None:
            raise AssertionError(f"no group of a lane of {lane.customer!r} has a document")
        self.last_head = group.head

    def _use_overdue_slot(self, slot: Level[LaneT], now: int) -> LaneT | None:
        """Count a use of the overdue slot; return the lane to start out of turn, if it is such a use."""
        lane = slot.oldest_eligible(now, self.policy.out_of_turn_interval) if slot.next_use_is_out_of_turn else None
        self.rotation = slot.number
        slot.overdue_uses += 1
        if lane is not None:
            lane.out_of_turn_at = now
        return lane

    def put_back(self, lane: LaneT, head: Head | None) -> None:
        """Give a taken lane its next head; None if it is empty."""
        lane.head = head
        if head is None:
            self.levels[lane.level].open_lanes -= 1
        else:
            self.schedule(lane)

    def reweigh(self, lane: LaneT, weight: float) -> None:
        """Change the weight of a lane: its distance from V is scaled by old / new."""
        level = self.levels[lane.level]
        was_scheduled = lane.scheduled
        if was_scheduled:
            self._unschedule(lane)
        ahead = lane.turn - level.virtual_time.turn
        if ahead > 0:  # a lane at V keeps its stamp, and so its place among the lanes at V
            self._set_turn(lane, level, level.virtual_time.turn + round(ahead * lane.weight / weight))
        lane.weight = weight
        if was_scheduled:
            self.schedule(lane)

    def settle(self, lane: LaneT, charged: int, worked: int, cost: float | None) -> int:
        """Correct a lane once the worker time of a document is known; learn from it if its cost is given.

        Return the difference to what was charged; 0 if lanes are not charged time.
        """
        worked = min(max(worked, MIN_WORK), MAX_WORK)
        if cost is not None:
            unit_time = max(1, round(worked / cost))
            lane.work.learn(unit_time)
            self.mean_unit_time = moved_mean(self.mean_unit_time, unit_time, QUEUE_MEAN_WEIGHT)
        if not self.policy.charges_time:
            return 0
        self.correct(lane, worked - charged)
        return worked - charged

    def correct(self, lane: LaneT, difference: int) -> None:
        """Add to a lane's charges, or refund some of them; an open lane gets no earlier than V by it.

        A lane that is closed or empty may get earlier than V: `activate` moves it to V.
        """
        level = self.levels[lane.level]
        earliest = level.virtual_time.turn if lane.scheduled else 0
        turn = max(lane.turn + round(difference / lane.weight), min(earliest, lane.turn))
        if not self._fair or turn == lane.turn:
            return
        was_scheduled = lane.scheduled
        if was_scheduled:
            self._unschedule(lane)
        self._set_turn(lane, level, turn)
        if was_scheduled:
            self.schedule(lane)

    def is_spent(self, lane: LaneT, now: int | None = None) -> bool:
        """Return whether a lane can be deleted without effect: empty, not ahead of V, free to go out of turn.

        A lane whose customer has documents that run may still be corrected. Without `now`, only a lane that never went
        out of turn is spent.
        """
        if lane.head is not None or lane.turn > self.levels[lane.level].virtual_time.turn or lane.work.in_flight:
            return False
        if now is None:
            return not lane.out_of_turn_at
        return now - lane.out_of_turn_at >= self.policy.out_of_turn_interval

    @property
    def may_start(self) -> bool:
        """Whether any lane is open, or closed by a share that a claim may open.

        A claim that may start nothing changes nothing, so that a store need not begin it.
        """
        return any(level.open_lanes for level in self.levels) or any(self.shares.at_limit.values())

    def _next_lane(self) -> LaneT | None:
        for level in self.levels:
            if level.open_lanes:
                return level.lowest()
        return None

    def _overdue_level(self, now: int) -> Level[LaneT] | None:
        """Return the next level in rotation with an overdue head."""
        if not self._fair:
            return None
        since = now - self.policy.overdue_after
        after, upto = self.levels[self.rotation + 1 :], self.levels[EXPEDITED_LEVEL + 1 : self.rotation + 1]
        for level in (*after, *upto):
            if level.open_lanes:
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    return level
        return None

    def expected_charge(self, work: CustomerWork, cost: float) -> int:
        """Return what a document of a customer is charged at its start, before its weight."""
        return cost_charge(cost) if self.policy.charge is Charge.COST else self.expected_time(work, cost)

    def expected_time(self, work: CustomerWork, cost: float) -> int:
        """Return the worker time expected of a document of a customer."""
        unit_time = work.unit_time or self.mean_unit_time or VIRTUAL_TIME_UNIT
        return min(max(round(cost * unit_time), MIN_WORK), MAX_WORK)

    def _charge(self, lane: LaneT, *, advance_virtual_time: bool) -> None:
        head = self.last_head
        lane.turn_entry = lane.age_entry = None
        lane.scheduled = False
        self.last_charge = None
        if head is None or not self._fair:
            return
        level = self.levels[lane.level]
        if advance_virtual_time:
            level.virtual_time = VirtualTime(lane.turn, lane.stamp)
        charge = self.expected_charge(lane.work, head.cost)
        if self.policy.tracks_runs:
            self.last_charge = charge
        self._set_turn(lane, level, lane.turn + increment(charge, lane.weight))
        if lane.groups is not None and self.last_group is not None:
            lane.groups.charge(self.last_group, charge, self.new_stamp(), advance_virtual_time=advance_virtual_time)

    def _set_turn(self, lane: LaneT, level: Level[LaneT], turn: int) -> None:
        lane.turn, lane.stamp = turn, self.new_stamp()
        level.max_turn = max(level.max_turn, turn)

    def new_stamp(self) -> int:
        """Return the queue's next stamp."""
        stamp = self.next_stamp
        self.next_stamp = stamp + 1
        return stamp

    @staticmethod
    def _unschedule(lane: LaneT) -> None:
        lane.turn_entry = lane.age_entry = None
        lane.scheduled = False


def _drop_stale(level: Level[LaneT]) -> None:
    """Drop all stale heap entries of a level at once. Otherwise they are dropped only when they come up."""
    level.by_turn = [entry for entry in level.by_turn if entry[2].turn_entry is entry]
    level.by_age = [entry for entry in level.by_age if entry[3].age_entry is entry]
    heapify(level.by_turn)
    heapify(level.by_age)
