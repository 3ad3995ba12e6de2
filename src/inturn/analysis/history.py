"""What really came in and how long it took, so that it can be played again."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil
from statistics import fmean
from sys import intern
from typing import Final, NamedTuple

from inturn.analysis.capacity import SINGLE_SLOT, Capacity, ExecutionLog, QueuedWait, WorkerDelays
from inturn.analysis.engine import LEASE, simulated_document
from inturn.analysis.scenario import Arrival, FailedAttempt
from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_COST, ENDED, SECOND, CustomerSettings, Document, DocumentState, NewDocument
from inturn.policy import CostPolicy, Policy
from inturn.policy.slot_share import SlotShares
from inturn.queue_reader import QueueReader
from inturn.store import Attempt, CustomerFilter, DocumentFilter, EventKind

PAGE_SIZE: Final = 1_000
MAX_HISTORY_DOCUMENTS: Final = 2_000_000
"""Documents that are read at most: about 1.5 GB of memory to play them."""
DAY: Final = 86_400 * SECOND
WARMUP_DURATION: Final = 2 * 3_600 * SECOND
"""What came so long before is usually played too: it was in the way, and counters remember it."""
COMPLETED_STATES: Final = frozenset({DocumentState.DONE, DocumentState.FAILED})
SIZE_GROUP_LIMITS: Final = ((20, "1-20"), (200, "21-200"))
"""Groups of customers by how many documents they bring a day."""
LARGEST_SIZE_GROUP: Final = "201+"
SIZE_GROUPS: Final = (*(name for _, name in SIZE_GROUP_LIMITS), LARGEST_SIZE_GROUP)
MAX_CLOCK_SKEW: Final = 600 * SECOND
RETRIED_ATTEMPT_ENDS: Final = frozenset({EventKind.DELAYED, EventKind.LEASE_LOST})
"""How attempts end that count and are followed by another."""
MAX_ATTEMPT_LOOKUPS: Final = 20_000
"""Documents, the newest, whose attempts are asked for; of older ones each attempt counts as long as the last."""
MAX_AUDIT_EVENTS: Final = 10_000
"""Events by hand that are looked through for pauses and retries."""

ProgressCallback = Callable[[int, int], None]


class RecordedDocument(NamedTuple):
    """One recorded document: times in microseconds, None where unknown."""

    at: int
    customer: str
    cost_basis: tuple[float, int | None]
    """Its cost, or its pages: with pages it costs what the policy says, whatever it cost then."""
    service: int | None
    """Of its last attempt."""
    failures: int
    started: int | None
    """When work on it last began: a claim may be earlier."""
    finished: int | None
    """When that ended."""
    level: int
    failed_attempts: tuple[tuple[int, int], ...] = ()
    """(start, end) of the attempts before the last, as many as `failures`; empty if unknown."""
    ready_at: int | None = None
    """When it could start for the last time."""

    @property
    def first_started(self) -> int | None:
        """Its first start, if that is known."""
        return self.failed_attempts[0][0] if self.failed_attempts else None if self.failures else self.started


@dataclass(frozen=True, slots=True)
class History:
    """Documents in the order they came. Lists are by a document's number in that order."""

    arrivals: Sequence[Arrival]
    """Their `group` is a place in `given`."""
    waits: Sequence[int | None]
    """Measured microseconds until its first start; None where unknown."""
    finished: Sequence[int | None]
    levels: Sequence[int]
    specs: Sequence[NewDocument]
    """What was submitted, as far as the queue minds it: pages, or else a cost."""
    settings: Mapping[str, CustomerSettings]
    """Of customers that an operator decided something about."""
    policies: Sequence[tuple[int, Policy]] = ()
    """Those in force and from when on, the oldest first; the first one holds for all time before too."""
    capacity: Capacity = SINGLE_SLOT
    is_cut: bool = False
    """There was more than was asked for: the oldest was left out."""
    warmup_documents: int = 0
    """So many documents at the beginning are played, as they were in the way of the others, but not counted."""

    @property
    def workers(self) -> int:
        """The most documents that ran at a time."""
        return self.capacity.peak

    @property
    def days(self) -> float:
        """How long documents came, at least a day: who is there for an hour is not called busier than it was."""
        return max(1.0, (self.arrivals[-1].at - self.arrivals[self.warmup_documents].at) / DAY)

    def per_day(self) -> dict[str, float]:
        """Documents a day of each customer that counts."""
        days = self.days
        counted = Counter(self.arrivals[number].customer for number in range(self.warmup_documents, len(self.arrivals)))
        return {name: n / days for name, n in counted.items()}

    def groups(self) -> dict[str, str]:
        """The group of each customer that counts."""
        return {name: size_group_of(n) for name, n in self.per_day().items()}

    def without_warmup(self) -> "History":
        """Without those that are played only to be in the way."""
        if not self.warmup_documents:
            return self
        stored = (item[self.warmup_documents :] for item in (self.arrivals, self.waits, self.finished, self.levels))
        arrivals, waits, finished, levels = stored
        return replace(self, arrivals=arrivals, waits=waits, finished=finished, levels=levels, warmup_documents=0)  # type: ignore[arg-type]

    def with_warmup(self, documents: int) -> "History":
        """The same with so many documents at the beginning that do not count."""
        return replace(self, warmup_documents=documents)

    def started(self, number: int) -> int | None:
        """When a document was last started, if that is known."""
        wait, finished, arrival = self.waits[number], self.finished[number], self.arrivals[number]
        if wait is not None and not arrival.failures:
            return arrival.at + wait
        return None if finished is None else finished - arrival.service

    def anonymized(self) -> "History":
        """The same without customers' names: numbers in the order they came."""
        names: dict[str, str] = {}
        for arrival in self.arrivals:
            names.setdefault(arrival.customer, f"customer {len(names) + 1}")
        return replace(
            self,
            arrivals=[replace(arrival, customer=names[arrival.customer]) for arrival in self.arrivals],
            settings={names[name]: customer_settings for name, customer_settings in self.settings.items()},
        )


