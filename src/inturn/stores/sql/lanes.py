"""A line as the SQL stores keep it: where its documents are looked for, and where it stands in its level."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from inturn.policy.scheduler import Head, Lane


@dataclass(slots=True, eq=False)
class TableLane(Lane):
    """A line, its next documents, and its row.

    Its documents are those from its front on, and those that came back into it, wherever they stand. So nobody has to
    write down which documents wait when they come in, nor to cross them out when they are taken.
    """

    owner: int = 0
    prefetched: deque[Head] = field(default_factory=deque)
    """Its next documents, as far as they were read."""
    scan_from: int | None = None
    """No document before this seq waits but those that came back; None: no other at all."""
    stored_row: tuple[Any, ...] | None = None
    """The row as it was read or written last; None for a line that has none."""

    def sort_key(self, *, fair: bool) -> tuple[int, int]:
        """What sorts it among the open lines of its level."""
        return (self.turn, self.stamp) if fair else (0 if self.head is None else self.head.seq, 0)

    def has_prefetched(self) -> bool:
        """Whether the document behind its head was read already."""
        after = 0 if self.head is None else self.head.seq
        while self.prefetched and self.prefetched[0].seq <= after:
            self.prefetched.popleft()
        return bool(self.prefetched)

    def include_new(self, head: Head) -> None:
        """New documents come, this one first."""
        if self.scan_from is None or head.seq < self.scan_from:
            self.scan_from = head.seq

    def include(self, head: Head) -> None:
        """A document comes, new or back: what was read ahead may not begin with the right one any more."""
        if self.prefetched and head.seq < self.prefetched[-1].seq:
            self.prefetched.clear()

    def clear(self) -> None:
        """All its documents are gone."""
        self.prefetched.clear()
        self.scan_from = None

    def advance(self, head: Head) -> None:
        """Its head was taken."""
        if self.waiting == 0:
            self.scan_from = None
        elif self.scan_from is not None and self.scan_from <= head.seq:
            self.scan_from = head.seq + 1

    def mark_exhausted(self, after: int) -> None:
        """No document waits from the front on, nor does its head stand there: nothing was found behind `after`."""
        if self.scan_from is not None and after < self.scan_from:
            self.scan_from = None
