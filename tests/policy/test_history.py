"""Figures of a minute or an hour: how they add up, and percentiles of waits from buckets."""

import random

import pytest

from inturn.policy.history import Figures, HistorySpan, bucket_of, sum_figures
from inturn.values import SECOND


def figures_of(waits: list[int]) -> Figures:
    figures = Figures()
    for wait in waits:
        figures.add_wait(wait, bucket_of(wait))
    return figures


def test_json_and_back_is_the_same() -> None:
    figures = Figures(1, 2, 3, 4, 5, 6, worked=7, waiting=8, running=None)
    figures.add_wait(123_456, bucket_of(123_456))
    assert Figures.from_json(figures.to_json()) == figures


@pytest.mark.parametrize("longest", [SECOND, 60 * SECOND, 86_400 * SECOND])
def test_a_percentile_is_off_by_at_most_nine_percent(longest: int) -> None:
    rng = random.Random(longest)
    waits = sorted(rng.randrange(SECOND // 5, longest) for _ in range(2_000))
    figures = figures_of(waits)
    for part in (0.5, 0.95):
        exact = waits[int(len(waits) * part) - 1]
        assert figures.wait_percentile(part) == pytest.approx(exact, rel=0.1)


def test_a_percentile_of_nothing_is_none_and_short_waits_are_one_bucket() -> None:
    assert Figures().wait_percentile(0.5) is None
    assert {bucket_of(wait) for wait in (0, 1, SECOND // 10 - 1)} == {0}
    assert bucket_of(SECOND // 10) == 1
    assert bucket_of(10**18) == 120


def test_sums_keep_unknown_states_unknown() -> None:
    assert sum_figures([Figures(submitted=1), Figures(submitted=2)]) == Figures(submitted=3)
    assert sum_figures([Figures(waiting=1), Figures()]).waiting == 1


def test_spans_begin_on_the_minute_and_the_hour() -> None:
    at = (7 * 3_600 + 65) * SECOND + 1
    assert HistorySpan.MINUTE.begin(at) == (7 * 3_600 + 60) * SECOND
    assert HistorySpan.HOUR.begin(at) == 7 * 3_600 * SECOND
