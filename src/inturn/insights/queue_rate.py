"""Compute when the rate limit of a queue allows its next start, from the starts that the store still knows."""

from typing import Final

from inturn.errors import NotFoundError
from inturn.model import RateLimit
from inturn.policy import rates
from inturn.queue_reader import QueueReader
from inturn.store_types import EventKind

MAX_EVENTS_READ: Final = 1_000
"""The newest events that are searched for starts."""
MAX_STARTS_READ: Final = 500
"""The newest starts whose documents are asked for their queue."""


def rate_opens_at(queue: QueueReader, name: str, limit: RateLimit, now: int) -> int:
    """Return when the next document of a queue may start; a time up to now if it may at once.

    Starts that left no trace in what is read are missing: the result is then too early, never too late.
    """
    tat = 0
    for at in _starts(queue, name, now - limit.per):
        tat = rates.charged_tat(limit, tat, at)
    return rates.opens_at(limit, tat)


def _starts(queue: QueueReader, name: str, since: int) -> list[int]:
    """Return the times of a queue's starts since a time, oldest first."""
    events = queue.events(max(0, queue.last_event() - MAX_EVENTS_READ), limit=MAX_EVENTS_READ)
    started = [
        (event.at, id_)
        for event in events
        if event.kind is EventKind.STARTED and event.at >= since
        for id_ in event.documents
    ]
    return [at for at, id_ in started[-MAX_STARTS_READ:] if _was_in(queue, id_, name, at)]


def _was_in(queue: QueueReader, id_: str, name: str, at: int) -> bool:
    """Return whether a document was started in this queue at this time."""
    try:
        document = queue.document(id_)
        if document.started_at == at and document.step == 0:
            return document.queue == name
        attempts = queue.attempts(id_)
    except NotFoundError:
        return False
    earlier = [attempt.queue for attempt in attempts if attempt.started_at == at]
    return name in earlier if earlier else document.queue == name
