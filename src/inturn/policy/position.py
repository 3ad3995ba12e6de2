"""Compute a document's place: how many documents would start before it.

The estimate assumes that nothing more is submitted, no lane closes and nothing is overdue. All documents of better
levels go first. Inside a level no replay is needed: a lane's documents have the virtual times `turn`, `turn + step`,
`turn + 2 * step` and so on, so a division gives how many of them go first. All documents of a lane are assumed to be
charged as much as its head; where that is true, the place is exact.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inturn.policy.charges import increment
from inturn.policy.scheduler import Lane


class OpenLane(NamedTuple):
    """An open lane: its virtual time, its length and its head."""

    level: int
    turn: int
    stamp: int
    weight: float
    waiting: int
    charge: int
    """What its head would be charged (`Scheduler.expected_charge`)."""
    seq: int

    @property
    def step(self) -> int:
        """Virtual time of one document of this lane."""
        return increment(self.charge, self.weight)


class Ahead(NamedTuple):
    """Documents that would start before one: of better levels, of other lanes in its level, of its own lane."""

    better_levels: int
    same_level: int
    own_line: int

    @property
    def place(self) -> int:
        """The sum; 0 is next."""
        return sum(self)


def fair_ahead(lanes: Sequence[OpenLane], index: int, ahead: int) -> Ahead:
    """Count what starts before a document of `lanes[index]` with `ahead` documents before it, in fair order."""
    own = lanes[index]
    turn = own.turn + ahead * own.step
    same = 0
    for number, lane in enumerate(lanes):
        if lane.level == own.level and lane.turn <= turn and number != index:
            same += min(lane.waiting, _turns_ahead(lane, turn, (own.step, ahead, own.stamp)))
    return Ahead(_better_levels(lanes, own.level), same, ahead)


def classic_ahead(lanes: Sequence[OpenLane], index: int, ahead: int, seq: int) -> Ahead:
    """Count what starts before the document with this seq at most, first come first served.

    Only the heads are known, so this is an upper bound: at most as many documents as seqs lie between two documents.
    """
    level = lanes[index].level
    first = min(lane.seq for lane in lanes if lane.level == level)
    others = (lane for number, lane in enumerate(lanes) if lane.level == level and number != index)
    same = sum(min(lane.waiting, max(0, seq - lane.seq)) for lane in others)
    return Ahead(_better_levels(lanes, level), min(same, seq - first - ahead), ahead)


def ahead_in_groups(groups: Iterable[tuple[Lane, int]], own: Lane, ahead: int) -> int:
    """Count what starts before a document in its lane, in fair order.

    `groups` are the groups of the lane with what their heads would be charged; `ahead` documents of the group `own` are
    before it.
    """
    members = [(group, charge, group.head) for group, charge in groups if group.head is not None]
    lanes = [
        OpenLane(group.level, group.turn, group.stamp, group.weight, group.waiting, charge, head.seq)
        for group, charge, head in members
    ]
    return fair_ahead(lanes, [group for group, *_ in members].index(own), ahead).place


def _better_levels(lanes: Iterable[OpenLane], level: int) -> int:
    return sum(lane.waiting for lane in lanes if lane.level < level)


def _turns_ahead(lane: OpenLane, turn: int, target: tuple[int, int, int]) -> int:
    """Count the documents of a lane before a document at `turn` whose lane has (step, documents ahead, stamp).

    At equal turns the lower stamp goes first, and a lane gets a new stamp whenever it is served. So the order is: the
    longer step (its last service was earlier), then fewer services, then the lower initial stamp.
    """
    step, ahead, stamp = target
    earlier, rest = divmod(turn - lane.turn, lane.step)
    if rest:
        return earlier + 1
    if earlier == 0 or ahead == 0:
        wins = (earlier, lane.stamp) < (ahead, stamp)
    else:
        wins = (-lane.step, earlier, lane.stamp) < (-step, ahead, stamp)
    return earlier + wins
