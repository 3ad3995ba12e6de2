"""Forecasts of starts learn from what became of earlier ones."""

import pytest

from inturn.policy.forecasts import (
    HOUR,
    KEPT_HOURS,
    MAX_OUTCOMES,
    PRIOR,
    SECOND,
    Forecast,
    ForecastLog,
    ForecastOutcome,
    likely_waits,
)

NOW = 1_700_000_000 * SECOND
MINUTE = 60 * SECOND


def outcomes(
    factor: float, n: int = 100, *, ago: int = MINUTE, wait: int = MINUTE, level: int = 9
) -> list[ForecastOutcome]:
    """Forecasts whose documents waited so many times as long as said, and started a while ago."""
    waited = round(factor * wait)
    return [ForecastOutcome(Forecast(NOW - ago - waited, wait, level), waited, is_held=True) for _ in range(n)]


def factors(*args: list[ForecastOutcome] | list[Forecast]) -> tuple[float, float]:
    low, high = likely_waits(Forecast(NOW, MINUTE, 9), *args)
    return low / MINUTE, high / MINUTE


def test_without_outcomes_the_prior_is_assumed() -> None:
    assert factors([]) == (PRIOR[0], PRIOR[-1])


def test_outcomes_narrow_the_range_to_what_happened() -> None:
    low, high = factors([*outcomes(0.9), *outcomes(1.2)])
    assert 0.8 <= low <= 0.9
    assert 1.2 <= high <= 1.6
    late_low, late_high = factors(outcomes(8.0, 200))
    assert (late_low, late_high) > (low, high)
    assert late_high == 8


def test_nine_of_ten_outcomes_lie_within_the_range() -> None:
    known = [outcome for number in range(200) for outcome in outcomes(0.5 + number / 100, 1)]
    low, high = factors(known)
    assert sum(low <= outcome.waited / MINUTE <= high for outcome in known) >= 0.88 * len(known)


def test_outcomes_of_other_times_lengths_and_levels_count_less() -> None:
    like = factors([*outcomes(1.0, 40), *outcomes(5.0, 5)])
    for other in ({"ago": HOUR}, {"wait": 50 * MINUTE}, {"level": 1}):
        assert factors([*outcomes(1.0, 40), *outcomes(5.0, 5, **other)])[1] < like[1], other


def test_what_was_not_known_yet_is_left_out() -> None:
    future = [ForecastOutcome(Forecast(NOW - MINUTE, MINUTE, 9), 2 * MINUTE, is_held=True)] * 100
    assert factors(future) == factors([])


def test_documents_that_wait_past_their_forecast_lengthen_it() -> None:
    waiting = [Forecast(NOW - 10 * MINUTE, MINUTE, 9)] * 100
    assert factors(outcomes(1.0), waiting)[1] > 10
    assert factors(outcomes(1.0), [Forecast(NOW - MINUTE // 2, MINUTE, 9)] * 100) == factors(outcomes(1.0))


def test_a_forecast_of_nothing_is_no_error() -> None:
    assert likely_waits(Forecast(NOW, 0, 9), outcomes(1.0, wait=0)) == (0, 0)


def test_the_log_keeps_the_newest_and_counts_by_hour() -> None:
    log = ForecastLog()
    for number in range(MAX_OUTCOMES + 20):
        log = log.add([ForecastOutcome(Forecast(NOW + number * SECOND, SECOND, 9), SECOND, is_held=number % 2 == 0)])
    assert len(log.outcomes) == MAX_OUTCOMES
    assert log.outcomes[0].forecast.at == NOW + 20 * SECOND
    assert log.held_between(0, NOW + HOUR) == ((MAX_OUTCOMES + 20) // 2, MAX_OUTCOMES + 20)
    assert log.held_between(NOW + 24 * HOUR, NOW + 48 * HOUR) == (0, 0)
    for number in range(200):
        log = log.add([ForecastOutcome(Forecast(NOW + number * HOUR, SECOND, 9), SECOND, is_held=True)])
    assert len(log.hours) == KEPT_HOURS
    assert ForecastLog.from_json(log.to_json()) == log


def test_outcomes_by_a_clock_that_was_ahead_make_room_for_later_ones() -> None:
    year = 365 * 24 * HOUR
    ahead = [ForecastOutcome(Forecast(NOW + year + n, SECOND, 9), SECOND, is_held=False) for n in range(MAX_OUTCOMES)]
    log = ForecastLog().add(ahead)
    right = [ForecastOutcome(Forecast(NOW + n, SECOND, 9), SECOND, is_held=True) for n in range(MAX_OUTCOMES)]
    assert log.add(right).outcomes == tuple(right)
    assert log.add(right).held_between(NOW - HOUR, NOW + HOUR) == (MAX_OUTCOMES, MAX_OUTCOMES)


@pytest.mark.parametrize("n", [0, 1])
def test_a_log_outlives_being_written_down(n: int) -> None:
    log = ForecastLog().add(outcomes(1.0, n))
    assert ForecastLog.from_json(log.to_json()) == log
