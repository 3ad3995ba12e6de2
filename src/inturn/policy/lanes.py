"""What happens to a customer's lines: documents join and leave them, limits close them, settings change them.

Every store tells this book the same things in the same order, so that every line stands alike in all of them. The book
knows no documents: `first` tells it a line's head when the one it knew is gone.
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
    """One customer's lines by level, and what opens and closes them."""

    name: str
    settings: CustomerSettings = DEFAULT_SETTINGS
    running: int = 0
    """How many of its documents run: exact while it has a cap."""
    tat: int = 0
    """When its rate allowance is whole again."""
    rate_closed_until: int | None = None
    lanes: dict[int, LaneT] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether its documents may be started now."""
        settings = self.settings
        if settings is DEFAULT_SETTINGS:
            return True
        if settings.paused or self.rate_closed_until is not None:
            return False
        return settings.cap is None or self.running < settings.cap


class LaneTracker(Generic[LaneT]):
    """Keeps lines and turns in step with what is told."""

    __slots__ = ("_find_head", "scheduler")

    def __init__(self, scheduler: Scheduler[LaneT], find_head: Callable[[LaneT], Head | None]) -> None:
        self.scheduler = scheduler
        self._find_head = find_head

    def joined(self, customer: CustomerLanes[LaneT], lane: LaneT, head: Head, n: int = 1) -> None:
        """`n` documents came into the line; `head` is the first of them."""
        lane.waiting += n
        if lane.head is None:
            lane.head = head
            if customer.is_open:
                self.scheduler.activate(lane)
        elif head.seq < lane.head.seq:
            self.scheduler.change_head(lane, head)

    def released(self, customer: CustomerLanes[LaneT], lane: LaneT, head: Head) -> None:
        """A claim was given back unstarted: its document waits again, and its line is not charged for it."""
        self.scheduler.refund(lane, head.cost)
        self.joined(customer, lane, head)

    def left(self, lane: LaneT, seq: int) -> None:
        """A document left the line otherwise than by a claim."""
        lane.waiting -= 1
        if lane.waiting == 0 or (lane.head is not None and lane.head.seq == seq):
            self.scheduler.change_head(lane, self._find_head(lane))

    def emptied(self, lane: LaneT) -> None:
        """All documents of the line are gone."""
        lane.waiting = 0
        self.scheduler.change_head(lane, None)

    def started(self, customer: CustomerLanes[LaneT], lane: LaneT, now: int) -> None:
        """The head of a line that was taken runs: the next one is its head, and the customer's limits are charged."""
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
        """A document of the customer runs no more."""
        was_open = customer.is_open
        customer.running -= 1
        if not was_open:
            self.open_or_close(customer)

    def rate_reopened(self, customer: CustomerLanes[LaneT]) -> None:
        """The time that a rate closed the customer for is over."""
        customer.rate_closed_until = None
        self.open_or_close(customer)

    def clamp_rate(self, customer: CustomerLanes[LaneT], now: int) -> bool:
        """Bring a closing by rate that a clock ahead of this one has set back to what the rate allows at `now`."""
        rate = customer.settings.rate
        if rate is None or customer.rate_closed_until is None:
            return False
        whole_at = rates.clamped_tat(rate, customer.tat, now)
        if whole_at == customer.tat:
            return False
        customer.tat, customer.rate_closed_until = whole_at, rates.opens_at(rate, whole_at)
        return True

    def change(self, customer: CustomerLanes[LaneT], settings: CustomerSettings) -> None:
        """New settings hold for what already waits."""
        before, customer.settings = customer.settings, settings
        if settings.rate != before.rate:
            customer.tat, customer.rate_closed_until = 0, None
        if settings.weight != before.weight:
            for _, line in sorted(customer.lanes.items()):
                self.scheduler.reweigh(line, settings.weight)
        self.open_or_close(customer)

    def open_or_close(self, customer: CustomerLanes[LaneT]) -> None:
        """Let the customer's lines be taken, or not."""
        is_open = customer.is_open
        for _, line in sorted(customer.lanes.items()):
            if not is_open:
                self.scheduler.deactivate(line)
            elif line.head is not None and not line.scheduled:
                self.scheduler.activate(line)
