"""What became of forecasts of starts."""

import threading

from inturn.policy.forecasts import HOUR, Forecast, ForecastLog, ForecastOutcome
from inturn.testing.contract.harness import START, StoreHarness, guarantee
from inturn.values import seconds


class TestForecasts:
    """Test `Store.forecast_log` and `Store.add_forecasts`."""

    @guarantee("S71")
    def test_outcomes_are_added_to_the_log(self, harness: StoreHarness) -> None:
        assert harness.store.forecast_log() == ForecastLog()
        first, second, third = (outcome(number) for number in range(3))
        harness.store.add_forecasts([first])
        harness.store.add_forecasts([third, second])
        log = harness.store.forecast_log()
        assert log == ForecastLog().add([first]).add([third, second])
        assert log.outcomes == (first, second, third)
        assert log.held_between(START - HOUR, START + HOUR) == (2, 3)

    @guarantee("S71")
    def test_concurrent_calls_lose_nothing(self, harness: StoreHarness) -> None:
        threads = [
            threading.Thread(target=harness.store.add_forecasts, args=([outcome(number)],)) for number in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(harness.store.forecast_log().outcomes) == [outcome(number) for number in range(12)]


def outcome(number: int) -> ForecastOutcome:
    """Build an outcome; every second one was late."""
    return ForecastOutcome(Forecast(START + number, seconds(10), 9), seconds(5 + number), number % 2 == 0)
