"""Find a document's lane in a snapshot of the scheduler, and count what stands before it."""

from inturn.insights.forecast import ForecastTarget
from inturn.model import Document
from inturn.policy import Order
from inturn.policy.position import Ahead, OpenLane, classic_ahead, fair_ahead
from inturn.store_answers import SchedulerSnapshot


def lane_index(document: Document, snapshot: SchedulerSnapshot) -> int | None:
    """Return the index of a waiting document's lane among the open ones; None if it is in none."""
    for index, lane in enumerate(snapshot.lanes):
        if lane.customer == document.customer and lane.level == document.lane_level:
            return index
    return None


def count_ahead(snapshot: SchedulerSnapshot, index: int, ahead: int, seq: int) -> Ahead:
    """Count what stands before a document with `ahead` documents before it in its own lane."""
    lanes = open_lanes(snapshot)
    if snapshot.policy.order is Order.FAIR:
        return fair_ahead(lanes, index, ahead)
    return classic_ahead(lanes, index, ahead, seq)


def forecast_target(document: Document, snapshot: SchedulerSnapshot) -> ForecastTarget:
    """Return the forecast input of a waiting document."""
    level = document.lane_level
    is_fair = snapshot.policy.order is Order.FAIR
    others = sum(lane.level == level and lane.customer != document.customer for lane in snapshot.lanes)
    return ForecastTarget(document.customer, level, others if is_fair else None)


def open_lanes(snapshot: SchedulerSnapshot) -> list[OpenLane]:
    """Convert a snapshot to the input of `inturn.policy.position`."""
    return [
        OpenLane(lane.level, lane.turn, lane.stamp, lane.weight, lane.waiting, lane.charge, lane.head.seq)
        for lane in snapshot.lanes
    ]
