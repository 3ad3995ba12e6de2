"""What the memory store keeps: a row per document and customer, changed in place."""

from dataclasses import dataclass, field
from operator import attrgetter

from inturn.model import EXPEDITED_LEVEL, Document, DocumentState, LaneStatus, NewDocument, ResultFile
from inturn.policy import Counter, scheduler
from inturn.policy.lanes import CustomerLanes
from inturn.policy.scheduler import Head
from inturn.store import OutcomeKind

# Bound once: in Python 3.11 a member read off its Enum costs ten times a plain name, and every claim reads many.
WAITING, RUNNING, DELAYED = DocumentState.WAITING, DocumentState.RUNNING, DocumentState.DELAYED


@dataclass(slots=True, eq=False)
class Row:
    """A document: the fields of `Document`, its result, and the outcome last recorded under its fence."""

    id: str
    customer: str
    seq: int
    spec: NewDocument
    level: int
    count: int
    state: DocumentState
    submitted_at: int
    ready_at: int
    due_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    attempt: int = 0
    fence: int | None = None
    worker: str | None = None
    lease_until: int | None = None
    expedited: bool = False
    error: str | None = None
    began_at: int | None = None
    worked: int | None = None
    result: str | None = None
    files: tuple[ResultFile, ...] = ()
    last_outcome: OutcomeKind | None = None
    leased_at: int | None = None
    """When its lease was given or last renewed, by the clock of whoever did so."""
    delayed_at: int | None = None
    """When its delay began."""
    doubted_at: int | None = None
    """When a sweep first found its lease or delay to begin in the future."""
    lane_level: int = -1
    """The level whose line it waits in: its own, or that of the expedited."""

    def __post_init__(self) -> None:
        self.lane_level = EXPEDITED_LEVEL if self.expedited else self.level

    def blobs(self) -> tuple[str, ...]:
        """What it refers to."""
        own = () if self.spec.blob is None else (self.spec.blob,)
        return (*own, *(file.blob for file in self.files))

    def view(self) -> Document:
        """The frozen document as callers see it."""
        return Document._make(_FIELDS(self))


_FIELDS = attrgetter(*Document._fields)


@dataclass(slots=True, eq=False)
class MemoryLane(scheduler.Lane):
    """A line with its documents: a heap by seq, in which those that left other than by a claim are passed over."""

    rows: list[tuple[int, Row]] = field(default_factory=list)

    def is_here(self, seq: int, row: Row) -> bool:
        """Whether the document of a heap entry still waits in this line at that place."""
        return row.state is WAITING and row.seq == seq and row.lane_level == self.level


def head_of(row: Row) -> Head:
    """What the order needs to know of a document."""
    return Head(row.seq, row.ready_at, row.spec.cost)


@dataclass(slots=True, eq=False)
class CustomerRow(CustomerLanes[MemoryLane]):
    """A customer: its counter and its lines."""

    counter: Counter | None = None

    def lane_statuses(self) -> tuple[LaneStatus, ...]:
        """Its lines that have documents, as callers see them."""
        return tuple(
            LaneStatus(level, line.waiting, self.is_open) for level, line in sorted(self.lanes.items()) if line.waiting
        )
