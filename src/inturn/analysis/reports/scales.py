"""Compute the axes of charts: positions of values, and ticks."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from inturn.i18n import Texts

DURATION_TICKS: Final = (0, 1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800)
"""Seconds: 1 s, 10 s, 1 min, 10 min, 1 h, 6 h, a day, a week."""


class Scale(NamedTuple):
    """An axis. `position` maps values from 0 to its end to 0 to 1."""

    position: Callable[[float], float]
    ticks: Sequence[float]


def format_jain(index: float | None, texts: Texts) -> str:
    """Format Jain's index; a dash where no two customers had a backlog."""
    return "–" if index is None else texts.number(round(index, 3))  # noqa: RUF001 - no figure


def linear_scale(highest: float) -> Scale:
    """Return a linear scale that ends at the next round number."""
    step = _tick_step(highest)
    end = max(step, math.ceil(highest / step) * step)
    return Scale(lambda value: value / end, [round(number * step, 9) for number in range(round(end / step) + 1)])


def log_duration_scale(longest: float) -> Scale:
    """Return a logarithmic scale that begins at 0, for waits that differ a thousandfold."""
    least = 0.1 if longest < 60 else 1.0
    end = next(
        (duration_tick for duration_tick in DURATION_TICKS if duration_tick >= longest and duration_tick > least),
        longest,
    )
    whole = math.log1p(end / least)
    return Scale(
        lambda value: math.log1p(min(value, end) / least) / whole,
        [duration_tick for duration_tick in DURATION_TICKS if duration_tick <= end],
    )


def format_duration(value: float, texts: Texts) -> str:
    """Format seconds for an axis or a cell. The units s, min and h are the same in all languages."""
    if value < 10:
        return f"{texts.number(round(value, 2))} s"
    if value < 120:
        return f"{texts.number(round(value, 1))} s"
    if value < 7_200:
        return f"{texts.number(round(value / 60, 1) if value < 600 else round(value / 60))} min"
    return f"{texts.number(round(value / 3_600, 1) if value < 36_000 else round(value / 3_600))} h"


def format_change(value: float, texts: Texts) -> str:
    """Format the change of a wait, with its sign."""
    sign = "+" if value > 0 else "\u2212" if value < 0 else ""
    return f"{sign}{format_duration(abs(value), texts)}"


def _tick_step(value: float) -> float:
    """Return the step of ticks, 1, 2 or 5 times a power of ten, so that two to six steps reach the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (0.2, 0.5, 1, 2) if value <= 6 * step * power)