def size_group_of(per_day: float) -> str:
    """The group of a customer that brings so many documents a day."""
    return next((group for most, group in SIZE_GROUP_LIMITS if ceil(per_day) <= most), LARGEST_SIZE_GROUP)


def read_history(
    queue: QueueReader,
    since: int,
    *,
    until: int | None = None,
    warmup: int = 0,
    max_documents: int = MAX_HISTORY_DOCUMENTS,
    progress: ProgressCallback | None = None,
) -> History:
    """Up to `most` documents that were submitted in that time, the newest of them; those never started left out.

    One that runs or waits still counts as long as the others took on average. `delay` counts as a later arrival. What
    came up to `warmup` microseconds before is read too, but only to be in the way of the others.
    """
    recorded_documents: list[RecordedDocument] = []
    # Names and kinds that come again are stored once: there may be a million documents.
    kinds: dict[tuple[float, int | None], tuple[float, int | None]] = {}
    costs = queue.policy().policy.costs
    is_cut = False
    tried, retried = _AttemptReader(queue), _manual_retries(queue)
    for document, at in _submitted_documents(queue, retried, since - warmup, until):
        if len(recorded_documents) >= max_documents:
            is_cut = True
            break
        kind = cost_basis_of(document.spec, costs)
        recorded_documents.append(
            _record_of(document, at, kinds.setdefault(kind, kind), tried.failed_attempts(document, at))
        )
        if document.id in retried:
            lives = tried.runs_before_retries(document, retried[document.id])
            recorded_documents += [
                _record_before_retry(recorded_documents[-1], *life)
                for life in lives
                if since - warmup <= life[0] < (until or life[0] + 1)
            ]
        if progress is not None and len(recorded_documents) % (10 * PAGE_SIZE) == 0:
            progress(len(recorded_documents), 0)
    recorded_documents.reverse()  # of one instant, first come first
    settings = dict(_customer_settings(queue))
    versions = tuple((policy.at, policy.policy) for policy in reversed(queue.policies()))
    max_share = _lowest_share(versions, min((record.at for record in recorded_documents), default=0))
    throttled = _throttled_customers(queue, settings)
    history = build_history(recorded_documents, settings, throttled=throttled, max_share=max_share)
    before = sum(arrival.at < since for arrival in history.arrivals)
    if before == len(history.arrivals):
        raise _empty_history_error()
    return replace(history, policies=versions, is_cut=is_cut and not before, warmup_documents=before)


