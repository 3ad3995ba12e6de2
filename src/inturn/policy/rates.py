"""A customer's rate limit as one number: when its allowance would be whole again (a generic cell rate algorithm).

A rested customer may start a burst of `documents` at once, then one every `per / documents`.
"""

from inturn.model import RateLimit


def charged_tat(limit: RateLimit, tat: int, now: int) -> int:
    """When the allowance is whole again, after one more document was started at `now`."""
    return clamped_tat(limit, max(tat, now) + _spacing(limit), now)


def clamped_tat(limit: RateLimit, tat: int, now: int) -> int:
    """When the allowance is whole again at the latest: a clock ahead of this one may have set a later time."""
    return min(tat, now + limit.documents * _spacing(limit))


def opens_at(limit: RateLimit, tat: int) -> int:
    """From when on another document may be started."""
    return tat - (limit.documents - 1) * _spacing(limit)


def _spacing(limit: RateLimit) -> int:
    return limit.per // limit.documents
