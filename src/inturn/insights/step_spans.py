"""Compute from the attempts at a document what its time went into: a span for each step."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from inturn.model import ENDED, Document, DocumentState
from inturn.queue_reader import QueueReader
from inturn.store_types import STEP_ENDS, Attempt, DocumentFilter, EventKind, PartResult

PARTS_PAGE_SIZE: Final = 1_000
WITHOUT_RESULT: Final = ENDED - {DocumentState.DONE}


class PartsSpan(NamedTuple):
    """The time that a document waits for its parts, and how many there are."""

    since: int
    until: int | None
    """None while some have not ended."""
    parts: int | None
    """None if the document was split again later."""
    ended: int | None
    failed: int | None
    """Those that failed, expired or were cancelled."""


class StepSpan(NamedTuple):
    """What became of a document in one queue."""

    step: int
    queue: str
    ready_at: int | None
    """When it came into the queue; None while it waits for its parts, or if an older version did not store it."""
    started_at: int | None
    """The start of the first attempt."""
    ended_at: int | None
    attempts: int
    waited: int
    """The time before its starts, without the delays between two attempts and without a wait that still lasts."""
    worked: int
    """The processing time of attempts that are over."""
    has_result: bool
    parts: PartsSpan | None
    """After the step, if the document was split by it."""


def step_spans(queue: QueueReader, document: Document, attempts: Sequence[Attempt]) -> tuple[StepSpan, ...]:
    """Return the steps of a document, oldest first. Those that were repeated from the start are listed again.

    `attempts` are all of its attempts, the last one too if it has not moved the document on.
    """
    groups = _by_step(document, attempts)
    first_of_round = max((at for at, group in enumerate(groups) if not group.step), default=0)
    results = {result.step for result in queue.results(document.id) if result.result is not None or result.files}
    spans: list[StepSpan] = []
    for at, group in enumerate(groups):
        span = _span(group, document if at == len(groups) - 1 else None)
        is_current = at >= first_of_round and span.ended_at is not None
        spans.append(span._replace(has_result=is_current and span.step in results))
    splits = [at for at, group in enumerate(groups) if group.attempts and group.attempts[-1].ended is EventKind.SPLIT]
    for at in splits:
        parts = _count_parts(queue, document.id, len(splits)) if at == splits[-1] else (None, None, None)
        until = spans[at + 1].ready_at
        spans[at] = spans[at]._replace(parts=PartsSpan(spans[at].ended_at or 0, until, *parts))
    return tuple(spans)


class _Step(NamedTuple):
    """The attempts at one step."""

    step: int
    queue: str
    attempts: list[Attempt]


def _by_step(document: Document, attempts: Iterable[Attempt]) -> list[_Step]:
    """Group attempts by step; the last group is the step that the document is in now."""
    groups: list[_Step] = []
    is_over = True
    for attempt in attempts:
        if is_over or (attempt.step, attempt.queue) != groups[-1][:2]:
            groups.append(_Step(attempt.step, attempt.queue, []))
        groups[-1].attempts.append(attempt)
        is_over = attempt.ended in STEP_ENDS
    if is_over or (document.step, document.queue) != groups[-1][:2]:
        groups.append(_Step(document.step, document.queue, []))
    return groups


def _span(group: _Step, document: Document | None) -> StepSpan:
    """Return the span of a step; with the document, of the one that it is in now."""
    attempts = group.attempts
    waits = {at.ready_at: at.started_at - at.ready_at for at in attempts if at.ready_at is not None}
    ready_at = min(waits, default=None)
    ended_at = attempts[-1].ended_at if attempts and document is None else None
    if document is not None:
        ended_at = document.finished_at
        if not attempts and document.state is not DocumentState.SPLIT:
            ready_at = document.ready_at
    counted = [attempt for attempt in attempts if attempt.ended is not EventKind.RELEASED]
    started_at = min((attempt.started_at for attempt in counted), default=None)
    worked = sum(attempt.worked or 0 for attempt in attempts)
    waited = sum(max(0, wait) for wait in waits.values())
    times = (ready_at, started_at, ended_at)
    return StepSpan(*group[:2], *times, len(counted), waited, worked, has_result=False, parts=None)


def _count_parts(queue: QueueReader, id_: str, splits: int) -> tuple[int, int, int]:
    """Count the parts of the last split: all, those that have ended, and those of them that have no result."""
    if splits == 1:
        states = dict(queue.counts(DocumentFilter(parent=id_)).states)
    else:
        states = {}
        for part in _last_parts(queue, id_):
            states[part.state] = states.get(part.state, 0) + 1
    ended = sum(n for state, n in states.items() if state in ENDED)
    return sum(states.values()), ended, sum(n for state, n in states.items() if state in WITHOUT_RESULT)


def _last_parts(queue: QueueReader, id_: str) -> Iterable[PartResult]:
    after = 0
    while page := queue.parts(id_, limit=PARTS_PAGE_SIZE, after=after):
        yield from page
        after = page[-1].part
