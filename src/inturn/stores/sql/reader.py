"""Read a queue: each call one snapshot."""

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from inturn.errors import NotFoundError
from inturn.model import Customer, Document, DocumentState, LaneStatus, QueueStatus, ResultFile
from inturn.policy import Order, rates
from inturn.policy.forecasts import ForecastLog
from inturn.policy.scheduler import FIRST_QUEUE, LEVELS, Head, track_of
from inturn.policy.slot_share import SlotShares
from inturn.store_answers import (
    ClosedLane,
    Counts,
    CustomerSummary,
    EndedWork,
    Failure,
    LaneSnapshot,
    MaintenanceRecord,
    Page,
    RunningClaim,
    SchedulerSnapshot,
    SearchResult,
    Throughput,
    WorkLog,
)
from inturn.store_types import (
    ALL_TIME,
    MAX_ERROR_BEGINNING,
    Attempt,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    EventKind,
    Operator,
    PartResult,
    PolicyVersion,
    StepResult,
    TimeRange,
)
from inturn.stores.sql.claim_types import LaneQueries
from inturn.stores.sql.claim_window import ClaimWindow
from inturn.stores.sql.lane_log import lane_track, level_of, queue_of
from inturn.stores.sql.operations import customer_id, read_forecast_log, require_queue
from inturn.stores.sql.queries import QueueCache, scalar
from inturn.stores.sql.rows import (
    NEVER,
    STATES,
    Row,
    attempt_from_row,
    document_from_row,
    event_from_row,
    normalize_id,
    parse_settings,
    policy_from_row,
    queue_settings_from_row,
    text_id,
)
from inturn.stores.sql.scheduler_state import INITIAL_STATE, scheduler_from_json
from inturn.stores.sql.search import Search, seqs_submitted_between
from inturn.worker_report import Worker, WorkerPause, report_from_json

LIST_QUERIES: Final = {
    DocumentSort.NEWEST: ("newest_documents", "newest_documents_of", "newest_grouped_documents_of", NEVER),
    DocumentSort.OLDEST: ("oldest_documents", "oldest_documents_of", "oldest_grouped_documents_of", 0),
}
"""The query of a list by its sort, that of one customer's lane, that of its documents with a group, and the seq before
which it begins."""


