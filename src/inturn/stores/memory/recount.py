"""Compares what the memory store's lines and customers count with the documents themselves."""

from collections import Counter as Tally

from inturn.model import DocumentState
from inturn.store import Discrepancy
from inturn.stores.memory.state import State


def discrepancies(state: State) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    waiting, running = _count_documents(state)
    result = []
    for name, customer in sorted(state.lanes.customers.items()):
        levels = sorted({level for item, level in waiting if item == name} | set(customer.lanes))
        for level in levels:
            line = customer.lanes.get(level)
            stored = 0 if line is None else line.waiting
            if stored != waiting[name, level]:
                result.append(Discrepancy(name, f"waiting in level {level}", stored, waiting[name, level]))
        if customer.running != running[name]:
            result.append(Discrepancy(name, "running", customer.running, running[name]))
    return tuple(result)


def repair(state: State) -> None:
    """Set every count right, and let each line stand on the documents it really has."""
    _, running = _count_documents(state)
    for line in state.lanes.all():
        state.lanes.scheduler.deactivate(line)
        line.rows, line.waiting, line.head = [], 0, None
    for name, customer in state.lanes.customers.items():
        customer.running = running[name]
    for row in sorted(state.documents.values(), key=lambda row: row.seq):
        if row.state is DocumentState.WAITING:
            state.lanes.join(row)


def _count_documents(state: State) -> tuple[Tally[tuple[str, int]], Tally[str]]:
    waiting: Tally[tuple[str, int]] = Tally()
    running: Tally[str] = Tally()
    for row in state.documents.values():
        if row.state is DocumentState.WAITING:
            waiting[row.customer, row.lane_level] += 1
        elif row.state is DocumentState.RUNNING:
            running[row.customer] += 1
    return waiting, running
