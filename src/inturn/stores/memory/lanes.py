"""Hold all lanes of the memory store, with their documents and the schedulers of their queues."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from inturn.model import CustomerSettings
from inturn.policy import Order, TurnPolicy, rates
from inturn.policy.groups import UNGROUPED, GroupName, Groups
from inturn.policy.lanes import DEFAULT_SETTINGS, LaneTracker
from inturn.policy.position import ahead_in_groups
from inturn.policy.queue_turns import next_queue
from inturn.policy.scheduler import LEVELS, Head, Scheduler
from inturn.stores.memory.rows import RUNNING, WAITING, CustomerRow, MemoryLane, Row, head_of


class Lanes:
    """Customers, their lanes, and of each queue a scheduler over its open lanes."""

    def __init__(self, policy: TurnPolicy) -> None:
        self.customers: dict[str, CustomerRow] = {}
        self.schedulers: list[Scheduler[MemoryLane]] = [Scheduler(policy)]
        """By the number of the queue."""
        self._tracker = LaneTracker(self.schedulers.__getitem__, _find_head, self.customer, _new_group)
        self._rate_openings: list[tuple[int, str]] = []
        self._lane_count = 0
        self._sweep_at = 1_000

    def customer(self, name: str) -> CustomerRow:
        """Return a customer's row; create it if missing."""
        known = self.customers.get(name)
        if known is None:
            known = self.customers[name] = CustomerRow(name)
        return known

    @property
    def has_openings(self) -> bool:
        """Whether a customer may be closed by its rate limit."""
        return bool(self._rate_openings)

    def join(self, row: Row) -> None:
        """Add a document to its lane, ordered by seq."""
        customer = self.customers[row.customer]
        lane = self._lane(customer, row)
        self._tracker.joined(customer, lane, head_of(row), group=row.spec.group)
        _push(lane, row)

    def release(self, row: Row) -> None:
        """Put a released claim back into its lane, ordered by seq, and refund the lane."""
        customer = self.customers[row.customer]
        lane = self._lane(customer, row)
        self._tracker.released(customer, lane, head_of(row), row.charged, row.spec.group)
        _push(lane, row)

    def _lane(self, customer: CustomerRow, row: Row) -> MemoryLane:
        return customer.lanes.get(row.track) or self._new_lane(customer, row.track)

    def left(self, row: Row, track: int) -> None:
        """Update a lane after a document left it without a claim. The row's state has changed already."""
        self._tracker.left(self.customers[row.customer].lanes[track], row.seq, row.spec.group)

    def take(self, weights: Mapping[int, float], now: int) -> Row | None:
        """Remove the next document of some queues from its lane and charge lane and customer for it.

        `weights` has the weight of each queue by its number.
        """
        queue = next_queue({number: self.schedulers[number] for number in weights}, weights)
        if queue is None:
            return None
        scheduler = self.schedulers[queue]
        lane = scheduler.take(now)
        if lane is None:
            return None
        row = heappop((scheduler.last_group or lane).rows)[1]
        row.state, row.charged = RUNNING, scheduler.last_charge
        customer = self.customers[row.customer]
        self._tracker.started(customer, lane, now)
        if customer.rate_closed_until is not None:
            heappush(self._rate_openings, (customer.rate_closed_until, customer.name))
        return row

    def review_shares(self, queue: int, now: int, live_slots: int) -> None:
        """Open and close customers by their shares of a queue's slots, before a claim takes documents."""
        scheduler = self.schedulers[queue]
        scheduler.shares.live_slots = live_slots
        if scheduler.shares.at_limit and scheduler.may_start:
            self._tracker.review_shares(queue, now)

    def settle(self, row: Row, worked: int, *, learn: bool) -> None:
        """Settle the charge of a document that no longer runs."""
        customer = self.customers[row.customer]
        lane, cost = self._lane(customer, row), row.spec.cost if learn else None
        self._tracker.ended(customer, lane, row.charged or 0, worked, cost, row.spec.group)

    def forget_run(self, row: Row) -> None:
        """Count a charged document no longer as running; its charge stays."""
        if row.state is RUNNING and row.charged is not None:
            self.customers[row.customer].work_in(row.queue_number).in_flight -= 1
            row.charged = None

    def stopped(self, row: Row) -> None:
        customer = self.customers[row.customer]
        if customer.settings is DEFAULT_SETTINGS:
            customer.running -= 1
        else:
            self._tracker.stopped(customer)

    def change(self, customer: CustomerRow, settings: CustomerSettings) -> None:
        self._tracker.change(customer, settings)

    def reopen_due(self, now: int) -> int:
        """Reopen customers whose rate limit allows another start; return how many."""
        opened = 0
        while (opening := self._next_opening()) is not None and opening[0] <= now:
            heappop(self._rate_openings)
            self._tracker.rate_reopened(self.customers[opening[1]])
            opened += 1
        return opened

    def clamp_rates(self, now: int) -> int:
        """Clamp rate limits that a clock ahead of this one has charged; return how many."""
        names = sorted({name for at, name in self._rate_openings if self.customers[name].rate_closed_until == at})
        clamped = [self.customers[name] for name in names if self._tracker.clamp_rate(self.customers[name], now)]
        for customer in clamped:
            if customer.rate_closed_until is not None:
                heappush(self._rate_openings, (customer.rate_closed_until, customer.name))
        return len(clamped)

    def rates_ahead(self, now: int) -> int:
        """Count the rate limits that `clamp_rates` would change."""
        return sum(
            customer.settings.rate is not None
            and customer.rate_closed_until is not None
            and rates.clamped_tat(customer.settings.rate, customer.tat, now) < customer.tat
            for customer in self.customers.values()
        )

    def next_opening(self) -> int | None:
        """Return when the next rate limit reopens a customer."""
        opening = self._next_opening()
        return None if opening is None else opening[0]

    def share_opens_at(self) -> int | None:
        """Return when customers that hold their share of the slots open at the latest."""
        times = [at for scheduler in self.schedulers if (at := scheduler.shares.opens_at()) is not None]
        return min(times, default=None)

    def ahead_in_lane(self, row: Row) -> int:
        """Count the documents of its lane that would start before a waiting document."""
        lane, scheduler = self.customers[row.customer].lanes[row.track], self.schedulers[row.queue_number]
        if lane.groups is None:
            return lane.count_before(row.seq)
        groups = lane.groups.members
        if scheduler.policy.order is not Order.FAIR:
            return sum(group.count_before(row.seq) for group in groups.values())
        own = groups[row.spec.group]
        charged = [
            (group, scheduler.expected_charge(lane.work, group.head.cost)) for group in groups.values() if group.head
        ]
        return ahead_in_groups(charged, own, own.count_before(row.seq))

    def all(self) -> Iterator[MemoryLane]:
        for customer in self.customers.values():
            yield from customer.lanes.values()

    def forget_spent(self, now: int | None = None) -> None:
        """Delete empty lanes whose virtual time no longer matters (`Scheduler.is_spent`)."""
        for customer in self.customers.values():
            spent = [track for track, lane in customer.lanes.items() if self.schedulers[lane.queue].is_spent(lane, now)]
            for track in spent:
                del customer.lanes[track]
            self._lane_count -= len(spent)
            for lane in customer.lanes.values():
                if lane.groups is not None:
                    lane.groups.forget_spent()
        self._sweep_at = 2 * self._lane_count + 1_000

    # -- restore ----------------------------------------------------------------------------------------------------

    def restore(self, customer: CustomerRow, rate_closed_until: int | None, lanes: list[list[Any]]) -> None:
        """Restore a customer's lanes with their virtual times, without documents."""
        customer.rate_closed_until = rate_closed_until
        if rate_closed_until is not None:
            heappush(self._rate_openings, (rate_closed_until, customer.name))
        for track, turn, stamp, *rest in lanes:
            lane = self._new_lane(customer, track)
            lane.turn, lane.stamp = turn, stamp
            lane.out_of_turn_at = rest[0] if rest else 0  # older snapshots have neither this nor groups
            if rest[1:] and rest[1] is not None:
                _restore_groups(lane, *rest[1])

    def restore_document(self, row: Row) -> None:
        """Add a waiting or running document to its restored lane; virtual times do not change."""
        customer = self.customers[row.customer]
        if row.state is RUNNING:
            customer.running += 1
            customer.work_in(row.queue_number).in_flight += row.charged is not None
            return
        lane = customer.lanes[row.track]
        _push(lane, row)
        lane.waiting += 1
        if lane.groups is not None:
            lane.groups.members[row.spec.group].waiting += 1

    def schedule_all(self) -> None:
        """Schedule all open lanes at their restored virtual times, once all documents are restored."""
        for customer in self.customers.values():
            for lane in customer.lanes.values():
                if lane.groups is not None:
                    for group in lane.groups.members.values():
                        lane.groups.change_head(group, _find_head(group))
                lane.head = self._tracker.head_of(lane)
                if lane.head is not None and customer.is_open_in(lane.queue):
                    scheduler = self.schedulers[lane.queue]
                    scheduler.levels[lane.level].open_lanes += 1
                    scheduler.schedule(lane)

    def _new_lane(self, customer: CustomerRow, track: int) -> MemoryLane:
        if self._lane_count >= self._sweep_at:
            self.forget_spent()
        self._lane_count += 1
        queue, level = divmod(track, len(LEVELS))
        lane = customer.lanes[track] = MemoryLane(
            customer.name, level, customer.settings.weight, work=customer.work_in(queue), queue=queue
        )
        return lane

    def _next_opening(self) -> tuple[int, str] | None:
        heap = self._rate_openings
        while heap:
            at, name = heap[0]
            if self.customers[name].rate_closed_until == at:
                return heap[0]
            heappop(heap)
        return None


