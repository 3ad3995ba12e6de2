"""A lane as the SQL stores keep it: where its documents are looked for, and what sorts it in its level."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from inturn.policy.scheduler import CustomerWork, Head, Lane
from inturn.stores.sql.lane_log import lane_number, level_of, queue_of
from inturn.stores.sql.rows import Row

LANE_COLUMNS: Final = (
    "customer", "level", "weight", "turn", "stamp", "waiting", "head_seq", "head_ready_at", "head_cost", "scheduled",
    "scan_from", "out_of_turn_at", "group_turn", "sort_key", "sort_tie",
)  # fmt: skip
SCHEDULED_COLUMN: Final = LANE_COLUMNS.index("scheduled")
GROUP_TURN_COLUMN: Final = LANE_COLUMNS.index("group_turn")
ROW_LENGTH: Final = len(LANE_COLUMNS) - 2
"""Columns that a query of lanes returns first: all but those that sort it."""
WORK_LENGTH: Final = 3
"""Columns of the customer's work that follow: `unit_time`, `in_flight`, and the version of their row."""


@dataclass(slots=True, eq=False)
class TableLane(Lane):
    """A lane or a group of one, its next documents, and its row.

    Its documents, unless it is a lane with groups, are the waiting ones from `scan_from` on, and the requeued ones at
    any seq. A submit therefore writes no entry for each waiting document, and a claim deletes none.
    """

    owner: int = 0
    group: int = 0
    """The number of the group; 0 of a lane itself, and of its documents without a group."""
    parent: "TableLane | None" = None
    """The lane of a group."""
    prefetched: deque[Head] = field(default_factory=deque)
    """Its next documents, as far as they were read."""
    scan_from: int | None = None
    """Before this seq only requeued documents wait; None: only requeued documents wait at all."""
    stored_row: Row | None = None
    """The row as it was read; None if there is none."""
    locator: Row = ()
    """More columns of that row by which the store finds it again."""

    @classmethod
    def from_row(cls, row: Row, work: CustomerWork) -> "TableLane":
        """Build a lane from its row."""
        stored = row[:ROW_LENGTH]
        owner, track, weight, turn, stamp, waiting, seq, ready_at, cost, _, scan_from, out_of_turn_at, _ = stored
        head, level = None if seq is None else Head(seq, ready_at, cost), level_of(track)
        lane = cls(str(owner), level, weight, turn, stamp, waiting, head, False, out_of_turn_at, work)
        lane.queue = queue_of(track)
        lane.owner, lane.scan_from, lane.stored_row = owner, scan_from, stored
        lane.locator = row[ROW_LENGTH + WORK_LENGTH :]
        return lane

    def to_row(self) -> Row:
        """The row to be stored, without the columns that sort it."""
        head, groups = self.head, self.groups
        return (
            self.owner, self.track, float(self.weight), self.turn, self.stamp, self.waiting,
            *((None, None, None) if head is None else (head.seq, head.ready_at, float(head.cost))),
            self.scheduled, self.scan_from, self.out_of_turn_at, None if groups is None else groups.virtual_turn,
        )  # fmt: skip

    @property
    def had_groups(self) -> bool:
        """Whether it had groups when it was read."""
        return self.stored_row is not None and self.stored_row[GROUP_TURN_COLUMN] is not None

    @property
    def number(self) -> int:
        """The number by which its documents name it."""
        return lane_number(self.track, self.group) if self.group else self.track

    def sort_key(self, *, fair: bool) -> tuple[int, int]:
        """Return the columns that sort it among the open lanes of its level, as `Scheduler.schedule` orders them."""
        return (self.turn, self.stamp) if fair else (0 if self.head is None else self.head.seq, 0)

    def has_prefetched(self) -> bool:
        """Whether the document behind its head was read; drops documents up to the head."""
        after = 0 if self.head is None else self.head.seq
        while self.prefetched and self.prefetched[0].seq <= after:
            self.prefetched.popleft()
        return bool(self.prefetched)

    def include_new(self, head: Head) -> None:
        """Move the scan back to this new document if it stands before."""
        if self.scan_from is None or head.seq < self.scan_from:
            self.scan_from = head.seq

    def include(self, head: Head) -> None:
        """Drop prefetched documents if this one, new or requeued, belongs among them."""
        if self.prefetched and head.seq < self.prefetched[-1].seq:
            self.prefetched.clear()

    def clear(self) -> None:
        """Forget all documents."""
        self.prefetched.clear()
        self.scan_from = None

    def advance(self, head: Head) -> None:
        """Move the scan behind a head that was taken."""
        if self.waiting == 0:
            self.scan_from = None
        elif self.scan_from is not None and self.scan_from <= head.seq:
            self.scan_from = head.seq + 1

    def mark_exhausted(self, after: int) -> None:
        """End the scan: no document behind `after` waits but requeued ones, and the head stands before the scan."""
        if self.scan_from is not None and after < self.scan_from:
            self.scan_from = None