class QueueReader:
    """Read queries of one transaction."""

    def __init__(self, queries: LaneQueries, cache: QueueCache) -> None:
        self.queries = queries
        self._cache = cache

    # -- documents ------------------------------------------------------------------------------------------------

    def document(self, id_: str) -> Document:
        return document_from_row(self._row_of(id_, "document_by_id"))

    def result(self, id_: str) -> str | None:
        text: str | None = self._row_of(id_, "result")[1]
        return text

    def files(self, id_: str) -> tuple[ResultFile, ...]:
        self.document(id_)
        return tuple(ResultFile._make(row) for row in self.queries.fetch_all("files", id=normalize_id(id_)))

    def attempts(self, id_: str) -> tuple[Attempt, ...]:
        self.document(id_)
        return tuple(attempt_from_row(row) for row in self.queries.fetch_all("attempts", id=normalize_id(id_)))

    def results(self, id_: str) -> tuple[StepResult, ...]:
        document, files = self.document(id_), self._files_by_step(id_)
        rows = self.queries.fetch_all("step_results", id=normalize_id(id_))
        if document.state is DocumentState.DONE:
            rows.append((document.step, document.queue, self.result(id_)))
        return tuple(StepResult(step, queue, text, tuple(files.get(step, ()))) for step, queue, text in rows)

    def _files_by_step(self, id_: str) -> dict[int, list[ResultFile]]:
        files: dict[int, list[ResultFile]] = {}
        for step, *file in self.queries.fetch_all("files_of_steps", id=normalize_id(id_)):
            files.setdefault(step, []).append(ResultFile._make(file))
        return files

    def parts(self, id_: str, limit: int, after: int) -> tuple[PartResult, ...]:
        self.document(id_)
        rows = self.queries.fetch_all("parts", id=normalize_id(id_), limit=limit, after=after)
        files: dict[int, list[ResultFile]] = {}
        for seq, *file in self.queries.fetch_many("last_files", ("seq",), [(row[0],) for row in rows]) if rows else ():
            files.setdefault(seq, []).append(ResultFile._make(file))
        return tuple(
            PartResult(text_id(part_id), part, name, STATES[state], result, error, tuple(sorted(files.get(seq, ()))))
            for seq, part_id, part, name, state, result, error in rows
        )

    def ahead_in_lane(self, id_: str) -> int:
        self.document(id_)
        ahead = int(scalar(self.queries, "ahead", id=normalize_id(id_)))
        owner, lane, seq, has_groups = self.queries.fetch_one("lane_of", id=normalize_id(id_)) or (0, 0, 0, False)
        if not has_groups:
            return ahead
        if self.policy().policy.turns.order is not Order.FAIR:
            return int(scalar(self.queries, "waiting_before", customer=owner, level=lane_track(lane), seq=seq))
        window = self._window()
        return window.ahead_in_groups(owner, lane, ahead)

    def _window(self) -> ClaimWindow:
        """All lanes that the lane log names, as a claim would find them now: nothing is written."""
        window = ClaimWindow(self.queries, self.queries.read_queue(), self.policy().policy.turns)
        window.apply(self.queries.read_lane_log())
        return window

    def _row_of(self, id_: str, query: str) -> Row:
        row = self.queries.fetch_one(query, id=normalize_id(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        return row

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        known = self.queries.fetch_many("known_blobs", ("blob",), [(blob,) for blob in blobs]) if blobs else ()
        return frozenset(blobs) - {blob for (blob,) in known}

    def documents(self, where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort) -> Page[Document]:
        query, query_of, grouped_query_of, begin = LIST_QUERIES[sort]
        values = {**self._filter_params(where), "after": begin if after is None else int(after), "limit": limit + 1}
        if sort is DocumentSort.NEWEST:
            values["after"] = min(values["after"], values["last"] + 1)
        else:
            values["after"] = max(values["after"], values["first"] - 1)
        if where.customer is None:
            rows = self.queries.fetch_all(query, **values)
        else:
            rows = self.queries.fetch_many(query_of, ("lane",), [(lane,) for lane in LEVELS], **values)
            rows += self.queries.fetch_all(grouped_query_of, **values)
            rows.sort(key=itemgetter(2), reverse=sort is DocumentSort.NEWEST)
        shown = tuple(document_from_row(row) for row in rows[:limit])
        return Page(shown, str(shown[-1].seq) if len(rows) > limit else None)

    def counts(self, where: DocumentFilter) -> Counts:
        states: dict[Any, int] = {}
        waiting: dict[int, int] = {}
        for state, lane, n in self.queries.fetch_all("counts", **self._filter_params(where)):
            states[STATES[state]] = states.get(STATES[state], 0) + n
            if lane is not None:
                waiting[lane] = waiting.get(lane, 0) + n
        return Counts(states, waiting)

    def _filter_params(self, where: DocumentFilter) -> dict[str, Any]:
        owner = None
        if where.customer is not None:
            row = self.queries.fetch_one("customer", name=where.customer)
            owner = -1 if row is None else row[0]
        submitted, ended = where.submitted or ALL_TIME, where.ended or ALL_TIME
        first, last = self._seqs_of(where)
        return {
            "first": first,
            "last": last,
            "submitted_since": submitted.since or 0,
            "submitted_until": NEVER if submitted.until is None else submitted.until,
            "ended_since": None if where.ended is None else ended.since or 0,
            "ended_until": NEVER if ended.until is None else ended.until,
            "states": None if where.states is None else self.queries.array(sorted(where.states)),
            "running": where.states == frozenset({DocumentState.RUNNING}),
            "owner": owner,
            "level": where.level,
            "batch": where.batch,
            "group_name": where.group,
            "queue": where.queue,
            "parent": None if where.parent is None else normalize_id(where.parent),
            "parts": where.parts,
            "text": None if where.text is None else where.text.lower(),
        }

    def failures(self, within: TimeRange, limit: int) -> tuple[Failure, ...]:
        values = {"since": within.since or 0, "until": NEVER if within.until is None else within.until}
        rows = self.queries.fetch_all("failures", **values, limit=limit, characters=MAX_ERROR_BEGINNING)
        return tuple(Failure(text_id(id_), *rest) for id_, *rest in rows)

    def _seqs_of(self, where: DocumentFilter) -> tuple[int, int]:
        """Return the first and the last seq that a range of times leaves: a list reads no other documents."""
        lowest, highest = 0, NEVER - 1
        if where.submitted is not None:
            since, until = where.submitted
            first, last = seqs_submitted_between(self.queries, since or 0, NEVER if until is None else until)
            lowest, highest = first, highest if last is None else last
        if where.ended is not None:
            since, until = where.ended
            values = {"since": since or 0, "until": NEVER if until is None else until}
            first, last = self.queries.fetch_one("ended_between", **values) or (None, None)
            if first is None:
                return 1, 0
            lowest, highest = max(lowest, first), min(highest, last)
        return lowest, highest

    def search(self, text: str, limit: int, customer: str | None) -> SearchResult:
        return Search(self.queries, text, customer, limit).run()

    def throughput(self, since: int) -> Throughput:
        return Throughput._make(self.queries.fetch_one("throughput", since=since) or (0, 0, 0))

    def work_between(self, since: int, until: int) -> WorkLog:
        ended = self.queries.fetch_all("work_between", since=since, until=until)
        running = self.queries.fetch_all("running_claims")
        return WorkLog(
            tuple(
                EndedWork(customer, parse_settings(settings).weight, EventKind(kind), attempts, worked, within)
                for customer, settings, kind, attempts, worked, within in ended
            ),
            tuple(
                RunningClaim(text_id(id_), customer, parse_settings(settings).weight, worker, fence, started_at)
                for id_, customer, settings, worker, fence, started_at in running
            ),
        )

    def stored_bytes(self, customer: str) -> int:
        return int(scalar(self.queries, "stored_bytes", customer=customer))

    def prunable(self, before: int, customer: str | None, up_to: int) -> int:
        if customer is None:
            return int(scalar(self.queries, "count_ended_before", before=before, up_to=up_to))
        owner = customer_id(self.queries, customer)
        return int(scalar(self.queries, "count_ended_before_of", customer=owner, before=before, up_to=up_to))

    # -- customers ------------------------------------------------------------------------------------------------

    def customer(self, name: str) -> Customer:
        customers = self._customers(CustomerFilter(), 1, None, name)
        if not customers:
            raise NotFoundError(f"there is no customer {name!r}")
        return customers[0]

    def customers(self, where: CustomerFilter, limit: int, after: str | None) -> Page[Customer]:
        customers = self._customers(where, limit + 1, after)
        return Page(tuple(customers[:limit]), customers[limit - 1].name if len(customers) > limit else None)

    def _customers(
        self, where: CustomerFilter, limit: int, after: str | None, name: str | None = None
    ) -> list[Customer]:
        rows = self.queries.fetch_all(
            "customers",
            name=name,
            after=after,
            text=None if where.text is None else where.text.lower(),
            paused=where.paused,
            waiting=where.waiting,
            limit=limit,
        )
        if not rows:
            return []
        owners = [(row[0],) for row in rows]
        shares = [(queue, share.at_limit) for queue, share in enumerate(self._shares())]
        names = [queue.name for queue in self.queries.read_queue().queues]
        running: dict[int, int] = dict(self.queries.fetch_all("running_counts"))
        limits = {row[0]: row for row in self.queries.fetch_many("limits_of", ("customer",), owners)}
        waiting: dict[int, list[tuple[int, int]]] = {}
        for owner, level, n in sorted(self.queries.fetch_many("waiting_by_lane", ("customer",), owners)):
            waiting.setdefault(owner, []).append((level, n))
        return [
            _customer_from_row(
                row,
                running.get(row[0], 0),
                limits.get(row[0]),
                [(level_of(track), n, queue_of(track)) for track, n in waiting.get(row[0], [])],
                {queue for queue, at_limit in shares if at_limit.get(str(row[0])) is not None},
                names,
            )
            for row in rows
        ]

    def customer_summaries(self) -> tuple[CustomerSummary, ...]:
        running: dict[int, int] = dict(self.queries.fetch_all("running_counts"))
        summaries = []
        for owner, name, count, updated_at, text, waiting in self.queries.fetch_all("customer_summaries"):
            display_name, paused = None, False
            if text is not None:
                settings = parse_settings(text)
                display_name, paused = settings.display_name, settings.paused
            values = (name, display_name, count, updated_at, paused, int(waiting), running.get(owner, 0))
            summaries.append(CustomerSummary._make(values))
        return tuple(summaries)

    # -- events, policy, workers ----------------------------------------------------------------------------------

    def events(self, after: int, limit: int) -> tuple[Event, ...]:
        return tuple(event_from_row(row) for row in self.queries.fetch_all("events", after=after, limit=limit))

    def last_event(self) -> int:
        return int(scalar(self.queries, "last_event"))

    def operator_events(
        self, limit: int, before: int | None, customer: str | None, within: TimeRange
    ) -> tuple[Event, ...]:
        values: dict[str, Any] = {
            "before": NEVER if before is None else before,
            "since": within.since or 0,
            "until": NEVER if within.until is None else within.until,
            "limit": limit,
        }
        if customer is None:
            rows = self.queries.fetch_all("operator_events", **values)
        else:
            rows = self.queries.fetch_all("operator_events_of", **values, customer=customer)
        return tuple(event_from_row(row) for row in rows)

    def paused(self, queue: str | None) -> Operator | None:
        if queue is None:
            row = self.queries.fetch_one("paused")
            return None if row is None else Operator(*row)
        by, why = require_queue(self.queries, queue)[2:4]
        return None if by is None else Operator(by, why)

    def queues(self) -> tuple[QueueStatus, ...]:
        waiting: dict[int, int] = {}
        for track, n in self.queries.fetch_all("waiting_by_track"):
            waiting[queue_of(track)] = waiting.get(queue_of(track), 0) + int(n)
        running: dict[str, int] = dict(self.queries.fetch_all("running_by_queue"))
        return tuple(
            QueueStatus(
                name, queue_settings_from_row(settings), by is not None, waiting.get(number, 0), running.get(name, 0)
            )
            for number, name, by, _, *settings in self.queries.fetch_all("named_queues")
        )

    def policy(self) -> PolicyVersion:
        return self._cache.policy(self.queries, scalar(self.queries, "policy_number"))

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(policy_from_row(row) for row in self.queries.fetch_all("policies"))

    def workers(self) -> tuple[Worker, ...]:
        return tuple(
            Worker(report_from_json(*texts), seen_at, None if by is None else WorkerPause(by, why, at))
            for seen_at, by, why, at, *texts in self.queries.fetch_all("workers")
        )

    def maintenance(self) -> MaintenanceRecord | None:
        (text,) = self.queries.fetch_one("maintenance") or (None,)
        return None if text is None else MaintenanceRecord.from_json(text)

    def forecast_log(self) -> ForecastLog:
        return read_forecast_log(self.queries)

    # -- lanes ----------------------------------------------------------------------------------------------------

    def scheduler_snapshot(self, name: str) -> SchedulerSnapshot:
        """The lanes with the lane log applied in memory: nothing is written, and no lock is waited for."""
        window = self._window()
        queue = next((queue.number for queue in window.queues if queue.name == name), None)
        if queue is None:
            return SchedulerSnapshot(self.policy().policy.turns, 0, 0, (0,) * len(LEVELS), ())
        changed = {(lane.owner, lane.track): lane for lane in window.loaded_lanes() if lane.queue == queue}
        scheduler, first = window.scheduler(queue), track_of(queue, 0)
        rows = [
            (row[0], level_of(row[1]), *row[2:10], window.work_of(row[0], queue, row[10]))
            for row in self.queries.fetch_all("waiting_lanes", first=first, last=first + len(LEVELS) - 1)
            if row[:2] not in changed
        ]
        rows += [
            (
                lane.owner, lane.level, lane.weight, lane.turn, lane.stamp, lane.waiting, *lane.head, lane.scheduled,
                lane.work,
            )
            for lane in changed.values()
            if lane.head is not None
        ]  # fmt: skip
        rows.sort(key=itemgetter(1, 3, 4))
        names = self._cache.customer_names(self.queries, dict.fromkeys(row[0] for row in rows))
        open_lanes: list[LaneSnapshot] = []
        closed: list[ClosedLane] = []
        at_limit = scheduler.shares.at_limit
        for owner, level, weight, turn, stamp, waiting, *head, is_open, work in rows:
            if is_open:
                charge = scheduler.expected_charge(work, head[2])
                open_lanes.append(LaneSnapshot(names[owner], level, weight, turn, stamp, waiting, Head(*head), charge))
            else:
                by_share = str(owner) in at_limit and window.customer(owner).is_open
                closed.append(ClosedLane(names[owner], level, waiting, Head(*head), by_share))
        closed.sort(key=attrgetter("level", "customer"))
        overdue_uses = tuple(level.overdue_uses for level in scheduler.levels)
        counters = (scheduler.dispatched, scheduler.rotation, overdue_uses)
        return SchedulerSnapshot(scheduler.policy, *counters, tuple(open_lanes), tuple(closed))

    def next_due(self, now: Callable[[], int]) -> int | None:
        times = [*(self.queries.fetch_one("deadlines") or ()), *(shares.opens_at() for shares in self._shares())]
        queues = self.queries.read_queue().queues
        openings = [rates.opens_at(queue.rate, queue.tat) for queue in queues if queue.rate is not None]
        if openings:
            at = now()
            times += [opens_at for opens_at in openings if opens_at > at]
        return min((at for at in times if at is not None), default=None)

    def _shares(self) -> list[SlotShares]:
        """Shares of the slots of each queue, by number."""
        turns, state = self.policy().policy.turns, self.queries.read_queue()
        states = {FIRST_QUEUE: state.scheduler_state, **dict(self.queries.fetch_all("queue_schedulers"))}
        return [scheduler_from_json(turns, states.get(queue.number, INITIAL_STATE)).shares for queue in state.queues]


def _customer_from_row(
    row: Row,
    running: int,
    limits: Row | None,
    waiting: list[tuple[int, int, int]],
    at_slot_limit: set[int],
    queues: Sequence[str],
) -> Customer:
    _, name, count, updated_at, text = row
    settings = parse_settings(text)
    is_rated = limits is not None and limits[4] is not None and parse_settings(limits[1]).rate == settings.rate
    is_below_cap = settings.cap is None or running < settings.cap
    is_open = not settings.paused and not is_rated and is_below_cap
    lanes = tuple(
        LaneStatus(level, n, is_open and queue not in at_slot_limit, queues[queue]) for level, n, queue in waiting
    )
    return Customer(name, count, updated_at, settings, running, lanes, at_slot_limit=bool(at_slot_limit))
