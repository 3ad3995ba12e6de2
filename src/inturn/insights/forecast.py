"""When a waiting document should start: how fast documents start while others wait, and what may still come before it.

How many were finished lately tells how much there was to do, not how fast it goes: only starts made while others waited
count. And a place counts what is there: better levels go on coming before it, and so do other customers of its own
level, up to a turn for each document of its own line.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from inturn.insights.views import Span
from inturn.model import EXPEDITED_LEVEL, SECOND
from inturn.policy.position import Ahead
from inturn.store import Event, EventKind

HISTORY_WINDOW: Final = 600 * SECOND
"""What happened longer ago tells nothing."""
SAMPLE_SIZES: Final = (100, 500)
"""Starts made while others waited that a pace is measured by: how it went just now, and for a while."""
MIN_STARTS: Final = 20
SPEEDUP_FACTOR, SLOWDOWN_FACTOR = 2.0, 2.0
"""By how much it may go faster or slower than lately: with these about nine of ten starts lie within their span."""
MAX_DELAY_FACTOR: Final = 20
"""A start is not put off by newcomers for longer than so many times what is there takes."""
_QUEUEING_EVENTS: Final = frozenset(
    {EventKind.SUBMITTED, EventKind.RELEASED, EventKind.LEASE_LOST, EventKind.DUE, EventKind.RETRIED}
)
"""What lets documents wait. Delays and cancellations are few, and it is not told what they waited for."""


class Speed(NamedTuple):
    """Microseconds from one start to the next: when it went fast lately, and when it went slowly."""

    fast: float
    slow: float
    is_loaded: bool = True
    """While others waited: it could not go faster."""


class RecentArrivals(NamedTuple):
    """Documents that came lately, by customer, and in how many microseconds."""

    documents: Mapping[str, int]
    window: int


class ForecastTarget(NamedTuple):
    """The document that is asked about."""

    customer: str
    level: int
    """Of its line."""
    other_lanes: int | None
    """Other customers' open lines of that level; None where nobody of that level who comes later goes before."""


class ArrivalRates(NamedTuple):
    """Documents in a microsecond that are likely to come before one."""

    better: float
    same: float
    customers: int
    """Customers who brought those of its own level."""


def arrival_rates(target: ForecastTarget, arrived: RecentArrivals, thresholds: Sequence[int]) -> ArrivalRates:
    """If others go on as they did. Levels are those of a customer that was idle before: the best that it can get."""
    if target.level == EXPEDITED_LEVEL:
        return ArrivalRates(0.0, 0.0, 0)
    depths = [0, *(1 - threshold for threshold in thresholds)]
    """Of a burst, so many documents have a better level than each."""
    better = depths[min(target.level, len(depths)) - 1]
    beyond = depths[target.level] if target.level < len(depths) else None
    others = [n for customer, n in arrived.documents.items() if customer != target.customer]
    same = [(n if beyond is None else min(n, beyond)) - better for n in others if n > better]
    return ArrivalRates(sum(min(n, better) for n in others) / arrived.window, sum(same) / arrived.window, len(same))


def expected_start(ahead: Ahead, target: ForecastTarget, speed: Speed, rates: ArrivalRates, now: int) -> Span:
    """From when to when the document should start.

    Not before all that stands before it was started twice as fast as lately; if nobody had to wait lately, at any time.
    Not after it was started half as fast, with newcomers as lately and one customer more in its level.
    """
    turns = ahead.own_line + 1
    more = 0 if target.other_lanes is None else turns
    room = (
        0 if target.other_lanes is None else max(0, turns * max(target.other_lanes, rates.customers) - ahead.same_level)
    )
    longest = MAX_DELAY_FACTOR * (ahead.place + more + 1) * speed.slow
    time = 0.0
    for _ in range(50):
        newcomers = rates.better * time + min(rates.same * time, room) + more
        time = min((ahead.place + newcomers + 1) * speed.slow, longest)
    earliest = ahead.place * speed.fast / SPEEDUP_FACTOR if speed.is_loaded else 0.0
    return Span(now + round(earliest), now + round(time * SLOWDOWN_FACTOR))


class StartTimes:
    """Starts in the order of time, and after which of them others waited."""

    def __init__(self, starts: Iterable[tuple[int, bool]]) -> None:
        self._at: list[int] = []
        self._loaded = [0]
        """Starts while others waited, up to each place, and the time that they took."""
        self._elapsed = [0]
        was_loaded = False
        for at, is_loaded in starts:
            loaded, over = (1, max(0, at - self._at[-1])) if was_loaded else (0, 0)
            self._loaded.append(self._loaded[-1] + loaded)
            self._elapsed.append(self._elapsed[-1] + over)
            self._at.append(at)
            was_loaded = is_loaded

    def speed(self, now: int) -> Speed | None:
        """By the newest before now; None if they are too few."""
        end = bisect_left(self._at, now + 1)
        first = bisect_left(self._at, now - HISTORY_WINDOW)
        item = []
        for newest in SAMPLE_SIZES:
            begin = max(first, bisect_left(self._loaded, self._loaded[end] - newest, 0, end + 1))
            starts, over = self._loaded[end] - self._loaded[begin], self._elapsed[end] - self._elapsed[begin]
            if starts >= MIN_STARTS and over:
                item.append(over / starts)
        return Speed(min(item), max(item)) if item else None


def start_times_from_arrivals(arrived_at: Sequence[int], started_at: Sequence[int]) -> StartTimes:
    """From when documents came and when they started, each in order."""
    return StartTimes((at, bisect_right(arrived_at, at) > number) for number, at in enumerate(started_at, start=1))


def start_times_from_events(events: Sequence[Event], waiting: int) -> StartTimes:
    """From what happened, oldest first, and how many wait after it."""
    result: list[tuple[int, bool]] = []
    for event in reversed(events):
        n = len(event.documents)
        if event.kind is EventKind.STARTED:
            result.extend((event.at, waiting + later > 0) for later in range(n))
            waiting += n
        elif event.kind in _QUEUEING_EVENTS:
            waiting = max(0, waiting - n)
    result.reverse()
    return StartTimes(sorted(result, key=itemgetter(0)))


def arrivals_from_events(events: Sequence[Event], since: int, now: int) -> RecentArrivals:
    """Who brought how many since then."""
    result: Counter[str] = Counter()
    for event in events:
        if event.kind in {EventKind.SUBMITTED, EventKind.RETRIED} and event.customer is not None and event.at >= since:
            result[event.customer] += len(event.documents)
    return RecentArrivals(result, max(SECOND, now - since))
