"""Read the lanes that a claim can reach, change them by `LaneTracker`, and write them back.

Only claims write lanes. Everything else appends to the lane log, and a claim applies the log before it takes documents.
A process that claims again, with no other claim in between, therefore keeps its lanes in memory:
`scheduler_state.version` shows whether they are current. A claim is one snapshot, so that it sees exactly the documents
whose changes it has applied.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from inturn.model import CustomerSettings, settings_to_dict
from inturn.policy import TurnPolicy
from inturn.policy.lanes import CustomerLanes, LaneTracker
from inturn.policy.scheduler import LEVELS, Head, Level, Order, Scheduler
from inturn.stores.postgres.claim_rows import ClaimWrite, QueueRow
from inturn.stores.postgres.deadlines import NEVER, Deadlines
from inturn.stores.postgres.lanes import LANE_COLUMNS, OLD_LANE_COLUMNS, SqlLane
from inturn.stores.postgres.queries import Queries, Row, to_columns
from inturn.stores.postgres.rows import parse_settings
from inturn.stores.sql.scheduler_state import level_to_json, scheduler_from_json, scheduler_to_json

MAX_CACHED_CUSTOMERS: Final = 5_000
"""Customers whose lanes a process keeps between claims."""
EXTRA_LANES: Final = 32
"""Lanes read beyond those that a claim needs, for the next claim of this process."""
PREFETCH_PER_LEVEL: Final = 500
"""Documents of a level read at once, a share of each lane, by a process that claims repeatedly."""
FENCE_BLOCK_SIZE: Final = 100_000
"""Fences reserved at a time, by a commit that waits for the disk; other claims do not wait."""
NOTHING_LOADED: Final = (-1, -1)
ALL_LOADED: Final = (2**63, 0)


class ClaimWindow:
    """The lanes that a claim has read.

    Of each level it holds all open lanes up to a turn, and up to an age of the head. Other open lanes lie beyond.
    """

    def __init__(self, queries: Queries, queue: QueueRow, policy: TurnPolicy) -> None:
        self.queries = queries
        self.scheduler: Scheduler[SqlLane] = scheduler_from_json(policy, queue.scheduler_state)
        self._is_fair = policy.order is Order.FAIR
        if queue.ordered != policy.order:
            queries.execute("order_lanes", fair=self._is_fair)
        self._tracker = LaneTracker(self.scheduler, self._next_head)
        self._customers: dict[int, CustomerLanes[SqlLane]] = {}
        self._loaded_lanes: set[tuple[int, int]] = set()
        """Customers and levels whose lanes were read, whether or not there was one."""
        self._limits: dict[int, tuple[Any, ...]] = {}
        self._dirty_lanes: set[SqlLane] = set()
        self._dirty_limits: set[int] = set()
        self._is_applying_log = False
        self._lanes_without_head: set[SqlLane] = set()
        self.deadlines = Deadlines.from_json(queue.deadlines)
        self._loaded_until_turn = [
            (level.virtual_time.turn, -1) if self._is_fair else NOTHING_LOADED for level in self.scheduler.levels
        ]
        self._loaded_until_age = [(ready_at, seq - 1) for ready_at, seq in self.deadlines.oldest_heads]
        self._claim_limit = 1
        self.is_reused = False
        self.begin(queries, queue)

    def begin(self, queries: Queries, queue: QueueRow, log_rows: list[Row] | None = None) -> None:
        """Begin a claim on this connection; `log_rows` are the rows of the lane log if they were taken out already."""
        self.queries = queries
        self.queue = queue
        self._log_rows = log_rows
        self._has_applied_log = False
        self.fence = queue.fence if queue.has_crash_sentinel else queue.reserved

    def is_current(self, queue: QueueRow) -> bool:
        """Whether no other claim came since. After a crash, other fences are reserved before a version can recur."""
        mine = self.queue
        return queue.has_crash_sentinel and (mine.version, mine.reserved, mine.policy, mine.ordered) == (
            queue.version,
            queue.reserved,
            queue.policy,
            queue.ordered,
        )

    # -- changes to lanes -----------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        lane = self._lane(owner, level)
        lane.include_new(head)
        self._join(owner, lane, n, head)

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        self._join(owner, self._lane(owner, level), n, head)

    def released(self, owner: int, level: int, head: Head) -> None:
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
        self._load_lanes(_all_lanes([owner]))
        customer = self.customer(owner)
        customer.running = running
        self._limits.setdefault(owner, ())
        self._tracker.change(customer, settings)
        self._mark_customer_dirty(owner, customer)

    def deadline_set(self, owner: int, kind: str, at: int) -> None:
        del owner
        self.deadlines.add_deadline(kind, at)

    def flush(self, queries: Queries) -> None:
        """Do nothing: changes are applied at once."""

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

    def apply_lane_log(self, *, all_rows: bool = False) -> None:
        """Apply the changes since the last claim, in order; heads are looked up at the end."""
        rows, is_taken_out = self._log_rows or [], self._log_rows is not None
        if all_rows or self.queue.is_foreign:
            rows = [*rows, *self.queries.fetch_all("take_whole_lane_log")]
        elif self.queue.has_changes and not is_taken_out:
            rows = self.queries.fetch_all("take_lane_log")
        elif not rows:
            return
        self._has_applied_log = True
        self._load_customers({row[1] for row in rows})
        self._load_lanes([(row[1], row[3]) for row in rows if row[3] is not None])
        self._is_applying_log = True
        for _, *change in sorted(rows):
            self._apply_change(*change)
        self._is_applying_log = False
        self._reload_heads()

    def _apply_change(self, owner: int, kind: str, level: int, n: int, seq: int, *more: Any) -> None:
        ready_at, cost, settings = more
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
        elif kind == "changed":
            self.settings_changed(owner, parse_settings(settings), n)
        else:
            self.deadline_set(owner, kind, ready_at)

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

    def save(self, claim: ClaimWrite, *, is_last: bool = False) -> list[Row]:
        """Write back what changed and what the claim did; the rows of the documents claimed.

        `is_last`: no statement follows in this transaction, so that it may be committed in the same trip.
        """
        rows, old = [], []
        for lane in self._dirty_lanes:
            if lane.scheduled and lane.head is not None:
                self.deadlines.add_head(lane.level, lane.head)
            row, stored = lane.row(), lane.stored_row
            is_spent = self.scheduler.is_spent(lane)
            if stored is not None and (is_spent or row != stored):
                old.append(lane.row_key())
            if is_spent:
                self._drop_lane(lane)
            elif row != stored:
                rows.append((*row, *lane.sort_key(fair=self._is_fair)))
                lane.stored_row, lane.version, lane.ctid = row, self.queue.version + 1, None
        if self._dirty_limits:
            self._save_limits()
        started = self._save_queue(
            claim, {**to_columns(LANE_COLUMNS, rows), **to_columns(OLD_LANE_COLUMNS, old)}, is_last=is_last
        )
        self._dirty_lanes.clear()
        self._dirty_limits.clear()
        self.is_reused = True
        return started

    @property
    def is_cacheable(self) -> bool:
        """Whether it is small enough to be kept."""
        return len(self._customers) <= MAX_CACHED_CUSTOMERS

    def _drop_lane(self, lane: SqlLane) -> None:
        lanes = self._customers[lane.owner].lanes
        del lanes[lane.level]
        if not lanes and lane.owner not in self._limits:
            del self._customers[lane.owner]
            self._loaded_lanes.difference_update([(lane.owner, level) for level in LEVELS])

    def _save_limits(self) -> None:
        for owner in self._dirty_limits:
            customer = self._customers[owner]
            settings = json.dumps(settings_to_dict(customer.settings._asdict()))
            row = (settings, customer.running, customer.tat, customer.rate_closed_until)
            if customer.rate_closed_until is not None:
                self.deadlines.add_deadline("rate", customer.rate_closed_until)
            if row != self._limits[owner]:
                names = ("settings", "running", "tat", "rate_closed_until")
                self.queries.execute("save_limits", customer=owner, **dict(zip(names, row, strict=True)))
                self._limits[owner] = row

    def _save_queue(self, claim: ClaimWrite, lanes: dict[str, list[Any]], *, is_last: bool) -> list[Row]:
        """Write it all in one statement, if anything changed. Fences that are reserved have to be on the disk."""
        deadlines, queue = self.deadlines.to_json(), self.queue
        state = scheduler_to_json(self.scheduler, [level_to_json(level) for level in self.scheduler.levels])
        reserved, reserves = queue.reserved, not queue.has_crash_sentinel or self.fence > queue.reserved
        if reserves:
            reserved = self.fence + FENCE_BLOCK_SIZE
            self.queries.execute("set_crash_sentinel")
            self.queries.execute("commit_durably")
        order = str(self.scheduler.policy.order)
        changed = (
            self._has_applied_log
            or reserves
            or queue.ordered != order
            or self._dirty_lanes
            or self._dirty_limits
            or claim.events
        )
        if not changed and (self.fence, state, deadlines) == (queue.fence, queue.scheduler_state, queue.deadlines):
            return []
        started = (self.queries.fetch_final if is_last else self.queries.fetch_all)(
            "save_claim",
            **claim.to_params(),
            **lanes,
            version=queue.version,
            ordered=order,
            scheduler_state=state,
            deadlines=deadlines,
            last_fence=self.fence,
            reserved=reserved,
            folds=self._has_applied_log,
        )
        self.queue = queue._replace(
            version=queue.version + 1, reserved=reserved, ordered=order, has_crash_sentinel=True
        )
        self._has_applied_log = False
        return started

    # -- reading lanes --------------------------------------------------------------------------------------------

    def _lane(self, owner: int, level: int) -> SqlLane:
        """Return a customer's lane of a level, read or new, and mark it as changed."""
        customer = self.customer(owner)
        lane = customer.lanes.get(level)
        if lane is None:
            self._load_lanes([(owner, level)])
            lane = customer.lanes.get(level)
        if lane is None:
            lane = customer.lanes[level] = SqlLane(str(owner), level, customer.settings.weight, owner=owner)
        self._dirty_lanes.add(lane)
        return lane

    def _mark_customer_dirty(self, owner: int, customer: CustomerLanes[SqlLane]) -> None:
        """Mark all lanes of a customer: a change to its limits may have opened or closed each of them."""
        self._dirty_lanes.update(customer.lanes.values())
        if owner in self._limits:
            self._dirty_limits.add(owner)

    def customer(self, owner: int) -> CustomerLanes[SqlLane]:
        """Return a customer's lanes: all if it has settings of its own, otherwise those read so far."""
        if owner not in self._customers:
            self._load_customers([owner])
        return self._customers[owner]

    def _load_customers(self, owners: Iterable[int]) -> None:
        """Read these customers' limits, and all lanes of those that have any."""
        new = [owner for owner in owners if owner not in self._customers]
        if not new:
            return
        for owner in new:
            self._customers[owner] = CustomerLanes(str(owner))
        limited = self.queries.fetch_all("limits_of", customers=new) if self.queue.has_limits else []
        for owner, *stored in limited:
            known = self._customers[owner]
            settings, known.running, known.tat, known.rate_closed_until = stored
            known.settings = parse_settings(settings)
            self._limits[owner] = tuple(stored)
        if limited:
            self._load_lanes(_all_lanes([owner for owner, *_ in limited]))

    def _load_lanes(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Read the lanes of these customers and levels."""
        new = list(dict.fromkeys(item for item in wanted if item not in self._loaded_lanes))
        if new:
            self._loaded_lanes.update(new)
            self._add_lanes(self.queries.fetch_all("lanes_of", **to_columns(("customer", "level"), new)))

    def _add_lanes(self, rows: list[Row]) -> None:
        self._load_customers(dict.fromkeys(row[0] for row in rows))
        for row in rows:
            owner, level, weight, turn, stamp, waiting, *head, is_scheduled, scan_from, out_of_turn_at, version, at = (
                row
            )
            lanes = self._customers[owner].lanes
            if level not in lanes:
                first = None if head[0] is None else Head(*head)
                stands = (str(owner), level, weight, turn, stamp, waiting, first)
                lanes[level] = SqlLane(
                    *stands, owner=owner, scan_from=scan_from, stored_row=row[:-2], version=version, ctid=at
                )
                lanes[level].out_of_turn_at = out_of_turn_at
                if is_scheduled:
                    self.scheduler.schedule(lanes[level])

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

    def _may_be_overdue(self, level: Level[SqlLane], since: int) -> bool:
        """Compare with the oldest head: of lanes held, and of all others by `deadlines.oldest_heads`."""
        oldest = level.oldest()
        held = NEVER if oldest is None or oldest.head is None else oldest.head.ready_at
        return min(held, self.deadlines.oldest_heads[level.number][0]) <= since

    def _load_lowest(self, level: Level[SqlLane]) -> None:
        """Read on until the open lane whose turn it is in this level is held."""
        number = level.number
        while (seen := self._loaded_until_turn[number]) is not ALL_LOADED:
            lane = level.lowest()
            if lane is not None and lane.sort_key(fair=self._is_fair) <= seen:
                return
            rows = self._load_more("lowest_lanes", number, seen)
            if len(rows) < self._claim_limit + EXTRA_LANES:
                self._loaded_until_turn[number] = ALL_LOADED
            else:
                self._loaded_until_turn[number] = (rows[-1][3], rows[-1][4]) if self._is_fair else (rows[-1][6], 0)

    def _load_oldest(self, level: Level[SqlLane]) -> None:
        """Read on until the open lane whose head has waited longest is held."""
        number = level.number
        while (seen := self._loaded_until_age[number]) is not ALL_LOADED:
            lane = level.oldest()
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return
            rows = self._load_more("oldest_lanes", number, seen)
            if seen < self.deadlines.oldest_heads[number]:
                self.deadlines.oldest_heads[number] = (rows[0][7], rows[0][6]) if rows else (NEVER, 0)
            all_seen = len(rows) < self._claim_limit + EXTRA_LANES
            self._loaded_until_age[number] = ALL_LOADED if all_seen else (rows[-1][7], rows[-1][6])

    def _load_oldest_eligible(self, level: Level[SqlLane], now: int) -> None:
        """Read on until the oldest head among lanes that may be started out of turn is held."""
        interval, (ready_at, seq) = (
            self.scheduler.policy.out_of_turn_interval,
            self.deadlines.oldest_heads[level.number],
        )
        seen = (ready_at, seq - 1)
        while True:
            rows = self._load_more("oldest_rested_lanes", level.number, seen, rested_since=now - interval, now=now)
            lane = level.oldest_eligible(now, interval)
            if len(rows) < self._claim_limit + EXTRA_LANES:
                return
            seen = (rows[-1][7], rows[-1][6])
            if lane is not None and lane.head is not None and (lane.head.ready_at, lane.head.seq) <= seen:
                return

    def _load_more(self, query: str, level: int, loaded_until: tuple[int, int], **values: int) -> list[Row]:
        """Read open lanes beyond those loaded."""
        limit = self._claim_limit + EXTRA_LANES
        rows = self.queries.fetch_all(
            query, level=level, after=loaded_until[0], after_tie=loaded_until[1], limit=limit, **values
        )
        self._add_lanes(rows)
        return rows

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
        """Read on in this lane, and in those of its level that come next."""
        level = self.scheduler.levels[lane.level]
        open_lanes = max(1, level.open_lanes)
        at_once = 1 + max(self._claim_limit, PREFETCH_PER_LEVEL if self.is_reused else 0) // open_lanes
        lanes = {lane: None}
        for *_, other in level.by_turn[: self._claim_limit]:
            if other.scheduled and other.waiting > 1 and not other.has_prefetched():
                lanes[other] = None
        self._read_heads(list(lanes), {lane: lane.head.seq if lane.head else 0 for lane in lanes}, at_once)

    def _read_heads(self, lanes: list[SqlLane], after: dict[SqlLane, int], limit: int) -> None:
        """Read the documents behind these; requeued ones may also stand behind `scan_from`."""
        rows = self.queries.fetch_all(
            "waiting_in_lanes",
            customer=[lane.owner for lane in lanes],
            level=[lane.level for lane in lanes],
            after=[after[lane] for lane in lanes],
            scan_from=[NEVER if lane.scan_from is None else lane.scan_from for lane in lanes],
            limit=limit,
        )
        result: dict[tuple[int, int], dict[int, Head]] = {}
        for owner, level, seq, ready_at, cost, _ in sorted(rows):
            result.setdefault((owner, level), {})[seq] = Head(seq, ready_at, cost)
        any_new = {(owner, level) for owner, level, *_, is_new in rows if is_new}
        for lane in lanes:
            key = lane.owner, lane.level
            lane.prefetched.extend(islice(result.get(key, {}).values(), limit))
            if key not in any_new:
                lane.mark_exhausted(after[lane])

    def _reload_heads(self) -> None:
        """Read the heads of lanes whose head has left; none of their documents stands before it."""
        lanes = [lane for lane in self._lanes_without_head if lane.waiting > 0]
        self._lanes_without_head.clear()
        if lanes:
            for lane in lanes:
                lane.prefetched.clear()
            self._read_heads(lanes, {lane: lane.head.seq - 1 if lane.head else 0 for lane in lanes}, 1)
            for lane in lanes:
                self.scheduler.change_head(lane, lane.prefetched[0] if lane.prefetched else None)


def _all_lanes(owners: Iterable[int]) -> Iterator[tuple[int, int]]:
    """All levels of these customers."""
    return ((owner, level) for owner in owners for level in LEVELS)
