"""Everything that an overview shows of this moment, in one reading."""

from collections.abc import Iterator
from typing import Final

from inturn.insights.reader import Insights
from inturn.insights.views import LaneGroup, LiveOverview
from inturn.model import EXPEDITED_LEVEL
from inturn.policy import Order
from inturn.store import LaneSnapshot, SchedulerSnapshot

MAX_SHOWN_CUSTOMERS: Final = 25
"""Customers of a board, those with the most waiting."""


def live_overview(insights: Insights, now: int) -> LiveOverview:
    """The queue at this moment, as one screen shows it."""
    live = insights.live(now, busiest_limit=MAX_SHOWN_CUSTOMERS)
    standings, version = insights.scheduler_snapshot(now), insights.policy()
    lines = standings.lanes
    weights = {line.customer: line.weight for line in lines}
    everybody = sum(weights.values())
    last = len(version.policy.priority.thresholds) + 1
    return LiveOverview(
        live=live,
        policy=version,
        customers=len(weights),
        due={name: weight / everybody for name, weight in weights.items()},
        overdue=tuple(sorted({line.level for line in _overdue_lanes(standings, now)})),
        overdue_uses=sum(standings.overdue_uses),
        last_level=last,
        quiet=_group([line for line in lines if line.level < last]),
        busy=_group([line for line in lines if line.level >= last]),
    )


def _group(lanes: list[LaneSnapshot]) -> LaneGroup:
    return LaneGroup(len({line.customer for line in lanes}), sum(line.waiting for line in lanes))


def _overdue_lanes(snapshot: SchedulerSnapshot, now: int) -> Iterator[LaneSnapshot]:
    """Open lines whose heads have waited so long that the overdue slot serves their level."""
    policy = snapshot.policy
    for line in snapshot.lanes if policy.order is Order.FAIR else ():
        if line.level != EXPEDITED_LEVEL and now - line.head.ready_at >= policy.overdue_after:
            yield line
