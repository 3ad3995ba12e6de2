"""Update a customer's lanes: documents join and leave them, limits close them, settings change them.

All stores call the tracker in the same order, so that lanes have the same virtual time in all of them. The tracker does
not know the documents: `find_head` returns a new head when the old one is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from inturn.model import CustomerSettings
from inturn.policy import rates
from inturn.policy.charges import cost_charge
from inturn.policy.groups import UNGROUPED, GroupName, Groups
from inturn.policy.scheduler import CustomerWork, Head, LaneT, Scheduler
from inturn.policy.turn_policy import Order

DEFAULT_SETTINGS = CustomerSettings()


@dataclass(slots=True, eq=False)
class CustomerLanes(Generic[LaneT]):
    """One customer's lanes by track, and the limits that close them."""

    name: str
    settings: CustomerSettings = DEFAULT_SETTINGS
    running: int = 0
    """Running documents; exact only while the customer has a cap."""
    tat: int = 0
    """The theoretical arrival time of its rate limit (`inturn.policy.rates`)."""
    rate_closed_until: int | None = None
    lanes: dict[int, LaneT] = field(default_factory=dict)
    work: dict[int, CustomerWork] = field(default_factory=dict)
    """What is known of its work, by the number of the queue."""
    at_slot_limit: set[int] = field(default_factory=set)
    """The queues in which it holds its share of the slots while others come (`inturn.policy.slot_share`)."""

    def work_in(self, queue: int) -> CustomerWork:
        """Return what is known of its work in a queue."""
        known = self.work.get(queue)
        if known is None:
            known = self.work[queue] = CustomerWork()
        return known

    def is_open_in(self, queue: int) -> bool:
        """Whether its documents of a queue may be started now: no pause, cap, rate limit or share closes it."""
        return queue not in self.at_slot_limit and self.is_open

    @property
    def is_open(self) -> bool:
        """Whether its settings let a document be started now: no pause, cap or rate limit closes it."""
        settings = self.settings
        if settings is DEFAULT_SETTINGS:
            return True
        if settings.paused or self.rate_closed_until is not None:
            return False
        return settings.cap is None or self.running < settings.cap


