"""The lines a claim can reach, read from the tables, changed by `LaneTracker`, written back.

Only claims write lines. Everything else appends a line change, and a claim folds all changes in before it takes. So a
process that claims again, with nobody else in between, finds the lines as it left them and need not read them again:
`queue.version`, read inside the claim's own transaction, tells. Nothing else vouches for what is remembered.
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
"""Customers whose lines a process remembers between claims."""
EXTRA_LANES: Final = 32
"""Lines read beyond those that a claim needs: whoever claims again will want them."""
PREFETCH_PER_LANE: Final = 16
"""Documents of a line read at once by a process that claims again and again."""
NOTHING_LOADED: Final = (-1, -1)
ALL_LOADED: Final = (NEVER, 0)


class ClaimWindow:
    """A claim's view of the lines.

    Of each level it has seen the open lines up to a place, and up to an age: whatever it does not hold lies beyond.
    """

    def __init__(self, queries: Queries, queue: QueueRow) -> None:
        self._queries = queries
        self.scheduler: Scheduler[SqlLane] = scheduler_from_json(
            queries.policy(queue.policy).policy.turns, queue.scheduler_state
        )
        self._level_texts = [level_to_json(level) for level in self.scheduler.levels]
        self._is_fair = self.scheduler.policy.order is Order.FAIR
        if queue.ordered != self.scheduler.policy.order:
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
        """This process's book, if no transaction has written lines since; otherwise a new one."""
        row = queries.fetch_one("queue")
        if row is None:
            raise AssertionError("the queue has no row")
        queue = QueueRow._make(row)
        book: ClaimWindow | None = queries.claim_window
        if book is None or (book._version, book._policy) != (queue.version, queue.policy):  # noqa: SLF001 - its own class
            return cls(queries, queue)
        book._begin(queue)  # noqa: SLF001
        return book

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
        """Nothing is due before this, as far as the book was told; something may well be due later."""

    # -- told ---------------------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        line = self._lane(owner, level)
        line.include_new(head)
        self._join(owner, line, n, head)

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        self.has_requeued = True
        self._join(owner, self._lane(owner, level), n, head)

    def released(self, owner: int, level: int, head: Head) -> None:
        self.has_requeued = True
        line = self._lane(owner, level)
        line.include(head)
        self._tracker.released(self.customer(owner), line, head)

    def _join(self, owner: int, lane: SqlLane, n: int, head: Head) -> None:
        lane.include(head)
        self._tracker.joined(self.customer(owner), lane, head, n)

    def left(self, owner: int, level: int, seq: int) -> None:
        line = self._lane(owner, level)
        line.prefetched.clear()
        self._tracker.left(line, seq)
        if line.waiting == 0:
            line.clear()

    def emptied(self, owner: int, level: int) -> None:
        """All documents of a line are gone."""
        line = self._lane(owner, level)
        line.clear()
        self._tracker.emptied(line)

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
        """Let a customer go on if its rate closed it until now; a change just folded may have done so already."""
        customer = self.customer(owner)
        if customer.rate_closed_until is None or customer.rate_closed_until > now:
            return False
        self._tracker.rate_reopened(customer)
        self._mark_customer_dirty(owner, customer)
        return True

    def clamp_rate(self, owner: int, now: int) -> None:
        """Bring a closing by rate that a clock ahead of this one has set back to what the rate allows."""
        customer = self.customer(owner)
        if self._tracker.clamp_rate(customer, now):
            self._mark_customer_dirty(owner, customer)

    def allocate_event_numbers(self, n: int) -> int:
        """The last of n new numbers for events."""
        self._event += n
        return self._event

    def apply_lane_log(self) -> None:
        """Tell the book what happened since the last claim, in order; heads are looked up at the end."""
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
        self._queries.execute("clear_lane_log")

    # -- taken --------------------------------------------------------------------------------------------------

    def set_claim_limit(self, limit: int) -> None:
        """Make ready for taking k documents."""
        self._claim_limit = limit

    def take_next(self, now: int) -> tuple[SqlLane, Head] | None:
        """The line whose head goes next, and that head; its customer is charged."""
        turns = self.scheduler
        if self._is_fair and (turns.dispatched + 1) % turns.policy.overdue_every == 0:
            self._load_overdue(now)
        for level in turns.levels:
            if level.open_lanes:
                self._load_lowest(level)
                break
        line = turns.take(now)
        if line is None or (head := line.head) is None:
            return None
        customer = self.customer(line.owner)
        self._tracker.started(customer, line, now)
        line.advance(head)
        self._dirty_lanes.add(line)
        if line.owner in self._limits:
            self._mark_customer_dirty(line.owner, customer)
        return line, head

    def save(self) -> None:
        """Write back what changed, and remember the rest."""
        for number in {line.level for line in self._dirty_lanes}:
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
        for line in self._dirty_lanes:
            row = line.row()
            if self.scheduler.is_spent(line):
                self._drop_lane(line)
                if line.stored_row is not None:
                    gone.append((line.owner, line.level))
            elif row != line.stored_row:
                rows.append(with_sort_key(row, fair=self._is_fair))
                line.stored_row = row
        if rows:
            self._queries.execute_many("save_lane", rows)
        if gone:
            self._queries.execute_many("forget_lane", gone)

    def _drop_lane(self, lane: SqlLane) -> None:
        lines = self._customers[lane.owner].lanes
        del lines[lane.level]
        if not lines and lane.owner not in self._limits:
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

    # -- read ---------------------------------------------------------------------------------------------------

    def _lane(self, owner: int, level: int) -> SqlLane:
        """A customer's line of a level, read or new, which is going to change."""
        customer = self.customer(owner)
        line = customer.lanes.get(level)
        if line is None:
            row = self._queries.fetch_one("lane", customer=owner, level=level)
            if row is None:
                line = customer.lanes[level] = SqlLane(str(owner), level, customer.settings.weight, owner=owner)
            else:
                line = self._lane_from_row(row)
        self._dirty_lanes.add(line)
        return line

    def _mark_customer_dirty(self, owner: int, customer: CustomerLanes[SqlLane]) -> None:
        """What concerns a customer with settings of its own may have opened or closed all its lines."""
        self._dirty_lanes.update(customer.lanes.values())
        if owner in self._limits:
            self._dirty_limits.add(owner)

    def customer(self, owner: int, *, limited: bool = True) -> CustomerLanes[SqlLane]:
        """A customer's lines: all of them if it has settings of its own, otherwise those asked for."""
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
        owner, level, weight, turn, stamp, waiting, *head, filed, front, out_of_turn_at, _ = row
        first = None if head[0] is None else Head(*head)
        line = SqlLane(
            str(owner), level, weight, turn, stamp, waiting, first, owner=owner, scan_from=front, stored_row=row[:-1]
        )
        line.out_of_turn_at = out_of_turn_at
        self.customer(owner).lanes[level] = line
        if filed:
            self.scheduler.schedule(line)
        return line

    # -- seen ---------------------------------------------------------------------------------------------------

    def _load_overdue(self, now: int) -> None:
        """An overdue slot may fall now: see the oldest head of each level, and of overdue ones whose turn it is."""
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
        """Hold the open line whose turn it is in this level."""
        number = level.number
        while (seen := self._loaded_until_turn[number]) is not ALL_LOADED:
            line = level.lowest()
            if line is not None and line.sort_key(fair=self._is_fair) <= seen:
                return
            row = self._load_more("lowest_lanes", number, seen)
            if row is None:
                self._loaded_until_turn[number] = ALL_LOADED
            else:
                self._loaded_until_turn[number] = (row[3], row[4]) if self._is_fair else (row[6], 0)

    def _load_oldest(self, level: Level[SqlLane]) -> None:
        """Hold the open line of this level whose head has waited longest."""
        number = level.number
        while (seen := self._loaded_until_age[number]) is not ALL_LOADED:
            line = level.oldest()
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return
            row = self._load_more("oldest_lanes", number, seen)
            self._loaded_until_age[number] = ALL_LOADED if row is None else (row[7], row[6])

    def _load_oldest_eligible(self, level: Level[SqlLane], now: int) -> None:
        """Hold the open line whose head has waited longest, of those that may be started out of turn."""
        interval, seen = self.scheduler.policy.out_of_turn_interval, NOTHING_LOADED
        while True:
            row = self._load_more("oldest_rested_lanes", level.number, seen, rested_since=now - interval, now=now)
            line = level.oldest_eligible(now, interval)
            if row is None:
                return
            seen = (row[7], row[6])
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return

    def _load_more(self, query: str, level: int, loaded_until: tuple[int, int], **values: int) -> Row | None:
        """Read the open lines beyond what was seen; the last row, or None when there are no more."""
        limit = self._claim_limit + EXTRA_LANES
        rows = self._queries.fetch_all(
            query, level=level, after=loaded_until[0], after_tie=loaded_until[1], limit=limit, **values
        )
        for row in rows:
            if level not in self.customer(row[0], limited=row[-1]).lanes:
                self._lane_from_row(row)
        return rows[-1] if len(rows) == limit else None

    # -- heads --------------------------------------------------------------------------------------------------

    def _next_head(self, lane: SqlLane) -> Head | None:
        """The head of a line whose old one is gone; while folding it is looked up later."""
        if lane.waiting <= 0:
            return None
        if self._is_applying_log:
            self._lanes_without_head.add(lane)
            return lane.head
        if not lane.has_prefetched():
            self._read_ahead(lane)
        return lane.prefetched[0] if lane.prefetched else None

    def _read_ahead(self, lane: SqlLane) -> None:
        open_lines = max(1, self.scheduler.levels[lane.level].open_lanes)
        limit = min(lane.waiting, max(1 + self._claim_limit // open_lines, PREFETCH_PER_LANE if self._is_reused else 1))
        lane.prefetched.extend(self._read_heads(lane, 0 if lane.head is None else lane.head.seq, limit))

    def _read_heads(self, lane: SqlLane, after: int, limit: int) -> list[Head]:
        """Documents behind this one; a document that came back may stand behind the front as well."""
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
        for line in self._lanes_without_head:
            if line.waiting > 0:
                heads = self._read_heads(line, 0, 1)
                self.scheduler.change_head(line, heads[0] if heads else None)
        self._lanes_without_head.clear()
