"""Compare the counters of the memory store with its documents, and repair them."""

from collections import Counter as Tally

from inturn.model import DocumentState
from inturn.store import Discrepancy
from inturn.stores.memory.state import State


def discrepancies(state: State) -> tuple[Discrepancy, ...]:
    """Return every counter that differs, by customer and level."""
    waiting, running, in_flight = _count_documents(state)
    differing = []
    for name, customer in sorted(state.lanes.customers.items()):
        levels = sorted({level for owner, level in waiting if owner == name} | set(customer.lanes))
        for level in levels:
            lane = customer.lanes.get(level)
            stored = 0 if lane is None else lane.waiting
            if stored != waiting[name, level]:
                differing.append(Discrepancy(name, f"waiting in level {level}", stored, waiting[name, level]))
        if customer.running != running[name]:
            differing.append(Discrepancy(name, "running", customer.running, running[name]))
        if customer.work.in_flight != in_flight[name]:
            differing.append(Discrepancy(name, "in flight", customer.work.in_flight, in_flight[name]))
    return tuple(differing)


def repair(state: State) -> None:
    """Correct every counter and rebuild every lane from the documents."""
    _, running, in_flight = _count_documents(state)
    for lane in state.lanes.all():
        state.lanes.scheduler.deactivate(lane)
        lane.rows, lane.waiting, lane.head, lane.groups = [], 0, None, None
    for name, customer in state.lanes.customers.items():
        customer.running, customer.work.in_flight = running[name], in_flight[name]
    for row in sorted(state.documents.values(), key=lambda row: row.seq):
        if row.state is DocumentState.WAITING:
            state.lanes.join(row)


def _count_documents(state: State) -> tuple[Tally[tuple[str, int]], Tally[str], Tally[str]]:
    waiting: Tally[tuple[str, int]] = Tally()
    running: Tally[str] = Tally()
    in_flight: Tally[str] = Tally()
    for row in state.documents.values():
        if row.state is DocumentState.WAITING:
            waiting[row.customer, row.lane_level] += 1
        elif row.state is DocumentState.RUNNING:
            running[row.customer] += 1
            in_flight[row.customer] += row.charged is not None
    return waiting, running, in_flight
