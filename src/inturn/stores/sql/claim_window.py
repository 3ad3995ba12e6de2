"""Read the lanes that a claim can reach, change them by `LaneTracker`, and write them back.

Only claims write lanes. Everything else appends to the lane log, and a claim applies the log before it takes documents.
A window lives for one transaction: what a claim needs is read in that transaction, and nothing is remembered after it.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from inturn.model import settings_to_dict
from inturn.policy import TurnPolicy
from inturn.policy.groups import UNGROUPED, GroupName
from inturn.policy.lanes import CustomerLanes, LaneTracker
from inturn.policy.position import ahead_in_groups
from inturn.policy.queue_turns import next_queue
from inturn.policy.scheduler import FIRST_QUEUE, LEVELS, CustomerWork, Head, Level, Scheduler, track_of, tracks_of
from inturn.policy.turn_policy import Order
from inturn.store import live_slots
from inturn.stores.sql.claim_types import ClaimedRow, ClaimWrite, QueueRow, QueueState, StartedEvent
from inturn.stores.sql.deadlines import NO_HEAD, UNKNOWN_HEAD
from inturn.stores.sql.lane_groups import ALL_LOADED, GROUP_KEY, NOTHING_LOADED, GroupWrites, TableGroups, new_group
from inturn.stores.sql.lane_log import LaneChange, lane_track, level_of, queue_of
from inturn.stores.sql.lanes import GROUP_TURN_COLUMN, ROW_LENGTH, SCHEDULED_COLUMN, WORK_LENGTH, TableLane
from inturn.stores.sql.queries import NewEvent, Queries
from inturn.stores.sql.rows import NEVER, Row, parse_settings
from inturn.stores.sql.scheduler_state import INITIAL_STATE, scheduler_from_json, scheduler_to_json

MORE_LANES: Final = 1
"""Lanes read at once beyond those that a claim needs at least: a lane may turn out to be empty."""
DOCUMENT_COLUMNS: Final = 4
"""Columns of a document behind those of its lane in `first_lanes`."""


class ClaimWindow:
    """The lanes that a claim has read.

    Of each level it holds all open lanes up to a turn, and up to an age of the head. Other open lanes lie beyond.
    """

    def __init__(self, queries: Queries, queue: QueueState, policy: TurnPolicy) -> None:
        self._queries = queries
        self._queue = queue
        self._policy = policy
        self.is_fair = policy.order is Order.FAIR
        self._tracker = LaneTracker(self.scheduler, self._next_head, self._customer_with_lanes, self._new_group)
        self.customers: dict[int, CustomerLanes[TableLane]] = {}
        self._loaded_lanes: set[tuple[int, int]] = set()
        """Customers and tracks whose lanes were read, whether or not there was one."""
        self._limits: dict[int, Row] = {}
        self._work: dict[tuple[int, int], Row] = {}
        """The rows of customers' work in queues that were read; nulls where there was none."""
        self._dirty_lanes: dict[TableLane, None] = {}
        self._dirty_limits: set[int] = set()
        self._is_applying_log = False
        self._lanes_without_head: set[TableLane] = set()
        self.deadlines = queue.deadlines
        self._schedulers: dict[int, Scheduler[TableLane]] = {}
        self._states = {FIRST_QUEUE: queue.scheduler_state}
        """The stored states of the queues that were read."""
        self._loaded_until_turn: dict[int, tuple[int, int]] = {}
        """By track; so are the next two."""
        self._loaded_until_age: dict[int, tuple[int, int]] = {}
        self._claim_limit = self._left_to_take = 1
        self._has_applied_log = False
        self.fence = queue.fence

    def scheduler(self, queue: int) -> Scheduler[TableLane]:
        """Return the scheduler of a queue, read or new."""
        known = self._schedulers.get(queue)
        if known is not None:
            return known
        if queue not in self._states:
            (self._states[queue],) = self._queries.fetch_one("queue_scheduler", queue=queue) or (INITIAL_STATE,)
        scheduler: Scheduler[TableLane] = scheduler_from_json(self._policy, self._states[queue])
        self._schedulers[queue] = scheduler
        for level in scheduler.levels:
            track = track_of(queue, level.number)
            self._loaded_until_turn[track] = self._nothing_loaded(level)
            ready_at, seq = self.deadlines.oldest_head(track)
            self._loaded_until_age[track] = (ready_at, seq - 1) if level.open_lanes else ALL_LOADED
        return scheduler

    @property
    def queues(self) -> Sequence[QueueRow]:
        """All queues, by number."""
        return self._queue.queues

    def _nothing_loaded(self, level: Level[TableLane]) -> tuple[int, int]:
        """Where to begin reading a level: no open lane has a turn before V."""
        if not level.open_lanes:
            return ALL_LOADED
        return (level.virtual_time.turn, -1) if self.is_fair else NOTHING_LOADED

    @property
    def is_sorted(self) -> bool:
        """Whether the rows of lanes are sorted in the policy's order."""
        return self._queue.ordered == self._policy.order

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

    # -- reading lanes --------------------------------------------------------------------------------------------

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

    def customer(self, owner: int) -> CustomerLanes[TableLane]:
        """Return a customer's lanes: all if it has settings of its own, otherwise those read so far."""
        if owner not in self.customers:
            self._load_customers([owner])
        return self.customers[owner]

    def _load_customers(self, owners: Iterable[int]) -> None:
        """Read these customers' limits, and all lanes of those that have any."""
        new = []
        for owner in owners:
            if owner not in self.customers:
                self.customers[owner] = CustomerLanes(str(owner))
                new.append(owner)
        if not new or not self._queue.has_limits:
            return
        limited = self._queries.fetch_many("limits_of", ("customer",), [(owner,) for owner in new])
        for row in limited:
            known = self.customers[row[0]]
            _, settings, known.running, known.tat, known.rate_closed_until = row
            known.settings = parse_settings(settings)
            self._limits[row[0]] = row
        self._load_all_lanes([row[0] for row in limited])

    def _load_all_lanes(self, owners: Iterable[int]) -> None:
        """Read all lanes of these customers."""
        queues = [queue.number for queue in self._queue.queues]
        self._load_lanes((owner, track_of(queue, level)) for owner in owners for queue in queues for level in LEVELS)

    def _load_lanes(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Read the lanes of these customers and tracks."""
        new = [key for key in dict.fromkeys(wanted) if key not in self._loaded_lanes]
        if new:
            self._loaded_lanes.update(new)
            self._add_lanes(self._queries.fetch_many("lanes_of", ("customer", "level"), new))

    def _add_lanes(self, rows: Sequence[Row]) -> None:
        """Add lanes and their customers' work, but for those that are held: they may have changed since."""
        self._load_customers([row[0] for row in rows])
        for row in rows:
            owner, track, weight = row[:3]
            customer, queue = self.customers[owner], queue_of(track)
            work = customer.work_in(queue)
            if (owner, queue) not in self._work:
                unit_time, in_flight, _ = self._work[owner, queue] = row[ROW_LENGTH : ROW_LENGTH + WORK_LENGTH]
                work.unit_time, work.in_flight = unit_time, in_flight or 0
                if self.scheduler(queue).shares.at_limit.get(customer.name) is not None:
                    customer.at_slot_limit.add(queue)
            if weight is not None and track not in customer.lanes:
                lane = customer.lanes[track] = TableLane.from_row(row, work)
                if row[SCHEDULED_COLUMN]:
                    self.scheduler(queue).schedule(lane)
                if (turn := row[GROUP_TURN_COLUMN]) is not None:
                    lane.groups = TableGroups(turn, queries=self._queries, lane=lane, rows_at_once=self._lanes_at_once)

    def add_lanes_of_changes(self, rows: Sequence[Row]) -> None:
        """Add lanes that changes name; nulls where there is no such lane."""
        if rows:
            self._loaded_lanes.update([row[:2] for row in rows])
            self._add_lanes(rows)

    def _load_groups(self, changes: Sequence[LaneChange]) -> None:
        """Read the groups that changes name, of lanes that have groups."""
        wanted: dict[TableLane, dict[GroupName, None]] = {}
        for change in changes:
            if change.lane is not None:
                lane = self.customers[change.owner].lanes.get(lane_track(change.lane))
                if lane is not None and isinstance(lane.groups, TableGroups):
                    wanted.setdefault(lane, {})[change.group] = None
        if not wanted:
            return
        keys = [(lane.owner, lane.track, name or 0) for lane, names in wanted.items() for name in names]
        rows: dict[tuple[int, int], list[Row]] = {}
        for row in self._queries.fetch_many("groups_of", GROUP_KEY, keys):
            rows.setdefault(row[:2], []).append(row)
        for lane, names in wanted.items():
            if isinstance(lane.groups, TableGroups):
                lane.groups.add_rows(list(names), rows.get((lane.owner, lane.track), []))

    def add_first_lanes(self, rows: Sequence[Row]) -> None:
        """Add the lowest open lanes of one level: at least as many as are read at once, if the level has as many.

        A row is a lane's, followed by one of its next documents: seq, ready_at, cost and whether it is new; or nulls.
        """
        if not rows or not self.is_sorted:
            return
        lanes = {row[:2]: row[:-DOCUMENT_COLUMNS] for row in rows}
        self._add_lanes(list(lanes.values()))
        track = rows[0][1]
        last = self.customers[rows[-1][0]].lanes[track]
        all_loaded = len(lanes) < self._lanes_at_once
        self._loaded_until_turn[track] = ALL_LOADED if all_loaded else last.sort_key(fair=self.is_fair)
        ungrouped = [lane for lane in (self.customers[key[0]].lanes[track] for key in lanes) if lane.groups is None]
        self._prefetch(ungrouped, [(*row[:2], *row[-DOCUMENT_COLUMNS:]) for row in rows if row[-1] is not None])

    # -- reading on -----------------------------------------------------------------------------------------------

    def _load_overdue(self, queue: int, now: int) -> None:
        """Read what an overdue slot needs: the oldest head of each level, and the lowest turn where it is overdue."""
        since = now - self._policy.overdue_after
        if UNKNOWN_HEAD in map(self.deadlines.oldest_head, tracks_of(queue)):
            self._read_oldest_heads(queue)
        for level in self.scheduler(queue).levels[1:]:
            if level.open_lanes and self._may_be_overdue(queue, level, since):
                self._load_oldest(queue, level)
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    self._load_lowest(queue, level)
                    if level.next_use_is_out_of_turn:
                        self._load_oldest_eligible(queue, level, now)

    def _read_oldest_heads(self, queue: int) -> None:
        """Read how old the oldest head of each level of a queue is, where no bounds of them are kept."""
        rows = self._queries.fetch_many("oldest_heads", ("level",), [(track,) for track in tracks_of(queue)])
        for track, ready_at in rows:
            self.deadlines.oldest_heads[track] = NO_HEAD if ready_at is None else (ready_at, 0)

    def _may_be_overdue(self, queue: int, level: Level[TableLane], since: int) -> bool:
        """Compare with the oldest head: of lanes held, and of all others by `deadlines.oldest_heads`."""
        oldest = level.oldest()
        held = NEVER if oldest is None or oldest.head is None else oldest.head.ready_at
        return min(held, self.deadlines.oldest_head(track_of(queue, level.number))[0]) <= since

    def _load_lowest(self, queue: int, level: Level[TableLane]) -> None:
        """Read on until the open lane whose turn it is in this level is held."""
        number = track_of(queue, level.number)
        while (seen := self._loaded_until_turn[number]) is not ALL_LOADED:
            lane = level.lowest()
            if lane is not None and lane.sort_key(fair=self.is_fair) <= seen:
                return
            at_once = max(1, self._left_to_take)
            rows = self._load_more("lowest_lanes", number, seen, at_once)
            if len(rows) < at_once:
                self._loaded_until_turn[number] = ALL_LOADED
            else:
                self._loaded_until_turn[number] = (rows[-1][3], rows[-1][4]) if self.is_fair else (rows[-1][6], 0)

    def _load_oldest(self, queue: int, level: Level[TableLane]) -> None:
        """Read on until the open lane whose head has waited longest is held."""
        number = track_of(queue, level.number)
        while (seen := self._loaded_until_age[number]) is not ALL_LOADED:
            lane = level.oldest()
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return
            at_once = 1 + self._claim_limit // self._policy.overdue_every  # as many slots fall in this claim
            rows = self._load_more("oldest_lanes", number, seen, at_once)
            if seen < self.deadlines.oldest_head(number):
                self.deadlines.oldest_heads[number] = (rows[0][7], rows[0][6]) if rows else (NEVER, 0)
            all_seen = len(rows) < at_once
            self._loaded_until_age[number] = ALL_LOADED if all_seen else (rows[-1][7], rows[-1][6])

    def _load_oldest_eligible(self, queue: int, level: Level[TableLane], now: int) -> None:
        """Read on until the oldest head among lanes that may be started out of turn is held."""
        interval, track = self._policy.out_of_turn_interval, track_of(queue, level.number)
        ready_at, seq = self.deadlines.oldest_head(track)
        seen = (ready_at, seq - 1)
        while True:
            times = {"rested_since": now - interval, "now": now}
            rows = self._load_more("oldest_rested_lanes", track, seen, self._lanes_at_once, **times)
            lane = level.oldest_eligible(now, interval)
            if len(rows) < self._lanes_at_once:
                return
            seen = (rows[-1][7], rows[-1][6])
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return

    @property
    def _lanes_at_once(self) -> int:
        return self._claim_limit + MORE_LANES

    def _load_more(self, query: str, track: int, loaded_until: tuple[int, int], limit: int, **times: int) -> list[Row]:
        """Read open lanes beyond those loaded."""
        after, after_tie = loaded_until
        rows = self._queries.fetch_all(query, level=track, after=after, after_tie=after_tie, limit=limit, **times)
        self._add_lanes(rows)
        return rows

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

    def _read_documents(self, lanes: Sequence[TableLane], limit: int, *, with_head: bool = False) -> None:
        """Read the documents behind the heads, or from the heads on; requeued ones may stand before `scan_from`."""
        wanted = [
            (
                lane.owner,
                lane.number,
                0 if lane.head is None else lane.head.seq - with_head,
                NEVER if lane.scan_from is None else lane.scan_from,
            )
            for lane in lanes
        ]
        rows = self._queries.fetch_many(
            "waiting_in_lanes", ("customer", "level", "after", "scan_from"), wanted, limit=limit
        )
        self._prefetch(lanes, rows, limit)

    def _prefetch(self, lanes: Iterable[TableLane], rows: Sequence[Row], limit: int | None = None) -> None:
        """Give lanes their next documents; a lane of whose new documents none was found has none left."""
        heads: dict[tuple[int, int], dict[int, Head]] = {}
        for owner, level, seq, ready_at, cost, _ in sorted(rows):
            heads.setdefault((owner, level), {})[seq] = Head(seq, ready_at, cost)
        any_new = {(owner, level) for owner, level, *_, is_new in rows if is_new}
        for lane in lanes:
            key = lane.owner, lane.number
            lane.prefetched.extend(islice(heads.get(key, {}).values(), limit))
            if key not in any_new:
                lane.mark_exhausted(0 if lane.head is None else lane.head.seq)

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