def _new_group(lane: MemoryLane, name: GroupName) -> MemoryLane:
    """Make a group of a lane. Documents that wait in the lane itself have no group."""
    if lane.groups is None:
        raise AssertionError(f"a lane of {lane.customer!r} has no groups")
    group = lane.groups.members[name] = MemoryLane(lane.customer, lane.level, queue=lane.queue)
    if name is UNGROUPED:
        group.rows, lane.rows = lane.rows, []
    return group


def _restore_groups(lane: MemoryLane, virtual_turn: int, groups: list[list[Any]]) -> None:
    lane.groups = Groups(virtual_turn)
    for name, turn, stamp in groups:
        group = _new_group(lane, name)
        group.turn, group.stamp = turn, stamp


def _push(lane: MemoryLane, row: Row) -> None:
    """Add a document to the heap of its group, or of a lane without groups."""
    heap = lane if lane.groups is None else lane.groups.members[row.spec.group]
    heappush(heap.rows, (row.seq, row))


def _find_head(lane: MemoryLane) -> Head | None:
    """Return the head of a group, or of a lane without groups; drop stale heap entries on the way."""
    rows = lane.rows
    while rows:
        seq, row = rows[0]
        if row.state is WAITING and row.seq == seq and row.track == lane.track:
            return Head(seq, row.ready_at, row.spec.cost)
        heappop(rows)
    return None
