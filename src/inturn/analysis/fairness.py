"""Measure what each customer got: its waits, its share against its fair share, and the harm done to others.

Time is cut into windows. In each window a customer *received* the seconds that workers spent on its documents. Its
*demand* is what it could have used: of each document that was there, its service time or the time it was there, if that
is less. What was *due* to it is its fair part of the work done in the window: shares by weight, at most its demand, the
rest shared among the others. Only windows in which a document had to wait count: with spare capacity every customer
receives its due.

*Harm done* are the seconds received above what was due, while others received less than was due to them; *harm
suffered* the seconds below it. In every window both sums are equal: no second is above without one below.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from inturn.analysis.compare import Waits, measured_waits, rounded, summarize_waits
from inturn.analysis.forecast_accuracy import ForecastAccuracy
from inturn.analysis.history import History
from inturn.analysis.metrics import MetricsInput, ShareIndices, share_indices
from inturn.insights.shares import fair_shares
from inturn.model import CustomerSettings
from inturn.values import SECOND

DEFAULT_WINDOW: Final = 60 * SECOND
MIN_WINDOWS: Final = 1_000
MAX_WINDOWS: Final = 5_000
MIN_DOCUMENTS_PER_WINDOW: Final = 20
"""Minimum mean of documents per window; with fewer, shares would reflect single documents."""
SATURATION_FACTOR: Final = 1.001


@dataclass(frozen=True, slots=True)
class CustomerFairness:
    """What one customer got. Shares are parts of 1, harm is worker seconds; None if no document had to wait."""

    customer: str
    group: str
    documents: int
    waits: Waits | None
    worked: float
    """Seconds that workers spent on its documents."""
    received: float | None
    """Its share of the work done in windows with waiting documents."""
    due: float | None
    harm_done: float
    harm_suffered: float


@dataclass(frozen=True, slots=True)
class FairnessReport:
    """What really happened from a time to a time."""

    since: int
    until: int
    documents: int
    workers: int
    is_cut: bool
    crowded: float
    """Seconds of windows in which documents waited."""
    jain: float | None
    """Jain's index of worker seconds, as the simulator computes it, of documents that have ended."""
    jain_documents: float | None
    """The same of started documents."""
    starts: ForecastAccuracy | None
    customers: tuple[CustomerFairness, ...]
    """Those who did the most harm first, then by documents."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it, without the customers: there may be many."""
        result = asdict(replace(self, customers=()))
        del result["customers"]
        plain: dict[str, Any] = rounded(result)
        return plain


class _Share(NamedTuple):
    """One customer in one window: its place in the list of names, what it could have used and what it got."""

    customer: int
    demand: float
    received: float


class _Totals:
    """What one customer comes to over all windows."""

    def __init__(self) -> None:
        self.received = self.due = self.above = self.below = 0.0
        self.had_demand = False


def measure_fairness(history: History, until: int, starts: ForecastAccuracy | None = None) -> FairnessReport:
    """Read it off the past; `until` is when it was looked at."""
    history = history.without_warmup()
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, arrival in enumerate(history.arrivals):
        numbers[arrival.customer].append(number)
    names = list(numbers)
    window = _window_length(history, until)
    windows: dict[int, list[_Share]] = defaultdict(list)
    for place, name in enumerate(names):
        for at, demand, received in _usage_by_window(history, numbers[name], window, until):
            windows[at].append(_Share(place, demand, received))
    weights = [history.settings.get(name, CustomerSettings()).weight for name in names]
    sums = [_Totals() for _ in names]
    crowded = sum(_add_if_saturated(shares, weights, sums) for shares in windows.values())
    whole = sum(item.received for item in sums)
    groups = history.groups()
    customer_fairnesses = [
        CustomerFairness(
            name,
            groups[name],
            len(numbers[name]),
            summarize_waits(waits) if (waits := measured_waits(history, numbers[name])) else None,
            sum(end - begin for begin, end in _run_intervals(history, numbers[name], until)) / SECOND,
            item.received / whole if item.had_demand and whole else None,
            item.due / whole if item.had_demand and whole else None,
            item.above / SECOND,
            item.below / SECOND,
        )
        for name, item in zip(names, sums, strict=True)
    ]
    customer_fairnesses.sort(
        key=lambda customer_fairness: (
            -round(customer_fairness.harm_done, 3),
            -customer_fairness.documents,
            customer_fairness.customer,
        )
    )
    shares = _share_indices(history)
    return FairnessReport(
        history.arrivals[0].at,
        until,
        len(history.arrivals),
        history.workers,
        history.is_cut,
        min(crowded * window, until - history.arrivals[0].at) / SECOND,
        shares.seconds.windows,
        shares.documents.windows,
        starts,
        tuple(customer_fairnesses),
    )


