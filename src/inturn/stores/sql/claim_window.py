"""Read the lanes that a claim can reach, change them by `LaneTracker`, and write them back.

Only claims write lanes. Everything else appends to the lane log, and a claim applies the log before it takes documents.
A window lives for one transaction: what a claim needs is read in that transaction, and nothing is remembered after it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from inturn.model import settings_to_dict
from inturn.policy import TurnPolicy
from inturn.policy.lanes import CustomerLanes, LaneTracker
from inturn.policy.scheduler import LEVELS, CustomerWork, Head, Level, Order, Scheduler
from inturn.store import live_slots
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.lane_log import LaneChange
from inturn.stores.sql.lanes import ROW_LENGTH, WORK_LENGTH, TableLane
from inturn.stores.sql.queries import NewEvent, Queries
from inturn.stores.sql.rows import NEVER, Row, parse_settings
from inturn.stores.sql.scheduler_state import scheduler_from_json, scheduler_to_json

MORE_LANES: Final = 1
"""Lanes read at once beyond those that a claim needs at least: a lane may turn out to be empty."""
DOCUMENT_COLUMNS: Final = 4
"""Columns of a document behind those of its lane in `first_lanes`."""
NOTHING_LOADED: Final = (-1, -1)
ALL_LOADED: Final = (NEVER + 1, 0)


class QueueState(NamedTuple):
    """The queue's own rows, as a claim finds them."""

    policy: int
    ordered: str
    """The order in which the rows of lanes are sorted."""
    scheduler_state: str
    fence: int
    """The last fence given."""
    paused_by: str | None
    has_limits: bool
    """Whether any customer has settings of its own."""
    now: int
    """The store's time."""
    deadlines: Deadlines
    worker_slots: Sequence[tuple[int, int]]
    """When each worker reported, and its slots that take documents."""


class ClaimedRow(NamedTuple):
    """A document that a claim takes."""

    owner: int
    lane: int
    seq: int
    fence: int
    now: int
    until: int
    worker: str
    charged: int | None


class StartedEvent(NamedTuple):
    """The event of one claim: its documents are those with these fences, in this order, of these customers."""

    now: int
    customers: Sequence[str]
    first_fence: int


class ClaimWrite(NamedTuple):
    """Everything that a transaction which writes lanes leaves behind."""

    lanes: Sequence[tuple[Row, tuple[int, int], TableLane]]
    """New rows of lanes, the columns that sort them, and the lane, whose old row they replace."""
    spent_lanes: Sequence[TableLane]
    """Lanes whose rows are deleted."""
    limits: Sequence[Row]
    work: Sequence[tuple[Row, int | None]]
    """New rows of customers' work, and the version of the row that each replaces."""
    ordered: str
    scheduler_state: str
    deadlines: Deadlines
    fence: int
    has_changes: bool
    """Whether lanes, limits or the scheduler's state changed, or the lane log was applied."""
    claimed: Sequence[ClaimedRow]
    started: Sequence[StartedEvent]
    events: Sequence[tuple[int, NewEvent]]
    """Other events, with their times."""


class LaneQueries(Queries, Protocol):
    """Queries of a transaction that reads lanes."""

    def read_queue(self) -> QueueState:
        """Return the queue's rows."""
        ...

    def read_lane_log(self) -> list[LaneChange]:
        """Return the changes that no claim has applied yet, in order."""
        ...


class ClaimQueries(LaneQueries, Protocol):
    """Queries of a transaction that holds the queue's claim lock."""

    def take_lane_log(self, *, whole: bool = False) -> list[LaneChange]:
        """Take the changes that no claim has applied yet out of the lane log, in order.

        With `whole`, look at every row, not only at those behind the last claim.
        """
        ...

    def first_lanes(self) -> list[Row]:
        """Return rows for `ClaimWindow.add_first_lanes`, if the store has read any with the queue's rows."""
        ...

    def save_claim(self, claim: ClaimWrite, *, is_last: bool) -> list[Row]:
        """Write all of it; return the rows of the documents that this session has claimed for itself.

        `is_last`: no statement follows in this transaction, so that it may be committed in the same trip.
        """
        ...


