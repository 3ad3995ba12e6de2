"""Transactions that hold the claim lock: claims, sweeps, recounts. All writes to lanes are here."""

import json
from collections.abc import Iterable, Mapping, Sequence

from inturn.model import Claim
from inturn.policy.scheduler import track_of
from inturn.store_answers import Discrepancy, SweepResult
from inturn.store_types import WORKER_RETENTION, ClaimRequest, EventKind
from inturn.stores.sql import clock_skew
from inturn.stores.sql.claim_types import ClaimedRow, ClaimQueries, StartedEvent
from inturn.stores.sql.claim_window import ClaimWindow
from inturn.stores.sql.due import MAX_DUE_PER_TRANSACTION, DueWork
from inturn.stores.sql.lane_log import LOG_COLUMNS, LaneChange, lane_track, queue_of
from inturn.stores.sql.queries import NewEvent, QueueCache, other_queues
from inturn.stores.sql.queue_limits import QueueLimits
from inturn.stores.sql.recount import corrections, discrepancies
from inturn.stores.sql.rows import Row, document_from_row
from inturn.stores.sql.transitions import Transitions


class ClaimRun:
    """Claims that are served one after another in one transaction, and written down together.

    Nothing of it is in the tables before `save`. Only the first claim may therefore process what is due: documents that
    a claim before it has taken still look as if they waited.
    """

    def __init__(
        self,
        queries: ClaimQueries,
        cache: QueueCache,
        limit: int = 0,
        changes: Iterable[LaneChange] = (),
        *,
        whole_log: bool = False,
    ) -> None:
        """`limit` is the number of documents that will be claimed at most; `changes` are more changes to lanes."""
        self.queries = queries
        self._cache = cache
        self.queue = queries.read_queue()
        self.policy = cache.policy(queries, self.queue.policy).policy.turns
        self.window = ClaimWindow(queries, self.queue, self.policy)
        self.window.set_claim_limit(limit)
        if not self.window.is_sorted:
            queries.execute("order_lanes", fair=self.window.is_fair)
        self.window.add_first_lanes(queries.first_lanes())
        logged = queries.take_lane_log(whole=whole_log)
        self.window.add_lanes_of_changes(queries.logged_lanes())
        self.window.apply([*logged, *changes])
        self.limits = QueueLimits(queries)
        self._claimed: list[ClaimedRow] = []
        self._started: list[StartedEvent] = []
        self._events: list[tuple[int, NewEvent]] = []
        self._names: dict[int, str] = {}

    def process_due(self, now: int) -> SweepResult:
        """Process what is due."""
        transitions = Transitions(self.queries, self._cache, now)
        swept = DueWork(transitions, self.window).process()
        self.add_events(now, transitions.events)
        return swept

    def add_events(self, now: int, events: Sequence[NewEvent]) -> None:
        """Add events to be written with the claims."""
        self._events += [(now, event) for event in events]

    def serve(self, request: ClaimRequest, now: int) -> Sequence[ClaimedRow] | None:
        """Claim for one request. None, with nothing claimed, if something is due that must be processed before."""
        is_due = self.window.is_due(now)
        if is_due and (self._started or MAX_DUE_PER_TRANSACTION in self.process_due(now)):
            return None
        if self.queue.is_paused(request.worker):
            return []
        queues = [queue for queue in self.queue.queues if queue.name in request.queues and not queue.is_paused]
        for queue in queues:
            self.window.review_shares(queue, now)
            self.limits.add(queue)
        taken = list(self._take(request, {queue.number: queue.weight for queue in queues}, now))
        if taken:
            names = self._cache.customer_names(self.queries, {row.owner for row in taken})
            self._names |= {row.owner: names[row.owner] for row in taken}
            self.window.deadlines.add_deadline("lease", now + request.lease)
            customers = [names[row.owner] for row in taken]
            self._started.append(StartedEvent(now, customers, taken[0].fence, self._queues_of(taken)))
            self._claimed += taken
        return taken

    def _take(self, request: ClaimRequest, weights: Mapping[int, float], now: int) -> Iterable[ClaimedRow]:
        for _ in range(request.limit):
            taken = self.window.take_next(self.limits.open(weights, now), now)
            if taken is None:
                return
            lane, head = taken
            self.limits.started(lane.queue, now)
            self.window.fence += 1
            times = (now, now + request.lease)
            charged = self.window.scheduler(lane.queue).last_charge
            yield ClaimedRow(lane.owner, lane.number, head.seq, self.window.fence, *times, request.worker, charged)

    def _queues_of(self, claimed: Sequence[ClaimedRow]) -> Sequence[str] | None:
        if len(self.queue.queues) == 1:
            return None
        names = {queue.number: queue.name for queue in self.queue.queues}
        return other_queues([names[queue_of(lane_track(row.lane))] for row in claimed])

    def save(self, *, is_last: bool = True) -> list[Row]:
        """Write everything; return the rows of documents claimed. `is_last`: no statement follows."""
        self.queries.execute_many("append_to_lane_log", LOG_COLUMNS, self.window.take_ended_parts())  # for a claim
        self.queries.execute_many("save_tat", ("queue", "tat"), self.limits.changed_tats())
        write = self.window.to_write(self._claimed, self._started, self._events)
        return self.queries.save_claim(write, is_last=is_last)

    def to_claims(self, claimed: Sequence[ClaimedRow], rows: Sequence[Row]) -> tuple[Claim, ...]:
        """Return the claims of one request from the rows that `save` returned."""
        by_seq = {row[2]: row for row in rows}
        return tuple([Claim(document_from_row(by_seq[row.seq], self._names[row.owner]), row.fence) for row in claimed])


def sweep(queries: ClaimQueries, cache: QueueCache, now: int | None) -> SweepResult:
    """Process what is due; delete spent lanes and the reports of silent workers."""
    run = ClaimRun(queries, cache)
    at = run.queue.now if now is None else now
    clock_skew.review(queries, run.window, at)
    swept = run.process_due(at)
    queries.execute_many(
        "forget_spent_lanes",
        ("level", "turn"),
        [
            (track_of(queue.number, level.number), level.virtual_time.turn)
            for queue in run.queue.queues
            for level in run.window.scheduler(queue.number).levels
        ],
        rested_since=at - run.policy.out_of_turn_interval,
    )
    queries.execute("forget_spent_groups")
    queries.execute("forget_silent_workers", first=at - WORKER_RETENTION, last=at + WORKER_RETENTION)
    run.save()
    return swept


def recount(queries: ClaimQueries, cache: QueueCache, *, repair: bool, now: int | None) -> tuple[Discrepancy, ...]:
    """Compare the counters of lanes and limits with the documents, and correct them if asked."""
    run = ClaimRun(queries, cache, whole_log=True)
    run.save(is_last=False)
    differences = discrepancies(queries, cache)
    if differences and repair:
        again = ClaimRun(queries, cache)
        queries.execute("rebuild_derived_tables")
        again.window.apply(corrections(queries, again.window))
        at = again.queue.now if now is None else now
        again.add_events(at, [NewEvent(EventKind.REPAIRED, [None], detail=json.dumps({"counts": len(differences)}))])
        again.save(is_last=False)
    return differences