def build_history(
    records: list[RecordedDocument],
    settings: Mapping[str, CustomerSettings],
    throttled: frozenset[str] = frozenset(),
    max_share: float = 1.0,
) -> History:
    """History from what is known of each document, in any order; emptied on the way, so that memory is used once.

    `throttled`: customers whose documents may have waited while workers had nothing to do. `max_share`: the part of the
    slots at which other customers' did.
    """
    served = array("q", (record.service for record in records if record.service is not None))
    if not served:
        raise _empty_history_error()
    usual = round(fmean(served))
    records.sort(key=lambda recorded_document: recorded_document.at)
    lags, staff = _infer_capacity(records, throttled, _full_shares(records, max_share))
    given: dict[tuple[float, int | None], int] = {}
    arrivals: list[Arrival] = []
    waits: list[int | None] = []
    tries = iter(lags.handovers[len(records) :])
    for recorded_document, handover, wake in zip(records, lags.handovers, lags.wakeups, strict=False):
        group = given.setdefault(recorded_document.cost_basis, len(given))
        service = min(max(1, usual if recorded_document.service is None else recorded_document.service), LEASE - 1)
        earlier = tuple(_failed_attempts(recorded_document, tries)) if recorded_document.failed_attempts else ()
        arrivals.append(
            Arrival(
                recorded_document.at,
                recorded_document.customer,
                group,
                service,
                recorded_document.failures,
                handover,
                wake,
                earlier,
            )
        )
        waits.append(
            None
            if recorded_document.first_started is None
            else max(0, recorded_document.first_started - recorded_document.at)
        )
    finished = [record.finished for record in records]
    levels = array("b", (record.level for record in records))
    records.clear()
    names = {arrival.customer for arrival in arrivals}
    stored = {name: customer_settings for name, customer_settings in settings.items() if name in names}
    return History(
        arrivals, waits, finished, levels, [simulated_document(*kind) for kind in given], stored, capacity=staff
    )


def _failed_attempts(record: RecordedDocument, handovers: Iterator[int]) -> Iterator[FailedAttempt]:
    for place, (started, ended) in enumerate(record.failed_attempts, start=1):
        is_last = place == len(record.failed_attempts)
        retry_in = max(0, record.ready_at - ended) if is_last and record.ready_at is not None else None
        yield FailedAttempt(min(max(1, ended - started), LEASE - 1), next(handovers), retry_in)


def _infer_capacity(
    records: Sequence[RecordedDocument], throttled: frozenset[str], full_shares: Mapping[str, Sequence[tuple[int, int]]]
) -> tuple[WorkerDelays, Capacity]:
    """Attempts that failed come after all documents, in their order."""
    waited = [
        QueuedWait(
            number,
            recorded_document.at,
            recorded_document.first_started,
            recorded_document.customer not in throttled
            and not _overlaps(
                full_shares.get(recorded_document.customer, ()), recorded_document.at, recorded_document.first_started
            ),
        )
        for number, recorded_document in enumerate(records)
        if recorded_document.first_started is not None
    ]
    for record in records:
        if record.failed_attempts:
            starts = [*(started for started, _ in record.failed_attempts[1:]), record.started or 0]
            waited += [
                QueuedWait(None, tried[1], at, shows_saturation=False)
                for tried, at in zip(record.failed_attempts, starts, strict=True)
            ]
    begun = [record.started for record in records]
    ended = [None if record.started is None else record.finished for record in records]
    for started_at, ended_at in (tried for record in records for tried in record.failed_attempts):
        begun.append(started_at)
        ended.append(ended_at)
    knows_all = all(record.failed_attempts or not record.failures for record in records)
    ran = ExecutionLog(begun, ended, waited, is_complete=knows_all)
    return ran.delays(), ran.capacity()


