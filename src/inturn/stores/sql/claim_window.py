"""Change the lanes that a claim has read, by `LaneTracker`, and write them back.

Only claims write lanes. Everything else appends to the lane log, and a claim applies the log before it takes documents.
A window lives for one transaction: what a claim needs is read in that transaction, and nothing is remembered after it.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence

from inturn.model import settings_to_dict
from inturn.policy import TurnPolicy
from inturn.policy.groups import UNGROUPED, GroupName
from inturn.policy.lanes import CustomerLanes, LaneTracker
from inturn.policy.position import ahead_in_groups
from inturn.policy.queue_turns import next_queue
from inturn.policy.scheduler import FIRST_QUEUE, CustomerWork, Head
from inturn.store_types import live_slots
from inturn.stores.sql.claim_types import ClaimedRow, ClaimWrite, QueueRow, QueueState, StartedEvent
from inturn.stores.sql.lane_groups import GroupWrites, TableGroups, new_group
from inturn.stores.sql.lane_loader import LaneLoader
from inturn.stores.sql.lane_log import LaneChange, lane_track, level_of, queue_of
from inturn.stores.sql.lanes import TableLane
from inturn.stores.sql.queries import NewEvent, Queries
from inturn.stores.sql.rows import Row, parse_settings
from inturn.stores.sql.scheduler_state import scheduler_to_json


class ClaimWindow(LaneLoader):
    """The lanes that a claim has read, as it changes them."""

    def __init__(self, queries: Queries, queue: QueueState, policy: TurnPolicy) -> None:
        super().__init__(queries, queue, policy)
        self._tracker = LaneTracker(self.scheduler, self._next_head, self._customer_with_lanes, self._new_group)
        self._dirty_lanes: dict[TableLane, None] = {}
        self._dirty_limits: set[int] = set()
        self._is_applying_log = False
        self._lanes_without_head: set[TableLane] = set()
        self._has_applied_log = False
        self._ended_parts: list[LaneChange] = []
        self.fence = queue.fence

    # -- changes to lanes -----------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[LaneChange]) -> None:
        """Apply changes in order; heads are looked up at the end."""
        if not changes:
            return
        self._has_applied_log = True
        self._load_customers([change.owner for change in changes])
        self._load_lanes([(change.owner, lane_track(change.lane)) for change in changes if change.lane is not None])
        self._load_groups(changes)
        self._is_applying_log = True
        for change in changes:
            self._apply(change)
        self._is_applying_log = False
        self._reload_heads()

    def _apply(self, change: LaneChange) -> None:
        owner, kind = change.owner, change.kind
        if change.lane is not None:
            self._apply_to_lane(self._lane(owner, lane_track(change.lane)), change)
        elif kind == "stopped":
            customer = self.customer(owner)
            self._tracker.stopped(customer)
            self._mark_customer_dirty(owner, customer)
        elif kind == "part_ended":
            self._ended_parts.append(change)
        elif kind == "changed":
            self.set_limits(owner, change.settings, change.n or 0)
        elif kind == "in_flight":
            self._load_all_lanes([owner])
            self.customer(owner).work_in(change.seq or FIRST_QUEUE).in_flight = change.n or 0
        else:
            self.deadlines.add_deadline(kind, change.ready_at or 0)

    def _apply_to_lane(self, lane: TableLane, change: LaneChange) -> None:
        customer, group = self.customer(lane.owner), change.group
        if change.kind in {"joined", "requeued"}:
            self._tracker.joined(customer, lane, change.head, change.n or 0, group)
            self._include(lane, change)
        elif change.kind == "released":
            self._tracker.released(customer, lane, change.head, change.charged, group)
            self._include(lane, change)
        elif change.kind == "ended":
            self._tracker.ended(customer, lane, change.charged or 0, change.worked or 0, change.cost, group)
            if customer.settings.cap is not None:
                self._tracker.stopped(customer)
                self._mark_customer_dirty(lane.owner, customer)
        elif change.kind == "left":
            holder = _holder(lane, group)
            holder.prefetched.clear()
            self._tracker.left(lane, change.head.seq, group)
            if holder.waiting == 0:
                holder.clear()
        else:
            lane.clear()
            self._tracker.emptied(lane)

    @staticmethod
    def _include(lane: TableLane, change: LaneChange) -> None:
        """Let the scan for documents find one that joined or came back."""
        holder = _holder(lane, change.group)
        if change.kind == "joined":
            holder.include_new(change.head)
        holder.include(change.head)

    def is_due(self, now: int) -> bool:
        """Whether anything may be due, or a part has ended."""
        return bool(self._ended_parts) or self.deadlines.any_due(now)

    def take_ended_parts(self) -> list[LaneChange]:
        """Return the changes that name an ended part, and forget them."""
        ended, self._ended_parts = self._ended_parts, []
        return ended

    def set_limits(self, owner: int, settings: str | None, running: int) -> None:
        """Give a customer new settings, and `running` documents that run."""
        self._load_all_lanes([owner])
        customer = self.customer(owner)
        customer.running = running
        self._limits.setdefault(owner, ())
        self._tracker.change(customer, parse_settings(settings))
        self._mark_customer_dirty(owner, customer)

    def reopen_if_rate_allows(self, owner: int, now: int) -> bool:
        """Reopen a customer whose rate closed it until now; a change just applied may have done so already."""
        customer = self.customer(owner)
        if customer.rate_closed_until is None or customer.rate_closed_until > now:
            return False
        self._tracker.rate_reopened(customer)
        self._mark_customer_dirty(owner, customer)
        return True

    def clamp_rate(self, owner: int, now: int) -> None:
        """Shorten a closing by rate that a clock ahead of this one has set."""
        customer = self.customer(owner)
        if self._tracker.clamp_rate(customer, now):
            self._mark_customer_dirty(owner, customer)

    def review_shares(self, queue: QueueRow, now: int) -> None:
        """Open and close customers by their shares of a queue's slots, before a claim takes documents."""
        scheduler = self.scheduler(queue.number)
        scheduler.shares.live_slots = live_slots(self._queue.slots_of(queue.name), now)
        if scheduler.shares.at_limit and scheduler.may_start:
            self._tracker.review_shares(queue.number, now)

    def _customer_with_lanes(self, name: str) -> CustomerLanes[TableLane]:
        """Return a customer whose share of the slots may open or close it, with all of its lanes."""
        owner = int(name)
        self._load_all_lanes([owner])
        customer = self.customer(owner)
        self._mark_customer_dirty(owner, customer)
        return customer

    def _new_group(self, lane: TableLane, name: GroupName) -> TableLane:
        """Make a group of a lane. The documents that wait in the lane itself have no group, and it takes them over."""
        if lane.groups is None:
            raise AssertionError(f"a lane of customer {lane.owner} has no groups")
        group = lane.groups.members[name] = new_group(lane, name if isinstance(name, int) else 0)
        if name is UNGROUPED:
            group.scan_from, group.prefetched = lane.scan_from, lane.prefetched
            lane.scan_from, lane.prefetched = None, deque()
            if lane in self._lanes_without_head:
                self._lanes_without_head.remove(lane)
                self._lanes_without_head.add(group)
        return group

    # -- taking documents -----------------------------------------------------------------------------------------

    def set_claim_limit(self, limit: int) -> None:
        """Set how many documents will be taken at most; it decides how much is read at once."""
        self._claim_limit = self._left_to_take = limit

    def take_next(self, weights: Mapping[int, float], now: int) -> tuple[TableLane, Head] | None:
        """Take a document of the lane whose turn it is, and charge its customer; return it with its lane or group.

        `weights` has the weight of each queue that may be served, by number.
        """
        queue = next_queue({number: self.scheduler(number) for number in weights}, weights)
        if queue is None:
            return None
        scheduler = self.scheduler(queue)
        if self.is_fair and (scheduler.dispatched + 1) % scheduler.policy.overdue_every == 0:
            self._load_overdue(queue, now)
        for level in scheduler.levels:
            if level.open_lanes:
                self._load_lowest(queue, level)
                break
        lane = scheduler.take(now)
        if lane is None or (head := scheduler.last_head) is None:
            return None
        holder = scheduler.last_group or lane
        customer = self.customer(lane.owner)
        self._tracker.started(customer, lane, now)
        holder.advance(head)
        self._left_to_take -= 1
        self._dirty_lanes[lane] = None
        if lane.owner in self._limits:
            self._mark_customer_dirty(lane.owner, customer)
        return holder, head

    # -- writing --------------------------------------------------------------------------------------------------

    def to_write(
        self,
        claimed: Sequence[ClaimedRow] = (),
        started: Sequence[StartedEvent] = (),
        events: Sequence[tuple[int, NewEvent]] = (),
    ) -> ClaimWrite:
        """Return what changed, together with what the claims did."""
        lanes, spent, groups = [], [], GroupWrites.none()
        for lane in self._dirty_lanes:
            row = lane.to_row()
            if lane.groups is not None or lane.had_groups:
                groups.add(lane)
            if self.scheduler(lane.queue).is_spent(lane):
                if lane.stored_row is not None:
                    spent.append(lane)
            elif row != lane.stored_row:
                lanes.append((row, lane.sort_key(fair=self.is_fair), lane))
            if lane.scheduled and lane.head is not None:
                self.deadlines.add_head(lane.track, lane.head)
        limits = [row for row in map(self._limits_row, self._dirty_limits) if row != self._limits[row[0]]]
        work = [
            ((owner, queue, now.unit_time, now.in_flight), version)
            for (owner, queue), (unit_time, in_flight, version) in self._work.items()
            if (now := self.customers[owner].work_in(queue)).in_flight != (in_flight or 0) or now.unit_time != unit_time
        ]
        states = {queue: scheduler_to_json(scheduler) for queue, scheduler in self._schedulers.items()}
        changed = [(queue, state) for queue, state in states.items() if queue and state != self._states[queue]]
        state, order = states.get(FIRST_QUEUE, self._queue.scheduler_state), str(self._policy.order)
        has_changes = bool(
            self._has_applied_log or lanes or spent or any(groups) or limits or work or claimed or events or changed
            or (self.fence, order, state) != (self._queue.fence, self._queue.ordered, self._queue.scheduler_state)
        )  # fmt: skip
        own = (lanes, spent, groups, limits, work, order, state, changed)
        return ClaimWrite(*own, self.deadlines, self.fence, has_changes, claimed, started, events)

    def _limits_row(self, owner: int) -> Row:
        customer = self.customers[owner]
        if customer.rate_closed_until is not None:
            self.deadlines.add_deadline("rate", customer.rate_closed_until)
        settings = json.dumps(settings_to_dict(customer.settings._asdict()))
        return owner, settings, customer.running, customer.tat, customer.rate_closed_until

    def loaded_lanes(self) -> list[TableLane]:
        """Return the lanes read so far, open or not."""
        return [lane for customer in self.customers.values() for lane in customer.lanes.values()]

    def ahead_in_groups(self, owner: int, number: int, ahead: int) -> int:
        """Count what starts before a document in its lane, which has groups; `ahead` of its own group are before it."""
        lane = self._lane(owner, lane_track(number))
        groups = lane.groups
        if groups is None:
            return ahead
        if isinstance(groups, TableGroups):
            groups.load_all()
        own = next(group for group in groups.members.values() if group.number == number)
        charged = [
            (group, self.scheduler(lane.queue).expected_charge(lane.work, group.head.cost))
            for group in groups.members.values()
            if group.head is not None
        ]
        return ahead_in_groups(charged, own, ahead)

    def work_of(self, owner: int, queue: int, unit_time: int | None) -> CustomerWork:
        """Return a customer's work in a queue as applied changes left it, or as it was read elsewhere."""
        if (owner, queue) in self._work:
            return self.customers[owner].work_in(queue)
        return CustomerWork(unit_time)

    def _lane(self, owner: int, track: int) -> TableLane:
        """Return a customer's lane of a track, read or new, and mark it as changed."""
        customer = self.customer(owner)
        lane = customer.lanes.get(track)
        if lane is None:
            self._load_lanes([(owner, track)])
            lane = customer.lanes.get(track)
        if lane is None:
            queue, weight = queue_of(track), customer.settings.weight
            lane = customer.lanes[track] = TableLane(
                str(owner), level_of(track), weight, queue=queue, owner=owner, work=customer.work_in(queue)
            )
        self._dirty_lanes[lane] = None
        return lane

    def _mark_customer_dirty(self, owner: int, customer: CustomerLanes[TableLane]) -> None:
        """Mark all lanes of a customer: a change to its limits may have opened or closed each of them."""
        self._dirty_lanes.update(dict.fromkeys(customer.lanes.values()))
        if owner in self._limits:
            self._dirty_limits.add(owner)

    # -- heads ----------------------------------------------------------------------------------------------------

    def _next_head(self, lane: TableLane) -> Head | None:
        """Return the next head of a lane; while changes are applied, heads are looked up at their end."""
        if lane.waiting <= 0:
            return None
        if self._is_applying_log:
            self._lanes_without_head.add(lane)
            return lane.head
        if not lane.has_prefetched():
            self._read_ahead(lane)
        return lane.prefetched[0] if lane.prefetched else None

    def _read_ahead(self, lane: TableLane) -> None:
        """Read on in this lane, and in those of its level that come next; or in a group, and in those of its lane."""
        level = self.scheduler(lane.queue).levels[lane.level]
        by_turn, open_lanes = level.by_turn, level.open_lanes
        if lane.parent is not None and lane.parent.groups is not None:
            by_turn, open_lanes = lane.parent.groups.by_turn, len(lane.parent.groups.members)
        lanes = {lane: None}
        for entry in sorted(by_turn) if self._left_to_take > 1 else ():
            other = entry[2]
            if entry is other.turn_entry and other.waiting > 1 and not other.has_prefetched():
                lanes[other] = None
                if len(lanes) >= self._left_to_take:
                    break
        at_once = 1 + self._claim_limit // max(1, open_lanes)
        self._read_documents(list(lanes), at_once)

    def _reload_heads(self) -> None:
        """Read the heads of lanes and groups whose head has left; none of their documents stands before it.

        A lane that has got groups since has the head of one of them: its own documents have all left.
        """
        left = list(self._lanes_without_head)
        self._lanes_without_head.clear()
        lanes = [lane for lane in left if lane.waiting > 0 and lane.groups is None]
        for lane in lanes:
            lane.prefetched.clear()
        if lanes:
            self._read_documents(lanes, 1, with_head=True)
        for lane in lanes:
            head, parent = lane.prefetched[0] if lane.prefetched else None, lane.parent
            if parent is None:
                self.scheduler(lane.queue).change_head(lane, head)
            elif parent.groups is not None:
                parent.groups.change_head(lane, head)
        for lane in dict.fromkeys(lane.parent or lane for lane in left):
            if lane.groups is not None:
                self.scheduler(lane.queue).change_head(lane, self._tracker.head_of(lane))


def _holder(lane: TableLane, group: GroupName) -> TableLane:
    """Return what holds documents of a group: the group, or a lane that has none."""
    return lane if lane.groups is None else lane.groups.find(group) or lane
