"""What the queries of a store answer: pages, counts, search results, snapshots. Times are integer microseconds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from inturn.model import Document, DocumentState
from inturn.policy import TurnPolicy
from inturn.policy.retention import Checkpoint
from inturn.policy.scheduler import Head
from inturn.search_query import SearchQuery
from inturn.store_types import EventKind

Item = TypeVar("Item")


class CustomerSummary(NamedTuple):
    """What a list of all customers shows and sorts by."""

    name: str
    display_name: str | None
    count: int | None  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int | None
    paused: bool
    waiting: int
    running: int


class Page(NamedTuple, Generic[Item]):
    """One page of a list. `next` is the cursor for the following page; None on the last page."""

    items: tuple[Item, ...]
    next: str | None


class CustomerMatch(NamedTuple):
    """A customer that matches a search."""

    name: str
    display_name: str | None


class ErrorMatch(NamedTuple):
    """An error of failed documents that matches a search."""

    line: str
    """The first line of its text."""
    documents: int
    newest: str
    """The id of the document that failed last with it."""


class SearchResult(NamedTuple):
    """What matches a search text, by kind."""

    documents: tuple[Document, ...] = ()
    batches: tuple[str, ...] = ()
    customers: tuple[CustomerMatch, ...] = ()
    errors: tuple[ErrorMatch, ...] = ()
    is_complete: bool = True
    """False if more may match: more than the limit, too many to look at all, or documents that are not indexed yet."""


def matching_errors(
    failures: Iterable[tuple[str, str | None]], query: SearchQuery, limit: int
) -> tuple[tuple[ErrorMatch, ...], bool]:
    """Group failed documents by the first line of their error, newest first; return those that match, and if all."""
    groups: dict[str, list[str]] = {}
    for id_, error in failures:
        line = (error or "").partition("\n")[0]
        if line and query.is_in(line):
            groups.setdefault(line, []).append(id_)
    matches = [ErrorMatch(line, len(ids), ids[0]) for line, ids in groups.items()]
    return tuple(matches[:limit]), len(matches) <= limit


class Counts(NamedTuple):
    """Documents by state, and waiting documents by the level of their lane."""

    states: Mapping[DocumentState, int]
    waiting: Mapping[int, int]


class Failure(NamedTuple):
    """A document that failed."""

    id: str
    customer: str
    name: str
    at: int
    error: str | None
    """Its first `MAX_ERROR_BEGINNING` characters."""


class LaneSnapshot(NamedTuple):
    """An open lane: its virtual time `(turn, stamp)`, its length, its head and what a start of that is charged."""

    customer: str
    level: int
    weight: float
    turn: int
    stamp: int
    waiting: int
    head: Head
    charge: int


class ClosedLane(NamedTuple):
    """A lane with documents that a pause, cap, rate limit or share closes. It gets its virtual time when it opens."""

    customer: str
    level: int
    waiting: int
    head: Head
    by_share: bool = False
    """Whether only the share of the slots closes it: it opens when one of the customer's documents ends."""


class SchedulerSnapshot(NamedTuple):
    """The scheduler's state of one queue: all open lanes by (level, turn, stamp), the counters of the overdue slot."""

    policy: TurnPolicy
    dispatched: int
    rotation: int
    overdue_uses: tuple[int, ...]
    """By level, from 0."""
    lanes: tuple[LaneSnapshot, ...]
    closed: tuple[ClosedLane, ...] = ()
    """By level and customer."""

    @property
    def all_lanes(self) -> "Sequence[LaneSnapshot | ClosedLane]":
        """Every lane with documents."""
        return [*self.lanes, *self.closed]


class Throughput(NamedTuple):
    """Documents started and finished since a time, and documents running now."""

    started: int
    finished: int
    running: int


class EndedWork(NamedTuple):
    """Processing time of one customer's attempts that ended in one way, in microseconds."""

    customer: str
    weight: float
    """The customer's weight now."""
    ended: EventKind
    """FINISHED or FAILED if the attempt ended its document, otherwise as `Attempt.ended`."""
    attempts: int
    """Attempts that ended within the span."""
    worked: int
    """All processing time of these attempts."""
    within: int
    """Processing time within the span, of these attempts and of those that ended after it."""


class RunningClaim(NamedTuple):
    """A claim that has not ended. A worker may have claimed it ahead and not begun it."""

    id: str
    customer: str
    weight: float
    worker: str
    fence: int
    started_at: int


class WorkLog(NamedTuple):
    """The work of a span: ended attempts by customer and outcome, and the claims that run now, by fence."""

    ended: tuple[EndedWork, ...]
    running: tuple[RunningClaim, ...]


class SweepResult(NamedTuple):
    """How many documents and customers a sweep changed."""

    expired: int = 0
    leases_lost: int = 0
    due: int = 0
    customers_opened: int = 0


class AheadOfClock(NamedTuple):
    """How many leases, delays and rate limits begin in the future: a clock ahead of this one set them."""

    leases: int = 0
    delays: int = 0
    rates: int = 0


class MaintenanceRecord(NamedTuple):
    """The last maintenance round that was allowed to delete, and the last refusal since then."""

    at: int
    boot: str | None = None
    """The boot id of the machine that ran the round, where the kernel provides one."""
    uptime: int | None = None
    """Microseconds from that boot to the round."""
    refused_at: int | None = None
    """When a round was last refused since `at`; None if none was."""
    drift: int | None = None
    """Difference between the refused round's clock and the expected time, in microseconds."""
    old: int | None = None
    """Documents that the refused round would have deleted."""
    ended: int | None = None
    """All ended documents at the refused round."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Oldest first."""

    @classmethod
    def from_json(cls, text: str) -> "MaintenanceRecord":
        """Parse the output of `to_json`."""
        fields = json.loads(text)
        return cls(**{**fields, "checkpoints": tuple(Checkpoint(*field) for field in fields.get("checkpoints", ()))})

    def to_json(self) -> str:
        """Serialize the record for a store."""
        return json.dumps(self._asdict())


class PruneResult(NamedTuple):
    """Counts of deleted documents, events and idempotency keys, and the blobs of the deleted documents."""

    documents: int
    events: int
    keys: int
    blobs: tuple[str, ...]


class Discrepancy(NamedTuple):
    """A stored counter that differs from the documents it counts."""

    customer: str
    what: str
    kept: int
    counted: int
