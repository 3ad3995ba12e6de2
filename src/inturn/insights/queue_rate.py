"""Compute when the rate limit of a queue allows its next start, from the newest events."""

from typing import Final

from inturn.model import RateLimit
from inturn.policy import rates
from inturn.queue_reader import QueueReader
from inturn.store_types import EventKind

MAX_EVENTS_READ: Final = 5_000


def rate_opens_at(queue: QueueReader, name: str, limit: RateLimit, now: int) -> int:
    """Return when the next document of a queue may start; a time up to now if it may at once.

    Starts that are too many events ago are missing: the result is then too early, never too late.
    """
    tat = 0
    for event in queue.events(max(0, queue.last_event() - MAX_EVENTS_READ), limit=MAX_EVENTS_READ):
        if event.kind is EventKind.STARTED and event.queue == name and event.at > now - limit.per:
            for _ in event.documents:
                tat = rates.charged_tat(limit, tat, event.at)
    return rates.opens_at(limit, tat)
