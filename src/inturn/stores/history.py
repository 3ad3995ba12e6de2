"""Fold events into rows of the history. The same arithmetic for every store; each brings reading and writing."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from inturn.model import DEFAULT_QUEUE
from inturn.policy.history import MAX_NAMED_CUSTOMERS, MAX_OPEN_CUSTOMERS, Figures, HistorySpan, bucket_of, sum_figures
from inturn.store_history import HISTORY_INTERVAL, HistoryCursor, HistoryScope
from inturn.store_types import STEP_ENDS, Event, EventKind

QUEUE, NAMED_QUEUE, LEVEL, CUSTOMER = HistoryScope
OTHERS: Final = ""
"""The key of the customers that are not named."""
COUNTED: Final = {
    EventKind.SUBMITTED: "submitted",
    EventKind.STARTED: "started",
    EventKind.FINISHED: "done",
    EventKind.FAILED: "failed",
    EventKind.CANCELLED: "cancelled",
    EventKind.EXPIRED: "expired",
    EventKind.STEP_DONE: "steps",
    EventKind.SPLIT: "steps",
    EventKind.PART_ADDED: "parts",
}
"""The figure that counts the documents of an event."""
ATTEMPT_ENDS: Final = frozenset(
    {EventKind.FINISHED, EventKind.FAILED, EventKind.DELAYED, EventKind.RELEASED, *STEP_ENDS}
)
STARTED: Final = EventKind.STARTED  # bound once: in Python 3.11 an Enum member lookup costs ten times a global name
FOLDED: Final = frozenset(COUNTED) | ATTEMPT_ENDS

EVENTS_PAGE_SIZE: Final = 100
DOCUMENTS_PER_EVENT: Final = 10
"""A fold of up to n events reads up to so many times n documents: an event can have thousands."""
MAX_MINUTES: Final = 30
"""Minutes with events of one fold: each is read and written under SQLite's write lock, in up to 2.5 ms."""

SpanKey = tuple[HistorySpan, int]
"""A minute or hour, and when it began."""
SeriesKey = tuple[HistoryScope, str]
Rows = dict[SpanKey, dict[SeriesKey, Figures]]


class DocumentFacts(NamedTuple):
    """What the fold reads of a document and of its earlier attempts."""

    level: int
    ready_at: int
    started_at: int | None
    finished_at: int | None
    worked: int | None
    ended: Mapping[int, int]
    """Processing times of earlier attempts, by their end."""
    waited: Mapping[int, int]
    """Waits before earlier attempts, by their start."""

    def wait_before(self, at: int) -> int | None:
        """Return the wait before a start at this time; None if it is not known."""
        if self.started_at == at and self.ready_at <= at:
            return at - self.ready_at
        return self.waited.get(at)

    def work_until(self, at: int) -> int:
        """Return the processing time of the attempt that ended at this time; 0 if it is not known."""
        if self.finished_at == at and self.worked is not None:
            return self.worked
        return self.ended.get(at, 0)


class AttemptFacts(NamedTuple):
    """What the fold reads of an earlier attempt."""

    started_at: int
    ended_at: int
    worked: int | None
    ready_at: int | None


def document_facts(
    attempts: Iterable[AttemptFacts],
    level: int,
    ready_at: int,
    started_at: int | None,
    finished_at: int | None,
    worked: int | None,
) -> DocumentFacts:
    """Return the facts of a document with these attempts before its last one."""
    ended: dict[int, int] = {}
    waited: dict[int, int] = {}
    for attempt in attempts:
        if attempt.worked is not None:
            ended[attempt.ended_at] = attempt.worked
        if attempt.ready_at is not None and attempt.ready_at <= attempt.started_at:
            waited[attempt.started_at] = attempt.started_at - attempt.ready_at
    return DocumentFacts(level, ready_at, started_at, finished_at, worked, ended, waited)


class Sample(NamedTuple):
    """Documents that wait and run now: of all queues, by queue and level, and of the customers with the most."""

    waiting: Mapping[SeriesKey, int]
    running: Mapping[SeriesKey, int]


class Batch(NamedTuple):
    """What one fold adds, if the cursor is still where it was read."""

    cursor: HistoryCursor
    rows: Rows
    sample: Sample | None
    events: int
    last: int
    until: int
    now: int

    @property
    def spans(self) -> list[SpanKey]:
        """The minutes and hours that change: those of the events, of now, and of the last fold, which may be over."""
        times = [self.now, *([self.cursor.until] if self.cursor.until else [])]
        touched = {(span, span.begin(at)) for span in HistorySpan for at in times if self.sample or at != self.now}
        return sorted(touched | self.rows.keys())

    def next_cursor(self, pause: int) -> HistoryCursor:
        """Return the cursor after this fold."""
        began_at = self.cursor.began_at
        interval = pause if self.sample is None else max(pause, HISTORY_INTERVAL)
        return HistoryCursor(
            self.last,
            self.until if began_at is None else began_at,
            max(self.until, self.cursor.until) if self.sample is None else self.until,
            self.now + interval,
        )

    def apply(self, stored: Rows) -> Rows:
        """Return the rows of `spans` with this batch added, given those that are stored."""
        rows: Rows = {}
        for key in self.spans:
            series = rows[key] = stored.get(key, {})
            for series_key, figures in self.rows.get(key, {}).items():
                series.setdefault(series_key, Figures()).add(figures)
            span, at = key
            if self.sample is not None and at == span.begin(self.now):
                _record_sample(series, self.sample)
            _sum_others(series, MAX_OPEN_CUSTOMERS if self.now < at + span else MAX_NAMED_CUSTOMERS)
        return rows


