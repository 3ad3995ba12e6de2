"""Store the scheduler's state as JSON: next stamp, dispatched, rotation; for each level its virtual time (turn, stamp),
highest turn, overdue uses, open lanes; the expected time of new customers; of shares: the last customer, its last
start, the last one of others, customers at the limit; and the turn of the queue itself, now and when it was last
served. It is small, and always read and written whole. Each queue has one.
"""

import json
from typing import Any, Final

from inturn.policy import TurnPolicy
from inturn.policy.scheduler import LEVELS, LaneT, Level, Scheduler, VirtualTime
from inturn.policy.slot_share import SlotShares

INITIAL_STATE: Final = json.dumps([1, 0, 0, [[0, 0, 0, 0, 0] for _ in LEVELS], None, [None, None, None, {}], [0, 0]])
"""The state of a new queue."""


def scheduler_from_json(policy: TurnPolicy, text: str) -> Scheduler[Any]:
    """Build a scheduler without its lanes."""
    next_stamp, dispatched, rotation, levels, *work = json.loads(text)
    scheduler: Scheduler[Any] = Scheduler(
        policy,
        [
            Level(number, VirtualTime(turn, stamp), highest, uses, open_lanes)
            for number, (turn, stamp, highest, uses, open_lanes) in enumerate(levels)
        ],
    )
    scheduler.next_stamp, scheduler.dispatched, scheduler.rotation = next_stamp, dispatched, rotation
    if work:  # a state of an older version has none
        scheduler.mean_unit_time, shares, *turns = work
        scheduler.shares = SlotShares(0, *shares)
        for turn in turns:
            scheduler.queue_turn, scheduler.last_queue_turn = turn
    return scheduler


def scheduler_to_json(scheduler: Scheduler[LaneT]) -> str:
    """Write the whole state."""
    levels = ", ".join([_level_to_json(level) for level in scheduler.levels])
    shares = scheduler.shares
    work = json.dumps(
        [
            scheduler.mean_unit_time,
            [shares.last_customer, shares.last_at, shares.other_at, shares.at_limit],
            [scheduler.queue_turn, scheduler.last_queue_turn],
        ]
    )
    return f"[{scheduler.next_stamp}, {scheduler.dispatched}, {scheduler.rotation}, [{levels}], {work[1:]}"


def _level_to_json(level: Level[LaneT]) -> str:
    (turn, stamp), highest = level.virtual_time, level.max_turn
    return f"[{turn}, {stamp}, {highest}, {level.overdue_uses}, {level.open_lanes}]"


def may_have_work(text: str) -> bool:
    """Whether any level has an open lane, or a customer is closed by its share, which the next claim reviews."""
    _, _, _, levels, *work = json.loads(text)
    return any(open_lanes for *_, open_lanes in levels) or bool(work and any(work[1][3].values()))
