"""Implement the priority system of the spec: a counter for each customer, which gives a level.

A check at `now` lowers the customer's counter by one, or sets it to zero when the customer is new or more than
`reset_interval` has passed since the counter's last update. Fixed thresholds map the counter to a level: level 1 goes
first, and each threshold above the count adds one.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.values import SECOND

DEFAULT_RESET_INTERVAL: Final = 1500 * SECOND
DEFAULT_THRESHOLDS: Final = (-2, -4, -6, -8, -10, -12, -14, -20)
MAX_THRESHOLDS: Final = 8
MAX_INTERVAL: Final = 100 * 365 * 86_400 * SECOND


class Counter(NamedTuple):
    """The spec's pending-documents count, 0 or negative, and the time of its last update."""

    count: int  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int


class CheckResult(NamedTuple):
    """The result of one check: the counter after it, and the document's level."""

    counter: Counter
    level: int


class BatchCheckResult(NamedTuple):
    """The result of n checks at one instant: the counter after the last, and pairs of level and documents."""

    counter: Counter
    levels: tuple[tuple[int, int], ...]

    def per_document(self) -> Iterable[tuple[int, int]]:
        """Return level and count of each document, in order."""
        last = self.counter.count
        (level, documents), *more = self.levels
        if documents == 1 and not more:
            return ((level, last),)
        levels = self.document_levels()
        return zip(levels, range(last + len(levels) - 1, last - 1, -1), strict=True)

    def document_levels(self) -> list[int]:
        """Return the level of each document, in order."""
        return [level for level, documents in self.levels for _ in range(documents)]


@dataclass(frozen=True, slots=True)
class PriorityPolicy:
    """Reset interval (microseconds) and thresholds of the priority system."""

    reset_interval: int = DEFAULT_RESET_INTERVAL
    thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS
    _depths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _validate_interval(self.reset_interval)
        _validate_thresholds(self.thresholds)
        object.__setattr__(self, "_depths", tuple(-threshold for threshold in self.thresholds))

    @property
    def levels(self) -> int:
        """How many levels there are: 9 with the spec's thresholds."""
        return len(self.thresholds) + 1

    def level(self, count: int) -> int:
        """Return the level of a count: 1, plus one for every threshold that is greater than the count."""
        return 1 + bisect_left(self._depths, -count)

    def check(self, counter: Counter | None, now: int) -> CheckResult:
        """Check one document of a customer."""
        after = self._decrement(counter, now)
        return CheckResult(after, self.level(after.count))

    def check_many(self, counter: Counter | None, now: int, n: int) -> BatchCheckResult:
        """Check n documents of a customer at one instant: equal to n checks, in time proportional to the levels."""
        if n < 1:
            raise InvalidInputError(f"a check needs at least one document, not {n}")
        first = self._decrement(counter, now)
        if n == 1:
            return BatchCheckResult(first, ((self.level(first.count), 1),))
        last = first.count - (n - 1)
        levels = []
        top = first.count
        for level in range(self.level(first.count), self.level(last) + 1):
            bottom = max(last, self.thresholds[level - 1]) if level <= len(self.thresholds) else last
            levels.append((level, top - bottom + 1))
            top = bottom - 1
        return BatchCheckResult(Counter(last, first.updated_at), tuple(levels))

    def _decrement(self, counter: Counter | None, now: int) -> Counter:
        if counter is None:
            return Counter(0, now)
        elapsed = now - counter.updated_at
        if elapsed > self.reset_interval:
            return Counter(0, now)
        if elapsed >= 0 or -elapsed > self.reset_interval:
            # A time far in the future came from a broken clock. It would prevent every reset, so it is set to now.
            return Counter(counter.count - 1, now)
        return Counter(counter.count - 1, counter.updated_at)


def _validate_interval(interval: int) -> None:
    if type(interval) is not int or not 0 < interval <= MAX_INTERVAL:
        raise InvalidInputError(
            f"reset_interval must be a whole number of microseconds, more than 0 and at most 100 years,"
            f" not {interval!r}; for 1500 seconds write seconds(1500)",
        )


def _validate_thresholds(thresholds: tuple[int, ...]) -> None:
    if type(thresholds) is not tuple or not all(type(threshold) is int for threshold in thresholds):
        raise InvalidInputError(f"thresholds must be a tuple of whole numbers such as (-2, -4), not {thresholds!r}")
    if not 1 <= len(thresholds) <= MAX_THRESHOLDS:
        raise InvalidInputError(f"give 1 to {MAX_THRESHOLDS} thresholds, not {len(thresholds)}")
    if thresholds[0] >= 0:
        raise InvalidInputError(f"thresholds must be below zero, so the first cannot be {thresholds[0]}")
    for higher, lower in pairwise(thresholds):
        if lower >= higher:
            raise InvalidInputError(f"thresholds must go down: {lower} may not follow {higher}")
