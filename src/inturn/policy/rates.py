"""A customer's rate limit as one number: when its allowance would be whole again (a generic cell rate algorithm).

A rested customer may start a burst of `documents` at once, then one every `per / documents`.
"""

from inturn.model import RateLimit


def charged(limit: RateLimit, whole_at: int, now: int) -> int:
    """When the allowance is whole again, after one more document was started at `now`."""
    return bounded(limit, max(whole_at, now) + _spacing(limit), now)


def bounded(limit: RateLimit, whole_at: int, now: int) -> int:
    """When the allowance is whole again at the latest: a clock ahead of this one may have set a later time."""
    return min(whole_at, now + limit.documents * _spacing(limit))


def opens_at(limit: RateLimit, whole_at: int) -> int:
    """From when on another document may be started."""
    return whole_at - (limit.documents - 1) * _spacing(limit)


def _spacing(limit: RateLimit) -> int:
    return limit.per // limit.documents
