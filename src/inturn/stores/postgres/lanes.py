"""A lane and its row in PostgreSQL."""

from dataclasses import dataclass
from typing import Any, Final

from inturn.stores.sql.lanes import TableLane

LANE_COLUMNS: Final = (
    "customer", "level", "weight", "turn", "stamp", "waiting", "head_seq", "head_ready_at", "head_cost", "scheduled",
    "scan_from", "out_of_turn_at", "sort_key", "sort_tie",
)  # fmt: skip
OLD_LANE_COLUMNS: Final = ("old_customer", "old_level", "old_version", "old_at")


@dataclass(slots=True, eq=False)
class SqlLane(TableLane):
    """A lane, its next documents, and its row."""

    version: int = 0
    """Version of that row."""
    ctid: str | None = None
    """Where the row was read; None once it was written."""

    def row(self) -> tuple[Any, ...]:
        """The row to be stored, without its sort key."""
        head = (None, None, None) if self.head is None else (self.head.seq, self.head.ready_at, float(self.head.cost))
        stands = (self.owner, self.level, float(self.weight), self.turn, self.stamp, self.waiting)
        return (*stands, *head, self.scheduled, self.scan_from, self.out_of_turn_at)

    def row_key(self) -> tuple[int, int, int, str | None]:
        """The key of its stored row."""
        return self.owner, self.level, self.version, self.ctid
