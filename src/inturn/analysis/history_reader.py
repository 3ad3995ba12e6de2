"""Read the history of a queue: its documents, when they came, and how long each took."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from sys import intern
from typing import Final

from inturn.analysis.history import (
    MAX_HISTORY_DOCUMENTS,
    History,
    ProgressCallback,
    RecordedDocument,
    StepLink,
    build_history,
    empty_history_error,
)
from inturn.insights.step_spans import StepAttempts, attempts_by_step, last_round
from inturn.model import DEFAULT_COST, ENDED, CustomerSettings, Document, DocumentState, NewDocument
from inturn.policy import CostPolicy, Policy
from inturn.queue_reader import QueueReader
from inturn.store_types import Attempt, CustomerFilter, DocumentFilter, EventKind
from inturn.values import SECOND

PAGE_SIZE: Final = 1_000
COMPLETED_STATES: Final = frozenset({DocumentState.DONE, DocumentState.FAILED})
MAX_CLOCK_SKEW: Final = 600 * SECOND
RETRIED_ATTEMPT_ENDS: Final = frozenset({EventKind.DELAYED, EventKind.LEASE_LOST})
"""Ends of attempts that count and that another attempt follows."""
MAX_ATTEMPT_LOOKUPS: Final = 20_000
"""Newest documents whose attempts are read. In older ones every attempt is taken to last as long as the last."""
MAX_AUDIT_EVENTS: Final = 10_000
"""Newest audit events that are searched for pauses and retries."""


def read_history(
    queue: QueueReader,
    since: int,
    *,
    until: int | None = None,
    warmup: int = 0,
    max_documents: int = MAX_HISTORY_DOCUMENTS,
    progress: ProgressCallback | None = None,
) -> History:
    """Read the newest `max_documents` that were submitted in a range of time, without those that never started.

    Documents that still run or wait get the mean processing time of the others. A `delay` counts as a later arrival.
    Documents of up to `warmup` microseconds before `since` are read too: they fill the queue, but are not measured.
    """
    recorded_documents: list[RecordedDocument] = []
    # Names and kinds that come again are stored once: there may be a million documents.
    kinds: dict[tuple[float, int | None], tuple[float, int | None]] = {}
    costs = queue.policy().policy.costs
    is_cut = False
    tried, retried = _AttemptReader(queue), _manual_retries(queue)
    steps = StepReader(tried)
    for document, at in _submitted_documents(queue, retried, since - warmup, until):
        if len(recorded_documents) >= max_documents:
            is_cut = True
            break
        kind = cost_basis_of(document.spec, costs)
        kind = kinds.setdefault(kind, kind)
        if document.step or document.parent is not None:
            recorded_documents += steps.records(document, at, kind)
            continue
        recorded_documents.append(_record_of(document, at, kind, tried.failed_attempts(document, at)))
        if document.id in retried:
            lives = tried.runs_before_retries(document, retried[document.id])
            recorded_documents += [
                _record_before_retry(recorded_documents[-1], *life)
                for life in lives
                if since - warmup <= life[0] < (until or life[0] + 1)
            ]
        if progress is not None and len(recorded_documents) % (10 * PAGE_SIZE) == 0:
            progress(len(recorded_documents), 0)
    recorded_documents = [steps.with_link(record) for record in recorded_documents]
    recorded_documents.reverse()  # pages are newest first; documents of one instant keep their order of arrival
    settings = dict(_customer_settings(queue))
    versions = tuple((policy.at, policy.policy) for policy in reversed(queue.policies()))
    max_share = _lowest_share(versions, min((record.at for record in recorded_documents), default=0))
    throttled = _throttled_customers(queue, settings)
    queues = {status.name: status.settings for status in queue.queues()}
    history = build_history(recorded_documents, settings, throttled=throttled, max_share=max_share, queues=queues)
    before = sum(arrival.at < since for arrival in history.arrivals)
    if before == len(history.arrivals):
        raise empty_history_error()
    return replace(history, policies=versions, is_cut=is_cut and not before, warmup_documents=before)


def _lowest_share(versions: Sequence[tuple[int, Policy]], since: int) -> float:
    """Return the lowest limit of a customer's share of the slots in force since then; versions are in order."""
    first = max((place for place, (at, _) in enumerate(versions) if at <= since), default=0)
    return min((policy.turns.max_share for _, policy in versions[first:]), default=1.0)


