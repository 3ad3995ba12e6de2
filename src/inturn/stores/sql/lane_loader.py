"""Read the lanes that a claim can reach, with their customers, groups and next documents, in its transaction."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from inturn.policy import TurnPolicy
from inturn.policy.groups import GroupName
from inturn.policy.lanes import CustomerLanes
from inturn.policy.scheduler import FIRST_QUEUE, LEVELS, Head, Level, Scheduler, track_of, tracks_of
from inturn.policy.turn_policy import Order
from inturn.stores.sql.claim_types import QueueRow, QueueState
from inturn.stores.sql.deadlines import NO_HEAD, UNKNOWN_HEAD
from inturn.stores.sql.lane_groups import ALL_LOADED, GROUP_KEY, NOTHING_LOADED, TableGroups
from inturn.stores.sql.lane_log import LaneChange, lane_track, queue_of
from inturn.stores.sql.lanes import GROUP_TURN_COLUMN, ROW_LENGTH, SCHEDULED_COLUMN, WORK_LENGTH, TableLane
from inturn.stores.sql.queries import Queries
from inturn.stores.sql.rows import NEVER, Row, parse_settings
from inturn.stores.sql.scheduler_state import INITIAL_STATE, scheduler_from_json

MORE_LANES: Final = 1
"""Lanes read at once beyond those that a claim needs at least: a lane may turn out to be empty."""
DOCUMENT_COLUMNS: Final = 4
"""Columns of a document behind those of its lane in `first_lanes`."""


class LaneLoader:
    """The lanes that a claim has read.

    Of each level it holds all open lanes up to a turn, and up to an age of the head. Other open lanes lie beyond.
    """

    def __init__(self, queries: Queries, queue: QueueState, policy: TurnPolicy) -> None:
        self._queries = queries
        self._queue = queue
        self._policy = policy
        self.is_fair = policy.order is Order.FAIR
        self.deadlines = queue.deadlines
        self.customers: dict[int, CustomerLanes[TableLane]] = {}
        self._loaded_lanes: set[tuple[int, int]] = set()
        """Customers and tracks whose lanes were read, whether or not there was one."""
        self._limits: dict[int, Row] = {}
        self._work: dict[tuple[int, int], Row] = {}
        """The rows of customers' work in queues that were read; nulls where there was none."""
        self._schedulers: dict[int, Scheduler[TableLane]] = {}
        self._states = {FIRST_QUEUE: queue.scheduler_state}
        """The stored states of the queues that were read."""
        self._loaded_until_turn: dict[int, tuple[int, int]] = {}
        """By track; so is the next one."""
        self._loaded_until_age: dict[int, tuple[int, int]] = {}
        self._claim_limit = self._left_to_take = 1

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

    # -- reading lanes --------------------------------------------------------------------------------------------

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
