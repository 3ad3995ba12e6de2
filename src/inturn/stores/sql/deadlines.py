"""Lower bounds of deadlines and of the oldest heads, kept by claims.

Dead rows gather at the low ends of indexes, where the earliest deadline and the oldest head are searched; while an old
snapshot is open, vacuum cannot remove them. Claims therefore remember a bound below which there is nothing, start the
scan there, and scan only once that time has come. An earlier deadline is announced by a row in the lane log.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from inturn.policy.scheduler import LEVELS, Head
from inturn.stores.sql.rows import NEVER

DEADLINE_KINDS: Final = ("start_by", "lease", "due", "rate")
NO_HEAD: Final = (NEVER, 0)
UNKNOWN_HEAD: Final = (-1, 0)


@dataclass(slots=True)
class Deadlines:
    """The earliest possible deadline by kind, and the oldest possible head by level."""

    times: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DEADLINE_KINDS, NEVER))
    oldest_heads: list[tuple[int, int]] = field(default_factory=lambda: [NO_HEAD for _ in LEVELS])

    @classmethod
    def of_times(cls, times: Sequence[int | None]) -> "Deadlines":
        """Build exact bounds from the earliest time of each kind; of the oldest heads nothing is known."""
        known = [NEVER if at is None else at for at in times]
        return cls(dict(zip(DEADLINE_KINDS, known, strict=True)), [UNKNOWN_HEAD] * len(LEVELS))

    @classmethod
    def from_json(cls, text: str) -> "Deadlines":
        """Parse the stored bounds."""
        times, oldest = json.loads(text)
        return cls(dict(zip(DEADLINE_KINDS, times, strict=True)), [(ready_at, seq) for ready_at, seq in oldest])

    def to_json(self) -> str:
        """Write the bounds for storage."""
        oldest = ", ".join([f"[{ready_at}, {seq}]" for ready_at, seq in self.oldest_heads])
        return f"[[{', '.join([str(at) for at in self.times.values()])}], [{oldest}]]"

    def add_deadline(self, kind: str, at: int) -> None:
        """Lower the bound of this kind."""
        self.times[kind] = min(self.times[kind], at)

    def add_head(self, level: int, head: Head) -> None:
        """Lower the bound of this level's oldest head."""
        self.oldest_heads[level] = min(self.oldest_heads[level], (head.ready_at, head.seq))

    def any_due(self, now: int) -> bool:
        """Whether anything may be due."""
        return min(self.times.values()) <= now
