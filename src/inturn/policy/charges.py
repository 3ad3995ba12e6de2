"""What a document is charged, and how expectations of worker time move. Microseconds and virtual time are integers."""

from typing import Final

from inturn.values import SECOND

VIRTUAL_TIME_UNIT: Final = 1_000_000
"""Virtual time of a document of cost 1 at weight 1, and of a second of worker time."""


MIN_WORK: Final = 1_000
"""Microseconds that every document is taken to occupy a slot at least: handing it over takes as long."""


CUSTOMER_MEAN_WEIGHT: Final = 8
"""A document moves its customer's expected time by one part in so many."""


MAX_WORK: Final = 86_400 * SECOND
"""The longest worker time that a document is charged."""


QUEUE_MEAN_WEIGHT: Final = 64
"""A document moves the expected time of new customers by one part in so many."""


def cost_charge(cost: float) -> int:
    """Return the charge of a document that is charged its cost."""
    return max(1, round(cost * VIRTUAL_TIME_UNIT))


def increment(charge: int, weight: float) -> int:
    """Return the virtual time of a charge at this weight."""
    return max(1, round(charge / weight))


def moved_mean(mean: int | None, value: int, weight: int) -> int:
    """Move a mean towards a new value by one part in `weight`; the first value is the mean."""
    return value if mean is None else mean + round((value - mean) / weight)
