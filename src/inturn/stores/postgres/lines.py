"""A line as it stands in its table."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from inturn.policy.turns import Head, Line

COLUMNS: Final = (
    "customer", "level", "weight", "turn", "stamp", "waiting", "head_seq", "head_ready_at", "head_cost", "filed",
    "place", "tie",
)  # fmt: skip
OLD: Final = ("old_customer", "old_level", "old_version")


@dataclass(slots=True, eq=False)
class SqlLine(Line):
    """A line, its next documents, and its row."""

    owner: int = 0
    ahead: deque[Head] = field(default_factory=deque)
    """Its next documents, as far as they were read."""
    kept: tuple[Any, ...] | None = None
    """The row as it was read or written last; None for a line that has none."""
    version: int = 0
    """Of that row."""

    def row(self) -> tuple[Any, ...]:
        """The row as it should be, without its place."""
        head = (None, None, None) if self.head is None else (self.head.seq, self.head.ready_at, float(self.head.cost))
        return (self.owner, self.level, float(self.weight), self.turn, self.stamp, self.waiting, *head, self.filed)

    def key(self) -> tuple[int, int, int]:
        """What finds its row."""
        return self.owner, self.level, self.version

    def place(self, *, fair: bool) -> tuple[int, int]:
        """What sorts it among the open lines of its level."""
        return (self.turn, self.stamp) if fair else (0 if self.head is None else self.head.seq, 0)

    def has_ahead(self) -> bool:
        """Whether the document behind its head was read already."""
        after = 0 if self.head is None else self.head.seq
        while self.ahead and self.ahead[0].seq <= after:
            self.ahead.popleft()
        return bool(self.ahead)
