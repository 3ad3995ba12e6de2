"""When a document should start: the pace under load, and who may still come before it."""

import pytest

import recorded_day
from inturn.analysis.forecast_accuracy import measure_accuracy
from inturn.analysis.history import read_history
from inturn.insights.forecast import (
    ArrivalRates,
    ForecastTarget,
    RecentArrivals,
    Speed,
    arrival_rates,
    arrivals_from_events,
    expected_start,
    start_times_from_arrivals,
    start_times_from_events,
)
from inturn.model import SECOND
from inturn.policy.position import Ahead
from inturn.queue_reader import QueueReader
from inturn.store import Event, EventKind
from inturn.stores import open_store

THRESHOLDS = (-2, -4, -6, -8, -10, -12, -14, -20)
NO_CUSTOMER = ArrivalRates(0.0, 0.0, 0)
SUBMITTED, STARTED, FINISHED = EventKind.SUBMITTED, EventKind.STARTED, EventKind.FINISHED


def span(
    before: Ahead, mine: ForecastTarget | None = None, speed: Speed | None = None, rates: ArrivalRates = NO_CUSTOMER
) -> tuple[float, float]:
    """In seconds from now; one start a second unless said otherwise."""
    span = expected_start(
        before, mine or ForecastTarget("acme", 9, 2), speed or Speed(SECOND, SECOND), rates, 5 * SECOND
    )
    return span.earliest / SECOND - 5, span.latest / SECOND - 5


def events(*output: tuple[float, EventKind, str, int]) -> list[Event]:
    return [
        Event(number, round(at * SECOND), kind, customer, tuple(map(str, range(n))))
        for number, (at, kind, customer, n) in enumerate(output)
    ]


def test_what_stands_before_it_takes_its_time_and_a_customer_more_may_come() -> None:
    assert span(Ahead(10, 20, 20)) == (25, 2 * (50 + 21 + 1))
    assert span(Ahead(10, 20, 20), rates=ArrivalRates(0.0, 1.0, 2)) == (25, 2 * (50 + 21 + 1 + 22))
    assert span(Ahead(10, 40, 20)) == (35, 2 * (70 + 21 + 1))
    assert span(Ahead(0, 0, 0), ForecastTarget("acme", 1, 0)) == (0, 4)


def test_in_the_classic_order_nobody_of_its_level_comes_before_it() -> None:
    assert span(Ahead(10, 20, 20), ForecastTarget("acme", 9, None), rates=ArrivalRates(0.0, 1.0, 9)) == (25, 2 * 51)


def test_better_levels_go_on_coming() -> None:
    half = ArrivalRates(0.5 / SECOND, 0.0, 0)
    assert span(Ahead(99, 0, 0), ForecastTarget("acme", 9, None), rates=half)[1] == pytest.approx(2 * 200)
    flooded = ArrivalRates(2.0 / SECOND, 0.0, 0)
    assert span(Ahead(99, 0, 0), ForecastTarget("acme", 9, None), rates=flooded)[1] == 2 * 20 * 100


def test_the_sooner_by_when_it_went_fast_the_later_by_when_it_went_slowly() -> None:
    assert span(Ahead(100, 0, 0), ForecastTarget("a", 9, None), Speed(SECOND // 2, 3 * SECOND)) == (25, 2 * 303)
    assert span(Ahead(100, 0, 0), ForecastTarget("a", 9, None), Speed(SECOND, SECOND, is_loaded=False))[0] == 0


def test_who_comes_before_whom_is_told_by_what_came() -> None:
    arrived = RecentArrivals({"acme": 500, "small": 2, "flood": 121}, 10)
    assert arrival_rates(ForecastTarget("acme", 9, 1), arrived, THRESHOLDS) == (2.3, 10.0, 1)
    assert arrival_rates(ForecastTarget("acme", 2, 1), arrived, THRESHOLDS) == ((2 + 3) / 10, 2 / 10, 1)
    assert arrival_rates(ForecastTarget("acme", 1, 1), arrived, THRESHOLDS) == (0.0, (2 + 3) / 10, 2)
    assert arrival_rates(ForecastTarget("acme", 0, 1), arrived, THRESHOLDS) == (0.0, 0.0, 0)


def test_only_starts_made_while_others_waited_tell_how_fast_it_goes() -> None:
    """Thirty that came at once, one a second; then an idle minute, and one that found a worker idle."""
    came = [0] * 30 + [90 * SECOND]
    speed = start_times_from_arrivals(came, [*(n * SECOND for n in range(30)), 90 * SECOND]).speed(91 * SECOND)
    assert speed == Speed(SECOND, SECOND)
    assert start_times_from_arrivals([0] * 20, [n * SECOND for n in range(20)]).speed(20 * SECOND) is None
    assert start_times_from_arrivals([0] * 30, [n * SECOND for n in range(30)]).speed(700 * SECOND) is None


def test_events_tell_it_too() -> None:
    reported = events((0, SUBMITTED, "a", 30), *((n, STARTED, "a", 1) for n in range(30)), (95, STARTED, "b", 1))
    reported.insert(-1, Event(99, 90 * SECOND, SUBMITTED, "b", ("x",)))
    assert start_times_from_events(reported, 0).speed(96 * SECOND) == Speed(SECOND, SECOND)
    assert arrivals_from_events(reported, SECOND, 96 * SECOND) == ({"b": 1}, 95 * SECOND)


def test_most_starts_of_a_recorded_day_lie_within_their_span() -> None:
    """A day with floods, a worker that goes away and a change of policy."""
    store = open_store("memory://")
    recorded_day.record(store, 3_600, seed=7)
    forecast_accuracy = measure_accuracy(read_history(QueueReader(store), 0))
    assert forecast_accuracy is not None
    known = forecast_accuracy.asked - forecast_accuracy.unknown
    assert forecast_accuracy.inside >= 0.75 * known
    assert forecast_accuracy.early <= 0.1 * known