def next_events(read: Callable[[int, int], Sequence[Event]], after: int, limit: int) -> tuple[list[Event], bool]:
    """Read the events of one fold, page by page (`after`, `limit`); return them, and whether no event is left."""
    events: list[Event] = []
    documents, minutes = 0, set[int]()
    while len(events) < limit:
        size = min(EVENTS_PAGE_SIZE, limit - len(events))
        page = read(events[-1].number if events else after, size)
        for event in page:
            documents += len(event.documents)
            minutes.add(event.at // HistorySpan.MINUTE)
            if events and (documents > DOCUMENTS_PER_EVENT * limit or len(minutes) > MAX_MINUTES):
                return events, False
            events.append(event)
        if len(page) < size:
            return events, True
    return events, False


def make_batch(
    cursor: HistoryCursor,
    events: Sequence[Event],
    facts: Mapping[str, DocumentFacts],
    sample: Sample | None,
    now: int,
) -> Batch:
    """Fold events into rows. A sample goes with the last of them."""
    rows: Rows = {}
    for event in events:
        if event.kind in FOLDED and event.customer is not None:
            minute = HistorySpan.MINUTE, event.at - event.at % HistorySpan.MINUTE
            _add_event(rows.setdefault(minute, {}), event, facts)
    for (_, at), series in list(rows.items()):
        hour = rows.setdefault((HistorySpan.HOUR, HistorySpan.HOUR.begin(at)), {})
        for key, figures in series.items():
            hour.setdefault(key, Figures()).add(figures)
    last = events[-1].number if events else cursor.event
    until = now if sample is not None or not events else events[-1].at
    return Batch(cursor, rows, sample, len(events), last, until, now)


def make_sample(waiting: "StateCounts", running: "StateCounts") -> Sample:
    """Return what waits and runs, by series."""
    return Sample(waiting.by_series(), running.by_series())


class StateCounts(NamedTuple):
    """Documents in one state, by queue, level and customer. With customers left out, those with the most are given."""

    by_queue: Mapping[str, int]
    by_level: Mapping[int, int]
    by_customer: Mapping[str, int]

    @classmethod
    def of(cls, counts: Iterable[tuple[str, str, int, int]]) -> "StateCounts":
        """Sum documents given by queue, customer, level and number."""
        queues, levels, customers = Counter[str](), Counter[int](), Counter[str]()
        for queue, customer, level, n in counts:
            queues[queue] += n
            levels[level] += n
            customers[customer] += n
        busiest = sorted(customers.items(), key=lambda item: (-item[1], item[0]))
        return cls(queues, levels, dict(busiest[:MAX_OPEN_CUSTOMERS]))

    def by_series(self) -> dict[SeriesKey, int]:
        """Return the number of each series; the customers left out are summed."""
        total = sum(self.by_level.values())
        others = total - sum(self.by_customer.values())
        return {
            (QUEUE, ""): total,
            **{(NAMED_QUEUE, queue): n for queue, n in self.by_queue.items()},
            **{(LEVEL, str(level)): n for level, n in self.by_level.items()},
            **{(CUSTOMER, customer): n for customer, n in self.by_customer.items()},
            **({(CUSTOMER, OTHERS): others} if others else {}),
        }


def _add_event(series: dict[SeriesKey, Figures], event: Event, facts: Mapping[str, DocumentFacts]) -> None:
    keys = (QUEUE, ""), (NAMED_QUEUE, event.queue or DEFAULT_QUEUE), (CUSTOMER, event.customer or OTHERS)
    whole = tuple([series.setdefault(key, Figures()) for key in keys])
    kind, figure = event.kind, COUNTED.get(event.kind)
    if figure is not None:
        for figures in whole:
            setattr(figures, figure, getattr(figures, figure) + len(event.documents))
    for id_ in event.documents:
        document = facts.get(id_)
        if document is None:
            continue  # purged meanwhile: it counts for its queue and for its customer
        level = series.setdefault((LEVEL, str(document.level)), Figures())
        if figure is not None:
            setattr(level, figure, getattr(level, figure) + 1)
        if kind is STARTED and (wait := document.wait_before(event.at)) is not None:
            bucket = bucket_of(wait)
            for figures in (*whole, level):
                figures.add_wait(wait, bucket)
        elif kind in ATTEMPT_ENDS and (worked := document.work_until(event.at)):
            for figures in (*whole, level):
                figures.worked += worked


def _record_sample(series: dict[SeriesKey, Figures], sample: Sample) -> None:
    """Set what waits and runs, to zero where nothing does any more."""
    for key in sample.waiting.keys() | sample.running.keys():
        series.setdefault(key, Figures())
    for key, figures in series.items():
        figures.waiting, figures.running = sample.waiting.get(key, 0), sample.running.get(key, 0)


def _sum_others(series: dict[SeriesKey, Figures], limit: int) -> None:
    """Leave rows to the customers with the most activity, and sum the others."""
    named = [key for key in series if key[0] is CUSTOMER and key[1] != OTHERS]
    if len(named) <= limit:
        return
    named.sort(key=lambda key: (-series[key].activity(), key[1]))
    rest = [series.pop(key) for key in named[limit:]]
    others = series.setdefault((CUSTOMER, OTHERS), Figures())
    others.add(sum_figures(rest))
