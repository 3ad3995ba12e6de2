"""Build the live overview of all queues in one read."""

from collections.abc import Iterator
from typing import Final

from inturn.insights.held import lane_group
from inturn.insights.reader import Insights
from inturn.insights.views import LiveOverview
from inturn.model import EXPEDITED_LEVEL
from inturn.policy import Order
from inturn.store_answers import ClosedLane, LaneSnapshot, SchedulerSnapshot

MAX_SHOWN_CUSTOMERS: Final = 25
"""The customers with the most waiting documents."""


def live_overview(insights: Insights, now: int) -> LiveOverview:
    """Read all queues for a screen that shows all of them."""
    live = insights.live(now, busiest_limit=MAX_SHOWN_CUSTOMERS)
    snapshot, version = insights.scheduler_snapshot(now), insights.policy()
    last = len(version.policy.priority.thresholds) + 1
    levels = range(max((last, *live.waiting)) + 1)
    whole = lane_group(levels, snapshot)
    waits = [max(0, now - lane.head.ready_at) for lane in snapshot.all_lanes]
    return LiveOverview(
        live=live,
        policy=version,
        customers=whole.customers,
        held_customers=whole.held_customers,
        held=whole.held,
        oldest_wait=max(waits, default=None),
        overdue=tuple(sorted({lane.level for lane in _overdue_lanes(snapshot, now)})),
        overdue_uses=sum(snapshot.overdue_uses),
        last_level=last,
        quiet=lane_group(levels[:last], snapshot),
        busy=lane_group(levels[last:], snapshot),
    )


def _overdue_lanes(snapshot: SchedulerSnapshot, now: int) -> Iterator[LaneSnapshot | ClosedLane]:
    """Yield lanes with an overdue head that are open, or closed by a share until the next document ends."""
    policy = snapshot.policy
    lanes: list[LaneSnapshot | ClosedLane] = [*snapshot.lanes, *(lane for lane in snapshot.closed if lane.by_share)]
    for lane in lanes if policy.order is Order.FAIR else ():
        if lane.level != EXPEDITED_LEVEL and now - lane.head.ready_at >= policy.overdue_after:
            yield lane
