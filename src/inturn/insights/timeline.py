"""What happened to one document: its own times, its attempts, and what was done to it by hand, as one time line."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from inturn.model import SECOND, Document, DocumentState
from inturn.store import MAX_STORED_ATTEMPTS, Attempt, Event, EventKind, Operator, Store

PAGE_SIZE: Final = 500
MAX_PAGES: Final = 10
"""Of so many events done by hand to its customer at most."""
CLOCK_MARGIN: Final = SECOND
"""Clocks of several machines differ, and events are numbered when they are written."""
_END_EVENTS: Final = {
    DocumentState.DONE: EventKind.FINISHED,
    DocumentState.FAILED: EventKind.FAILED,
    DocumentState.CANCELLED: EventKind.CANCELLED,
    DocumentState.EXPIRED: EventKind.EXPIRED,
}


class TimelineEntry(NamedTuple):
    """Something that happened to a document."""

    at: int
    kind: EventKind
    attempt: int | None = None
    """Which one began or ended."""
    error: str | None = None
    worker: str | None = None
    operator: Operator | None = None


class Timeline(NamedTuple):
    """A document's moments, oldest first; not whole if some are not kept, or lie too deep in the audit log."""

    entries: tuple[TimelineEntry, ...]
    is_complete: bool


def document_timeline(store: Store, document: Document) -> Timeline:
    """All that is known of it. Of its delays only the last one's end is, if it then waited for a worker."""
    attempts = store.attempts(document.id)
    deeds, are_all = _operator_entries(store, document)
    moments = [TimelineEntry(document.submitted_at, EventKind.SUBMITTED), *_attempt_entries(attempts, deeds), *deeds]
    moments += _document_entries(document, attempts, deeds)
    if all(moment.at != document.ready_at for moment in moments):
        moments.append(TimelineEntry(document.ready_at, EventKind.DUE))
    is_whole = are_all and len(attempts) < MAX_STORED_ATTEMPTS and _has_all_attempts(document, attempts, deeds)
    return Timeline(tuple(sorted(moments, key=lambda timeline_entry: timeline_entry.at)), is_whole)


def _attempt_entries(attempts: Iterable[Attempt], operator_entries: Sequence[TimelineEntry]) -> Iterable[TimelineEntry]:
    """Beginnings and ends; a cancel is told by who did it."""
    for attempt in attempts:
        began = attempt.started_at if attempt.began_at is None else attempt.began_at
        yield TimelineEntry(began, EventKind.STARTED, attempt.number, None, attempt.worker)
        if not _is_operator_entry(attempt.ended, attempt.ended_at, operator_entries):
            yield TimelineEntry(attempt.ended_at, attempt.ended, attempt.number, attempt.error, attempt.worker)


def _document_entries(
    document: Document, attempts: Sequence[Attempt], operator_entries: Sequence[TimelineEntry]
) -> Iterable[TimelineEntry]:
    """What the document itself says of its last attempt and of its end."""
    is_own = _has_own_attempt(document, attempts)
    if is_own and document.started_at is not None:
        began = document.work_began_at or document.started_at
        yield TimelineEntry(began, EventKind.STARTED, document.attempt, None, document.worker)
    if document.finished_at is not None and not _is_operator_entry(
        _END_EVENTS[document.state], document.finished_at, operator_entries
    ):
        error = document.error if document.state is DocumentState.FAILED else None
        yield TimelineEntry(
            document.finished_at, _END_EVENTS[document.state], document.attempt if is_own else None, error
        )


def _has_own_attempt(document: Document, attempts: Sequence[Attempt]) -> bool:
    """Whether its last start is not among its earlier attempts."""
    return document.started_at is not None and all(attempt.fence != document.fence for attempt in attempts)


def _is_operator_entry(kind: EventKind, at: int, operator_entries: Sequence[TimelineEntry]) -> bool:
    return any(operator_entry.kind is kind and operator_entry.at == at for operator_entry in operator_entries)


def _has_all_attempts(
    document: Document, attempts: Sequence[Attempt], operator_entries: Sequence[TimelineEntry]
) -> bool:
    """Whether all attempts since its last retry by hand are there: they were not always kept."""
    since = max(
        (operator_entry.at for operator_entry in operator_entries if operator_entry.kind is EventKind.RETRIED),
        default=0,
    )
    known = {
        attempt.number
        for attempt in attempts
        if attempt.started_at >= since and attempt.ended is not EventKind.RELEASED
    }
    if _has_own_attempt(document, attempts) and document.state not in {DocumentState.WAITING, DocumentState.DELAYED}:
        known.add(document.attempt)
    return known.issuperset(range(1, document.attempt + 1))


def _operator_entries(store: Store, document: Document) -> tuple[list[TimelineEntry], bool]:
    """Oldest first, and whether that is all of it."""
    result: list[Event] = []
    before: int | None = None
    for _ in range(MAX_PAGES):
        events = store.audit(limit=PAGE_SIZE, before=before, customer=document.customer)
        result += [event for event in events if document.id in event.documents]
        if len(events) < PAGE_SIZE or events[-1].at < document.submitted_at - CLOCK_MARGIN:
            return [TimelineEntry(event.at, event.kind, operator=event.operator) for event in reversed(result)], True
        before = events[-1].number
    return [TimelineEntry(event.at, event.kind, operator=event.operator) for event in reversed(result)], False
