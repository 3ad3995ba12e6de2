"""Where the turns are, as the SQL stores keep it: next stamp, dispatched, rotation; by level V, highest, overdue uses,
open. JSON: small, always read and written whole.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from inturn.policy import TurnPolicy
from inturn.policy.scheduler import LEVELS, LaneT, Level, Scheduler, VirtualTime

INITIAL_STATE: Final = json.dumps([1, 0, 0, [[0, 0, 0, 0, 0] for _ in LEVELS]])
"""Of a new queue."""


def scheduler_from_json(policy: TurnPolicy, text: str) -> Scheduler[Any]:
    """The turns, without their lines."""
    turns: Scheduler[Any] = Scheduler(policy)
    turns.next_stamp, turns.dispatched, turns.rotation, levels = json.loads(text)
    for level, (turn, stamp, highest, uses, open_lines) in zip(turns.levels, levels, strict=True):
        level.virtual_time, level.max_turn = VirtualTime(turn, stamp), highest
        level.overdue_uses, level.open_lanes = uses, open_lines
    return turns


def level_to_json(level: Level[LaneT]) -> str:
    """One level, to be kept."""
    return (
        f"[{level.virtual_time.turn}, {level.virtual_time.stamp}, {level.max_turn}, {level.overdue_uses}, "
        f"{level.open_lanes}]"
    )


def scheduler_to_json(scheduler: Scheduler[LaneT], levels: Sequence[str]) -> str:
    """All of them, given the text of each level."""
    return f"[{scheduler.next_stamp}, {scheduler.dispatched}, {scheduler.rotation}, [{', '.join(levels)}]]"
