"""Measure how good the expected starts were: the forecasts of `inturn why` right after each document came.

A store keeps no forecasts. A replay of the unchanged history rebuilds the lanes of each moment. The speed comes from
the recorded starts and ends. Each forecast is compared with the recorded start.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Final, NamedTuple

from inturn.analysis.engine import Simulation, simulated_id
from inturn.analysis.history import History, ProgressCallback
from inturn.analysis.replay import UNCHANGED_PLAN, replay
from inturn.insights import MIN_FINISHES, THROUGHPUT_WINDOW, Span, expected_start, observed_window, open_lanes
from inturn.insights.forecast import RecentArrivals, Speed, arrival_rates, expected_wait, start_times_from_arrivals
from inturn.insights.lanes_ahead import forecast_target
from inturn.policy import Order
from inturn.policy.forecasts import MAX_OUTCOMES, Forecast, ForecastOutcome
from inturn.policy.position import classic_ahead, fair_ahead
from inturn.queue_reader import QueueReader
from inturn.values import SECOND

SAMPLE_SIZE: Final = 300
MIN_WAIT: Final = SECOND
"""Documents with shorter waits are not sampled: they start before anyone can ask for a forecast."""
RECENT_WINDOW: Final = 60 * SECOND


class ForecastAccuracy(NamedTuple):
    """Counts and errors of the forecasts for a sample of the documents that had to wait."""

    asked: int
    unknown: int
    """Forecasts without an answer: too few documents had ended."""
    inside: int
    early: int
    """Started before the span."""
    late: int
    median_error: float | None
    """Seconds outside the span; most of the time 0 if estimates are good."""
    median_width: float | None
    """Seconds from the span's beginning to its end. It stands beside the error, since a wide span is easily right."""


def measure_accuracy(
    history: History, progress: ProgressCallback | None = None, sample_size: int = SAMPLE_SIZE
) -> ForecastAccuracy | None:
    """Repeat the forecasts for a sample of documents; None if none had to wait.

    Steps are documents of their own here, and all queues are one.
    """
    history = history.pooled() if history.has_steps or len({spec.queue for spec in history.specs}) > 1 else history
    waited = [
        number
        for number in range(history.warmup_documents, len(history.arrivals))
        if (history.waits[number] or 0) >= MIN_WAIT
    ]
    if not waited:
        return None
    sample = (
        frozenset(waited[at * len(waited) // sample_size] for at in range(sample_size))
        if len(waited) > sample_size
        else waited
    )
    chosen = frozenset(sample)
    past = HistoryView(history)
    spans: dict[int, Span | None] = {}

    def setting(playing: Simulation, queue: QueueReader) -> None:
        def on_arrival(number: int, now: int) -> None:
            if number in chosen:
                spans[number] = _forecast(queue, number, past, now)

        playing.on_arrival = on_arrival

    replay(history, UNCHANGED_PLAN, progress, setting)
    return _score(history, spans)


class HistoryView:
    """Answer questions about a history with what was known at a given moment."""

    def __init__(self, history: History) -> None:
        self._arrivals = history.arrivals
        self._waits = history.waits
        self._forecasts: list[tuple[Forecast, int | None]] = []
        self._arrived_at = array("q", (arrival.at for arrival in history.arrivals))
        self._recorded_since = history.policies[0][0] if history.policies else history.arrivals[0].at
        waits = zip(self._arrived_at, history.waits, strict=True)
        self._starts = start_times_from_arrivals(
            self._arrived_at, sorted(came + wait for came, wait in waits if wait is not None)
        )
        self._ends = array("q", sorted(item for item in history.finished if item is not None))

    def speed(self, now: int) -> Speed | None:
        """Measure the speed of starts, or of finishes if too few documents started while others waited."""
        if (speed := self._starts.speed(now)) is not None:
            return speed
        for over in (RECENT_WINDOW, THROUGHPUT_WINDOW):
            finished = bisect_left(self._ends, now) - bisect_left(self._ends, now - over)
            if finished >= MIN_FINISHES:
                item = observed_window(over, self._recorded_since, now) / finished
                return Speed(item, item, is_loaded=False)
        return None

    def add_forecast(self, forecast: Forecast, number: int) -> None:
        """Remember a forecast: later ones learn from it once its document has started."""
        self._forecasts.append((forecast, self._waits[number]))

    def outcomes(self, now: int) -> Iterator[ForecastOutcome]:
        """Yield the outcomes that were known at a time."""
        for forecast, wait in self._forecasts[-MAX_OUTCOMES:]:
            if wait is not None and forecast.at + wait <= now:
                yield ForecastOutcome(forecast, wait, is_held=True)

    def still_waiting(self, now: int) -> Iterator[Forecast]:
        """Yield the forecasts whose documents still waited at a time."""
        return (
            forecast for forecast, wait in self._forecasts[-MAX_OUTCOMES:] if wait is None or forecast.at + wait > now
        )

    def recent_arrivals(self, now: int) -> RecentArrivals:
        """Count the documents that each customer submitted lately."""
        since = max(now - THROUGHPUT_WINDOW, min(self._recorded_since, now))
        lately = slice(bisect_left(self._arrived_at, since), bisect_left(self._arrived_at, now))
        return RecentArrivals(Counter(arrival.customer for arrival in self._arrivals[lately]), max(SECOND, now - since))


def _forecast(queue: QueueReader, number: int, history: HistoryView, now: int) -> Span | None:
    standings = queue.scheduler_snapshot()
    document = queue.document(simulated_id(number))
    place = next(
        (
            at
            for at, lane_snapshot in enumerate(standings.lanes)
            if lane_snapshot[:2] == (document.customer, document.lane_level)
        ),
        None,
    )
    speed = history.speed(now)
    if place is None or speed is None:
        return None
    lines, ahead = open_lanes(standings), queue.ahead_in_lane(document.id)
    if standings.policy.order is Order.FAIR:
        before = fair_ahead(lines, place, ahead)
    else:
        before = classic_ahead(lines, place, ahead, document.seq)
    mine = forecast_target(document, standings)
    rates = arrival_rates(mine, history.recent_arrivals(now), queue.policy().policy.priority.thresholds)
    forecast = Forecast(now, expected_wait(before, mine, speed, rates), document.lane_level)
    span = expected_start(forecast, speed, history.outcomes(now), history.still_waiting(now))
    history.add_forecast(forecast, number)
    return span


def _score(history: History, spans: dict[int, Span | None]) -> ForecastAccuracy:
    inside = early = late = 0
    errors, widths = [], []
    for number, span in spans.items():
        if span is None:
            continue
        at = history.arrivals[number].at + (history.waits[number] or 0)
        early += at < span.earliest
        late += at > span.latest
        inside += span.earliest <= at <= span.latest
        errors.append(max(0, span.earliest - at, at - span.latest) / SECOND)
        widths.append((span.latest - span.earliest) / SECOND)
    unknown = len(spans) - len(errors)
    known = (median(errors), median(widths)) if errors else (None, None)
    return ForecastAccuracy(len(spans), unknown, inside, early, late, *known)
