"""Update a customer's lanes: documents join and leave them, limits close them, settings change them.

All stores call the tracker in the same order, so that lanes have the same virtual time in all of them. The tracker does
not know the documents: `find_head` returns a lane's new head when the old one is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from inturn.model import CustomerSettings
from inturn.policy import rates
from inturn.policy.scheduler import Head, LaneT, Scheduler

DEFAULT_SETTINGS = CustomerSettings()


@dataclass(slots=True, eq=False)
class CustomerLanes(Generic[LaneT]):
    """One customer's lanes by level, and the limits that close them."""

    name: str
    settings: CustomerSettings = DEFAULT_SETTINGS
    running: int = 0
    """Running documents; exact only while the customer has a cap."""
    tat: int = 0
    """The theoretical arrival time of its rate limit (`inturn.policy.rates`)."""
    rate_closed_until: int | None = None
    lanes: dict[int, LaneT] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether its documents may be started now: no pause, cap or rate limit closes it."""
        settings = self.settings
        if settings is DEFAULT_SETTINGS:
            return True
        if settings.paused or self.rate_closed_until is not None:
            return False
        return settings.cap is None or self.running < settings.cap


class LaneTracker(Generic[LaneT]):
    """Apply document and settings changes to lanes and scheduler."""

    __slots__ = ("_find_head", "scheduler")

    def __init__(self, scheduler: Scheduler[LaneT], find_head: Callable[[LaneT], Head | None]) -> None:
        self.scheduler = scheduler
        self._find_head = find_head

    def joined(self, customer: CustomerLanes[LaneT], lane: LaneT, head: Head, n: int = 1) -> None:
        """Add n documents to a lane; `head` is the first of them."""
        lane.waiting += n
        if lane.head is None:
            lane.head = head
            if customer.is_open:
                self.scheduler.activate(lane)
        elif head.seq < lane.head.seq:
            self.scheduler.change_head(lane, head)

    def released(self, customer: CustomerLanes[LaneT], lane: LaneT, head: Head) -> None:
        """Put a released claim back into its lane, and refund the lane."""
        self.scheduler.refund(lane, head.cost)
        self.joined(customer, lane, head)

    def left(self, lane: LaneT, seq: int) -> None:
        """Remove a document that left the lane without a claim."""
        lane.waiting -= 1
        if lane.waiting == 0 or (lane.head is not None and lane.head.seq == seq):
            self.scheduler.change_head(lane, self._find_head(lane))

    def emptied(self, lane: LaneT) -> None:
        """Empty a lane whose documents were all deleted."""
        lane.waiting = 0
        self.scheduler.change_head(lane, None)

    def started(self, customer: CustomerLanes[LaneT], lane: LaneT, now: int) -> None:
        """Start the head of a lane that `Scheduler.take` returned, and charge the customer's cap and rate limit."""
        lane.waiting -= 1
        self.scheduler.put_back(lane, self._find_head(lane))
        customer.running += 1
        settings = customer.settings
        if settings.rate is not None:
            customer.tat = rates.charged_tat(settings.rate, customer.tat, now)
            opens_at = rates.opens_at(settings.rate, customer.tat)
            if opens_at > now:
                customer.rate_closed_until = opens_at
        if settings is not DEFAULT_SETTINGS:
            self.open_or_close(customer)

    def stopped(self, customer: CustomerLanes[LaneT]) -> None:
        """Count a document of the customer that no longer runs."""
        was_open = customer.is_open
        customer.running -= 1
        if not was_open:
            self.open_or_close(customer)

    def rate_reopened(self, customer: CustomerLanes[LaneT]) -> None:
        """Reopen a customer whose rate limit allows another start."""
        customer.rate_closed_until = None
        self.open_or_close(customer)

    def clamp_rate(self, customer: CustomerLanes[LaneT], now: int) -> bool:
        """Clamp a rate limit that a clock ahead of this one has charged; return whether it changed."""
        rate = customer.settings.rate
        if rate is None or customer.rate_closed_until is None:
            return False
        tat = rates.clamped_tat(rate, customer.tat, now)
        if tat == customer.tat:
            return False
        customer.tat, customer.rate_closed_until = tat, rates.opens_at(rate, tat)
        return True

    def change(self, customer: CustomerLanes[LaneT], settings: CustomerSettings) -> None:
        """Apply new settings to lanes that already wait."""
        before, customer.settings = customer.settings, settings
        if settings.rate != before.rate:
            customer.tat, customer.rate_closed_until = 0, None
        if settings.weight != before.weight:
            for _, lane in sorted(customer.lanes.items()):
                self.scheduler.reweigh(lane, settings.weight)
        self.open_or_close(customer)

    def open_or_close(self, customer: CustomerLanes[LaneT]) -> None:
        """Activate or deactivate the customer's lanes by its limits."""
        is_open = customer.is_open
        for _, lane in sorted(customer.lanes.items()):
            if not is_open:
                self.scheduler.deactivate(lane)
            elif lane.head is not None and not lane.scheduled:
                self.scheduler.activate(lane)
