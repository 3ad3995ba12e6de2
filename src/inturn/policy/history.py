"""Figures of a queue over a minute or an hour, and how they add up.

Waits are counted in buckets that grow by a quarter of an octave, so a percentile is off by at most 9 %.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import Final

from inturn.values import SECOND

FIRST_BUCKET_ENDS: Final = SECOND // 10
"""Waits below this are in bucket 0."""
LAST_BUCKET: Final = 120
"""It begins at about three years."""
BUCKETS_PER_UNIT_OF_LOG: Final = 4 / math.log(2)
MAX_NAMED_CUSTOMERS: Final = 100
"""Customers with rows of their own in a minute or an hour that is over; the others are summed."""
MAX_OPEN_CUSTOMERS: Final = 300
"""The same while the minute or hour goes on, so that a customer that becomes busy late is still found."""


class HistorySpan(IntEnum):
    """The length of a row in microseconds."""

    MINUTE = 60 * SECOND
    HOUR = 3_600 * SECOND

    @property
    def retention(self) -> int:
        """How long rows of this length are kept: 48 hours, 90 days."""
        return (48 if self is HistorySpan.MINUTE else 90 * 24) * HistorySpan.HOUR

    def begin(self, at: int) -> int:
        """Return when the span around a time began."""
        return at - at % self


@dataclass(slots=True)
class Figures:
    """What happened in a span: documents, and microseconds."""

    submitted: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    waits: int = 0
    """Starts whose wait is known."""
    waited: int = 0
    """The sum of these waits."""
    worked: int = 0
    """Processing time of the attempts that ended."""
    waiting: int | None = None
    """Documents that waited at the end; None if nothing was looked at in this span."""
    running: int | None = None
    buckets: dict[int, int] = field(default_factory=dict)
    """Waits by the number of their bucket."""
    steps: int = 0
    """Steps that ended, after which a document was moved to another queue or split."""
    parts: int = 0
    """Parts that documents were split into. They are not `submitted`, but they start and end as documents do."""

    @classmethod
    def from_json(cls, text: str) -> "Figures":
        """Parse the output of `to_json`; rows of older versions have fewer fields."""
        values = dict(zip(_FIELD_NAMES, json.loads(text), strict=False))
        values["buckets"] = {int(bucket): n for bucket, n in values["buckets"].items()}
        return cls(**values)

    def to_json(self) -> str:
        """Serialize the figures for a store."""
        return _encode(_values(self))

    def add_wait(self, wait: int, bucket: int) -> None:
        """Count one wait, in its bucket."""
        self.waits += 1
        self.waited += wait
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def add(self, other: "Figures") -> None:
        """Add the figures of another series of the same span."""
        self.submitted += other.submitted
        self.started += other.started
        self.done += other.done
        self.failed += other.failed
        self.cancelled += other.cancelled
        self.expired += other.expired
        self.waits += other.waits
        self.waited += other.waited
        self.worked += other.worked
        self.steps += other.steps
        self.parts += other.parts
        if other.waiting is not None:
            self.waiting = (self.waiting or 0) + other.waiting
        if other.running is not None:
            self.running = (self.running or 0) + other.running
        for bucket, n in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + n

    def activity(self) -> int:
        """How much there is to see: decides which customers keep rows of their own."""
        ended = self.steps + self.done + self.failed + self.cancelled + self.expired
        return self.submitted + self.parts + self.started + ended + (self.waiting or 0) + (self.running or 0)

    def wait_percentile(self, part: float) -> int | None:
        """Return the wait that this part of the starts did not exceed, in microseconds; None without waits."""
        rank, seen = max(1, math.ceil(sum(self.buckets.values()) * part)), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return bucket_middle(bucket)
        return None


_FIELD_NAMES: Final = tuple(entry.name for entry in fields(Figures))
_values: Final = attrgetter(*_FIELD_NAMES)
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def bucket_of(wait: int) -> int:
    """Return the number of a wait's bucket."""
    if wait < FIRST_BUCKET_ENDS:
        return 0
    return min(LAST_BUCKET, 1 + math.floor(math.log(wait / FIRST_BUCKET_ENDS) * BUCKETS_PER_UNIT_OF_LOG))


def bucket_middle(bucket: int) -> int:
    """Return the wait in the middle of a bucket."""
    if bucket == 0:
        return FIRST_BUCKET_ENDS // 2
    return round(FIRST_BUCKET_ENDS * 2 ** ((bucket - 0.5) / 4))


def sum_figures(figures: Iterable[Figures]) -> Figures:
    """Sum the figures of several series."""
    total = Figures()
    for one in figures:
        total.add(one)
    return total