def _submitted_documents(
    queue: QueueReader, retried: Mapping[str, Sequence[int]], since: int, until: int | None
) -> Iterator[tuple[Document, int]]:
    """Yield documents with the time from which each could start. A retry by hand is a new check, so its time counts."""
    after = None if until is None else _cursor_after(queue, retried, until)
    while True:
        page = queue.documents(DocumentFilter(), limit=PAGE_SIZE, after=after)
        for document in page.items:
            came = _last_submitted_at(document, retried)
            if came < since:
                return
            if (until is None or came < until) and (document.started_at is not None or document.state not in ENDED):
                yield document, came if document.id in retried else came + document.spec.delay
        after = page.next
        if after is None:
            return


def _last_submitted_at(document: Document, retried: Mapping[str, Sequence[int]]) -> int:
    return retried[document.id][-1] if document.id in retried else document.submitted_at


def _manual_retries(queue: QueueReader) -> dict[str, list[int]]:
    """Return the times of manual retries among the newest operator events."""
    result: dict[str, list[int]] = {}
    for event in reversed(queue.audit(limit=MAX_AUDIT_EVENTS)):
        if event.kind is EventKind.RETRIED:
            for id_ in event.documents:
                result.setdefault(id_, []).append(event.at)
    return result


def _cursor_after(queue: QueueReader, retried: Mapping[str, Sequence[int]], until: int) -> str | None:
    """Find by bisection a cursor that precedes all documents that came before `until`, and few others.

    The bisection is right if the clocks of the machines that submit differ by less than `MAX_CLOCK_SKEW`.
    """
    newest = queue.documents(DocumentFilter(), limit=1).items
    low, high = 0, newest[0].seq + 1 if newest else 0
    while high - low > PAGE_SIZE:
        middle = (low + high) // 2
        documents = queue.documents(DocumentFilter(), limit=1, after=str(middle)).items
        is_later = bool(documents) and _last_submitted_at(documents[0], retried) >= until + MAX_CLOCK_SKEW
        low, high = (low, middle) if is_later else (middle, high)
    return str(high) if high else None


class StepReader:
    """Read the steps of documents that have several, or that are parts, as a record each."""

    def __init__(self, attempts: "_AttemptReader") -> None:
        self._attempts = attempts
        self._splits: dict[tuple[str, int], int] = {}
        """The step in which a document was split at a time."""
        self._part_of: dict[str, tuple[str, int]] = {}
        """The document that a part belongs to, and when that was split."""

    def records(self, document: Document, at: int, kind: tuple[float, int | None]) -> Iterator[RecordedDocument]:
        """Yield a record for each step since the last retry from the start, the last one first."""
        if document.parent is not None:
            self._part_of[document.id] = document.parent, document.submitted_at
        attempts = self._attempts.all_attempts(document)
        if attempts is None:  # of a document this old, only the last step is known
            yield _record_of(document, document.ready_at, kind, ())
            return
        groups = attempts_by_step(document, attempts)
        groups = groups[last_round(groups) :]
        ends = [at, *(group.attempts[-1].ended_at for group in groups[:-1])]
        for place in reversed(range(len(groups))):
            group = groups[place]
            ready_at = at if place == 0 else min((own.ready_at or ends[place] for own in group.attempts), default=None)
            failed = tuple(_work_span(own) for own in group.attempts if own.ended in RETRIED_ATTEMPT_ENDS)
            if place == len(groups) - 1:
                is_split = document.state is DocumentState.SPLIT
                came = (ends[place] if is_split else document.ready_at) if ready_at is None else ready_at
                known = failed if len(failed) == document.attempt - 1 else ()
                record = _record_of(document, came, kind, known)
                if is_split or document.attempt == 0:
                    record = record._replace(service=None, started=None, finished=None, failures=0)
            else:
                record = self._record_of_step(document, group, ready_at or ends[place], kind, failed)
            yield record._replace(link=StepLink(document.id, group.step), queue=group.queue)

    def _record_of_step(
        self,
        document: Document,
        group: StepAttempts,
        at: int,
        kind: tuple[float, int | None],
        failed: tuple[tuple[int, int], ...],
    ) -> RecordedDocument:
        last = group.attempts[-1]
        began, ended = _work_span(last)
        if last.ended is EventKind.SPLIT:
            self._splits[document.id, last.ended_at] = group.step
        times = (ended - began, len(failed), began, ended, document.level, failed)
        return RecordedDocument(at, intern(document.customer), kind, *times, last.ready_at if failed else None)

    def with_link(self, record: RecordedDocument) -> RecordedDocument:
        """Return the record with the step that it is a part of, once all documents are read."""
        if record.link is None or record.link.document not in self._part_of:
            return record
        parent, split_at = self._part_of[record.link.document]
        step = self._splits.get((parent, split_at))
        return record if step is None else record._replace(link=record.link._replace(part_of=(parent, step)))


