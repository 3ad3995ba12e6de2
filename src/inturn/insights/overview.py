"""Build the live overview of the whole queue in one read."""

from collections.abc import Iterator
from typing import Final

from inturn.insights.reader import Insights
from inturn.insights.views import LaneGroup, LiveOverview
from inturn.model import EXPEDITED_LEVEL
from inturn.policy import Order
from inturn.store import LaneSnapshot, SchedulerSnapshot

MAX_SHOWN_CUSTOMERS: Final = 25
"""The customers with the most waiting documents."""


def live_overview(insights: Insights, now: int) -> LiveOverview:
    """Read the queue for a screen that shows all of it."""
    live = insights.live(now, busiest_limit=MAX_SHOWN_CUSTOMERS)
    snapshot, version = insights.scheduler_snapshot(now), insights.policy()
    lanes = snapshot.lanes
    last = len(version.policy.priority.thresholds) + 1
    return LiveOverview(
        live=live,
        policy=version,
        customers=len({lane.customer for lane in lanes}),
        overdue=tuple(sorted({lane.level for lane in _overdue_lanes(snapshot, now)})),
        overdue_uses=sum(snapshot.overdue_uses),
        last_level=last,
        quiet=_group([lane for lane in lanes if lane.level < last]),
        busy=_group([lane for lane in lanes if lane.level >= last]),
    )


def _group(lanes: list[LaneSnapshot]) -> LaneGroup:
    return LaneGroup(len({lane.customer for lane in lanes}), sum(lane.waiting for lane in lanes))


def _overdue_lanes(snapshot: SchedulerSnapshot, now: int) -> Iterator[LaneSnapshot]:
    """Yield open lanes with an overdue head."""
    policy = snapshot.policy
    for lane in snapshot.lanes if policy.order is Order.FAIR else ():
        if lane.level != EXPEDITED_LEVEL and now - lane.head.ready_at >= policy.overdue_after:
            yield lane