class LaneTracker(Generic[LaneT]):
    """Apply document and settings changes to lanes and the schedulers of their queues."""

    __slots__ = ("_find_customer", "_find_head", "_find_scheduler", "_new_group")

    def __init__(
        self,
        find_scheduler: Callable[[int], Scheduler[LaneT]],
        find_head: Callable[[LaneT], Head | None],
        find_customer: Callable[[str], CustomerLanes[LaneT]],
        new_group: Callable[[LaneT, GroupName], LaneT],
    ) -> None:
        """`find_scheduler` returns the scheduler of a queue by its number.

        `find_head` returns the next document of a group, or of a lane without groups. `find_customer` returns a
        customer with all of its lanes. `new_group` makes an empty group of a lane; the first one, without a name, takes
        over the documents that wait in the lane.
        """
        self._find_scheduler = find_scheduler
        self._find_head = find_head
        self._find_customer = find_customer
        self._new_group = new_group

    def joined(
        self, customer: CustomerLanes[LaneT], lane: LaneT, head: Head, n: int = 1, group: GroupName = UNGROUPED
    ) -> None:
        """Add n documents of one group to a lane; `head` is the first of them."""
        if group is not UNGROUPED or lane.groups is not None:
            self._join_group(lane, group, head, n)
        lane.waiting += n
        if lane.head is None:
            lane.head = head
            if customer.is_open_in(lane.queue):
                self._find_scheduler(lane.queue).activate(lane)
        elif head.seq < lane.head.seq:
            self._find_scheduler(lane.queue).change_head(lane, head)

    def _join_group(self, lane: LaneT, name: GroupName, head: Head, n: int) -> None:
        """Add n documents to a group. If the lane has no groups yet, those that wait in it become the first one."""
        scheduler = self._find_scheduler(lane.queue)
        if lane.groups is None:
            lane.groups = Groups()
            if lane.head is not None:
                first = self._new_group(lane, UNGROUPED)
                first.waiting, first.head = lane.waiting, lane.head
                lane.groups.activate(first, scheduler.new_stamp())
        groups = lane.groups
        group = groups.find(name) or self._new_group(lane, name)
        group.waiting += n
        if group.head is None:
            group.head = head
            groups.activate(group, scheduler.new_stamp())
        elif head.seq < group.head.seq:
            groups.change_head(group, head)

    def released(
        self,
        customer: CustomerLanes[LaneT],
        lane: LaneT,
        head: Head,
        charged: int | None,
        group: GroupName = UNGROUPED,
    ) -> None:
        """Put a released claim back into its lane, and refund what it was charged; None if runs were not tracked."""
        if charged is not None:
            customer.work_in(lane.queue).in_flight -= 1
        refund = cost_charge(head.cost) if charged is None else charged
        self._find_scheduler(lane.queue).correct(lane, -refund)
        self._correct_group(lane, group, -refund)
        self.joined(customer, lane, head, group=group)

    def ended(
        self,
        customer: CustomerLanes[LaneT],
        lane: LaneT,
        charged: int,
        worked: int,
        cost: float | None,
        group: GroupName = UNGROUPED,
    ) -> None:
        """Settle the charge of a document that no longer runs. `cost` is None if its time says nothing of others."""
        customer.work_in(lane.queue).in_flight -= 1
        self._correct_group(lane, group, self._find_scheduler(lane.queue).settle(lane, charged, worked, cost))

    def _correct_group(self, lane: LaneT, name: GroupName, difference: int) -> None:
        """Correct a group by what its lane is corrected."""
        groups, scheduler = lane.groups, self._find_scheduler(lane.queue)
        if groups is None or difference == 0 or scheduler.policy.order is not Order.FAIR:
            return
        group = groups.find(name)
        if group is None or groups.is_spent(group):  # a group that is spent may be forgotten, and a refund ends at V
            if difference < 0:
                return
            group = group or self._new_group(lane, name)
        groups.correct(group, difference, scheduler.new_stamp())

    def left(self, lane: LaneT, seq: int, group: GroupName = UNGROUPED) -> None:
        """Remove a document that left the lane without a claim."""
        lane.waiting -= 1
        if lane.groups is not None and (member := lane.groups.find(group)) is not None:
            member.waiting -= 1
            if member.waiting == 0 or (member.head is not None and member.head.seq == seq):
                lane.groups.change_head(member, self._find_head(member))
        if lane.waiting == 0 or (lane.head is not None and lane.head.seq == seq):
            self._find_scheduler(lane.queue).change_head(lane, self.head_of(lane))

    def emptied(self, lane: LaneT) -> None:
        """Empty a lane whose documents were all deleted."""
        lane.waiting, lane.groups = 0, None
        self._find_scheduler(lane.queue).change_head(lane, None)

    def head_of(self, lane: LaneT) -> Head | None:
        """Return the document of a lane with the lowest seq. A lane that is empty forgets its groups."""
        if lane.waiting == 0:
            lane.groups = None
        if lane.groups is None:
            return self._find_head(lane)
        oldest = lane.groups.oldest()
        return None if oldest is None else oldest.head

    def started(self, customer: CustomerLanes[LaneT], lane: LaneT, now: int) -> None:
        """Start the document that `Scheduler.take` chose in a lane, and charge the customer's cap and rate limit."""
        lane.waiting -= 1
        scheduler = self._find_scheduler(lane.queue)
        group, head = scheduler.last_group, scheduler.last_head
        if lane.groups is not None and group is not None:
            group.waiting -= 1
            lane.groups.change_head(group, self._find_head(group))
        scheduler.put_back(lane, self.head_of(lane) if head == lane.head else lane.head)
        customer.running += 1
        settings = customer.settings
        if settings.rate is not None:
            customer.tat = rates.charged_tat(settings.rate, customer.tat, now)
            opens_at = rates.opens_at(settings.rate, customer.tat)
            if opens_at > now:
                customer.rate_closed_until = opens_at
        if settings is not DEFAULT_SETTINGS:
            self.open_or_close(customer)
        if scheduler.last_charge is not None:
            self._count_start(customer, lane.queue, now)

    def _count_start(self, customer: CustomerLanes[LaneT], queue: int, now: int) -> None:
        """Count a start for its customer's share of the slots."""
        scheduler, work = self._find_scheduler(queue), customer.work_in(queue)
        shares = scheduler.shares
        work.in_flight += 1
        shares.started(customer.name, now)
        limit = shares.limit(scheduler.policy.max_share)
        if limit is not None and work.in_flight >= limit:
            shares.at_limit.setdefault(customer.name, None)
        if shares.at_limit:
            self.review_shares(queue, now)

    def review_shares(self, queue: int, now: int) -> None:
        """Close customers that hold their share of a queue's slots while others come; open them otherwise."""
        scheduler = self._find_scheduler(queue)
        shares, policy = scheduler.shares, scheduler.policy
        limit = shares.limit(policy.max_share) if policy.tracks_runs else None
        for name, opens_at in list(shares.at_limit.items()):
            customer = self._find_customer(name)
            closed_until = None
            if limit is not None and customer.work_in(queue).in_flight >= limit:
                hold = self._hold_time(customer, scheduler, queue)
                closed_until = shares.at_limit[name] = shares.closed_until(name, hold, now)
            else:
                del shares.at_limit[name]
            if closed_until is None:
                customer.at_slot_limit.discard(queue)
            else:
                customer.at_slot_limit.add(queue)
            if (closed_until is None) is not (opens_at is None):
                self.open_or_close(customer)

    @staticmethod
    def _hold_time(customer: CustomerLanes[LaneT], scheduler: Scheduler[LaneT], queue: int) -> int:
        """Return how long a slot is left to others: as long as the customer's next document may take."""
        heads = (lane.head for lane in customer.lanes.values() if lane.queue == queue and lane.head is not None)
        times = [scheduler.expected_time(customer.work_in(queue), head.cost) for head in heads]
        return max(scheduler.policy.share_idle_after, *times, 0)

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
                self._find_scheduler(lane.queue).reweigh(lane, settings.weight)
        self.open_or_close(customer)

    def open_or_close(self, customer: CustomerLanes[LaneT]) -> None:
        """Activate or deactivate the customer's lanes by its limits."""
        is_open = customer.is_open
        for _, lane in sorted(customer.lanes.items()):
            scheduler = self._find_scheduler(lane.queue)
            if not is_open or lane.queue in customer.at_slot_limit:
                scheduler.deactivate(lane)
            elif lane.head is not None and not lane.scheduled:
                scheduler.activate(lane)
