"""When a document should start: the pace under load, and who may still come before it."""

import pytest

import recorded_day
from inturn.analysis.forecast_accuracy import measure_accuracy
from inturn.analysis.history_reader import read_history
from inturn.insights.explain import rounded_range
from inturn.insights.forecast import (
    ArrivalRates,
    ForecastTarget,
    RecentArrivals,
    Speed,
    arrival_rates,
    arrivals_from_events,
    expected_start,
    expected_wait,
    start_times_from_arrivals,
    start_times_from_events,
)
from inturn.policy.forecasts import Forecast
from inturn.policy.position import Ahead
from inturn.queue_reader import QueueReader
from inturn.store_types import Event, EventKind
from inturn.stores import open_store
from inturn.values import SECOND

THRESHOLDS = (-2, -4, -6, -8, -10, -12, -14, -20)
NO_CUSTOMER = ArrivalRates(0.0, 0.0, 0)
SUBMITTED, STARTED, FINISHED = EventKind.SUBMITTED, EventKind.STARTED, EventKind.FINISHED


def wait(
    before: Ahead, mine: ForecastTarget | None = None, speed: Speed | None = None, rates: ArrivalRates = NO_CUSTOMER
) -> float:
    """In seconds; one start a second unless said otherwise."""
    return expected_wait(before, mine or ForecastTarget("acme", 9, 2), speed or Speed(SECOND, SECOND), rates) / SECOND


def events(*output: tuple[float, EventKind, str, int]) -> list[Event]:
    return [
        Event(number, round(at * SECOND), kind, customer, tuple(map(str, range(n))))
        for number, (at, kind, customer, n) in enumerate(output)
    ]


def test_what_stands_before_it_takes_its_time() -> None:
    assert wait(Ahead(10, 20, 20)) == 51
    assert wait(Ahead(10, 20, 20), rates=ArrivalRates(0.0, 1.0, 2)) == 51 + 22
    assert wait(Ahead(10, 40, 20)) == 71
    assert wait(Ahead(0, 0, 0), ForecastTarget("acme", 1, 0)) == 1


def test_in_the_classic_order_nobody_of_its_level_comes_before_it() -> None:
    assert wait(Ahead(10, 20, 20), ForecastTarget("acme", 9, None), rates=ArrivalRates(0.0, 1.0, 9)) == 51


def test_better_levels_go_on_coming() -> None:
    half = ArrivalRates(0.5 / SECOND, 0.0, 0)
    assert wait(Ahead(99, 0, 0), ForecastTarget("acme", 9, None), rates=half) == pytest.approx(200)
    flooded = ArrivalRates(2.0 / SECOND, 0.0, 0)
    assert wait(Ahead(99, 0, 0), ForecastTarget("acme", 9, None), rates=flooded) == 20 * 100


def test_a_free_slot_may_start_it_at_once() -> None:
    forecast = Forecast(5 * SECOND, 10 * SECOND, 9)
    loaded, idle = (expected_start(forecast, Speed(SECOND, SECOND, is_loaded=loaded), ()) for loaded in (True, False))
    assert loaded.earliest > idle.earliest == 5 * SECOND
    assert loaded.latest == idle.latest


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


@pytest.mark.parametrize("seed", [2, 7])
def test_most_starts_of_a_recorded_day_lie_within_their_span(seed: int) -> None:
    """A day with floods, a worker that goes away and a change of policy."""
    store = open_store("memory://")
    recorded_day.record(store, 3_600, seed=seed)
    forecast_accuracy = measure_accuracy(read_history(QueueReader(store), 0))
    assert forecast_accuracy is not None
    known = forecast_accuracy.asked - forecast_accuracy.unknown
    assert forecast_accuracy.inside >= 0.85 * known
    assert forecast_accuracy.early <= 0.05 * known


@pytest.mark.parametrize(
    ("shortest", "longest", "rounded"),
    [
        (0, 7, (0, 10)),
        (64, 119, (60, 120)),
        (487, 821, (480, 840)),
        (1_830, 5_000, (1_800, 5_100)),
        (90_000, 700_000, (90_000, 702_000)),
    ],
)
def test_a_range_is_rounded_outwards_to_what_is_known(shortest: int, longest: int, rounded: tuple[int, int]) -> None:
    low, high = rounded_range(shortest * SECOND, longest * SECOND)
    assert (low // SECOND, high // SECOND) == rounded
    assert low <= shortest * SECOND <= longest * SECOND <= high
