"""Forecast when a waiting document starts: from the start rate under load, and the documents that may overtake it.

Recent finishes measure the demand, not the capacity. Only starts made while other documents waited count. A place
counts documents that already wait. New documents of better levels also go first, and so do those of other customers in
the same level, up to one for each document of its own lane.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from inturn.insights.views import Span
from inturn.model import EXPEDITED_LEVEL
from inturn.policy.forecasts import Forecast, ForecastOutcome, likely_waits
from inturn.policy.position import Ahead
from inturn.store_types import Event, EventKind
from inturn.values import SECOND

HISTORY_WINDOW: Final = 600 * SECOND
"""Older events are ignored."""
SAMPLE_SIZES: Final = (100, 500)
"""Starts under load that a speed is measured by: a short and a long sample."""
MIN_STARTS: Final = 20
MAX_DELAY_FACTOR: Final = 20
"""New documents delay a start by at most this factor of the present backlog."""
_QUEUEING_EVENTS: Final = frozenset(
    {
        EventKind.SUBMITTED, EventKind.RELEASED, EventKind.LEASE_LOST, EventKind.DUE, EventKind.RETRIED,
        EventKind.STEP_DONE, EventKind.PART_ADDED, EventKind.PARTS_ENDED,
    }
)  # fmt: skip
"""Events that add waiting documents. Delays and cancellations are rare, and their events do not name a lane."""
_ARRIVAL_EVENTS: Final = _QUEUEING_EVENTS - {EventKind.RELEASED, EventKind.LEASE_LOST, EventKind.DUE}


class Speed(NamedTuple):
    """Microseconds between two starts: the fastest and the slowest of the samples."""

    fast: float
    slow: float
    is_loaded: bool = True
    """Measured under load: the workers could not go faster."""


class RecentArrivals(NamedTuple):
    """Documents submitted in a window of so many microseconds, by customer."""

    documents: Mapping[str, int]
    window: int


class ForecastTarget(NamedTuple):
    """The document of a forecast."""

    customer: str
    level: int
    """The level of its lane."""
    other_lanes: int | None
    """Other customers' open lanes of that level; None if later documents of that level never go first."""


class ArrivalRates(NamedTuple):
    """New documents per microsecond that are likely to start before one."""

    better: float
    same: float
    customers: int
    """Customers who submit those of its own level."""


def arrival_rates(target: ForecastTarget, arrived: RecentArrivals, thresholds: Sequence[int]) -> ArrivalRates:
    """Extrapolate recent arrivals. Every customer is assumed to start idle, which gives it the best levels."""
    if target.level == EXPEDITED_LEVEL:
        return ArrivalRates(0.0, 0.0, 0)
    depths = [0, *(1 - threshold for threshold in thresholds)]
    """By level: how many documents of a burst get a better level."""
    better = depths[min(target.level, len(depths)) - 1]
    up_to_same = depths[target.level] if target.level < len(depths) else None
    others = [n for customer, n in arrived.documents.items() if customer != target.customer]
    same = [(n if up_to_same is None else min(n, up_to_same)) - better for n in others if n > better]
    return ArrivalRates(sum(min(n, better) for n in others) / arrived.window, sum(same) / arrived.window, len(same))


def expected_wait(ahead: Ahead, target: ForecastTarget, speed: Speed, rates: ArrivalRates) -> int:
    """Return how long a document waits if starts and arrivals go on as they did."""
    turns = ahead.own_line + 1
    lanes = 0 if target.other_lanes is None else max(target.other_lanes, rates.customers)
    max_same = max(0, turns * lanes - ahead.same_level)
    gap = math.sqrt(speed.fast * speed.slow)
    longest = MAX_DELAY_FACTOR * (ahead.place + 1) * gap
    wait = 0.0
    for _ in range(50):
        newcomers = rates.better * wait + min(rates.same * wait, max_same)
        wait = min((ahead.place + newcomers + 1) * gap, longest)
    return round(wait)


def expected_start(
    forecast: Forecast, speed: Speed, outcomes: Iterable[ForecastOutcome], waiting: Iterable[Forecast] = ()
) -> Span:
    """Return the earliest and latest start that are likely, by what became of earlier forecasts.

    At once, if the speed was not measured under load: a slot may be free.
    """
    shortest, longest = likely_waits(forecast, outcomes, waiting)
    return Span(forecast.at + (shortest if speed.is_loaded else 0), forecast.at + longest)


class StartTimes:
    """Start times in order, each with whether other documents still waited after it."""

    def __init__(self, starts: Iterable[tuple[int, bool]]) -> None:
        self._at: list[int] = []
        self._loaded = [0]
        """Prefix sums: starts under load, and in `_elapsed` the time they took."""
        self._elapsed = [0]
        was_loaded = False
        for at, is_loaded in starts:
            loaded, elapsed = (1, max(0, at - self._at[-1])) if was_loaded else (0, 0)
            self._loaded.append(self._loaded[-1] + loaded)
            self._elapsed.append(self._elapsed[-1] + elapsed)
            self._at.append(at)
            was_loaded = is_loaded

    def speed(self, now: int) -> Speed | None:
        """Measure the speed by the newest starts before now; None if they are too few."""
        end = bisect_left(self._at, now + 1)
        first = bisect_left(self._at, now - HISTORY_WINDOW)
        gaps = []
        for size in SAMPLE_SIZES:
            begin = max(first, bisect_left(self._loaded, self._loaded[end] - size, 0, end + 1))
            starts, elapsed = self._loaded[end] - self._loaded[begin], self._elapsed[end] - self._elapsed[begin]
            if starts >= MIN_STARTS and elapsed:
                gaps.append(elapsed / starts)
        return Speed(min(gaps), max(gaps)) if gaps else None


def start_times_from_arrivals(arrived_at: Sequence[int], started_at: Sequence[int]) -> StartTimes:
    """Build start times from sorted times of arrivals and starts."""
    return StartTimes((at, bisect_right(arrived_at, at) > number) for number, at in enumerate(started_at, start=1))


def start_times_from_events(events: Sequence[Event], waiting: int) -> StartTimes:
    """Build start times from events, oldest first, and the documents that wait after the last one."""
    starts: list[tuple[int, bool]] = []
    for event in reversed(events):
        n = len(event.documents)
        if event.kind is EventKind.STARTED:
            starts.extend((event.at, waiting + later > 0) for later in range(n))
            waiting += n
        elif event.kind in _QUEUEING_EVENTS:
            waiting = max(0, waiting - n)
    starts.reverse()
    return StartTimes(sorted(starts, key=itemgetter(0)))


def arrivals_from_events(events: Sequence[Event], since: int, now: int) -> RecentArrivals:
    """Count the documents of each customer that were submitted, moved on, or retried by hand since a time."""
    arrived: Counter[str] = Counter()
    for event in events:
        if event.kind in _ARRIVAL_EVENTS and event.customer is not None and event.at >= since:
            arrived[event.customer] += len(event.documents)
    return RecentArrivals(arrived, max(SECOND, now - since))
