"""Whose turn it is: start-time fair queueing inside a level, strict order between levels, and the overdue slot.

Definitions. A *line* is one customer's waiting documents of one level, oldest first; its *head* is the first of them.
A line stands at `(turn, stamp)`: `turn` is virtual time, `stamp` the queue's next number, given whenever the turn is
set, so that ties go to whoever stood there first. `V` of a level is where the line last taken as its lowest stood.

- A claim takes the lowest open line of the first level that has one. V moves there; the line's turn goes up by
  `cost / weight`.
- A line that gets its first document, or opens again, stands at V at the earliest: idle or closed time earns nothing.
- A level without any open line forgets who was ahead: V jumps to the highest turn ever set in it.
- Every `overdue_every`-th document goes to a level in which a head has waited `overdue_after` or longer, the overdue
  levels by rotation; every tenth time that a level is so served, to its longest waiting head, not its lowest line.

`Scheduler` works on the lines it is given: all of a queue's (memory store), or as many as one claim can reach (SQL
stores:
for k documents, of each level the k lowest open lines and the k longest waiting heads). Either way the order is this.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Final, Generic, NamedTuple, Self, TypeVar

from inturn.errors import InvalidInputError
from inturn.model import EXPEDITED_LEVEL, MAX_TIME, SECOND

VIRTUAL_TIME_UNIT: Final = 1_000_000
"""Virtual time that a document of cost 1 takes at weight 1."""
LEVELS: Final = range(EXPEDITED_LEVEL, 10)
OLDEST_HEAD_INTERVAL: Final = 10
"""Every so many uses of the overdue slot by a level go to its longest waiting head."""
MAX_OVERDUE_EVERY: Final = 1_000
OUT_OF_TURN_DIVISOR: Final = 10
"""A line is started out of turn at most once in this part of `overdue_after`."""


class Order(StrEnum):
    """How a level is served."""

    FAIR = "fair"
    CLASSIC = "classic"
    """The literal spec: first come first served inside a level, no overdue slot, nothing charged."""


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """The order, and when waiting becomes overdue (microseconds)."""

    order: Order = Order.FAIR
    overdue_after: int = 900 * SECOND
    overdue_every: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.order, Order):
            raise InvalidInputError(f"order must be one of {', '.join(Order)}, not {self.order!r}")
        if type(self.overdue_after) is not int or not 0 < self.overdue_after <= MAX_TIME:
            raise InvalidInputError(
                f"overdue_after must be a whole number of microseconds, more than 0, not {self.overdue_after!r};"
                f" for 900 seconds write seconds(900)",
            )
        if type(self.overdue_every) is not int or not 2 <= self.overdue_every <= MAX_OVERDUE_EVERY:
            raise InvalidInputError(
                f"overdue_every must be a whole number from 2 to {MAX_OVERDUE_EVERY}, not {self.overdue_every!r}",
            )

    @property
    def out_of_turn_interval(self) -> int:
        """Microseconds for which a line that was started out of turn is not started so again.

        Without it the first line of a long backlog gets 3 shares among 300 equal ones, and 8 among 1,000.
        """
        return self.overdue_after // OUT_OF_TURN_DIVISOR


class VirtualTime(NamedTuple):
    """A point in a level's virtual time."""

    turn: int
    stamp: int


class Head(NamedTuple):
    """What the order needs to know of a line's first document."""

    seq: int
    ready_at: int
    cost: float


@dataclass(slots=True, eq=False)
class Lane:
    """Where one customer's line of one level stands. `filed` while it is open, has a head, and may be taken."""

    customer: str
    level: int
    weight: float = 1.0
    turn: int = 0
    stamp: int = 0
    waiting: int = 0
    head: Head | None = None
    scheduled: bool = False
    out_of_turn_at: int = 0
    """When the overdue slot last started its head ahead of its turn; 0: never."""
    turn_entry: tuple[int, int, Self] | None = None
    age_entry: tuple[int, int, int, Self] | None = None


LaneT = TypeVar("LaneT", bound=Lane)
VIRTUAL_START: Final = VirtualTime(0, 0)


