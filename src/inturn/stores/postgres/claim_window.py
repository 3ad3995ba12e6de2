"""The lines a claim can reach, read from the tables, changed by `LaneTracker`, written back.

Only claims write lines. Everything else appends a line change, and a claim folds all changes in before it takes. So a
process that claims again, with nobody else in between, finds the lines as it left them and need not read them again:
`turns.version` tells. A claim is one snapshot, so that the documents it sees are those whose changes it has folded in.
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
"""Customers whose lines a process remembers between claims."""
EXTRA_LANES: Final = 32
"""Lines read beyond those that a claim needs: whoever claims again will want them."""
PREFETCH_PER_LEVEL: Final = 500
"""Documents of a level read at once, a share of each line, by a process that claims again and again."""
FENCE_BLOCK_SIZE: Final = 100_000
"""Fences reserved at a time, by a commit that waits for the disk; all others need not."""
NOTHING_LOADED: Final = (-1, -1)
ALL_LOADED: Final = (2**63, 0)


class ClaimWindow:
    """A claim's view of the lines.

    Of each level it has seen the open lines up to a place, and up to an age: whatever it does not hold lies beyond.
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
        """Customers and levels whose lines are here, if there are any."""
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
        """A claim begins, on this connection; the line changes may have been taken out already."""
        self.queries = queries
        self.queue = queue
        self._log_rows = log_rows
        self._has_applied_log = False
        self.fence = queue.fence if queue.has_crash_sentinel else queue.reserved

    def is_current(self, queue: QueueRow) -> bool:
        """Whether nobody else has claimed since; after a crash, other fences are reserved before a version returns."""
        mine = self.queue
        return queue.has_crash_sentinel and (mine.version, mine.reserved, mine.policy, mine.ordered) == (
            queue.version,
            queue.reserved,
            queue.policy,
            queue.ordered,
        )

    # -- told ---------------------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        line = self._lane(owner, level)
        line.include_new(head)
        self._join(owner, line, n, head)

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        self._join(owner, self._lane(owner, level), n, head)

    def released(self, owner: int, level: int, head: Head) -> None:
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
        """Nothing is left for later."""

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

    def apply_lane_log(self, *, all_rows: bool = False) -> None:
        """Tell the book what happened since the last claim, in order; heads are looked up at the end."""
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

    def save(self, claim: ClaimWrite, *, is_last: bool = False) -> list[Row]:
        """Write back what changed, and what the claim did besides; the documents started.

        `is_last`: nothing more is asked in this transaction, so that it may be committed with this.
        """
        rows, old = [], []
        for line in self._dirty_lanes:
            if line.scheduled and line.head is not None:
                self.deadlines.add_head(line.level, line.head)
            row, stored = line.row(), line.stored_row
            is_spent = self.scheduler.is_spent(line)
            if stored is not None and (is_spent or row != stored):
                old.append(line.row_key())
            if is_spent:
                self._drop_lane(line)
            elif row != stored:
                rows.append((*row, *line.sort_key(fair=self._is_fair)))
                line.stored_row, line.version, line.ctid = row, self.queue.version + 1, None
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
        """Whether it may be remembered."""
        return len(self._customers) <= MAX_CACHED_CUSTOMERS

    def _drop_lane(self, lane: SqlLane) -> None:
        lines = self._customers[lane.owner].lanes
        del lines[lane.level]
        if not lines and lane.owner not in self._limits:
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

    # -- read ---------------------------------------------------------------------------------------------------

    def _lane(self, owner: int, level: int) -> SqlLane:
        """A customer's line of a level, read or new, which is going to change."""
        customer = self.customer(owner)
        line = customer.lanes.get(level)
        if line is None:
            self._load_lanes([(owner, level)])
            line = customer.lanes.get(level)
        if line is None:
            line = customer.lanes[level] = SqlLane(str(owner), level, customer.settings.weight, owner=owner)
        self._dirty_lanes.add(line)
        return line

    def _mark_customer_dirty(self, owner: int, customer: CustomerLanes[SqlLane]) -> None:
        """What concerns a customer with settings of its own may have opened or closed all its lines."""
        self._dirty_lanes.update(customer.lanes.values())
        if owner in self._limits:
            self._dirty_limits.add(owner)

    def customer(self, owner: int) -> CustomerLanes[SqlLane]:
        """A customer's lines: all of them if it has settings of its own, otherwise those asked for."""
        if owner not in self._customers:
            self._load_customers([owner])
        return self._customers[owner]

    def _load_customers(self, owners: Iterable[int]) -> None:
        """Hold these customers' settings, and all lines of those that have any of their own."""
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
        """Hold the lines of these customers and levels."""
        new = list(dict.fromkeys(item for item in wanted if item not in self._loaded_lanes))
        if new:
            self._loaded_lanes.update(new)
            self._add_lanes(self.queries.fetch_all("lanes_of", **to_columns(("customer", "level"), new)))

    def _add_lanes(self, rows: list[Row]) -> None:
        self._load_customers(dict.fromkeys(row[0] for row in rows))
        for row in rows:
            owner, level, weight, turn, stamp, waiting, *head, filed, front, out_of_turn_at, version, at = row
            lines = self._customers[owner].lanes
            if level not in lines:
                first = None if head[0] is None else Head(*head)
                stands = (str(owner), level, weight, turn, stamp, waiting, first)
                lines[level] = SqlLane(
                    *stands, owner=owner, scan_from=front, stored_row=row[:-2], version=version, ctid=at
                )
                lines[level].out_of_turn_at = out_of_turn_at
                if filed:
                    self.scheduler.schedule(lines[level])

    # -- seen ---------------------------------------------------------------------------------------------------

    def _load_overdue(self, now: int) -> None:
        """An overdue slot may fall now: see the oldest head of each level, and of overdue ones whose turn it is."""
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
        """Lines changed in this claim are held, all others are bounded."""
        oldest = level.oldest()
        held = NEVER if oldest is None or oldest.head is None else oldest.head.ready_at
        return min(held, self.deadlines.oldest_heads[level.number][0]) <= since

    def _load_lowest(self, level: Level[SqlLane]) -> None:
        """Hold the open line whose turn it is in this level."""
        number = level.number
        while (seen := self._loaded_until_turn[number]) is not ALL_LOADED:
            line = level.lowest()
            if line is not None and line.sort_key(fair=self._is_fair) <= seen:
                return
            rows = self._load_more("lowest_lanes", number, seen)
            if len(rows) < self._claim_limit + EXTRA_LANES:
                self._loaded_until_turn[number] = ALL_LOADED
            else:
                self._loaded_until_turn[number] = (rows[-1][3], rows[-1][4]) if self._is_fair else (rows[-1][6], 0)

    def _load_oldest(self, level: Level[SqlLane]) -> None:
        """Hold the open line of this level whose head has waited longest."""
        number = level.number
        while (seen := self._loaded_until_age[number]) is not ALL_LOADED:
            line = level.oldest()
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return
            rows = self._load_more("oldest_lanes", number, seen)
            if seen < self.deadlines.oldest_heads[number]:
                self.deadlines.oldest_heads[number] = (rows[0][7], rows[0][6]) if rows else (NEVER, 0)
            all_seen = len(rows) < self._claim_limit + EXTRA_LANES
            self._loaded_until_age[number] = ALL_LOADED if all_seen else (rows[-1][7], rows[-1][6])

    def _load_oldest_eligible(self, level: Level[SqlLane], now: int) -> None:
        """Hold the open line whose head has waited longest, of those that may be started out of turn."""
        interval, (ready_at, seq) = (
            self.scheduler.policy.out_of_turn_interval,
            self.deadlines.oldest_heads[level.number],
        )
        seen = (ready_at, seq - 1)
        while True:
            rows = self._load_more("oldest_rested_lanes", level.number, seen, rested_since=now - interval, now=now)
            line = level.oldest_eligible(now, interval)
            if len(rows) < self._claim_limit + EXTRA_LANES:
                return
            seen = (rows[-1][7], rows[-1][6])
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return

    def _load_more(self, query: str, level: int, loaded_until: tuple[int, int], **values: int) -> list[Row]:
        """Read the open lines beyond what was seen."""
        limit = self._claim_limit + EXTRA_LANES
        rows = self.queries.fetch_all(
            query, level=level, after=loaded_until[0], after_tie=loaded_until[1], limit=limit, **values
        )
        self._add_lanes(rows)
        return rows

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
        """Read on in this line, and in those of its level that will be next."""
        level = self.scheduler.levels[lane.level]
        open_lines = max(1, level.open_lanes)
        at_once = 1 + max(self._claim_limit, PREFETCH_PER_LEVEL if self.is_reused else 0) // open_lines
        lines = {lane: None}
        for *_, other in level.by_turn[: self._claim_limit]:
            if other.scheduled and other.waiting > 1 and not other.has_prefetched():
                lines[other] = None
        self._read_heads(list(lines), {line: line.head.seq if line.head else 0 for line in lines}, at_once)

    def _read_heads(self, lanes: list[SqlLane], after: dict[SqlLane, int], limit: int) -> None:
        """Documents behind these; a document that came back may stand behind the front as well."""
        rows = self.queries.fetch_all(
            "waiting_in_lanes",
            customer=[line.owner for line in lanes],
            level=[line.level for line in lanes],
            after=[after[line] for line in lanes],
            scan_from=[NEVER if line.scan_from is None else line.scan_from for line in lanes],
            limit=limit,
        )
        result: dict[tuple[int, int], dict[int, Head]] = {}
        for owner, level, seq, ready_at, cost, _ in sorted(rows):
            result.setdefault((owner, level), {})[seq] = Head(seq, ready_at, cost)
        any_new = {(owner, level) for owner, level, *_, is_new in rows if is_new}
        for line in lanes:
            key = line.owner, line.level
            line.prefetched.extend(islice(result.get(key, {}).values(), limit))
            if key not in any_new:
                line.mark_exhausted(after[line])

    def _reload_heads(self) -> None:
        """Of lines whose head has left: none of their documents stands before the one that was known."""
        lines = [line for line in self._lanes_without_head if line.waiting > 0]
        self._lanes_without_head.clear()
        if lines:
            for line in lines:
                line.prefetched.clear()
            self._read_heads(lines, {line: line.head.seq - 1 if line.head else 0 for line in lines}, 1)
            for line in lines:
                self.scheduler.change_head(line, line.prefetched[0] if line.prefetched else None)


def _all_lanes(owners: Iterable[int]) -> Iterator[tuple[int, int]]:
    """All levels of these customers."""
    return ((owner, level) for owner in owners for level in LEVELS)
