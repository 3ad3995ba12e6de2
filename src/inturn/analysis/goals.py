"""A goal in words: `p95<=5m for customers under 50 documents a day`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from inturn.analysis.metrics import percentile
from inturn.errors import InvalidInputError

UNITS: Final = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
PERCENTILES: Final = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "worst": 1.0}
DEFAULT_GOAL: Final = "p95<=5m for customers under 50 documents a day"
_GOAL_PATTERN: Final = re.compile(
    r"(?P<figure>mean|p50|p90|p95|p99|worst)\s*(?:<=|≤)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|min|m|h|d)?"
    r"(?:\s+for\s+(?:(?P<all>everyone)|(?P<each>every\s+customer|customers)"
    r"(?:\s+(?P<side>under|over)\s+(?P<size>\d+(?:\.\d+)?)\s+documents\s+a\s+day)?))?"
)


class Goal(NamedTuple):
    """A figure of waits that shall not be above so many seconds, for some of the customers."""

    text: str
    figure: str
    seconds: float
    under: float | None = None
    """Only customers with fewer documents a day."""
    over: float | None = None
    per_customer: bool = False
    """For every single one of them, not for all their documents together."""

    def matches(self, per_day: float) -> bool:
        """Whether a customer with so many documents a day is one of those."""
        return (self.under is None or per_day < self.under) and (self.over is None or per_day > self.over)

    def value(self, waits: Mapping[str, Sequence[float]], per_day: Mapping[str, float]) -> float:
        """The figure, in seconds, by the waits of each customer."""
        return self._value(self._select(waits, per_day, matching=True))

    def value_of_others(self, waits: Mapping[str, Sequence[float]], per_day: Mapping[str, float]) -> float | None:
        """Return the same figure for all other customers; None if there are none."""
        rest = list(self._select(waits, per_day, matching=False))
        return self._value(rest) if rest else None

    def _select(
        self, waits: Mapping[str, Sequence[float]], per_day: Mapping[str, float], *, matching: bool
    ) -> Iterator[Sequence[float]]:
        return (own for name, own in waits.items() if self.matches(per_day[name]) is matching)

    def _value(self, waits: Iterator[Sequence[float]] | list[Sequence[float]]) -> float:
        result = list(waits)
        if not result:
            raise InvalidInputError(f"no customer is meant by the goal {self.text!r}; give another with --goal")
        if self.per_customer:
            return max(_figure(self.figure, own) for own in result)
        return _figure(self.figure, [wait for own in result for wait in own])


def parse_goal(text: str) -> Goal:
    """A goal from words."""
    match = _GOAL_PATTERN.fullmatch(" ".join(text.split()))
    if match is None:
        raise InvalidInputError(
            f"a goal is a figure ({', '.join(('mean', *PERCENTILES))}), <= and a time, then whose: such as "
            f"{DEFAULT_GOAL!r},"
            f" 'worst<=1h for everyone' or 'p95<=30s for every customer under 50 documents a day'; not {text!r}"
        )
    size = float(match["size"]) if match["size"] else None
    return Goal(
        " ".join(text.split()),
        match["figure"],
        float(match["number"]) * UNITS[match["unit"] or "s"],
        size if match["side"] == "under" else None,
        size if match["side"] == "over" else None,
        (match["each"] or "").startswith("every"),
    )


def _figure(name: str, waits: Sequence[float]) -> float:
    return fmean(waits) if name == "mean" else percentile(sorted(waits), PERCENTILES[name])
