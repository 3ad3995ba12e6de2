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
    """The earliest possible deadline by kind, and the oldest possible head by track."""

    times: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DEADLINE_KINDS, NEVER))
    oldest_heads: dict[int, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(LEVELS, NO_HEAD))
    """Those of the first queue are stored. Of others nothing is known before they were read."""

    @classmethod
    def of_times(cls, times: Sequence[int | None]) -> "Deadlines":
        """Build exact bounds from the earliest time of each kind; of the oldest heads nothing is known."""
        known = [NEVER if at is None else at for at in times]
        return cls(dict(zip(DEADLINE_KINDS, known, strict=True)), {})

    @classmethod
    def from_json(cls, text: str) -> "Deadlines":
        """Parse the stored bounds."""
        times, oldest = json.loads(text)
        heads = {track: (ready_at, seq) for track, (ready_at, seq) in enumerate(oldest)}
        return cls(dict(zip(DEADLINE_KINDS, times, strict=True)), heads)

    def to_json(self) -> str:
        """Write the bounds for storage."""
        heads = [self.oldest_head(level) for level in LEVELS]
        oldest = ", ".join([f"[{ready_at}, {seq}]" for ready_at, seq in heads])
        return f"[[{', '.join([str(at) for at in self.times.values()])}], [{oldest}]]"

    def add_deadline(self, kind: str, at: int) -> None:
        """Lower the bound of this kind."""
        self.times[kind] = min(self.times[kind], at)

    def oldest_head(self, track: int) -> tuple[int, int]:
        """Return the bound of a track's oldest head."""
        return self.oldest_heads.get(track, UNKNOWN_HEAD)

    def add_head(self, track: int, head: Head) -> None:
        """Lower the bound of this track's oldest head."""
        self.oldest_heads[track] = min(self.oldest_head(track), (head.ready_at, head.seq))

    def any_due(self, now: int) -> bool:
        """Whether anything may be due."""
        return min(self.times.values()) <= now
