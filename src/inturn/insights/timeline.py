"""Build the timeline of one document from its times, its attempts and the audit log."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from inturn.insights.step_spans import StepSpan, step_spans
from inturn.model import Document, DocumentState
from inturn.queue_reader import QueueReader
from inturn.store_types import MAX_STORED_ATTEMPTS, STEP_ENDS, Attempt, Event, EventKind, Operator
from inturn.values import SECOND

PAGE_SIZE: Final = 500
MAX_PAGES: Final = 10
"""Pages of the audit log that are searched for the document."""
CLOCK_MARGIN: Final = SECOND
"""Allowance for clocks of several machines: events are numbered in the order of writing, not of time."""
_END_EVENTS: Final = {
    DocumentState.DONE: EventKind.FINISHED,
    DocumentState.FAILED: EventKind.FAILED,
    DocumentState.CANCELLED: EventKind.CANCELLED,
    DocumentState.EXPIRED: EventKind.EXPIRED,
}


class TimelineEntry(NamedTuple):
    """One event in the timeline of a document."""

    at: int
    kind: EventKind
    attempt: int | None = None
    """The number of the attempt that began or ended."""
    error: str | None = None
    worker: str | None = None
    operator: Operator | None = None
    queue: str | None = None
    """The queue of the attempt."""
    step: int | None = None
    """How many steps the document had behind it in this attempt."""


class Timeline(NamedTuple):
    """The entries of a document and its steps, oldest first.

    Incomplete if attempts were dropped or the audit log is too long.
    """

    entries: tuple[TimelineEntry, ...]
    is_complete: bool
    steps: tuple[StepSpan, ...] = ()


def document_timeline(queue: QueueReader, document: Document) -> Timeline:
    """Build the timeline of a document. The ends of delays are those times at which it was ready, and nothing else."""
    attempts = queue.attempts(document.id)
    by_operator, is_complete = _operator_entries(queue, document)
    entries = [
        TimelineEntry(document.submitted_at, EventKind.SUBMITTED),
        *_attempt_entries(attempts, by_operator),
        *by_operator,
        *_document_entries(document, attempts, by_operator),
    ]
    steps = step_spans(queue, document, [*attempts, *_own_attempt(document, attempts)])
    merged = {span.parts.until for span in steps if span.parts is not None and span.parts.until is not None}
    entries += [TimelineEntry(at, EventKind.PARTS_ENDED) for at in merged]
    known = {entry.at for entry in entries}
    ready_times = dict.fromkeys([*(attempt.ready_at for attempt in attempts), document.ready_at])
    entries += [TimelineEntry(at, EventKind.DUE) for at in ready_times if at is not None and at not in known]
    dropped_first = [attempt for attempt in attempts if attempt.ended not in STEP_ENDS]
    is_complete = (
        is_complete and len(dropped_first) < MAX_STORED_ATTEMPTS and _has_all_attempts(document, attempts, by_operator)
    )
    return Timeline(tuple(sorted(entries, key=lambda entry: entry.at)), is_complete, steps)


def _own_attempt(document: Document, attempts: Sequence[Attempt]) -> Iterable[Attempt]:
    """Yield the last attempt as one like those before it, if it is stored in the document itself."""
    if document.started_at is not None and _has_own_attempt(document, attempts):
        yield Attempt(
            fence=document.fence or 0,
            number=document.attempt,
            started_at=document.started_at,
            ended_at=document.finished_at or 0,
            ended=_END_EVENTS.get(document.state, EventKind.STARTED),
            error=document.error,
            worker=document.worker,
            began_at=document.began_at,
            worked=document.worked,
            queue=document.queue,
            step=document.step,
            ready_at=document.ready_at,
        )


def _attempt_entries(attempts: Iterable[Attempt], operator_entries: Sequence[TimelineEntry]) -> Iterable[TimelineEntry]:
    """Yield starts and ends of attempts; a cancel is already among the operator entries."""
    for attempt in attempts:
        began = attempt.started_at if attempt.began_at is None else attempt.began_at
        own = TimelineEntry(
            began, EventKind.STARTED, attempt.number, None, attempt.worker, queue=attempt.queue, step=attempt.step
        )
        yield own
        if not _is_operator_entry(attempt.ended, attempt.ended_at, operator_entries):
            yield own._replace(at=attempt.ended_at, kind=attempt.ended, error=attempt.error)


def _document_entries(
    document: Document, attempts: Sequence[Attempt], operator_entries: Sequence[TimelineEntry]
) -> Iterable[TimelineEntry]:
    """Yield the last attempt and the end, which are stored in the document itself."""
    is_own = _has_own_attempt(document, attempts)
    if is_own and document.started_at is not None:
        began = document.work_began_at or document.started_at
        own = TimelineEntry(began, EventKind.STARTED, document.attempt, None, document.worker)
        yield own._replace(queue=document.queue, step=document.step)
    if document.finished_at is not None and not _is_operator_entry(
        _END_EVENTS[document.state], document.finished_at, operator_entries
    ):
        error = document.error if document.state is DocumentState.FAILED else None
        yield TimelineEntry(
            document.finished_at,
            _END_EVENTS[document.state],
            document.attempt if is_own else None,
            error,
            queue=document.queue if is_own else None,
            step=document.step if is_own else None,
        )


def _has_own_attempt(document: Document, attempts: Sequence[Attempt]) -> bool:
    """Return whether the last start is stored in the document only."""
    return document.started_at is not None and all(attempt.fence != document.fence for attempt in attempts)


def _is_operator_entry(kind: EventKind, at: int, operator_entries: Sequence[TimelineEntry]) -> bool:
    return any(entry.kind is kind and entry.at == at for entry in operator_entries)


def _has_all_attempts(
    document: Document, attempts: Sequence[Attempt], operator_entries: Sequence[TimelineEntry]
) -> bool:
    """Return whether all attempts since the last retry by hand are stored; older versions stored none."""
    since = max((entry.at for entry in operator_entries if entry.kind is EventKind.RETRIED), default=0)
    known = {
        attempt.number
        for attempt in attempts
        if attempt.started_at >= since and attempt.step == document.step and attempt.ended is not EventKind.RELEASED
    }
    if _has_own_attempt(document, attempts) and document.state not in {DocumentState.WAITING, DocumentState.DELAYED}:
        known.add(document.attempt)
    return known.issuperset(range(1, document.attempt + 1))


def _operator_entries(queue: QueueReader, document: Document) -> tuple[list[TimelineEntry], bool]:
    """Return the document's entries of the audit log, oldest first, and whether all were read."""
    matching: list[Event] = []
    before: int | None = None
    is_complete = False
    for _ in range(MAX_PAGES):
        events = queue.audit(limit=PAGE_SIZE, before=before, customer=document.customer)
        matching += [event for event in events if document.id in event.documents]
        is_complete = len(events) < PAGE_SIZE or events[-1].at < document.submitted_at - CLOCK_MARGIN
        if is_complete:
            break
        before = events[-1].number
    return [TimelineEntry(event.at, event.kind, operator=event.operator) for event in reversed(matching)], is_complete
