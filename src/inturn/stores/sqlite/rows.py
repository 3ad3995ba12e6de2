"""Rows of the queue and its lanes, as a claim window reads and writes them."""

from typing import Any, Final, NamedTuple

from inturn.stores.sql.lanes import TableLane
from inturn.stores.sqlite.queries import Row

NEVER: Final = 2**63
TURN_COLUMN, STAMP_COLUMN, HEAD_COLUMN = 3, 4, 6
"""Columns in a lane's row."""


class QueueRow(NamedTuple):
    """The row of queue_state, and what the same query tells of other tables."""

    fence: int
    event: int
    policy: int
    ordered: str
    scheduler_state: str
    paused_by: str | None
    version: int
    has_changes: int
    has_requeued: int
    start_by: int | None
    lease: int | None
    due: int | None
    rate: int | None

    @property
    def next_due(self) -> int:
        """The earliest deadline of any kind."""
        times = (self.start_by, self.lease, self.due, self.rate)
        return min([at for at in times if at is not None], default=NEVER)


class SqlLane(TableLane):
    """A lane, its next documents, and its row."""

    __slots__ = ()

    def row(self) -> tuple[Any, ...]:
        """The row to be stored, without its sort key."""
        head = self.head or (None, None, None)
        stands = (self.owner, self.level, self.weight, self.turn, self.stamp, self.waiting)
        return (*stands, *head, int(self.scheduled), self.scan_from, self.out_of_turn_at)


def with_sort_key(row: Row, *, fair: bool) -> Row:
    """Add the columns that sort a lane among the open lanes of its level."""
    return (*row, row[TURN_COLUMN], row[STAMP_COLUMN]) if fair else (*row, row[HEAD_COLUMN] or 0, 0)