@dataclass(slots=True, eq=False)
class Level(Generic[LaneT]):
    """One level's virtual time, and the open lines in it."""

    number: int
    virtual_time: VirtualTime = VIRTUAL_START
    max_turn: int = 0
    overdue_uses: int = 0
    open_lanes: int = 0
    by_turn: list[tuple[int, int, LaneT]] = field(default_factory=list)
    by_age: list[tuple[int, int, int, LaneT]] = field(default_factory=list)

    def lowest(self) -> LaneT | None:
        """The open line whose turn it is."""
        heap = self.by_turn
        while heap:
            entry = heap[0]
            if entry[2].turn_entry is entry:
                return entry[2]
            heappop(heap)
        return None

    def oldest(self) -> LaneT | None:
        """The open line whose head has waited longest."""
        heap = self.by_age
        while heap:
            entry = heap[0]
            if entry[3].age_entry is entry:
                return entry[3]
            heappop(heap)
        return None

    def oldest_eligible(self, now: int, interval: int) -> LaneT | None:
        """The open line whose head has waited longest, of those not started out of turn within the interval."""
        resting = []
        while (line := self.oldest()) is not None and now - interval < line.out_of_turn_at <= now:
            resting.append(heappop(self.by_age))
        for entry in resting:
            heappush(self.by_age, entry)
        return line

    @property
    def next_use_is_out_of_turn(self) -> bool:
        """Whether the level's next overdue slot goes to its longest waiting head."""
        return (self.overdue_uses + 1) % OLDEST_HEAD_INTERVAL == 0


