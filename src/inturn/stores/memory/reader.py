"""Filters, pages and counts of the memory store."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import Final

from inturn.model import Customer, Document, DocumentState, QueueStatus
from inturn.policy import TurnPolicy
from inturn.policy.scheduler import LEVELS
from inturn.search_query import SearchQuery
from inturn.store_answers import (
    ClosedLane,
    Counts,
    CustomerMatch,
    CustomerSummary,
    EndedWork,
    Failure,
    LaneSnapshot,
    Page,
    RunningClaim,
    SchedulerSnapshot,
    SearchResult,
    Throughput,
    WorkLog,
    matching_errors,
)
from inturn.store_types import (
    MAX_ERROR_BEGINNING,
    MAX_FAILURES,
    Attempt,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    EventKind,
    TimeRange,
)
from inturn.stores.memory.lanes import Lanes
from inturn.stores.memory.rows import CustomerRow, QueueRow, Row

ENDED_BY: Final = {DocumentState.DONE: EventKind.FINISHED, DocumentState.FAILED: EventKind.FAILED}
"""How an attempt ended that ended its document. A cancelled document has no work of its own."""


def page_of_documents(
    rows: Iterable[Row], where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort
) -> Page[Document]:
    """Return a page of documents by seq; the cursor is the last seq of the page."""
    sign = 1 if sort is DocumentSort.OLDEST else -1
    seen = None if after is None else sign * int(after)
    matching = sorted(
        (row for row in rows if (seen is None or sign * row.seq > seen) and _matches(row, where)),
        key=lambda row: sign * row.seq,
    )
    more = len(matching) > limit
    return Page(tuple(row.view() for row in matching[:limit]), str(matching[limit - 1].seq) if more else None)


def search(
    rows: Sequence[Row], customers: Iterable[CustomerRow], text: str, limit: int, customer: str | None
) -> SearchResult:
    """Look at every document, batch and customer (S67, S70)."""
    query = SearchQuery.parse(text)
    if not query.text:
        return SearchResult()
    own = sorted((row for row in rows if customer in {None, row.customer}), key=attrgetter("seq"), reverse=True)
    by_id = [row for row in own if query.matches_id(row.id)]
    by_terms = [row for row in own if not query.matches_id(row.id) and query.matches(row.spec.name, row.spec.metadata)]
    batches = sorted({row.spec.batch for row in own if row.spec.batch and query.matches_batch(row.spec.batch)})
    matches = [
        CustomerMatch(row.name, row.settings.display_name)
        for row in customers
        if customer in {None, row.name} and query.is_in(row.name, row.settings.display_name or "")
    ]
    matches.sort(key=lambda match: (not match.name.lower().startswith(query.text), match.name))
    documents = [row.view() for row in by_id + by_terms]
    failed = [row for row in own if row.state is DocumentState.FAILED]
    failed.sort(key=lambda row: (row.finished_at or 0, row.seq), reverse=True)
    errors, are_all = matching_errors([(row.id, row.error) for row in failed[:MAX_FAILURES]], query, limit)
    is_complete = are_all and max(len(documents), len(batches), len(matches)) <= limit and len(failed) <= MAX_FAILURES
    return SearchResult(tuple(documents[:limit]), tuple(batches[:limit]), tuple(matches[:limit]), errors, is_complete)


def count_documents(rows: Iterable[Row], where: DocumentFilter) -> Counts:
    """Count matching documents by state, and waiting ones by the level of their lane."""
    states: Tally[DocumentState] = Tally()
    waiting: Tally[int] = Tally()
    for row in rows:
        if _matches(row, where):
            states[row.state] += 1
            if row.state is DocumentState.WAITING:
                waiting[row.lane_level] += 1
    return Counts(dict(states), dict(waiting))


def failures(rows: Iterable[Row], within: TimeRange, limit: int) -> tuple[Failure, ...]:
    """Return the newest failures of a range of time (S64)."""
    failed = [
        (row.finished_at, row.seq, row)
        for row in rows
        if row.state is DocumentState.FAILED and row.finished_at is not None and within.contains(row.finished_at)
    ]
    return tuple(
        Failure(row.id, row.customer, row.spec.name, at, None if row.error is None else row.error[:MAX_ERROR_BEGINNING])
        for at, _, row in nlargest(limit, failed)
    )


def page_of_customers(
    customers: Iterable[CustomerRow],
    queues: Sequence[str],
    where: CustomerFilter,
    limit: int,
    after: str | None,
) -> Page[Customer]:
    """Return a page of customers by name; the cursor is the last name of the page."""
    customer_rows = sorted(
        (
            customer
            for customer in customers
            if (after is None or customer.name > after) and _customer_matches(customer, where)
        ),
        key=lambda customer_row: customer_row.name,
    )
    more = len(customer_rows) > limit
    return Page(
        tuple(customer_view(customer_row, queues) for customer_row in customer_rows[:limit]),
        customer_rows[limit - 1].name if more else None,
    )


def customer_view(row: CustomerRow, queues: Sequence[str]) -> Customer:
    """Return the immutable view of a customer; `queues` are the names of all queues."""
    count, updated_at = (None, None) if row.counter is None else row.counter
    lanes, at_limit = row.lane_statuses(queues), bool(row.at_slot_limit)
    return Customer(row.name, count, updated_at, row.settings, row.running, lanes, at_slot_limit=at_limit)


def queue_statuses(queues: Mapping[str, QueueRow], rows: Iterable[Row]) -> tuple[QueueStatus, ...]:
    """Return all queues with the numbers of their documents, by number."""
    counts = Tally((row.queue_number, row.state) for row in rows)
    return tuple(
        QueueStatus(
            name,
            queue.settings,
            queue.paused is not None,
            counts[queue.number, DocumentState.WAITING],
            counts[queue.number, DocumentState.RUNNING],
        )
        for name, queue in queues.items()
    )


def customer_summary(row: CustomerRow) -> CustomerSummary:
    """Return what lists of all customers show."""
    count, updated_at = (None, None) if row.counter is None else row.counter
    waiting = sum(lane.waiting for lane in row.lanes.values())
    return CustomerSummary(
        row.name, row.settings.display_name, count, updated_at, row.settings.paused, waiting, row.running
    )


def empty_snapshot(policy: TurnPolicy) -> SchedulerSnapshot:
    """Return the snapshot of a queue that no document has used."""
    return SchedulerSnapshot(policy, 0, 0, (0,) * len(LEVELS), ())


def scheduler_snapshot(lanes: Lanes, queue: int) -> SchedulerSnapshot:
    """Return the scheduler state of a queue and every lane with documents, by level and virtual time."""
    scheduler = lanes.schedulers[queue]
    open_lanes: list[LaneSnapshot] = []
    closed: list[ClosedLane] = []
    for lane in sorted(lanes.all(), key=attrgetter("level", "turn", "stamp")):
        if lane.head is None or lane.queue != queue:
            continue
        if lane.scheduled:
            charge = scheduler.expected_charge(lane.work, lane.head.cost)
            times = (lane.weight, lane.turn, lane.stamp)
            open_lanes.append(LaneSnapshot(lane.customer, lane.level, *times, lane.waiting, lane.head, charge))
        else:
            by_share = lanes.customer(lane.customer).is_open
            closed.append(ClosedLane(lane.customer, lane.level, lane.waiting, lane.head, by_share))
    closed.sort(key=attrgetter("level", "customer"))
    overdue_uses = tuple(level.overdue_uses for level in scheduler.levels)
    counters = (scheduler.dispatched, scheduler.rotation, overdue_uses)
    return SchedulerSnapshot(scheduler.policy, *counters, tuple(open_lanes), tuple(closed))


def throughput(rows: Iterable[Row], since: int) -> Throughput:
    """Count starts and finishes since a time, and running documents (S33)."""
    started = finished = running = 0
    for row in rows:
        runs, ended_at = row.state is DocumentState.RUNNING, row.finished_at
        ended = ended_at is not None and ended_at >= since
        started += (runs or ended) and row.started_at is not None and row.started_at >= since
        finished += ended and row.state in {DocumentState.DONE, DocumentState.FAILED}
        running += runs
    return Throughput(started, finished, running)


def work_between(
    rows: Sequence[Row], attempts: Mapping[str, Mapping[int, Attempt]], weights: Mapping[str, float], span: range
) -> WorkLog:
    """Sum processing times within a span by customer and outcome, and list the running claims (S52, S53)."""
    sums: dict[tuple[str, EventKind], list[int]] = {}
    for row in rows:
        for ended, ended_at, began_at, worked in _ended_attempts(row, attempts.get(row.id, {})):
            if ended_at >= span.start and (ended_at < span.stop or began_at < span.stop):
                is_inside = ended_at < span.stop
                within = max(0, min(began_at + worked, span.stop) - max(began_at, span.start))
                own = sums.setdefault((row.customer, ended), [0, 0, 0])
                for index, figure in enumerate((int(is_inside), worked if is_inside else 0, within)):
                    own[index] += figure
    running = [
        RunningClaim(row.id, row.customer, weights[row.customer], row.worker or "", row.fence or 0, row.started_at or 0)
        for row in rows
        if row.state is DocumentState.RUNNING
    ]
    return WorkLog(
        tuple(EndedWork(name, weights[name], ended, *own) for (name, ended), own in sorted(sums.items())),
        tuple(sorted(running, key=lambda claim: claim.fence)),
    )


def _ended_attempts(row: Row, earlier: Mapping[int, Attempt]) -> Iterator[tuple[EventKind, int, int, int]]:
    """Yield outcome, end, begin and processing time of attempts with a known processing time."""
    ended = ENDED_BY.get(row.state)
    if ended and row.finished_at is not None and row.began_at is not None and row.worked is not None:
        yield ended, row.finished_at, row.began_at, row.worked
    for attempt in earlier.values():
        if attempt.began_at is not None and attempt.worked is not None:
            yield attempt.ended, attempt.ended_at, attempt.began_at, attempt.worked


def _matches(row: Row, where: DocumentFilter) -> bool:
    return (
        (where.states is None or row.state in where.states)
        and (where.customer is None or row.customer == where.customer)
        and (where.level is None or row.level == where.level)
        and (where.batch is None or row.spec.batch == where.batch)
        and (where.group is None or row.spec.group == where.group)
        and (where.queue is None or row.queue == where.queue)
        and (where.parent is None or row.parent == where.parent)
        and (where.parts is None or (row.parent is not None) is where.parts)
        and (where.text is None or where.text.lower() in row.spec.name.lower())
        and (where.submitted is None or where.submitted.contains(row.submitted_at))
        and (where.ended is None or (row.finished_at is not None and where.ended.contains(row.finished_at)))
    )


def _customer_matches(row: CustomerRow, where: CustomerFilter) -> bool:
    return (
        (where.text is None or where.text.lower() in row.name.lower())
        and (where.waiting is None or where.waiting == any(lane.waiting for lane in row.lanes.values()))
        and (where.paused is None or where.paused == row.settings.paused)
    )
