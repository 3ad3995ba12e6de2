"""Value types that screens show."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from inturn.model import Customer, Document, DocumentState
from inturn.policy.forecasts import Forecast, HeldCounts
from inturn.policy.position import Ahead
from inturn.store_answers import Throughput
from inturn.store_types import Operator, PolicyVersion
from inturn.worker_report import Worker


class ClosedBy(StrEnum):
    """What closes a lane."""

    QUEUE_PAUSED = "queue_paused"
    """All queues are paused."""
    OWN_QUEUE_PAUSED = "own_queue_paused"
    """The document's own queue is paused."""
    CUSTOMER_PAUSED = "customer_paused"
    CAP = "cap"
    RATE = "rate"
    SHARE = "share"
    """The customer holds its share of the slots while other customers come (`inturn.policy.slot_share`)."""
    OWN_QUEUE_CAP = "own_queue_cap"
    """As many documents of the document's queue run as may run at once."""
    OWN_QUEUE_RATE = "own_queue_rate"
    """As many documents of the document's queue were started lately as its rate limit allows."""


class NoPlace(StrEnum):
    """Why a document has no place: its lane is closed, it is not waiting, or it changed during the read."""

    CLOSED = "closed"
    DELAYED = "delayed"
    RUNNING = "running"
    SPLIT = "split"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    MOVED = "moved"


class NoStart(StrEnum):
    """Why there is no forecast of a start."""

    CLOSED = "closed"
    NOT_WAITING = "not_waiting"
    NO_WORKER = "no_worker"
    QUEUE_UNSERVED = "queue_unserved"
    """Workers are there, but none of them takes documents of its queue."""
    BY_HAND = "by_hand"
    """People serve its queue."""
    TOO_FEW_FINISHES = "too_few_finishes"


class Span(NamedTuple):
    """A time range."""

    earliest: int
    latest: int


class Bounds(NamedTuple):
    """The thresholds of a level: counts below `below` (None: level 1) and at least `not_below` (None: last level)."""

    below: int | None
    not_below: int | None


class CounterStatus(NamedTuple):
    """A customer's counter, and the time after which the next check resets it to 0."""

    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int
    resets_after: int


class SlotUse(NamedTuple):
    """The documents of one queue that a customer with its share runs, and the live slots of workers that serve it."""

    running: int
    slots: int


@dataclass(frozen=True, slots=True)
class Why:
    """Why a document waits. Where `ahead` or `start` is None, `no_place` or `no_start` has the reason."""

    document: Document
    at: int
    bounds: Bounds | None
    """None if no version of the policy gives this level for this count."""
    counter: CounterStatus | None
    closed_by: tuple[ClosedBy, ...]
    ahead: Ahead | None
    no_place: NoPlace | None
    start: Span | None
    no_start: NoStart | None
    forecast: Forecast | None = None
    """What `start` was derived from."""
    held: HeldCounts | None = None
    """How many of the starts of the last day were within their span; None without `start`."""
    slot_use: SlotUse | None = None
    """Set while the share closes the lane, if workers are alive."""
    unended_parts: int | None = None
    """How many of its parts have not ended; None unless it is split."""

    @property
    def place(self) -> int | None:
        """How many documents would start before it; 0 is next."""
        return None if self.ahead is None else self.ahead.place


@dataclass(frozen=True, slots=True)
class Overview:
    """All queues at a glance."""

    at: int
    states: Mapping[DocumentState, int]
    """Parts count as documents; a document that waits for its parts is `split`."""
    waiting: Mapping[int, int]
    """By the level of the lane; level 0 has the expedited documents."""
    waiting_closed: int
    """Waiting documents in closed lanes."""
    customers: int
    """Customers with an open lane."""
    oldest_wait: int | None
    """Wait of the oldest head of an open lane, in microseconds."""
    throughput: Throughput
    """Over the last ten minutes."""
    paused: Operator | None
    policy: PolicyVersion


class BusyCustomer(NamedTuple):
    """A customer with documents waiting here or in another queue, and the level of its next document."""

    customer: Customer
    level: int


class AtWork(NamedTuple):
    """A worker, and the documents that its slots process."""

    worker: Worker
    documents: tuple[Document, ...]
    claimed_ahead: int = 0
    """Prefetched documents: claimed but not begun."""


@dataclass(frozen=True, slots=True)
class LiveView:
    """The state of all queues, for screens that refresh every second."""

    at: int
    states: Mapping[DocumentState, int]
    waiting: Mapping[int, int]
    """By the level of the lane; level 0 has the expedited documents."""
    oldest_waits: Mapping[int, int]
    """By level: wait of the oldest head of an open lane, in microseconds."""
    per_second: float
    """Finishes per second over the last 10 seconds; over the last minute if those were few."""
    busiest: tuple[BusyCustomer, ...]
    """The customers with the most waiting documents, then those with the lowest counters from other queues."""
    at_work: tuple[AtWork, ...]
    paused: Operator | None


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The progress of a batch."""

    states: Mapping[DocumentState, int]
    customers: Mapping[str, Mapping[DocumentState, int]]
    """Those with the most documents first."""
    first_submitted: int
    last_ended: int | None


class LaneGroup(NamedTuple):
    """Customers with documents waiting in some levels, and these documents; how many of both are held.

    Held are those in closed lanes: of a paused, capped or limited customer.
    """

    customers: int
    waiting: int
    held_customers: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class LiveOverview:
    """The state of all queues, for the overview screen."""

    live: LiveView
    policy: PolicyVersion
    customers: int
    """Customers with waiting documents."""
    held_customers: int
    """Those of them with closed lanes only: paused, capped or limited."""
    held: int
    """The waiting documents of these."""
    oldest_wait: int | None
    """The longest wait, held documents included, in microseconds."""
    overdue: tuple[int, ...]
    """Levels with an overdue head."""
    overdue_uses: int
    """Uses of the overdue slot since the queue was created."""
    last_level: int
    quiet: LaneGroup
    """Levels before the last one: customers without a long burst."""
    busy: LaneGroup
    """The last level."""
