"""Filters, pages and counts of the memory store."""

from collections import Counter as Tally
from collections.abc import Iterable

from inturn.model import Customer, Document, DocumentState
from inturn.store import (
    Counts,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    LaneSnapshot,
    Page,
    SchedulerSnapshot,
    Throughput,
)
from inturn.stores.memory.lanes import Lanes
from inturn.stores.memory.rows import CustomerRow, Row


def page_of_documents(
    rows: Iterable[Row], where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort
) -> Page[Document]:
    """By seq; the cursor is the last one shown."""
    way = 1 if sort is DocumentSort.OLDEST else -1
    seen = None if after is None else way * int(after)
    result = sorted(
        (row for row in rows if (seen is None or way * row.seq > seen) and _matches(row, where)),
        key=lambda row: way * row.seq,
    )
    more = len(result) > limit
    return Page(tuple(row.view() for row in result[:limit]), str(result[limit - 1].seq) if more else None)


def count_documents(rows: Iterable[Row], where: DocumentFilter) -> Counts:
    """How many documents match, by state and, waiting, by level."""
    states: Tally[DocumentState] = Tally()
    waiting: Tally[int] = Tally()
    for row in rows:
        if _matches(row, where):
            states[row.state] += 1
            if row.state is DocumentState.WAITING:
                waiting[row.lane_level] += 1
    return Counts(dict(states), dict(waiting))


def page_of_customers(
    customers: Iterable[CustomerRow],
    where: CustomerFilter,
    limit: int,
    after: str | None,
) -> Page[Customer]:
    """By name; the cursor is the last name shown."""
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
        tuple(customer_view(customer_row) for customer_row in customer_rows[:limit]),
        customer_rows[limit - 1].name if more else None,
    )


def customer_view(row: CustomerRow) -> Customer:
    """A customer as callers see it."""
    count, updated_at = (None, None) if row.counter is None else row.counter
    return Customer(row.name, count, updated_at, row.settings, row.running, row.lane_statuses())


def scheduler_snapshot(lanes: Lanes) -> SchedulerSnapshot:
    """Every open line, in the order of levels and turns."""
    turns = lanes.scheduler
    standing = [
        LaneSnapshot(line.customer, line.level, line.weight, line.turn, line.stamp, line.waiting, line.head)
        for line in lanes.all()
        if line.scheduled and line.head is not None
    ]
    standing.sort(key=lambda line: (line.level, line.turn, line.stamp))
    uses = tuple(level.overdue_uses for level in turns.levels)
    return SchedulerSnapshot(turns.policy, turns.dispatched, turns.rotation, uses, tuple(standing))


def throughput(rows: Iterable[Row], since: int) -> Throughput:
    """Starts and ends since a time, and what runs."""
    started = finished = running = 0
    for row in rows:
        runs, ended_at = row.state is DocumentState.RUNNING, row.finished_at
        ended = ended_at is not None and ended_at >= since
        started += (runs or ended) and row.started_at is not None and row.started_at >= since
        finished += ended and row.state in {DocumentState.DONE, DocumentState.FAILED}
        running += runs
    return Throughput(started, finished, running)


def _matches(row: Row, where: DocumentFilter) -> bool:
    return (
        (where.states is None or row.state in where.states)
        and (where.customer is None or row.customer == where.customer)
        and (where.level is None or row.level == where.level)
        and (where.batch is None or row.spec.batch == where.batch)
        and (where.text is None or where.text.lower() in row.spec.name.lower())
    )


def _customer_matches(row: CustomerRow, where: CustomerFilter) -> bool:
    return (
        (where.text is None or where.text.lower() in row.name.lower())
        and (where.waiting is None or where.waiting == any(line.waiting for line in row.lanes.values()))
        and (where.paused is None or where.paused == row.settings.paused)
    )