class ClaimWindow:
    """The lanes that a claim has read.

    Of each level it holds all open lanes up to a turn, and up to an age of the head. Other open lanes lie beyond.
    """

    def __init__(self, queries: Queries, queue: QueueState, policy: TurnPolicy) -> None:
        self._queries = queries
        self._queue = queue
        self.scheduler: Scheduler[TableLane] = scheduler_from_json(policy, queue.scheduler_state)
        self.is_fair = policy.order is Order.FAIR
        self._tracker = LaneTracker(self.scheduler, self._next_head, self._customer_with_lanes)
        self.customers: dict[int, CustomerLanes[TableLane]] = {}
        self._loaded_lanes: set[tuple[int, int]] = set()
        """Customers and levels whose lanes were read, whether or not there was one."""
        self._limits: dict[int, Row] = {}
        self._work: dict[int, Row] = {}
        """The rows of customers' work that were read; nulls where there was none."""
        self._dirty_lanes: dict[TableLane, None] = {}
        self._dirty_limits: set[int] = set()
        self._is_applying_log = False
        self._lanes_without_head: set[TableLane] = set()
        self.deadlines = queue.deadlines
        self._loaded_until_turn = [self._nothing_loaded(level) for level in self.scheduler.levels]
        self._loaded_until_age = [
            (ready_at, seq - 1) if level.open_lanes else ALL_LOADED
            for level, (ready_at, seq) in zip(self.scheduler.levels, self.deadlines.oldest_heads, strict=True)
        ]
        self._claim_limit = 1
        self._has_applied_log = False
        self.fence = queue.fence

    def _nothing_loaded(self, level: Level[TableLane]) -> tuple[int, int]:
        """Where to begin reading a level: no open lane has a turn before V."""
        if not level.open_lanes:
            return ALL_LOADED
        return (level.virtual_time.turn, -1) if self.is_fair else NOTHING_LOADED

    @property
    def is_sorted(self) -> bool:
        """Whether the rows of lanes are sorted in the policy's order."""
        return self._queue.ordered == self.scheduler.policy.order

    # -- changes to lanes -----------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[LaneChange]) -> None:
        """Apply changes in order; heads are looked up at the end."""
        if not changes:
            return
        self._has_applied_log = True
        self._load_customers({change.owner for change in changes})
        self._load_lanes([(change.owner, change.level) for change in changes if change.level is not None])
        self._is_applying_log = True
        for change in changes:
            self._apply(change)
        self._is_applying_log = False
        self._reload_heads()

    def _apply(self, change: LaneChange) -> None:
        owner, kind, level = change.owner, change.kind, change.level
        if level is not None:
            self._apply_to_lane(self._lane(owner, level), change)
        elif kind == "stopped":
            customer = self.customer(owner)
            self._tracker.stopped(customer)
            self._mark_customer_dirty(owner, customer)
        elif kind == "changed":
            self.set_limits(owner, change.settings, change.n or 0)
        elif kind == "in_flight":
            self._load_lanes(_all_levels([owner]))
            self.customer(owner).work.in_flight = change.n or 0
        else:
            self.deadlines.add_deadline(kind, change.ready_at or 0)

    def _apply_to_lane(self, lane: TableLane, change: LaneChange) -> None:
        customer = self.customer(lane.owner)
        if change.kind == "joined":
            lane.include_new(change.head)
            lane.include(change.head)
            self._tracker.joined(customer, lane, change.head, change.n or 0)
        elif change.kind == "requeued":
            lane.include(change.head)
            self._tracker.joined(customer, lane, change.head, change.n or 0)
        elif change.kind == "released":
            lane.include(change.head)
            self._tracker.released(customer, lane, change.head, change.charged)
        elif change.kind == "ended":
            self._tracker.ended(customer, lane, change.charged or 0, change.worked or 0, change.cost)
            if customer.settings.cap is not None:
                self._tracker.stopped(customer)
                self._mark_customer_dirty(lane.owner, customer)
        elif change.kind == "left":
            lane.prefetched.clear()
            self._tracker.left(lane, change.head.seq)
            if lane.waiting == 0:
                lane.clear()
        else:
            lane.clear()
            self._tracker.emptied(lane)

    def set_limits(self, owner: int, settings: str | None, running: int) -> None:
        """Give a customer new settings, and `running` documents that run."""
        self._load_lanes(_all_levels([owner]))
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

    def review_shares(self, now: int) -> None:
        """Open and close customers by their shares of the slots, before a claim takes documents."""
        shares = self.scheduler.shares
        shares.live_slots = live_slots(self._queue.worker_slots, now)
        if shares.at_limit:
            self._tracker.review_shares(now)

    def _customer_with_lanes(self, name: str) -> CustomerLanes[TableLane]:
        """Return a customer whose share of the slots may open or close it, with all of its lanes."""
        owner = int(name)
        self._load_lanes(_all_levels([owner]))
        customer = self.customer(owner)
        self._mark_customer_dirty(owner, customer)
        return customer

    # -- taking documents -----------------------------------------------------------------------------------------

    def set_claim_limit(self, limit: int) -> None:
        """Set how many documents will be taken at most; it decides how much is read at once."""
        self._claim_limit = limit

    def take_next(self, now: int) -> tuple[TableLane, Head] | None:
        """Take the head of the lane whose turn it is, and charge its customer."""
        scheduler = self.scheduler
        if self.is_fair and (scheduler.dispatched + 1) % scheduler.policy.overdue_every == 0:
            self._load_overdue(now)
        for level in scheduler.levels:
            if level.open_lanes:
                self._load_lowest(level)
                break
        lane = scheduler.take(now)
        if lane is None or (head := lane.head) is None:
            return None
        customer = self.customer(lane.owner)
        self._tracker.started(customer, lane, now)
        lane.advance(head)
        self._dirty_lanes[lane] = None
        if lane.owner in self._limits:
            self._mark_customer_dirty(lane.owner, customer)
        return lane, head

    # -- writing --------------------------------------------------------------------------------------------------

    def to_write(
        self,
        claimed: Sequence[ClaimedRow] = (),
        started: Sequence[StartedEvent] = (),
        events: Sequence[tuple[int, NewEvent]] = (),
    ) -> ClaimWrite:
        """Return what changed, together with what the claims did."""
        lanes, spent = [], []
        for lane in self._dirty_lanes:
            row = lane.to_row()
            if self.scheduler.is_spent(lane):
                if lane.stored_row is not None:
                    spent.append(lane)
            elif row != lane.stored_row:
                lanes.append((row, lane.sort_key(fair=self.is_fair), lane))
            if lane.scheduled and lane.head is not None:
                self.deadlines.add_head(lane.level, lane.head)
        limits = [row for row in map(self._limits_row, self._dirty_limits) if row != self._limits[row[0]]]
        work = [
            ((owner, customer.work.unit_time, customer.work.in_flight), version)
            for owner, (unit_time, in_flight, version) in self._work.items()
            if (customer := self.customers[owner]).work != CustomerWork(unit_time, in_flight or 0)
        ]
        state, order = scheduler_to_json(self.scheduler), str(self.scheduler.policy.order)
        has_changes = bool(
            self._has_applied_log or lanes or spent or limits or work or claimed or events
            or (self.fence, order, state) != (self._queue.fence, self._queue.ordered, self._queue.scheduler_state)
        )  # fmt: skip
        return ClaimWrite(
            lanes, spent, limits, work, order, state, self.deadlines, self.fence, has_changes, claimed, started, events
        )

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

    def work_of(self, owner: int, unit_time: int | None) -> CustomerWork:
        """Return a customer's work as applied changes left it, or as it was read elsewhere."""
        return self.customers[owner].work if owner in self._work else CustomerWork(unit_time)

    def _lane(self, owner: int, level: int) -> TableLane:
        """Return a customer's lane of a level, read or new, and mark it as changed."""
        customer = self.customer(owner)
        lane = customer.lanes.get(level)
        if lane is None:
            self._load_lanes([(owner, level)])
            lane = customer.lanes.get(level)
        if lane is None:
            weight = customer.settings.weight
            lane = customer.lanes[level] = TableLane(str(owner), level, weight, owner=owner, work=customer.work)
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
        new = [owner for owner in owners if owner not in self.customers]
        for owner in new:
            at_slot_limit = self.scheduler.shares.at_limit.get(str(owner)) is not None
            self.customers[owner] = CustomerLanes(str(owner), at_slot_limit=at_slot_limit)
        if not new or not self._queue.has_limits:
            return
        limited = self._queries.fetch_many("limits_of", ("customer",), [(owner,) for owner in new])
        for row in limited:
            known = self.customers[row[0]]
            _, settings, known.running, known.tat, known.rate_closed_until = row
            known.settings = parse_settings(settings)
            self._limits[row[0]] = row
        self._load_lanes(_all_levels([row[0] for row in limited]))

    def _load_lanes(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Read the lanes of these customers and levels."""
        new = list(dict.fromkeys(item for item in wanted if item not in self._loaded_lanes))
        if new:
            self._loaded_lanes.update(new)
            self._add_lanes(self._queries.fetch_many("lanes_of", ("customer", "level"), new))

    def _add_lanes(self, rows: Sequence[Row]) -> None:
        self._load_customers(dict.fromkeys(row[0] for row in rows))
        for row in rows:
            customer = self.customers[row[0]]
            if row[0] not in self._work:
                unit_time, in_flight, _ = self._work[row[0]] = row[ROW_LENGTH : ROW_LENGTH + WORK_LENGTH]
                customer.work.unit_time, customer.work.in_flight = unit_time, in_flight or 0
            is_missing = row[2] is None
            if row[1] not in customer.lanes and not is_missing:
                lane = customer.lanes[row[1]] = TableLane.from_row(row)
                lane.work = customer.work
                if row[ROW_LENGTH - 3]:
                    self.scheduler.schedule(lane)

    def add_first_lanes(self, rows: Sequence[Row]) -> None:
        """Add the lowest open lanes of one level: at least as many as are read at once, if the level has as many.

        A row is a lane's, followed by one of its next documents: seq, ready_at, cost and whether it is new; or nulls.
        """
        if not rows or not self.is_sorted:
            return
        lanes = {row[:2]: row[:-DOCUMENT_COLUMNS] for row in rows}
        self._add_lanes(list(lanes.values()))
        level = rows[0][1]
        last = self.customers[rows[-1][0]].lanes[level]
        all_loaded = len(lanes) < self._lanes_at_once
        self._loaded_until_turn[level] = ALL_LOADED if all_loaded else last.sort_key(fair=self.is_fair)
        self._prefetch(
            [self.customers[owner].lanes[level] for owner, level in lanes],
            [(*row[:2], *row[-DOCUMENT_COLUMNS:]) for row in rows if row[-1] is not None],
        )

    # -- reading on -----------------------------------------------------------------------------------------------

    def _load_overdue(self, now: int) -> None:
        """Read what an overdue slot needs: the oldest head of each level, and the lowest turn where it is overdue."""
        since = now - self.scheduler.policy.overdue_after
        for level in self.scheduler.levels[1:]:
            if level.open_lanes and self._may_be_overdue(level, since):
                self._load_oldest(level)
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    self._load_lowest(level)
                    if level.next_use_is_out_of_turn:
                        self._load_oldest_eligible(level, now)

    def _may_be_overdue(self, level: Level[TableLane], since: int) -> bool:
        """Compare with the oldest head: of lanes held, and of all others by `deadlines.oldest_heads`."""
        oldest = level.oldest()
        held = NEVER if oldest is None or oldest.head is None else oldest.head.ready_at
        return min(held, self.deadlines.oldest_heads[level.number][0]) <= since

    def _load_lowest(self, level: Level[TableLane]) -> None:
        """Read on until the open lane whose turn it is in this level is held."""
        number = level.number
        while (seen := self._loaded_until_turn[number]) is not ALL_LOADED:
            lane = level.lowest()
            if lane is not None and lane.sort_key(fair=self.is_fair) <= seen:
                return
            rows = self._load_more("lowest_lanes", number, seen)
            if len(rows) < self._lanes_at_once:
                self._loaded_until_turn[number] = ALL_LOADED
            else:
                self._loaded_until_turn[number] = (rows[-1][3], rows[-1][4]) if self.is_fair else (rows[-1][6], 0)

    def _load_oldest(self, level: Level[TableLane]) -> None:
        """Read on until the open lane whose head has waited longest is held."""
        number = level.number
        while (seen := self._loaded_until_age[number]) is not ALL_LOADED:
            lane = level.oldest()
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return
            rows = self._load_more("oldest_lanes", number, seen)
            if seen < self.deadlines.oldest_heads[number]:
                self.deadlines.oldest_heads[number] = (rows[0][7], rows[0][6]) if rows else (NEVER, 0)
            all_seen = len(rows) < self._lanes_at_once
            self._loaded_until_age[number] = ALL_LOADED if all_seen else (rows[-1][7], rows[-1][6])

    def _load_oldest_eligible(self, level: Level[TableLane], now: int) -> None:
        """Read on until the oldest head among lanes that may be started out of turn is held."""
        interval = self.scheduler.policy.out_of_turn_interval
        ready_at, seq = self.deadlines.oldest_heads[level.number]
        seen = (ready_at, seq - 1)
        while True:
            rows = self._load_more("oldest_rested_lanes", level.number, seen, rested_since=now - interval, now=now)
            lane = level.oldest_eligible(now, interval)
            if len(rows) < self._lanes_at_once:
                return
            seen = (rows[-1][7], rows[-1][6])
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return

    @property
    def _lanes_at_once(self) -> int:
        return self._claim_limit + MORE_LANES

    def _load_more(self, query: str, level: int, loaded_until: tuple[int, int], **values: int) -> list[Row]:
        """Read open lanes beyond those loaded."""
        after, after_tie = loaded_until
        rows = self._queries.fetch_all(
            query, level=level, after=after, after_tie=after_tie, limit=self._lanes_at_once, **values
        )
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
        """Read on in this lane, and in those of its level that come next."""
        level = self.scheduler.levels[lane.level]
        lanes = {lane: None}
        for entry in level.by_turn:
            other = entry[2]
            if entry is other.turn_entry and other.waiting > 1 and not other.has_prefetched():
                lanes[other] = None
                if len(lanes) > self._claim_limit:
                    break
        at_once = 1 + self._claim_limit // max(1, level.open_lanes)
        self._read_documents(list(lanes), at_once)

    def _read_documents(self, lanes: Sequence[TableLane], limit: int, *, with_head: bool = False) -> None:
        """Read the documents behind the heads, or from the heads on; requeued ones may stand before `scan_from`."""
        wanted = [
            (
                lane.owner,
                lane.level,
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
            key = lane.owner, lane.level
            lane.prefetched.extend(islice(heads.get(key, {}).values(), limit))
            if key not in any_new:
                lane.mark_exhausted(0 if lane.head is None else lane.head.seq)

    def _reload_heads(self) -> None:
        """Read the heads of lanes whose head has left; none of their documents stands before it."""
        lanes = [lane for lane in self._lanes_without_head if lane.waiting > 0]
        self._lanes_without_head.clear()
        if lanes:
            for lane in lanes:
                lane.prefetched.clear()
            self._read_documents(lanes, 1, with_head=True)
            for lane in lanes:
                self.scheduler.change_head(lane, lane.prefetched[0] if lane.prefetched else None)


def _all_levels(owners: Iterable[int]) -> Iterator[tuple[int, int]]:
    """All levels of these customers."""
    return ((owner, level) for owner in owners for level in LEVELS)
