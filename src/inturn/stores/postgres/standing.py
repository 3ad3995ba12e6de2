"""What a claim reads first and writes last: the queue's own rows, where the turns are, and the work it did."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from inturn.policy import TurnPolicy
from inturn.policy.turns import LEVELS, Standing, Turns
from inturn.stores.postgres.lines import SqlLine
from inturn.stores.postgres.tables import NEWS, Row, columns

START: Final = json.dumps([1, 0, 0, [[0, 0, 0, 0, 0] for _ in LEVELS]])
"""Where the turns of a new queue are: next stamp, dispatched, rotation; by level V, highest, overdue uses, open."""


class QueueRow(NamedTuple):
    """The queue's rows, and what one look tells besides."""

    policy: int
    ordered: str
    standing: str
    bounds: str
    version: int
    fence: int
    reserved: int
    paused_by: str | None
    alive: bool
    has_limits: bool
    """Whether any customer has settings of its own."""
    is_foreign: bool
    """The snapshot of the last fold is of another server: it tells nothing here."""
    has_changes: bool
    at: int


class Taken(NamedTuple):
    """A document that a claim takes."""

    owner: int
    line: int
    seq: int
    fence: int


class Work(NamedTuple):
    """What a claim writes down together with the lines: the documents it starts, and the events."""

    now: int
    news: Sequence[Row] = ()
    taken: Sequence[Taken] = ()
    worker: str = ""
    until: int = 0
    names: Mapping[int, str] = MappingProxyType({})
    """The customers'."""

    def values(self) -> dict[str, Any]:
        """For its statement."""
        return {
            "now": self.now,
            "worker": self.worker,
            "until": self.until,
            **columns(NEWS, self.news),
            **columns(Taken._fields, self.taken),
        }


def turns_of(policy: TurnPolicy, text: str) -> Turns[SqlLine]:
    """Where the turns are, without their lines."""
    turns: Turns[SqlLine] = Turns(policy)
    turns.next_stamp, turns.dispatched, turns.rotation, levels = json.loads(text)
    for level, (turn, stamp, highest, uses, open_lines) in zip(turns.levels, levels, strict=True):
        level.v, level.highest = Standing(turn, stamp), highest
        level.overdue_uses, level.open_lines = uses, open_lines
    return turns


def text_of(turns: Turns[SqlLine]) -> str:
    """To be kept."""
    levels = ", ".join(
        [
            f"[{level.v.turn}, {level.v.stamp}, {level.highest}, {level.overdue_uses}, {level.open_lines}]"
            for level in turns.levels
        ]
    )
    return f"[{turns.next_stamp}, {turns.dispatched}, {turns.rotation}, [{levels}]]"
