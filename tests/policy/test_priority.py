"""The priority system against an independently written reading of the spec."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn import InvalidInputError, PriorityPolicy, seconds
from inturn.policy import Counter

INTERVAL = 1500 * 1_000_000
DAY = 86_400 * 1_000_000
times = st.integers(-10 * DAY, 10_000 * DAY)
counters = st.none() | st.builds(Counter, st.integers(-10_000, 0), times)
thresholds = st.sets(st.integers(-200, -1), min_size=1, max_size=8).map(lambda item: tuple(sorted(item, reverse=True)))
policies = st.builds(PriorityPolicy, st.integers(1, 10 * DAY), thresholds)


def level_by_the_spec(count: int) -> int:  # noqa: PLR0911 - the spec's table has nine lines
    """The spec's table, line by line, from the top."""
    if count < -20:
        return 9
    if count < -14:
        return 8
    if count < -12:
        return 7
    if count < -10:
        return 6
    if count < -8:
        return 5
    if count < -6:
        return 4
    if count < -4:
        return 3
    if count < -2:
        return 2
    assert count >= -2
    return 1


def check_by_the_spec(counter: Counter | None, now: int) -> tuple[int, int]:
    """Count and time of last update after a check, for clocks that do not run backwards."""
    if counter is None:
        return 0, now
    passed = now - counter.updated_at
    return (0 if passed > INTERVAL else counter.count - 1), now


@given(st.integers(-100_000, 0))
def test_level_is_the_table_of_the_spec(count: int) -> None:
    assert PriorityPolicy().level(count) == level_by_the_spec(count)


def test_a_burst_gets_the_sequence_of_the_design() -> None:
    policy, counter, levels = PriorityPolicy(), None, []
    for _ in range(30):
        counter, level = policy.check(counter, 1_000)
        levels.append(level)
    assert levels == [1] * 3 + [2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7] + [8] * 6 + [9] * 9


@given(st.builds(Counter, st.integers(-10_000, 0), times), st.integers(0, 100 * DAY))
def test_a_check_is_the_spec_when_time_goes_forward(counter: Counter, passed: int) -> None:
    now = counter.updated_at + passed
    after, level = PriorityPolicy().check(counter, now)
    assert (after.count, after.updated_at) == check_by_the_spec(counter, now)
    assert level == level_by_the_spec(after.count)


@given(times)
def test_a_new_customer_starts_at_zero(now: int) -> None:
    assert PriorityPolicy().check(None, now) == (Counter(0, now), 1)


@given(policies, st.integers(-1_000, 0), times)
def test_exactly_the_interval_does_not_reset_and_one_microsecond_more_does(
    policy: PriorityPolicy, count: int, at: int
) -> None:
    counter = Counter(count, at)
    assert policy.check(counter, at + policy.reset_interval).counter.count == count - 1
    assert policy.check(counter, at + policy.reset_interval + 1).counter.count == 0


@given(policies, st.integers(-1_000, 0), st.integers(-1_000, 0))
def test_levels_are_monotone_and_use_the_whole_range(policy: PriorityPolicy, one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert 1 <= policy.level(high) <= policy.level(low) <= policy.levels
    assert policy.level(0) == 1
    assert policy.level(policy.thresholds[-1] - 1) == policy.levels


@given(policies, counters, times, st.integers(1, 300))
def test_many_at_once_equal_as_many_single_checks(
    policy: PriorityPolicy, counter: Counter | None, now: int, n: int
) -> None:
    many = policy.check_many(counter, now, n)
    singles = []
    for _ in range(n):
        counter, level = policy.check(counter, now)
        singles.append((level, counter.count))
    assert many.counter == counter
    assert list(many.per_document()) == singles
    assert [level for level, _ in many.levels] == sorted({level for level, _ in singles})


def test_a_million_at_once_take_no_longer_than_the_levels() -> None:
    many = PriorityPolicy().check_many(None, 0, 10**15)
    assert many.counter.count == 1 - 10**15
    assert many.levels[-1] == (9, 10**15 - 21)
    assert sum(n for _, n in many.levels) == 10**15


@given(policies, st.builds(Counter, st.integers(-1_000, 0), times), st.integers(1, 100 * DAY))
def test_a_clock_that_runs_backwards_never_resets_nor_moves_the_update_back(
    policy: PriorityPolicy, counter: Counter, back: int
) -> None:
    now = counter.updated_at - back
    after, _ = policy.check(counter, now)
    assert after.count == counter.count - 1
    if back <= policy.reset_interval:
        assert after.updated_at == counter.updated_at
    else:
        assert after.updated_at == now


@given(policies, st.lists(times, min_size=1, max_size=60))
def test_after_a_reset_the_count_is_zero_and_else_it_falls_by_one(policy: PriorityPolicy, moments: list[int]) -> None:
    counter: Counter | None = None
    for now in moments:
        after, _ = policy.check(counter, now)
        assert after.count == 0 or (counter is not None and after.count == counter.count - 1)
        counter = after


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"reset_interval": 0}, "more than 0"),
        ({"reset_interval": -5}, "more than 0"),
        ({"reset_interval": 1500.0}, "whole number"),
        ({"reset_interval": math.inf}, "whole number"),
        ({"reset_interval": math.nan}, "whole number"),
        ({"reset_interval": True}, "whole number"),
        ({"reset_interval": 10**30}, "100 years"),
        ({"thresholds": ()}, "1 to 8"),
        ({"thresholds": tuple(range(-1, -10, -1))}, "1 to 8"),
        ({"thresholds": (-2, -2)}, "must go down"),
        ({"thresholds": (-4, -2)}, "must go down"),
        ({"thresholds": (0, -2)}, "below zero"),
        ({"thresholds": (3,)}, "below zero"),
        ({"thresholds": (-2.5,)}, "whole numbers"),
        ({"thresholds": [-2, -4]}, "tuple"),
    ],
)
def test_settings_out_of_range_are_refused_with_advice(settings: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidInputError, match=advice):
        PriorityPolicy(**settings)


@pytest.mark.parametrize("n", [0, -1])
def test_checking_no_document_is_refused(n: int) -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        PriorityPolicy().check_many(None, 0, n)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_seconds_must_be_finite(value: float) -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        seconds(value)


def test_seconds_are_microseconds() -> None:
    assert seconds(1500) == INTERVAL
    assert seconds(1700000000.5) == 1_700_000_000_500_000
