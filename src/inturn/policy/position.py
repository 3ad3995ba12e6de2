"""A document's place: how many would start before it if nothing more came, no line closed and nothing were overdue.

Better levels go whole. Inside a level nothing has to be replayed: a line's next documents stand at `turn`,
`turn + step`, `turn + 2 * step` and so on, so how many of them stand before a given one is a division. Later documents
of a line are taken to cost what its head costs; where that holds, the answer is exactly what claims would do.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inturn.policy.scheduler import increment


class OpenLane(NamedTuple):
    """Where an open line stands, and its head."""

    level: int
    turn: int
    stamp: int
    weight: float
    waiting: int
    cost: float
    seq: int

    @property
    def step(self) -> int:
        """How far each of its documents moves it on."""
        return increment(self.cost, self.weight)


class Ahead(NamedTuple):
    """Documents that would start before one: of better levels, of other lines in its level, of its own line."""

    better_levels: int
    same_level: int
    own_line: int

    @property
    def place(self) -> int:
        """All of them: 0 is next."""
        return sum(self)


def fair_ahead(lanes: Sequence[OpenLane], index: int, ahead: int) -> Ahead:
    """What goes before the document with `ahead` documents before it in `lines[mine]`, when customers take turns."""
    my_line = lanes[index]
    my_step = my_line.step
    my_turn = my_line.turn + ahead * my_step
    same = 0
    for number, line in enumerate(lanes):
        if line.level == my_line.level and line.turn <= my_turn and number != index:
            same += min(line.waiting, _turns_ahead(line, my_turn, (my_step, ahead, my_line.stamp)))
    return Ahead(_better_levels(lanes, my_line.level), same, ahead)


def classic_ahead(lanes: Sequence[OpenLane], index: int, ahead: int, seq: int) -> Ahead:
    """What goes before the document with this seq at most, first come first served.

    Only heads are known here, so this is an upper bound: no more can stand between two documents than seqs do.
    """
    level = lanes[index].level
    first = min(line.seq for line in lanes if line.level == level)
    others = (line for number, line in enumerate(lanes) if line.level == level and number != index)
    same = sum(min(line.waiting, max(0, seq - line.seq)) for line in others)
    return Ahead(_better_levels(lanes, level), min(same, seq - first - ahead), ahead)


def _better_levels(lanes: Iterable[OpenLane], level: int) -> int:
    return sum(line.waiting for line in lanes if line.level < level)


def _turns_ahead(lane: OpenLane, turn: int, target: tuple[int, int, int]) -> int:
    """How many turns the line has before a document at `turn`, which got there by (step, documents ahead, stamp).

    At the same turn the lower stamp goes first. A line keeps its stamp until it is served, and gets a new one whenever
    it is: so it went first whose step was longer, as it was served earlier for the last time; with equal steps, whoever
    has been served less often; and with as many, whoever had the lower stamp to begin with.
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
