"""Learn from past forecasts of starts how far a start may be from its forecast. Pure: no clock, no I/O."""

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple, Self

SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
MAX_OUTCOMES: Final = 300
"""Outcomes that are kept, the newest."""
KEPT_HOURS: Final = 168
DAY: Final = 24 * HOUR
PRIOR: Final = (0.3, 0.6, 0.9, 1.1, 1.3, 1.6, 1.9, 2.3, 2.7, 3.2, 4.0, 6.0)
"""Waits in units of their forecast, as eight recorded days had them: what is assumed before anything is known."""
HALF_LIFE: Final = 600 * SECOND
SIMILARITY: Final = 0.5
"""A forecast e times as long, or e times as short, tells by this exponent less: `exp(-1 / SIMILARITY)`."""
OTHER_LEVEL_WEIGHT: Final = 0.3
LATE_FACTOR: Final = 1.3
"""A document that still waits past its forecast will wait about so many times as long as it has."""
LOW, HIGH = 0.05, 0.95
"""The parts of all starts that come before and within the span."""


class Forecast(NamedTuple):
    """The forecast of one wait, made at a time, for a document of a level."""

    at: int
    wait: int
    level: int


class ForecastOutcome(NamedTuple):
    """A forecast whose document has started, how long it waited, and whether that was within the promised span."""

    forecast: Forecast
    waited: int
    is_held: bool

    @property
    def ended_at(self) -> int:
        """When the document started."""
        return self.forecast.at + self.waited


class HeldCounts(NamedTuple):
    """How many promised spans held, of how many."""

    held: int
    total: int


class ForecastLog(NamedTuple):
    """The newest outcomes, and by hour how many promises held of how many."""

    outcomes: tuple[ForecastOutcome, ...] = ()
    hours: Mapping[int, HeldCounts] = MappingProxyType({})

    def add(self, outcomes: Sequence[ForecastOutcome]) -> Self:
        """Add outcomes; forget those added first, whatever a wrong clock says about their times."""
        newest = (*self.outcomes, *sorted(outcomes, key=lambda outcome: outcome.ended_at))[-MAX_OUTCOMES:]
        hours = dict(self.hours)
        for outcome in outcomes:
            hour = outcome.ended_at // HOUR
            held, total = hours.get(hour, (0, 0))
            hours[hour] = HeldCounts(held + outcome.is_held, total + 1)
        kept = sorted(hours)[-KEPT_HOURS:]
        return self._replace(outcomes=newest, hours={hour: hours[hour] for hour in kept})

    def held_between(self, since: int, until: int) -> HeldCounts:
        """Count the promises of the hours that began in a range of time."""
        counts = [count for hour, count in self.hours.items() if since <= hour * HOUR <= until]
        return HeldCounts(sum(count.held for count in counts), sum(count.total for count in counts))

    def to_json(self) -> str:
        """Serialize the log."""
        outcomes = [[*outcome.forecast, outcome.waited, int(outcome.is_held)] for outcome in self.outcomes]
        return json.dumps([outcomes, [[hour, *counts] for hour, counts in self.hours.items()]], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of `to_json`."""
        outcomes, hours = json.loads(text)
        return cls(
            tuple(_outcome(*values) for values in outcomes),
            {hour: HeldCounts(held, total) for hour, held, total in hours},
        )


def likely_waits(
    forecast: Forecast, outcomes: Iterable[ForecastOutcome], waiting: Iterable[Forecast] = ()
) -> tuple[int, int]:
    """Return the shortest and the longest wait that are likely, by the outcomes of earlier forecasts.

    Those of about the same length, level and time count most. Documents that still `waiting` past their forecast count
    too: without them, the longest waits would be learned last.
    """
    weighted = [(factor, 1.0) for factor in PRIOR]
    weighted += [
        (outcome.waited / max(outcome.forecast.wait, SECOND), _weight(forecast, outcome.forecast))
        for outcome in outcomes
        if outcome.ended_at <= forecast.at
    ]
    for other in waiting:
        waited = forecast.at - other.at
        if waited > other.wait:
            weighted.append((LATE_FACTOR * waited / max(other.wait, SECOND), _weight(forecast, other)))
    weighted.sort()
    sums = list(accumulate(weight for _, weight in weighted))
    low, high = (weighted[min(bisect_left(sums, part * sums[-1]), len(sums) - 1)][0] for part in (LOW, HIGH))
    return round(forecast.wait * low), round(forecast.wait * high)


def _weight(forecast: Forecast, other: Forecast) -> float:
    """Return how much an earlier forecast says about this one."""
    distance = abs(math.log(max(other.wait, SECOND) / max(forecast.wait, SECOND)))
    age = max(0, forecast.at - other.at)
    level = 1.0 if other.level == forecast.level else OTHER_LEVEL_WEIGHT
    return level * math.exp(-distance / SIMILARITY) * math.exp2(-age / HALF_LIFE)


def _outcome(at: int, wait: int, level: int, waited: int, is_held: int) -> ForecastOutcome:
    return ForecastOutcome(Forecast(at, wait, level), waited, bool(is_held))
