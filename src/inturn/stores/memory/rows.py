"""Mutable rows of the memory store: one for each document, lane and customer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from inturn.model import (
    DEFAULT_QUEUE,
    EXPEDITED_LEVEL,
    Document,
    DocumentState,
    LaneStatus,
    NewDocument,
    QueueSettings,
    ResultFile,
)
from inturn.policy import Counter, rates, scheduler
from inturn.policy.lanes import CustomerLanes
from inturn.policy.scheduler import FIRST_QUEUE, Head, track_of
from inturn.store_types import Operator, OutcomeKind

DEFAULT_QUEUE_SETTINGS = QueueSettings()
# Bound once: in Python 3.11 an Enum member lookup costs ten times a global name, and every claim does many.
WAITING, RUNNING, DELAYED = DocumentState.WAITING, DocumentState.RUNNING, DocumentState.DELAYED


@dataclass(slots=True, eq=False)
class Row:
    """A document: the fields of `Document`, its result, and the last recorded outcome (`settled`)."""

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
    """When the lease was given or last renewed, by the clock of that call."""
    delayed_at: int | None = None
    doubted_at: int | None = None
    """When a sweep first saw that the lease or delay begins in the future."""
    charged: int | None = None
    """What its lane was charged for the last claim; None if runs were not tracked."""
    queue_number: int = FIRST_QUEUE
    queue: str = DEFAULT_QUEUE
    step: int = 0
    ahead: tuple[str, ...] = ()
    parent: str | None = None
    part: int | None = None
    split_step: int | None = None
    """Of a part: the step in which its document was split."""
    track: int = -1
    """Queue and level of its lane: the level is its own, or 0 once expedited. Stored because every claim reads it."""

    def __post_init__(self) -> None:
        self.set_track()

    def set_track(self) -> None:
        """Set the track by queue and level."""
        self.track = track_of(self.queue_number, self.lane_level)

    @property
    def lane_level(self) -> int:
        """The level of its lane: its own level, or 0 once expedited."""
        return EXPEDITED_LEVEL if self.expedited else self.level

    def blobs(self) -> tuple[str, ...]:
        """Return the blobs of the document and of its result files."""
        own = () if self.spec.blob is None else (self.spec.blob,)
        return (*own, *(file.blob for file in self.files))

    def view(self) -> Document:
        return Document._make(_FIELDS(self))


_FIELDS = attrgetter(*Document._fields)


@dataclass(slots=True, eq=False)
class MemoryLane(scheduler.Lane):
    """A lane, or a group of one, with its documents: a heap by seq.

    Documents that left without a claim are skipped when they come up.
    """

    rows: list[tuple[int, Row]] = field(default_factory=list)

    def is_current(self, seq: int, row: Row) -> bool:
        """Return whether the document of a heap entry still waits in this lane under that seq."""
        return row.state is WAITING and row.seq == seq and row.track == self.track

    def count_before(self, seq: int) -> int:
        """Count its documents with a lower seq."""
        return len({other for other, row in self.rows if other < seq and self.is_current(other, row)})


@dataclass(slots=True)
class QueueRow:
    """A queue: its number, its settings, who paused it, and the state of its limits."""

    number: int
    settings: QueueSettings = DEFAULT_QUEUE_SETTINGS
    paused: Operator | None = None
    running: int = 0
    tat: int = 0
    """The theoretical arrival time of its rate limit (`inturn.policy.rates`)."""

    def is_closed(self, now: int) -> bool:
        """Whether its cap or its rate limit lets no document be started now."""
        cap, opens_at = self.settings.cap, self.opens_at()
        return (cap is not None and self.running >= cap) or (opens_at is not None and opens_at > now)

    def opens_at(self) -> int | None:
        """Return when its rate limit allows the next start."""
        return None if self.settings.rate is None else rates.opens_at(self.settings.rate, self.tat)

    def change(self, settings: QueueSettings) -> None:
        """Apply new settings. A new rate limit begins anew."""
        if settings.rate != self.settings.rate:
            self.tat = 0
        self.settings = settings


def has_ended_before(row: Row, before: int) -> bool:
    """Return whether a document has ended, before a time."""
    return row.finished_at is not None and row.finished_at < before


def head_of(row: Row) -> Head:
    """Return what the scheduler needs of a document."""
    return Head(row.seq, row.ready_at, row.spec.cost)


@dataclass(slots=True, eq=False)
class CustomerRow(CustomerLanes[MemoryLane]):
    """A customer: its counter and its lanes."""

    counter: Counter | None = None

    def lane_statuses(self, queues: Sequence[str]) -> tuple[LaneStatus, ...]:
        """Return the lanes that have documents."""
        return tuple(
            LaneStatus(lane.level, lane.waiting, self.is_open_in(lane.queue), queues[lane.queue])
            for _, lane in sorted(self.lanes.items())
            if lane.waiting
        )
