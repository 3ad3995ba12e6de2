"""Compare the counters of the memory store with its documents, and repair them."""

from collections import Counter as Tally

from inturn.model import DocumentState
from inturn.store_answers import Discrepancy
from inturn.store_types import STUCK, describe_queue, describe_track
from inturn.stores.memory.state import State


def discrepancies(state: State) -> tuple[Discrepancy, ...]:
    """Return every counter that differs, by customer and level."""
    waiting, running, in_flight = _count_documents(state)
    names, differing = tuple(state.queues), []
    for name, customer in sorted(state.lanes.customers.items()):
        for track in sorted({track for owner, track in waiting if owner == name} | set(customer.lanes)):
            lane = customer.lanes.get(track)
            stored = 0 if lane is None else lane.waiting
            if stored != waiting[name, track]:
                what = f"waiting in {describe_track(track, names)}"
                differing.append(Discrepancy(name, what, stored, waiting[name, track]))
        if customer.running != running[name]:
            differing.append(Discrepancy(name, "running", customer.running, running[name]))
        for queue, work in sorted(customer.work.items()):
            if work.in_flight != in_flight[name, queue]:
                what = f"in flight{describe_queue(queue, names)}"
                differing.append(Discrepancy(name, what, work.in_flight, in_flight[name, queue]))
    stuck = Tally(row.customer for row in state.steps.stuck(state.documents))
    differing += [Discrepancy(name, STUCK, n, 0) for name, n in sorted(stuck.items())]
    return tuple(differing)


def repair(state: State) -> None:
    """Correct every counter and rebuild every lane from the documents."""
    state.steps.restore(state.documents)
    _, running, in_flight = _count_documents(state)
    for lane in state.lanes.all():
        state.lanes.schedulers[lane.queue].deactivate(lane)
        lane.rows, lane.waiting, lane.head, lane.groups = [], 0, None, None
    for name, customer in state.lanes.customers.items():
        customer.running = running[name]
        for queue, work in customer.work.items():
            work.in_flight = in_flight[name, queue]
    for row in sorted(state.documents.values(), key=lambda row: row.seq):
        if row.state is DocumentState.WAITING:
            state.lanes.join(row)


def _count_documents(state: State) -> tuple[Tally[tuple[str, int]], Tally[str], Tally[tuple[str, int]]]:
    waiting: Tally[tuple[str, int]] = Tally()
    running: Tally[str] = Tally()
    in_flight: Tally[tuple[str, int]] = Tally()
    for row in state.documents.values():
        if row.state is DocumentState.WAITING:
            waiting[row.customer, row.track] += 1
        elif row.state is DocumentState.RUNNING:
            running[row.customer] += 1
            in_flight[row.customer, row.queue_number] += row.charged is not None
    return waiting, running, in_flight
