"""What a transaction that writes lanes reads first and writes last, and the queries that do it."""

import json
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from inturn.model import DEFAULT_QUEUE, RateLimit
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.lane_groups import GroupWrites
from inturn.stores.sql.lane_log import LaneChange
from inturn.stores.sql.lanes import TableLane
from inturn.stores.sql.queries import NewEvent, Queries
from inturn.stores.sql.rows import Row


class QueueState(NamedTuple):
    """The queue's own rows, as a claim finds them."""

    policy: int
    ordered: str
    """The order in which the rows of lanes are sorted."""
    scheduler_state: str
    """That of the first queue. Those of others are read when they are needed."""
    fence: int
    """The last fence given."""
    paused_by: str | None
    has_limits: bool
    """Whether any customer has settings of its own."""
    now: int
    """The store's time."""
    deadlines: Deadlines
    worker_slots: Sequence[tuple[int, int, tuple[str, ...]]]
    """When each worker reported, its slots that take documents, and its queues."""
    paused_workers: frozenset[str]
    queues: Sequence["QueueRow"]
    """All queues, by number."""

    def is_paused(self, worker: str) -> bool:
        """Return whether a worker may claim nothing: the queue is paused, or the worker itself."""
        return self.paused_by is not None or worker in self.paused_workers

    def slots_of(self, queue: str) -> list[tuple[int, int]]:
        """Return when each worker of a queue reported, and its slots that take documents."""
        return [(seen_at, slots) for seen_at, slots, queues in self.worker_slots if queue in queues]


class QueueRow(NamedTuple):
    """A queue, as a claim finds it."""

    number: int
    name: str
    weight: float
    is_paused: bool
    cap: int | None
    rate: RateLimit | None
    tat: int
    """The theoretical arrival time of its rate limit (`inturn.policy.rates`)."""


def queue_rows(rows: Iterable[Row]) -> list[QueueRow]:
    """Return all queues, by number."""
    queues = []
    for number, name, weight, is_paused, cap, documents, per, tat in rows:
        rate = None if documents is None else RateLimit(documents, per)
        queues.append(QueueRow(number, name, weight, bool(is_paused), cap, rate, tat))
    return sorted(queues, key=itemgetter(0))


def worker_states(
    rows: Iterable[tuple[int, int, str | None, str | None]],
) -> tuple[list[tuple[int, int, tuple[str, ...]]], frozenset[str]]:
    """Return `worker_slots` and `paused_workers` from rows of time, slots, if it is paused the name, and queues."""
    slots, paused = [], set()
    for seen_at, open_slots, name, queues in rows:
        served = (DEFAULT_QUEUE,) if queues is None else tuple(json.loads(queues))
        slots.append((seen_at, open_slots if name is None else 0, served))
        if name is not None:
            paused.add(name)
    return slots, frozenset(paused)


class ClaimedRow(NamedTuple):
    """A document that a claim takes."""

    owner: int
    lane: int
    seq: int
    fence: int
    now: int
    until: int
    worker: str
    charged: int | None


class StartedEvent(NamedTuple):
    """The event of one claim: its documents are those with these fences, in this order, of these customers."""

    now: int
    customers: Sequence[str]
    first_fence: int
    queues: Sequence[str] | None
    """As those of `NewEvent`."""


class ClaimWrite(NamedTuple):
    """Everything that a transaction which writes lanes leaves behind."""

    lanes: Sequence[tuple[Row, tuple[int, int], TableLane]]
    """New rows of lanes, the columns that sort them, and the lane, whose old row they replace."""
    spent_lanes: Sequence[TableLane]
    """Lanes whose rows are deleted."""
    groups: GroupWrites
    limits: Sequence[Row]
    work: Sequence[tuple[Row, int | None]]
    """New rows of customers' work, and the version of the row that each replaces."""
    ordered: str
    scheduler_state: str
    """That of the first queue."""
    queue_states: Sequence[tuple[int, str]]
    """Numbers and new states of other queues."""
    deadlines: Deadlines
    fence: int
    has_changes: bool
    """Whether lanes, limits or the scheduler's state changed, or the lane log was applied."""
    claimed: Sequence[ClaimedRow]
    started: Sequence[StartedEvent]
    events: Sequence[tuple[int, NewEvent]]
    """Other events, with their times."""


class LaneQueries(Queries, Protocol):
    """Queries of a transaction that reads lanes."""

    def read_queue(self) -> QueueState:
        """Return the queue's rows."""
        ...

    def read_lane_log(self) -> list[LaneChange]:
        """Return the changes that no claim has applied yet, in order."""
        ...


class ClaimQueries(LaneQueries, Protocol):
    """Queries of a transaction that holds the queue's claim lock."""

    def take_lane_log(self, *, whole: bool = False) -> list[LaneChange]:
        """Take the changes that no claim has applied yet out of the lane log, in order.

        With `whole`, look at every row, not only at those behind the last claim.
        """
        ...

    def logged_lanes(self) -> list[Row]:
        """Return rows of lanes that the lane log names, if the store has read any with it."""
        ...

    def first_lanes(self) -> list[Row]:
        """Return rows for `ClaimWindow.add_first_lanes`, if the store has read any with the queue's rows."""
        ...

    def save_claim(self, claim: ClaimWrite, *, is_last: bool) -> list[Row]:
        """Write all of it; return the rows of the documents that this session has claimed for itself.

        `is_last`: no statement follows in this transaction, so that it may be committed in the same trip.
        """
        ...
