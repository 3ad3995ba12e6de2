"""A line as the SQL stores keep it: where its documents are looked for, and where it stands in its level."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from inturn.policy.turns import Head, Line


@dataclass(slots=True, eq=False)
class TableLine(Line):
    """A line, its next documents, and its row.

    Its documents are those from its front on, and those that came back into it, wherever they stand. So nobody has to
    write down which documents wait when they come in, nor to cross them out when they are taken.
    """

    owner: int = 0
    ahead: deque[Head] = field(default_factory=deque)
    """Its next documents, as far as they were read."""
    front: int | None = None
    """No document before this seq waits but those that came back; None: no other at all."""
    kept: tuple[Any, ...] | None = None
    """The row as it was read or written last; None for a line that has none."""

    def place(self, *, fair: bool) -> tuple[int, int]:
        """What sorts it among the open lines of its level."""
        return (self.turn, self.stamp) if fair else (0 if self.head is None else self.head.seq, 0)

    def has_ahead(self) -> bool:
        """Whether the document behind its head was read already."""
        after = 0 if self.head is None else self.head.seq
        while self.ahead and self.ahead[0].seq <= after:
            self.ahead.popleft()
        return bool(self.ahead)

    def begins(self, head: Head) -> None:
        """New documents come, this one first."""
        if self.front is None or head.seq < self.front:
            self.front = head.seq

    def comes(self, head: Head) -> None:
        """A document comes, new or back: what was read ahead may not begin with the right one any more."""
        if self.ahead and head.seq < self.ahead[-1].seq:
            self.ahead.clear()

    def ends(self) -> None:
        """All its documents are gone."""
        self.ahead.clear()
        self.front = None

    def passed(self, head: Head) -> None:
        """Its head was taken."""
        if self.waiting == 0:
            self.front = None
        elif self.front is not None and self.front <= head.seq:
            self.front = head.seq + 1

    def found_none(self, after: int) -> None:
        """No document waits from the front on, nor does its head stand there: nothing was found behind `after`."""
        if self.front is not None and after < self.front:
            self.front = None
