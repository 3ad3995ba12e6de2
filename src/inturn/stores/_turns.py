"""Where the turns are, as the SQL stores keep it: next stamp, dispatched, rotation; by level V, highest, overdue uses,
open. JSON: small, always read and written whole.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from inturn.policy import TurnPolicy
from inturn.policy.turns import LEVELS, Level, LineT, Standing, Turns

START: Final = json.dumps([1, 0, 0, [[0, 0, 0, 0, 0] for _ in LEVELS]])
"""Of a new queue."""


def turns_of(policy: TurnPolicy, text: str) -> Turns[Any]:
    """The turns, without their lines."""
    turns: Turns[Any] = Turns(policy)
    turns.next_stamp, turns.dispatched, turns.rotation, levels = json.loads(text)
    for level, (turn, stamp, highest, uses, open_lines) in zip(turns.levels, levels, strict=True):
        level.v, level.highest = Standing(turn, stamp), highest
        level.overdue_uses, level.open_lines = uses, open_lines
    return turns


def level_text(level: Level[LineT]) -> str:
    """One level, to be kept."""
    return f"[{level.v.turn}, {level.v.stamp}, {level.highest}, {level.overdue_uses}, {level.open_lines}]"


def turns_text(turns: Turns[LineT], levels: Sequence[str]) -> str:
    """All of them, given the text of each level."""
    return f"[{turns.next_stamp}, {turns.dispatched}, {turns.rotation}, [{', '.join(levels)}]]"
