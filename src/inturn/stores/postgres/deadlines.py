"""What is due at the earliest, as far as claims know it.

Dead rows gather at the low ends of indexes, where the earliest deadline and the oldest head are looked for; while an
old snapshot is held open, nothing clears them away. So claims remember below what there is nothing, and look from there
on, and only once that time has come. Whoever makes something due earlier says so with a line change.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from inturn.policy.scheduler import LEVELS, Head

NEVER: Final = 2**63 - 1
DEADLINE_KINDS: Final = ("start_by", "lease", "due", "rate")
NO_HEAD: Final = (NEVER, 0)


@dataclass(slots=True)
class Deadlines:
    """By kind of deadline a time, by level a head's place in the order of age: nothing lies before."""

    times: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DEADLINE_KINDS, NEVER))
    oldest_heads: list[tuple[int, int]] = field(default_factory=lambda: [NO_HEAD for _ in LEVELS])

    @classmethod
    def from_json(cls, text: str) -> "Deadlines":
        """As they were written."""
        times, oldest = json.loads(text)
        return cls(dict(zip(DEADLINE_KINDS, times, strict=True)), [(ready_at, seq) for ready_at, seq in oldest])

    def to_json(self) -> str:
        """To be kept."""
        oldest = ", ".join([f"[{ready_at}, {seq}]" for ready_at, seq in self.oldest_heads])
        return f"[[{', '.join([str(at) for at in self.times.values()])}], [{oldest}]]"

    def add_deadline(self, kind: str, at: int) -> None:
        """Something of this kind may be due at this time."""
        self.times[kind] = min(self.times[kind], at)

    def add_head(self, level: int, head: Head) -> None:
        """An open line of this level has this head."""
        self.oldest_heads[level] = min(self.oldest_heads[level], (head.ready_at, head.seq))

    def any_due(self, now: int) -> bool:
        """Whether it is time to look for what is due."""
        return min(self.times.values()) <= now
