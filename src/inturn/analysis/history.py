"""What really came in and how long it took, so that it can be played again."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import ceil
from statistics import fmean
from types import MappingProxyType
from typing import Final, NamedTuple

from inturn.analysis.capacity import SINGLE_SLOT, Capacity, ExecutionLog, QueuedWait, WorkerDelays
from inturn.analysis.engine import LEASE, simulated_document
from inturn.analysis.scenario import Arrival, FailedAttempt
from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_QUEUE, CustomerSettings, NewDocument, QueueSettings
from inturn.policy import Policy
from inturn.policy.slot_share import SlotShares
from inturn.values import SECOND

MAX_HISTORY_DOCUMENTS: Final = 2_000_000
"""Documents that are read at most: about 1.5 GB of memory to play them."""
DAY: Final = 86_400 * SECOND
WARMUP_DURATION: Final = 2 * 3_600 * SECOND
"""What came so long before is usually played too: it was in the way, and counters remember it."""
SIZE_GROUP_LIMITS: Final = ((20, "1-20"), (200, "21-200"))
"""Groups of customers by how many documents they bring a day."""
LARGEST_SIZE_GROUP: Final = "201+"
SIZE_GROUPS: Final = (*(name for _, name in SIZE_GROUP_LIMITS), LARGEST_SIZE_GROUP)

NO_QUEUES: Final[Mapping[str, QueueSettings]] = MappingProxyType({})
ProgressCallback = Callable[[int, int], None]


class StepLink(NamedTuple):
    """A step of a document: a step of the same document, or the one that split it, is before it."""

    document: str
    step: int
    part_of: tuple[str, int] | None = None
    """The document that it is a part of, and the step in which that was split."""


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
    queue: str = DEFAULT_QUEUE
    link: "StepLink | None" = None
    """Of a document with several steps or of a part."""

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
    queues: Mapping[str, QueueSettings] = field(default_factory=dict)
    """Settings of its queues, in the order of their numbers. Those that are not named are made as they are used."""

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
        if self.has_steps:
            arrivals = renumbered(arrivals, self.warmup_documents)  # type: ignore[arg-type]
        return replace(self, arrivals=arrivals, waits=waits, finished=finished, levels=levels, warmup_documents=0)  # type: ignore[arg-type]

    @property
    def has_steps(self) -> bool:
        """Whether any document has several steps, or was split."""
        return any(arrival.follows is not None for arrival in self.arrivals)

    def pooled(self) -> "History":
        """The same with each step and part as a document of its own, all in one queue."""
        arrivals = [replace(arrival, follows=None, is_part=False) for arrival in self.arrivals]
        specs = [spec._replace(queue=DEFAULT_QUEUE) for spec in self.specs]
        return replace(self, arrivals=arrivals, specs=specs, queues={})

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


def renumbered(arrivals: Sequence[Arrival], first: int) -> Sequence[Arrival]:
    """Return arrivals from number `first` on as a list of their own: what follows none of them comes by itself."""
    going_on = {arrival.follows for arrival in arrivals if not arrival.is_part}
    return [
        arrival
        if arrival.follows is None
        else replace(arrival, follows=arrival.follows - first)
        if arrival.follows >= first and (not arrival.is_part or arrival.follows in going_on)
        else replace(arrival, follows=None, is_part=False)
        for arrival in arrivals
    ]


def size_group_of(per_day: float) -> str:
    """The group of a customer that brings so many documents a day."""
    return next((group for most, group in SIZE_GROUP_LIMITS if ceil(per_day) <= most), LARGEST_SIZE_GROUP)


def build_history(
    records: list[RecordedDocument],
    settings: Mapping[str, CustomerSettings],
    throttled: frozenset[str] = frozenset(),
    max_share: float = 1.0,
    queues: Mapping[str, QueueSettings] = NO_QUEUES,
) -> History:
    """History from what is known of each document, in any order; emptied on the way, so that memory is used once.

    `throttled`: customers whose documents may have waited while workers had nothing to do. `max_share`: the part of the
    slots at which other customers' did. `queues`: the settings of all queues, by number.
    """
    served = array("q", (record.service for record in records if record.service is not None))
    if not served:
        raise empty_history_error()
    usual = round(fmean(served))
    records.sort(key=lambda recorded_document: recorded_document.at)
    limited = frozenset(name for name, own in queues.items() if own.cap is not None or own.rate is not None)
    lags, staff = _infer_capacity(records, throttled, limited, _full_shares(records, max_share))
    given: dict[tuple[float, int | None, str], int] = {}
    before = _steps_before(records)
    arrivals: list[Arrival] = []
    waits: list[int | None] = []
    tries = iter(lags.handovers[len(records) :])
    for number, (recorded_document, handover, wake) in enumerate(
        zip(records, lags.handovers, lags.wakeups, strict=False)
    ):
        group = given.setdefault((*recorded_document.cost_basis, recorded_document.queue), len(given))
        follows, is_part = before.get(number, (None, False))
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
                follows=follows,
                is_part=is_part,
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
    specs = [simulated_document(cost, pages)._replace(queue=queue) for cost, pages, queue in given]
    names_of_queues = {spec.queue for spec in specs}
    used = {name: own for name, own in queues.items() if name in names_of_queues}
    return History(arrivals, waits, finished, levels, specs, stored, capacity=staff, queues=used)


def _steps_before(records: Sequence[RecordedDocument]) -> dict[int, tuple[int, bool]]:
    """Return by number the arrival that each later step and each part follows, and whether it is a part.

    Left out is what follows nothing that is known: it comes by itself. So do parts of a document that did not go on.
    """
    links = {number: record.link for number, record in enumerate(records) if record.link is not None}
    numbers = {(link.document, link.step): number for number, link in links.items()}
    before: dict[int, tuple[int, bool]] = {}
    for number, link in links.items():
        key = (link.document, link.step - 1) if link.step or link.part_of is None else link.part_of
        is_part = not link.step and link.part_of is not None
        if key in numbers and (not is_part or (key[0], key[1] + 1) in numbers):
            before[number] = (numbers[key], is_part)
    return {number: item for number, item in before.items() if _begins_somewhere(before, number)}


def _begins_somewhere(before: Mapping[int, tuple[int, bool]], number: int) -> bool:
    """Return whether a chain of steps has a beginning: one that was written by hand may be a circle."""
    seen = {number}
    while number in before:
        number = before[number][0]
        if number in seen:
            return False
        seen.add(number)
    return True


def _failed_attempts(record: RecordedDocument, handovers: Iterator[int]) -> Iterator[FailedAttempt]:
    for place, (started, ended) in enumerate(record.failed_attempts, start=1):
        is_last = place == len(record.failed_attempts)
        retry_in = max(0, record.ready_at - ended) if is_last and record.ready_at is not None else None
        yield FailedAttempt(min(max(1, ended - started), LEASE - 1), next(handovers), retry_in)


def _infer_capacity(
    records: Sequence[RecordedDocument],
    throttled: frozenset[str],
    limited: frozenset[str],
    full_shares: Mapping[str, Sequence[tuple[int, int]]],
) -> tuple[WorkerDelays, Capacity]:
    """Attempts that failed come after all documents, in their order."""
    waited = [
        QueuedWait(
            number,
            recorded_document.at,
            recorded_document.first_started,
            recorded_document.customer not in throttled
            and recorded_document.queue not in limited
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


def empty_history_error() -> InvalidInputError:
    """Return the error of a time in which nothing was processed."""
    return InvalidInputError("no document that was submitted in that time has been processed: there is nothing to play")