def _share_indices(history: History) -> ShareIndices:
    ended = [
        (arrival, max(arrival.at, started), finished)
        for number, (arrival, finished) in enumerate(zip(history.arrivals, history.finished, strict=True))
        if finished is not None and (started := history.started(number)) is not None
    ]
    arrivals, begun, finishes = zip(*ended, strict=True) if ended else ((), (), ())
    defaults = CustomerSettings()
    return share_indices(
        MetricsInput(
            arrivals,
            begun,
            finishes,
            history.workers,
            ("all",),
            lambda _: 0,
            lambda arrival: history.settings.get(arrival.customer, defaults).weight,
        )
    )


def _window_length(history: History, until: int) -> int:
    """Choose a window long enough for shares to mean something and short enough to show waits."""
    span = max(1, until - history.arrivals[0].at)
    usual = sum(arrival.service for arrival in history.arrivals) // len(history.arrivals)
    enough = MIN_DOCUMENTS_PER_WINDOW * usual // history.workers
    return max(SECOND, enough, min(DEFAULT_WINDOW, span // MIN_WINDOWS), span // MAX_WINDOWS)


def _run_intervals(history: History, numbers: Sequence[int], until: int) -> Iterator[tuple[int, int]]:
    """From when to when each of these documents ran; what still runs, until it was looked at."""
    for number in numbers:
        began = history.started(number)
        if began is not None:
            finished = history.finished[number]
            yield began, max(began, until if finished is None else finished)


def _usage_by_window(
    history: History, numbers: Sequence[int], window: int, until: int
) -> Iterator[tuple[int, float, float]]:
    """A customer's windows: demand and what it received, in microseconds."""
    steps: dict[int, int] = defaultdict(int)
    """Where the demand of documents that are there for whole windows begins and ends."""
    demand: dict[int, float] = defaultdict(float)
    received: dict[int, float] = defaultdict(float)
    for number in numbers:
        arrival, finished = history.arrivals[number], history.finished[number]
        end = max(arrival.at, until if finished is None else finished)
        first, last = arrival.at // window, end // window
        if first == last:
            demand[first] += min(arrival.service, end - arrival.at)
            continue
        demand[first] += min(arrival.service, (first + 1) * window - arrival.at)
        demand[last] += min(arrival.service, end - last * window)
        if last > first + 1:
            steps[first + 1] += min(arrival.service, window)
            steps[last] -= min(arrival.service, window)
    for begin, end in _run_intervals(history, numbers, until):
        for at in range(begin // window, end // window + 1):
            received[at] += min(end, (at + 1) * window) - max(begin, at * window)
    level = 0
    for edge, after in pairwise(sorted(steps)):
        level += steps[edge]
        for at in range(edge, after if level else edge):
            demand[at] += level
    for at, wanted in demand.items():
        yield at, max(wanted, received.get(at, 0.0)), received.get(at, 0.0)


def _add_if_saturated(shares: Sequence[_Share], weights: Sequence[float], sums: Sequence[_Totals]) -> bool:
    """Add a window to the totals, if a document waited in it."""
    capacity = sum(share.received for share in shares)
    if sum(share.demand for share in shares) <= capacity * SATURATION_FACTOR:
        return False
    for item, due in zip(
        shares, fair_shares([(one.demand, weights[one.customer]) for one in shares], capacity), strict=True
    ):
        own = sums[item.customer]
        own.had_demand = True
        own.received += item.received
        own.due += due
        own.above += max(0.0, item.received - due)
        own.below += max(0.0, due - item.received)
    return True
