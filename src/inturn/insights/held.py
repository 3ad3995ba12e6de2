"""Sum up the customers that wait: those whose documents are started in turn, and those that are held.

Held are the documents of customers that a pause, a cap or a rate limit closes now. The share of the
slots holds no customer: it opens a customer's lanes again when one of its documents ends, often within a second.
"""

from inturn.insights.views import LaneGroup
from inturn.store_answers import SchedulerSnapshot


def lane_group(levels: range, snapshot: SchedulerSnapshot) -> LaneGroup:
    """Sum up the customers and documents that wait in some levels."""
    open_lanes = [lane for lane in snapshot.lanes if lane.level in levels]
    closed = [lane for lane in snapshot.closed if lane.level in levels]
    held_lanes = [lane for lane in closed if not lane.by_share]
    held = {lane.customer for lane in held_lanes}
    return LaneGroup(
        customers=len({lane.customer for lane in open_lanes} | {lane.customer for lane in closed}),
        waiting=sum(lane.waiting for lane in open_lanes) + sum(lane.waiting for lane in closed),
        held_customers=len(held),
        held=sum(lane.waiting for lane in held_lanes),
    )
