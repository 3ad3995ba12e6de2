"""What happened to one document, found among the events of all."""

from typing import Final, NamedTuple

from inturn.model import SECOND, Document
from inturn.store import Event, EventKind, Store

PAGE: Final = 1_000
LOOKED: Final = 3_000
"""Events looked through after each time that a document remembers: a busy queue tells thousands in ten seconds."""
MARGIN: Final = SECOND
"""Clocks of several machines differ, and events are numbered when they are written."""


class Life(NamedTuple):
    """A document's events, oldest first; not whole if some may lie where nobody looked, or were deleted."""

    events: tuple[Event, ...]
    is_whole: bool


def life(store: Store, document: Document) -> Life:
    """Look where its own times say that something happened; events have no index by document."""
    last = store.last_event()
    times = {document.submitted_at, document.ready_at, document.started_at, document.finished_at}
    found: list[Event] = []
    seen, is_whole = 0, True
    for time in sorted(time for time in times if time is not None):
        first = _before(store, time - MARGIN, last)
        if first > seen and found:
            is_whole = False
        seen = _look(store, document, max(first, seen), found)
    until = last if document.finished_at is None else _before(store, document.finished_at + MARGIN, last)
    begins = bool(found) and found[0].kind is EventKind.SUBMITTED
    return Life(tuple(found), is_whole and begins and seen >= until)


def _look(store: Store, document: Document, first: int, found: list[Event]) -> int:
    """Add the document's events behind this one; gives the number of the last one looked at."""
    for _ in range(LOOKED // PAGE):
        events = store.events(first, limit=PAGE)
        found += [each for each in events if each.customer == document.customer and document.id in each.documents]
        if events:
            first = events[-1].number
        if len(events) < PAGE:
            break
    return first


def _before(store: Store, time: int, last: int) -> int:
    """The number behind which events of this time and later come."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        events = store.events(middle, limit=1)
        if events and events[0].at < time:
            low = events[0].number
        else:
            high = middle
    return low
