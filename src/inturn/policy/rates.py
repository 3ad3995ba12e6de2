"""Rate limits by the generic cell rate algorithm: one number, the theoretical arrival time (TAT), for each customer.

The full burst is available again at the TAT. An idle customer may start a burst of `documents` at once, then one
document every `per / documents`.
"""

from inturn.model import RateLimit


def charged_tat(limit: RateLimit, tat: int, now: int) -> int:
    """Return the TAT after one more start at `now`."""
    return clamped_tat(limit, max(tat, now) + _spacing(limit), now)


def clamped_tat(limit: RateLimit, tat: int, now: int) -> int:
    """Limit the TAT to the latest valid value: a clock ahead of this one may have set a later one."""
    return min(tat, now + limit.documents * _spacing(limit))


def opens_at(limit: RateLimit, tat: int) -> int:
    """Return when the next document may be started."""
    return tat - (limit.documents - 1) * _spacing(limit)


def _spacing(limit: RateLimit) -> int:
    return limit.per // limit.documents
