"""Read the lanes that a claim can reach, change them by `LaneTracker`, and write them back.

Only claims write lanes. Everything else appends to the lane log, and a claim applies the log before it takes documents.
A process that claims again, with no other claim in between, therefore keeps its lanes in memory:
`queue_state.version`, read inside the claim's own transaction, shows whether they are current.
"""

import json
from typing import Any, Final

from inturn.model import CustomerSettings, settings_to_dict
from inturn.policy.lanes import CustomerLanes, LaneTracker
from inturn.policy.scheduler import LEVELS, Head, Level, Order, Scheduler
from inturn.stores.sql.scheduler_state import level_to_json, scheduler_from_json, scheduler_to_json
from inturn.stores.sqlite.queries import Queries, Row, parse_settings
from inturn.stores.sqlite.rows import NEVER, QueueRow, SqlLane, with_sort_key

MAX_CACHED_CUSTOMERS: Final = 5_000
"""Customers whose lanes a process keeps between claims."""
EXTRA_LANES: Final = 32
"""Lanes read beyond those that a claim needs, for the next claim of this process."""
PREFETCH_PER_LANE: Final = 16
"""Documents of a lane read at once by a process that claims repeatedly."""
NOTHING_LOADED: Final = (-1, -1)
ALL_LOADED: Final = (NEVER, 0)


