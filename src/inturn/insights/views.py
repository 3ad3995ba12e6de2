"""What screens show of a queue, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from inturn.model import Customer, Document, DocumentState, Worker
from inturn.policy.position import Ahead
from inturn.store import Operator, PolicyVersion, Throughput


class ClosedBy(StrEnum):
    """What keeps a line from being served."""

    QUEUE_PAUSED = "queue_paused"
    CUSTOMER_PAUSED = "customer_paused"
    CAP = "cap"
    RATE = "rate"


class NoPlace(StrEnum):
    """Why a document has no place: its line is closed, it is not waiting, or it moved while we looked."""

    CLOSED = "closed"
    DELAYED = "delayed"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    MOVED = "moved"


class NoStart(StrEnum):
    """Why nobody can say when a document will start."""

    CLOSED = "closed"
    NOT_WAITING = "not_waiting"
    NO_WORKER = "no_worker"
    TOO_FEW_FINISHES = "too_few_finishes"


class Span(NamedTuple):
    """From a time to a time, in microseconds."""

    earliest: int
    latest: int


class Bounds(NamedTuple):
    """The thresholds around a level: counts `below` the one (None: level 1) and not below the other (None: last)."""

    below: int | None
    not_below: int | None


class CounterStatus(NamedTuple):
    """A customer's counter, and the time after which its next check starts at 0 again."""

    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int
    resets_after: int


@dataclass(frozen=True, slots=True)
class Why:
    """Why a document is where it is. `before` and `start` are None with the reason beside them."""

    document: Document
    at: int
    bounds: Bounds | None
    """None when no version of the policy gives this level for this count."""
    counter: CounterStatus | None
    closed_by: tuple[ClosedBy, ...]
    ahead: Ahead | None
    no_place: NoPlace | None
    start: Span | None
    no_start: NoStart | None

    @property
    def place(self) -> int | None:
        """How many would start before it; 0 is next."""
        return None if self.ahead is None else self.ahead.place


@dataclass(frozen=True, slots=True)
class Overview:
    """The queue at a glance."""

    at: int
    states: Mapping[DocumentState, int]
    waiting: Mapping[int, int]
    """By the level of the line; 0 holds what operators expedited."""
    waiting_closed: int
    """Of the waiting documents, those in closed lines."""
    customers: int
    """Customers with an open line."""
    oldest_wait: int | None
    """Microseconds that the longest waiting head of an open line has waited."""
    throughput: Throughput
    """Over the last ten minutes."""
    paused: Operator | None
    policy: PolicyVersion


class BusyCustomer(NamedTuple):
    """A customer with documents waiting here or elsewhere, and the level that its next document would get."""

    customer: Customer
    level: int


class AtWork(NamedTuple):
    """A worker, and the documents that its slots work on."""

    worker: Worker
    documents: tuple[Document, ...]
    claimed_ahead: int = 0
    """Documents that it holds besides."""


@dataclass(frozen=True, slots=True)
class LiveView:
    """The queue as it goes on, for screens that look every second."""

    at: int
    states: Mapping[DocumentState, int]
    waiting: Mapping[int, int]
    """By the level of the line; 0 holds what operators expedited."""
    oldest_waits: Mapping[int, int]
    """By level: microseconds that the longest waiting head of an open line has waited."""
    per_second: float
    """Documents finished, over the last seconds, or the last minute if those were few."""
    busiest: tuple[BusyCustomer, ...]
    """The customers with the most waiting, then those checked most of late for queues of their own."""
    at_work: tuple[AtWork, ...]
    paused: Operator | None


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch is."""

    states: Mapping[DocumentState, int]
    customers: Mapping[str, Mapping[DocumentState, int]]
    """Those with the most documents first."""
    first_submitted: int
    last_ended: int | None


class LaneGroup(NamedTuple):
    """Customers with open lines of some levels, and the documents in these lines."""

    customers: int
    waiting: int


@dataclass(frozen=True, slots=True)
class LiveOverview:
    """The queue at one moment, for a screen that shows all of it."""

    live: LiveView
    policy: PolicyVersion
    customers: int
    """Customers with an open line."""
    due: Mapping[str, float]
    """By customer with an open line: the part of all starts that its weight gives it."""
    overdue: tuple[int, ...]
    """Levels with a head that has waited so long that the overdue slot serves them."""
    overdue_uses: int
    """Starts that the overdue slot has given since the queue began."""
    last_level: int
    quiet: LaneGroup
    """Lines before the last level: of customers that have not sent much without a break."""
    busy: LaneGroup
    """Lines of the last level."""