class _AttemptReader:
    """Read the attempts before the last, one query a document, of at most `MAX_ATTEMPT_LOOKUPS` documents."""

    def __init__(self, queue: QueueReader) -> None:
        self._queue = queue
        self._lookups_left = MAX_ATTEMPT_LOOKUPS

    def failed_attempts(self, document: Document, since: int) -> tuple[tuple[int, int], ...]:
        """Return begin and end of each failed attempt that counts since a time."""
        failures = document.attempt - 1
        if failures < 1 or not self._lookups_left:
            return ()
        self._lookups_left -= 1
        known = [
            attempt
            for attempt in self._queue.attempts(document.id)
            if attempt.ended in RETRIED_ATTEMPT_ENDS and attempt.started_at >= since
        ]
        return tuple(_work_span(attempt) for attempt in known) if len(known) == failures else ()

    def all_attempts(self, document: Document) -> tuple[Attempt, ...] | None:
        """Return all earlier attempts; None above the limit."""
        if not self._lookups_left:
            return None
        self._lookups_left -= 1
        return self._queue.attempts(document.id)

    def runs_before_retries(
        self, document: Document, retried: Sequence[int]
    ) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Yield for each retry by hand when the document could start before it, and its attempts until then."""
        if not self._lookups_left:
            return
        self._lookups_left -= 1
        known = [
            attempt
            for attempt in self._queue.attempts(document.id)
            if attempt.ended in RETRIED_ATTEMPT_ENDS | {EventKind.FAILED}
        ]
        begins = (document.submitted_at + document.spec.delay, *retried)
        for begin, end in pairwise(begins):
            if life := tuple(_work_span(attempt) for attempt in known if begin <= attempt.started_at < end):
                yield begin, life


def _record_before_retry(last: RecordedDocument, at: int, attempts: tuple[tuple[int, int], ...]) -> RecordedDocument:
    """Build the record of a document before a retry by hand. Its level of that time is not stored."""
    *earlier, (began, ended) = attempts
    return last._replace(
        at=at,
        service=ended - began,
        failures=len(earlier),
        started=began,
        finished=ended,
        failed_attempts=tuple(earlier),
        ready_at=None,
    )


def _work_span(attempt: Attempt) -> tuple[int, int]:
    """Return begin and end of the work, or of the claim if the work was not measured."""
    if attempt.began_at is None or attempt.worked is None:
        return attempt.started_at, attempt.ended_at
    return attempt.began_at, attempt.began_at + attempt.worked


def _record_of(
    document: Document,
    at: int,
    cost_basis: tuple[float, int | None],
    failed_attempts: tuple[tuple[int, int], ...],
) -> RecordedDocument:
    began, ended = document.work_began_at, document.work_ended_at
    is_served = document.state in COMPLETED_STATES and began is not None and ended is not None
    return RecordedDocument(
        at,
        intern(document.customer),
        cost_basis,
        ended - began if is_served else None,  # type: ignore[operator]  # both are there
        max(0, document.attempt - 1),
        began,
        ended,
        document.level,
        failed_attempts,
        document.ready_at if failed_attempts else None,
        document.queue,
    )


def cost_basis_of(spec: NewDocument, costs: CostPolicy) -> tuple[float, int | None]:
    """Return the cost that a document was given, or else the pages that it is charged for."""
    pages, size = spec.pages, spec.size
    if pages is None and spec.cost not in {DEFAULT_COST, costs.cost(None, size)}:
        return spec.cost, None
    charged = costs.charged_pages(pages, size)
    return DEFAULT_COST, None if pages is None and charged == 1 else charged


def _customer_settings(queue: QueueReader) -> Iterator[tuple[str, CustomerSettings]]:
    """Yield settings other than the defaults, without pauses: these did not hold when documents were processed."""
    after = None
    while True:
        page = queue.customers(CustomerFilter(), limit=PAGE_SIZE, after=after)
        for customer in page.items:
            customer_settings = customer.settings._replace(paused=False, display_name=None, keep=None)
            if customer_settings != CustomerSettings():
                yield customer.name, customer_settings
        after = page.next
        if after is None:
            return


def _throttled_customers(queue: QueueReader, settings: Mapping[str, CustomerSettings]) -> frozenset[str]:
    """Return customers whose documents may wait while workers are idle: capped, limited, or paused at some time."""
    paused: Iterable[str | None] = (
        event.customer
        for event in queue.audit(limit=MAX_AUDIT_EVENTS)
        if event.kind is EventKind.CUSTOMER_CHANGED and not {"paused", "cap", "rate"}.isdisjoint(event.detail)
    )
    held = (
        name
        for name, customer_settings in settings.items()
        if customer_settings.cap is not None or customer_settings.rate is not None
    )
    return frozenset(held) | frozenset(name for name in paused if name is not None)