class ClaimWindow:
    """The lanes that a claim has read.

    Of each level it holds all open lanes up to a turn, and up to an age of the head. Other open lanes lie beyond.
    """

    def __init__(self, queries: Queries, queue: QueueRow, *, read_only: bool = False) -> None:
        self._queries = queries
        self._read_only = read_only
        self.scheduler: Scheduler[SqlLane] = scheduler_from_json(
            queries.policy(queue.policy).policy.turns, queue.scheduler_state
        )
        self._level_texts = [level_to_json(level) for level in self.scheduler.levels]
        self._is_fair = self.scheduler.policy.order is Order.FAIR
        if queue.ordered != self.scheduler.policy.order and not read_only:
            self._queries.fetch_one("order_lanes", fair=self._is_fair)
            self._queries.fetch_one("set_lane_order", ordered=self.scheduler.policy.order)
        self._tracker = LaneTracker(self.scheduler, self._next_head)
        self._customers: dict[int, CustomerLanes[SqlLane]] = {}
        self._limits: dict[int, tuple[Any, ...]] = {}
        self._dirty_lanes: set[SqlLane] = set()
        self._dirty_limits: set[int] = set()
        self._is_applying_log = False
        self._lanes_without_head: set[SqlLane] = set()
        self._loaded_until_turn = [NOTHING_LOADED for _ in LEVELS]
        self._loaded_until_age = [NOTHING_LOADED for _ in LEVELS]
        self._claim_limit = 1
        self._begin(queue)
        self._is_reused = False

    @classmethod
    def load(cls, queries: Queries) -> "ClaimWindow":
        """Return this process's window if no other transaction has written lanes since, otherwise a new one."""
        queue = _read_queue(queries)
        window: ClaimWindow | None = queries.claim_window
        if window is None or (window._version, window._policy) != (queue.version, queue.policy):  # noqa: SLF001 - its own class
            return cls(queries, queue)
        window._begin(queue)  # noqa: SLF001
        return window

    @classmethod
    def preview(cls, queries: Queries) -> "ClaimWindow":
        """The lanes as a claim at this instant would find them, on a connection that may only read."""
        window = cls(queries, _read_queue(queries), read_only=True)
        window.apply_lane_log()
        return window

    def loaded_lanes(self) -> list[SqlLane]:
        """The lanes read so far, open or not."""
        return [lane for customer in self._customers.values() for lane in customer.lanes.values()]

    def _begin(self, queue: QueueRow) -> None:
        self.fence = queue.fence
        self.paused_by = queue.paused_by
        self._event = queue.event
        self._version = queue.version
        self._policy = queue.policy
        self._saved_state = (queue.fence, queue.event, queue.scheduler_state)
        self._is_reused = True
        self.has_changes = bool(queue.has_changes)
        self.has_requeued = bool(queue.has_requeued)
        self.next_due = queue.next_due
        """Nothing is due before this time."""

    # -- changes to lanes -----------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        lane = self._lane(owner, level)
        lane.include_new(head)
        self._join(owner, lane, n, head)

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        self.has_requeued = True
        self._join(owner, self._lane(owner, level), n, head)

    def released(self, owner: int, level: int, head: Head) -> None:
        self.has_requeued = True
        lane = self._lane(owner, level)
        lane.include(head)
        self._tracker.released(self.customer(owner), lane, head)

    def _join(self, owner: int, lane: SqlLane, n: int, head: Head) -> None:
        lane.include(head)
        self._tracker.joined(self.customer(owner), lane, head, n)

    def left(self, owner: int, level: int, seq: int) -> None:
        lane = self._lane(owner, level)
        lane.prefetched.clear()
        self._tracker.left(lane, seq)
        if lane.waiting == 0:
            lane.clear()

    def emptied(self, owner: int, level: int) -> None:
        """All documents of a lane are gone."""
        lane = self._lane(owner, level)
        lane.clear()
        self._tracker.emptied(lane)

    def stopped(self, owner: int) -> None:
        customer = self.customer(owner)
        self._tracker.stopped(customer)
        self._mark_customer_dirty(owner, customer)

    def settings_changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        customer = self.customer(owner)
        self._load_lanes(owner, customer)
        customer.running = running
        self._limits.setdefault(owner, ())
        self._tracker.change(customer, settings)
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

    def allocate_event_numbers(self, n: int) -> int:
        """The last of n new numbers for events."""
        self._event += n
        return self._event

    def apply_lane_log(self) -> None:
        """Apply the changes since the last claim, in order; heads are looked up at the end."""
        if not self.has_changes:
            return
        self.has_changes = False
        self._is_applying_log = True
        for owner, kind, level, n, seq, ready_at, cost, settings in self._queries.fetch_all("lane_log"):
            if kind == "joined":
                self.joined(owner, level, n, Head(seq, ready_at, cost))
            elif kind == "requeued":
                self.requeued(owner, level, n, Head(seq, ready_at, cost))
            elif kind == "released":
                self.released(owner, level, Head(seq, ready_at, cost))
            elif kind == "left":
                self.left(owner, level, seq)
            elif kind == "emptied":
                self.emptied(owner, level)
            elif kind == "stopped":
                self.stopped(owner)
            else:
                self.settings_changed(owner, parse_settings(settings), n)
        self._is_applying_log = False
        self._reload_heads()
        if not self._read_only:
            self._queries.execute("clear_lane_log")

    # -- taking documents -----------------------------------------------------------------------------------------

    def set_claim_limit(self, limit: int) -> None:
        """Set how many documents the claim may take; it decides how much is read at once."""
        self._claim_limit = limit

    def take_next(self, now: int) -> tuple[SqlLane, Head] | None:
        """Take the head of the lane whose turn it is, and charge its customer."""
        scheduler = self.scheduler
        if self._is_fair and (scheduler.dispatched + 1) % scheduler.policy.overdue_every == 0:
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
        self._dirty_lanes.add(lane)
        if lane.owner in self._limits:
            self._mark_customer_dirty(lane.owner, customer)
        return lane, head

    def save(self) -> None:
        """Write back what changed, and keep the window for the next claim."""
        for number in {lane.level for lane in self._dirty_lanes}:
            self._level_texts[number] = level_to_json(self.scheduler.levels[number])
        self._save_lanes()
        if self._dirty_limits:
            self._save_limits()
        self._save_queue()
        self._dirty_lanes.clear()
        self._dirty_limits.clear()
        self._queries.claim_window = self if len(self._customers) <= MAX_CACHED_CUSTOMERS else None

    def _save_lanes(self) -> None:
        rows, gone = [], []
        for lane in self._dirty_lanes:
            row = lane.row()
            if self.scheduler.is_spent(lane):
                self._drop_lane(lane)
                if lane.stored_row is not None:
                    gone.append((lane.owner, lane.level))
            elif row != lane.stored_row:
                rows.append(with_sort_key(row, fair=self._is_fair))
                lane.stored_row = row
        if rows:
            self._queries.execute_many("save_lane", rows)
        if gone:
            self._queries.execute_many("forget_lane", gone)

    def _drop_lane(self, lane: SqlLane) -> None:
        lanes = self._customers[lane.owner].lanes
        del lanes[lane.level]
        if not lanes and lane.owner not in self._limits:
            del self._customers[lane.owner]

    def _save_limits(self) -> None:
        for owner in self._dirty_limits:
            customer = self._customers[owner]
            settings = json.dumps(settings_to_dict(customer.settings._asdict()))
            row = (owner, settings, customer.running, customer.tat, customer.rate_closed_until)
            if row != self._limits[owner]:
                self._queries.execute("save_limits", *row)
                self._limits[owner] = row

    def _save_queue(self) -> None:
        state = (self.fence, self._event, scheduler_to_json(self.scheduler, self._level_texts))
        if self._dirty_lanes or self._dirty_limits or state != self._saved_state:
            self._queries.execute("save_claim", *state)
            self._version += 1
            self._saved_state = state

    # -- reading lanes --------------------------------------------------------------------------------------------

    def _lane(self, owner: int, level: int) -> SqlLane:
        """Return a customer's lane of a level, read or new, and mark it as changed."""
        customer = self.customer(owner)
        lane = customer.lanes.get(level)
        if lane is None:
            row = self._queries.fetch_one("lane", customer=owner, level=level)
            if row is None:
                lane = customer.lanes[level] = SqlLane(str(owner), level, customer.settings.weight, owner=owner)
            else:
                lane = self._lane_from_row(row)
        self._dirty_lanes.add(lane)
        return lane

    def _mark_customer_dirty(self, owner: int, customer: CustomerLanes[SqlLane]) -> None:
        """Mark all lanes of a customer: a change to its limits may have opened or closed each of them."""
        self._dirty_lanes.update(customer.lanes.values())
        if owner in self._limits:
            self._dirty_limits.add(owner)

    def customer(self, owner: int, *, limited: bool = True) -> CustomerLanes[SqlLane]:
        """Return a customer's lanes: all if it has settings of its own, otherwise those read so far."""
        known = self._customers.get(owner)
        if known is None:
            known = self._customers[owner] = CustomerLanes(str(owner))
            row = self._queries.fetch_one("limits", customer=owner) if limited else None
            if row is not None:
                settings, known.running, known.tat, known.rate_closed_until = row
                known.settings = parse_settings(settings)
                self._limits[owner] = (owner, *row)
                self._load_lanes(owner, known)
        return known

    def _load_lanes(self, owner: int, customer: CustomerLanes[SqlLane]) -> None:
        for row in self._queries.fetch_all("lanes_of", customer=owner):
            if row[1] not in customer.lanes:
                self._lane_from_row(row)

    def _lane_from_row(self, row: Row) -> SqlLane:
        owner, level, weight, turn, stamp, waiting, *head, is_scheduled, scan_from, out_of_turn_at, _ = row
        first = None if head[0] is None else Head(*head)
        lane = SqlLane(
            str(owner),
            level,
            weight,
            turn,
            stamp,
            waiting,
            first,
            owner=owner,
            scan_from=scan_from,
            stored_row=row[:-1],
        )
        lane.out_of_turn_at = out_of_turn_at
        self.customer(owner).lanes[level] = lane
        if is_scheduled:
            self.scheduler.schedule(lane)
        return lane

    # -- reading on -----------------------------------------------------------------------------------------------

    def _load_overdue(self, now: int) -> None:
        """Read what an overdue slot needs: the oldest head of each level, and the lowest turn where it is overdue."""
        since = now - self.scheduler.policy.overdue_after
        for level in self.scheduler.levels[1:]:
            if level.open_lanes:
                self._load_oldest(level)
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    self._load_lowest(level)
                    if level.next_use_is_out_of_turn:
                        self._load_oldest_eligible(level, now)

    def _load_lowest(self, level: Level[SqlLane]) -> None:
        """Read on until the open lane whose turn it is in this level is held."""
        number = level.number
        while (seen := self._loaded_until_turn[number]) is not ALL_LOADED:
            lane = level.lowest()
            if lane is not None and lane.sort_key(fair=self._is_fair) <= seen:
                return
            row = self._load_more("lowest_lanes", number, seen)
            if row is None:
                self._loaded_until_turn[number] = ALL_LOADED
            else:
                self._loaded_until_turn[number] = (row[3], row[4]) if self._is_fair else (row[6], 0)

    def _load_oldest(self, level: Level[SqlLane]) -> None:
        """Read on until the open lane whose head has waited longest is held."""
        number = level.number
        while (seen := self._loaded_until_age[number]) is not ALL_LOADED:
            lane = level.oldest()
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return
            row = self._load_more("oldest_lanes", number, seen)
            self._loaded_until_age[number] = ALL_LOADED if row is None else (row[7], row[6])

    def _load_oldest_eligible(self, level: Level[SqlLane], now: int) -> None:
        """Read on until the oldest head among lanes that may be started out of turn is held."""
        interval, seen = self.scheduler.policy.out_of_turn_interval, NOTHING_LOADED
        while True:
            row = self._load_more("oldest_rested_lanes", level.number, seen, rested_since=now - interval, now=now)
            lane = level.oldest_eligible(now, interval)
            if row is None:
                return
            seen = (row[7], row[6])
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return

    def _load_more(self, query: str, level: int, loaded_until: tuple[int, int], **values: int) -> Row | None:
        """Read open lanes beyond those loaded; the last row, or None at the end."""
        limit = self._claim_limit + EXTRA_LANES
        rows = self._queries.fetch_all(
            query, level=level, after=loaded_until[0], after_tie=loaded_until[1], limit=limit, **values
        )
        for row in rows:
            if level not in self.customer(row[0], limited=row[-1]).lanes:
                self._lane_from_row(row)
        return rows[-1] if len(rows) == limit else None

    # -- heads ----------------------------------------------------------------------------------------------------

    def _next_head(self, lane: SqlLane) -> Head | None:
        """Return the next head of a lane; while the log is applied, heads are looked up at its end."""
        if lane.waiting <= 0:
            return None
        if self._is_applying_log:
            self._lanes_without_head.add(lane)
            return lane.head
        if not lane.has_prefetched():
            self._read_ahead(lane)
        return lane.prefetched[0] if lane.prefetched else None

    def _read_ahead(self, lane: SqlLane) -> None:
        open_lanes = max(1, self.scheduler.levels[lane.level].open_lanes)
        limit = min(lane.waiting, max(1 + self._claim_limit // open_lanes, PREFETCH_PER_LANE if self._is_reused else 1))
        lane.prefetched.extend(self._read_heads(lane, 0 if lane.head is None else lane.head.seq, limit))

    def _read_heads(self, lane: SqlLane, after: int, limit: int) -> list[Head]:
        """Read the documents behind this one; requeued ones may also stand behind `scan_from`."""
        where = {"customer": lane.owner, "level": lane.level, "limit": limit}
        rows: list[Row] = []
        if lane.scan_from is not None:
            rows = self._queries.fetch_all("waiting_in_lane", first=max(after + 1, lane.scan_from), **where)
            if not rows:
                lane.mark_exhausted(after)
        if self.has_requeued:
            returned = self._queries.fetch_all("requeued_in_lane", first=after + 1, **where)
            rows = sorted({row[0]: row for row in (*rows, *returned)}.values())[:limit]
        return [Head(*row) for row in rows]

    def _reload_heads(self) -> None:
        for lane in self._lanes_without_head:
            if lane.waiting > 0:
                heads = self._read_heads(lane, 0, 1)
                self.scheduler.change_head(lane, heads[0] if heads else None)
        self._lanes_without_head.clear()


def _read_queue(queries: Queries) -> QueueRow:
    row = queries.fetch_one("queue")
    if row is None:
        raise AssertionError("the queue has no row")
    return QueueRow._make(row)