def _lowest_share(versions: Sequence[tuple[int, Policy]], since: int) -> float:
    """Return the lowest limit of a customer's share of the slots in force since then; versions are in order."""
    first = max((place for place, (at, _) in enumerate(versions) if at <= since), default=0)
    return min((policy.turns.max_share for _, policy in versions[first:]), default=1.0)


def _full_shares(records: Sequence[RecordedDocument], max_share: float) -> dict[str, list[tuple[int, int]]]:
    """When each customer held its share of the slots: its documents may have waited while workers were idle."""
    steps = sorted(
        step
        for record in records
        if record.started is not None and record.finished is not None
        for step in ((record.started, 1, record.customer), (record.finished, -1, record.customer))
    )
    limit = SlotShares(live_slots=max(accumulate((step for _, step, _ in steps), initial=0))).limit(max_share)
    result: dict[str, list[tuple[int, int]]] = {}
    running: Counter[str] = Counter()
    began: dict[str, int] = {}
    for at, step, customer in steps if limit is not None else ():
        running[customer] += step
        if step > 0 and running[customer] == limit:
            began[customer] = at
        elif step < 0 and running[customer] + 1 == limit:
            result.setdefault(customer, []).append((began.pop(customer), at))
    return result


def _overlaps(periods: Sequence[tuple[int, int]], begin: int, end: int) -> bool:
    """Whether one of these disjoint periods, in order, overlaps the given one."""
    place = bisect_left(periods, (end, 0))
    return place > 0 and periods[place - 1][1] > begin


def _empty_history_error() -> InvalidInputError:
    return InvalidInputError("no document that was submitted in that time has been processed: there is nothing to play")


def _submitted_documents(
    queue: QueueReader, retried: Mapping[str, Sequence[int]], since: int, until: int | None
) -> Iterator[tuple[Document, int]]:
    """With the time from which on each could start: a retry by hand is a new check, so it came then."""
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
    """A cursor behind which everything that came before then is listed, and not much else; found by halving.

    Machines whose clocks differ by less than `MAX_CLOCK_SKEW` list documents in their order as far as this needs it.
    """
    newest = queue.documents(DocumentFilter(), limit=1).items
    low, high = 0, newest[0].seq + 1 if newest else 0
    while high - low > PAGE_SIZE:
        middle = (low + high) // 2
        documents = queue.documents(DocumentFilter(), limit=1, after=str(middle)).items
        is_later = bool(documents) and _last_submitted_at(documents[0], retried) >= until + MAX_CLOCK_SKEW
        low, high = (low, middle) if is_later else (middle, high)
    return str(high) if high else None


class _AttemptReader:
    """Asks for the attempts before the last, of so many documents: each costs the store a question."""

    def __init__(self, queue: QueueReader) -> None:
        self._queue = queue
        self._lookups_left = MAX_ATTEMPT_LOOKUPS

    def failed_attempts(self, document: Document, since: int) -> tuple[tuple[int, int], ...]:
        """When those that count began and ended, since it came or was retried by hand."""
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

    def runs_before_retries(
        self, document: Document, retried: Sequence[int]
    ) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """When it could start before each retry by hand, and the attempts until then, which took workers' time."""
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
    """What a document was before a retry by hand; the level that it had then is not kept."""
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
    """From when to when, as far as that is known."""
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
    )


def cost_basis_of(spec: NewDocument, costs: CostPolicy) -> tuple[float, int | None]:
    """Return what the queue minds of a document: the cost it was given, or the pages it is charged for."""
    pages, size = spec.pages, spec.size
    if pages is None and spec.cost not in {DEFAULT_COST, costs.cost(None, size)}:
        return spec.cost, None
    charged = costs.charged_pages(pages, size)
    return DEFAULT_COST, None if pages is None and charged == 1 else charged


def _customer_settings(queue: QueueReader) -> Iterator[tuple[str, CustomerSettings]]:
    """A customer that is paused now was not when its documents were processed."""
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
    """Customers whose documents may wait while workers are idle: capped, limited, or paused at some time."""
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
