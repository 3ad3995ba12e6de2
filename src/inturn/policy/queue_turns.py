"""Choose the queue that a claim is served from, where a worker serves several.

Queues take turns as lanes do: each has a turn, and the one with the lowest among those that have an open lane is served
next. Its turn grows by the inverse of its weight. A queue that was idle joins where the others are, so that idle time
earns no credit. A worker that serves one queue leaves the turns alone.
"""

from collections.abc import Mapping

from inturn.policy.charges import VIRTUAL_TIME_UNIT, increment
from inturn.policy.scheduler import LaneT, Scheduler


def next_queue(schedulers: Mapping[int, Scheduler[LaneT]], weights: Mapping[int, float]) -> int | None:
    """Return the number of the queue that is served next, and charge it; None if none has an open lane.

    `schedulers` are those of the queues that the worker serves, by number.
    """
    ready = [number for number, scheduler in schedulers.items() if scheduler.has_open_lanes]
    if not ready or len(schedulers) == 1:
        return ready[0] if ready else None
    now = max(scheduler.last_queue_turn for scheduler in schedulers.values())
    number = min(ready, key=lambda number: (max(schedulers[number].queue_turn, now), number))
    chosen = schedulers[number]
    chosen.last_queue_turn = max(chosen.queue_turn, now)
    chosen.queue_turn = chosen.last_queue_turn + increment(VIRTUAL_TIME_UNIT, weights[number])
    return number
