"""What happened to one document: its own times, its attempts, and what was done to it by hand, as one time line."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from inturn.model import SECOND, Document, DocumentState
from inturn.store import ATTEMPTS_KEPT, Attempt, Event, EventKind, Operator, Store

PAGE: Final = 500
READS: Final = 10
"""Of so many events done by hand to its customer at most."""
MARGIN: Final = SECOND
"""Clocks of several machines differ, and events are numbered when they are written."""
_ENDS: Final = {
    DocumentState.DONE: EventKind.FINISHED,
    DocumentState.FAILED: EventKind.FAILED,
    DocumentState.CANCELLED: EventKind.CANCELLED,
    DocumentState.EXPIRED: EventKind.EXPIRED,
}


class Moment(NamedTuple):
    """Something that happened to a document."""

    at: int
    kind: EventKind
    attempt: int | None = None
    """Which one began or ended."""
    error: str | None = None
    worker: str | None = None
    operator: Operator | None = None


class Life(NamedTuple):
    """A document's moments, oldest first; not whole if some are not kept, or lie too deep in the audit log."""

    moments: tuple[Moment, ...]
    is_whole: bool


def life(store: Store, document: Document) -> Life:
    """All that is known of it. Of its delays only the last one's end is, if it then waited for a worker."""
    attempts = store.attempts(document.id)
    deeds, are_all = _done_by_hand(store, document)
    moments = [Moment(document.submitted_at, EventKind.SUBMITTED), *_tried(attempts, deeds), *deeds]
    moments += _own(document, attempts, deeds)
    if all(each.at != document.ready_at for each in moments):
        moments.append(Moment(document.ready_at, EventKind.DUE))
    is_whole = are_all and len(attempts) < ATTEMPTS_KEPT and _knows_all(document, attempts, deeds)
    return Life(tuple(sorted(moments, key=lambda each: each.at)), is_whole)


def _tried(attempts: Iterable[Attempt], deeds: Sequence[Moment]) -> Iterable[Moment]:
    """Beginnings and ends; a cancel is told by who did it."""
    for each in attempts:
        began = each.started_at if each.began_at is None else each.began_at
        yield Moment(began, EventKind.STARTED, each.number, None, each.worker)
        if not _is_told(each.ended, each.ended_at, deeds):
            yield Moment(each.ended_at, each.ended, each.number, each.error, each.worker)


def _own(document: Document, attempts: Sequence[Attempt], deeds: Sequence[Moment]) -> Iterable[Moment]:
    """What the document itself says of its last attempt and of its end."""
    is_own = _is_own(document, attempts)
    if is_own and document.started_at is not None:
        began = document.work_began_at or document.started_at
        yield Moment(began, EventKind.STARTED, document.attempt, None, document.worker)
    if document.finished_at is not None and not _is_told(_ENDS[document.state], document.finished_at, deeds):
        error = document.error if document.state is DocumentState.FAILED else None
        yield Moment(document.finished_at, _ENDS[document.state], document.attempt if is_own else None, error)


def _is_own(document: Document, attempts: Sequence[Attempt]) -> bool:
    """Whether its last start is not among its earlier attempts."""
    return document.started_at is not None and all(each.fence != document.fence for each in attempts)


def _is_told(kind: EventKind, at: int, deeds: Sequence[Moment]) -> bool:
    return any(each.kind is kind and each.at == at for each in deeds)


def _knows_all(document: Document, attempts: Sequence[Attempt], deeds: Sequence[Moment]) -> bool:
    """Whether all attempts since its last retry by hand are there: they were not always kept."""
    since = max((each.at for each in deeds if each.kind is EventKind.RETRIED), default=0)
    known = {each.number for each in attempts if each.started_at >= since and each.ended is not EventKind.HANDED_BACK}
    if _is_own(document, attempts) and document.state not in {DocumentState.WAITING, DocumentState.DELAYED}:
        known.add(document.attempt)
    return known.issuperset(range(1, document.attempt + 1))


def _done_by_hand(store: Store, document: Document) -> tuple[list[Moment], bool]:
    """Oldest first, and whether that is all of it."""
    found: list[Event] = []
    before: int | None = None
    for _ in range(READS):
        events = store.audit(limit=PAGE, before=before, customer=document.customer)
        found += [each for each in events if document.id in each.documents]
        if len(events) < PAGE or events[-1].at < document.submitted_at - MARGIN:
            return [Moment(each.at, each.kind, operator=each.operator) for each in reversed(found)], True
        before = events[-1].number
    return [Moment(each.at, each.kind, operator=each.operator) for each in reversed(found)], False