class Scheduler(Generic[LaneT]):
    """The levels, and whose turn it is."""

    __slots__ = ("_fair", "_tick", "dispatched", "levels", "next_stamp", "policy", "rotation")

    def __init__(self, policy: TurnPolicy) -> None:
        self.policy = policy
        self._fair = policy.order is Order.FAIR
        self.levels: list[Level[LaneT]] = [Level(number) for number in LEVELS]
        self.next_stamp = 1
        self.dispatched = 0
        self.rotation = 0
        self._tick = 0

    def set_policy(self, policy: TurnPolicy) -> None:
        """A new order holds for what already waits: the open lines are filed anew, where they stand."""
        refile = policy.order is not self.policy.order
        self.policy = policy
        self._fair = policy.order is Order.FAIR
        for level in self.levels if refile else ():
            lines = [entry[3] for entry in level.by_age if entry[3].age_entry is entry]
            level.by_turn.clear()
            level.by_age.clear()
            for line in lines:
                self.schedule(line)

    def reset_lanes(self, policy: TurnPolicy) -> None:
        """Forget the lines, not where the levels are: the ones in reach will be filed anew."""
        for level in self.levels:
            level.by_turn.clear()
            level.by_age.clear()
        self.set_policy(policy)

    def activate(self, lane: LaneT) -> None:
        """A line got its first document, or opened: it stands at V at the earliest, behind all who stand there."""
        level = self.levels[lane.level]
        if level.open_lanes == 0 and level.max_turn > level.virtual_time.turn:
            level.virtual_time = VirtualTime(level.max_turn, 0)
        self._set_turn(lane, level, max(lane.turn, level.virtual_time.turn))
        level.open_lanes += 1
        self.schedule(lane)

    def schedule(self, lane: LaneT) -> None:
        """Let a line that stands somewhere already be taken."""
        level, head = self.levels[lane.level], lane.head
        if head is None:
            raise AssertionError(f"an empty line of {lane.customer!r} cannot be taken")
        self._tick = tick = self._tick + 1
        by_turn = (lane.turn, lane.stamp, lane) if self._fair else (head.seq, tick, lane)
        by_age = (head.ready_at, head.seq, tick, lane)
        lane.turn_entry, lane.age_entry, lane.scheduled = by_turn, by_age, True
        heappush(level.by_turn, by_turn)
        heappush(level.by_age, by_age)
        if len(level.by_age) > 2 * level.open_lanes + 64:
            _drop_stale(level)

    def deactivate(self, lane: LaneT) -> None:
        """A line closed or became empty. Its turn is kept: coming back early gains nothing."""
        if lane.scheduled:
            self._unschedule(lane)
            self.levels[lane.level].open_lanes -= 1

    def change_head(self, lane: LaneT, head: Head | None) -> None:
        """The head was cancelled, or an older document came back in front of it."""
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
        """Choose the line whose head is started next, and charge it. Then call `put_back` with its new head."""
        slot = self._overdue_level(now) if (self.dispatched + 1) % self.policy.overdue_every == 0 else None
        out_of_turn = None if slot is None else self._use_overdue_slot(slot, now)
        line = out_of_turn or (self._next_lane() if slot is None else slot.lowest())
        if line is not None:
            self.dispatched += 1
            self._charge(line, advance_virtual_time=out_of_turn is None)
        return line

    def _use_overdue_slot(self, slot: Level[LaneT], now: int) -> LaneT | None:
        """Count the use; every tenth goes to the line that has waited longest, if one may be started out of turn."""
        line = slot.oldest_eligible(now, self.policy.out_of_turn_interval) if slot.next_use_is_out_of_turn else None
        self.rotation = slot.number
        slot.overdue_uses += 1
        if line is not None:
            line.out_of_turn_at = now
        return line

    def put_back(self, lane: LaneT, head: Head | None) -> None:
        """A line that was taken goes on with its next document, if it has one."""
        lane.head = head
        if head is None:
            self.levels[lane.level].open_lanes -= 1
        else:
            self.schedule(lane)

    def reweigh(self, lane: LaneT, weight: float) -> None:
        """A new weight holds for what already waits: the line's distance from V is scaled by old / new."""
        level = self.levels[lane.level]
        filed = lane.scheduled
        if filed:
            self._unschedule(lane)
        ahead = lane.turn - level.virtual_time.turn
        if ahead > 0:  # a line that stands at V keeps its place among those that stand there too
            self._set_turn(lane, level, level.virtual_time.turn + round(ahead * lane.weight / weight))
        lane.weight = weight
        if filed:
            self.schedule(lane)

    def refund(self, lane: LaneT, cost: float) -> None:
        """Take back what a document of this cost was charged: its claim was released. No line gets before V."""
        level = self.levels[lane.level]
        turn = max(lane.turn - increment(cost, lane.weight), level.virtual_time.turn)
        if not self._fair or turn >= lane.turn:
            return
        filed = lane.scheduled
        if filed:
            self._unschedule(lane)
        self._set_turn(lane, level, turn)
        if filed:
            self.schedule(lane)

    def is_spent(self, lane: LaneT, now: int | None = None) -> bool:
        """Whether nothing is lost by forgetting this line: it is empty, not ahead of V, and may go out of turn.

        Where `now` is not known, only a line that never went out of turn is spent.
        """
        if lane.head is not None or lane.turn > self.levels[lane.level].virtual_time.turn:
            return False
        if now is None:
            return not lane.out_of_turn_at
        return now - lane.out_of_turn_at >= self.policy.out_of_turn_interval

    def _next_lane(self) -> LaneT | None:
        for level in self.levels:
            if level.open_lanes:
                return level.lowest()
        return None

    def _overdue_level(self, now: int) -> Level[LaneT] | None:
        """The next level in rotation in which a head has waited too long."""
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

    def _charge(self, lane: LaneT, *, advance_virtual_time: bool) -> None:
        head = lane.head
        lane.turn_entry = lane.age_entry = None
        lane.scheduled = False
        if head is None or not self._fair:
            return
        level = self.levels[lane.level]
        if advance_virtual_time:
            level.virtual_time = VirtualTime(lane.turn, lane.stamp)
        self._set_turn(lane, level, lane.turn + increment(head.cost, lane.weight))

    def _set_turn(self, lane: LaneT, level: Level[LaneT], turn: int) -> None:
        lane.turn, lane.stamp = turn, self.next_stamp
        self.next_stamp += 1
        level.max_turn = max(level.max_turn, turn)

    @staticmethod
    def _unschedule(lane: LaneT) -> None:
        lane.turn_entry = lane.age_entry = None
        lane.scheduled = False


def increment(cost: float, weight: float) -> int:
    """Virtual time that one document of this cost takes at this weight."""
    return max(1, round(cost * VIRTUAL_TIME_UNIT / weight))


def _drop_stale(level: Level[LaneT]) -> None:
    """Entries of lines that moved on are dropped when they come up; here all at once, before they pile up."""
    level.by_turn = [entry for entry in level.by_turn if entry[2].turn_entry is entry]
    level.by_age = [entry for entry in level.by_age if entry[3].age_entry is entry]
    heapify(level.by_turn)
    heapify(level.by_age)
