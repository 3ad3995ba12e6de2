"""Store the scheduler's state as JSON: next stamp, dispatched, rotation; for each level its virtual time (turn, stamp),
highest turn, overdue uses, open lanes. It is small, and always read and written whole.
"""

import json
from typing import Any, Final

from inturn.policy import TurnPolicy
from inturn.policy.scheduler import LEVELS, LaneT, Level, Scheduler, VirtualTime

INITIAL_STATE: Final = json.dumps([1, 0, 0, [[0, 0, 0, 0, 0] for _ in LEVELS]])
"""The state of a new queue."""


def scheduler_from_json(policy: TurnPolicy, text: str) -> Scheduler[Any]:
    """Build a scheduler without its lanes."""
    next_stamp, dispatched, rotation, levels = json.loads(text)
    scheduler: Scheduler[Any] = Scheduler(
        policy,
        [
            Level(number, VirtualTime(turn, stamp), highest, uses, open_lanes)
            for number, (turn, stamp, highest, uses, open_lanes) in enumerate(levels)
        ],
    )
    scheduler.next_stamp, scheduler.dispatched, scheduler.rotation = next_stamp, dispatched, rotation
    return scheduler


def scheduler_to_json(scheduler: Scheduler[LaneT]) -> str:
    """Write the whole state."""
    levels = ", ".join([_level_to_json(level) for level in scheduler.levels])
    return f"[{scheduler.next_stamp}, {scheduler.dispatched}, {scheduler.rotation}, [{levels}]]"


def _level_to_json(level: Level[LaneT]) -> str:
    (turn, stamp), highest = level.virtual_time, level.max_turn
    return f"[{turn}, {stamp}, {highest}, {level.overdue_uses}, {level.open_lanes}]"


def has_open_lanes(text: str) -> bool:
    """Whether any level has an open lane."""
    *_, levels = json.loads(text)
    return any(open_lanes for *_, open_lanes in levels)
