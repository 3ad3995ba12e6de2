"""What needs attention now: pauses, missing workers, failures, overdue documents."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from inturn.insights.history import HistoryQuery, read_history
from inturn.insights.reader import Insights
from inturn.insights.views import LiveOverview
from inturn.model import DocumentState
from inturn.queue_reader import QueueReader
from inturn.store_answers import ClosedLane
from inturn.store_types import Event, EventKind, Operator, TimeRange
from inturn.values import SECOND

MAX_NAMES: Final = 3
MAX_CUSTOMERS_READ: Final = 50
"""Customers with closed lanes that are looked at for a pause: a cap or a rate closes lanes too."""
MAX_EVENTS_READ: Final = 100
"""The newest manual actions that are searched for the time of a pause."""
FAILING_WINDOW: Final = 600 * SECOND
MIN_FAILED: Final = 10
MIN_FAILED_PART: Final = 0.2
"""So many failures, and so large a part of what ended in the window, are worth a look."""
MAX_FAILED_READ: Final = 1_000


class NoticeKind(StrEnum):
    """What a notice is about, the most urgent first."""

    QUEUE_PAUSED = "queue_paused"
    NO_WORKERS = "no_workers"
    QUEUES_UNSERVED = "queues_unserved"
    FAILING = "failing"
    QUEUES_PAUSED = "queues_paused"
    CUSTOMERS_PAUSED = "customers_paused"
    WORKERS_PAUSED = "workers_paused"
    OVERDUE = "overdue"


class Notice(NamedTuple):
    """One thing to look at."""

    kind: NoticeKind
    operator: Operator | None = None
    at: int | None = None
    """When the operator did it; None if that is long ago."""
    names: tuple[str, ...] = ()
    """Of queues, customers or workers."""
    n: int = 0
    """Waiting documents without a worker, or failures."""
    of: int = 0
    """Documents that ended, of which `n` failed."""
    levels: tuple[int, ...] = ()


def queue_notices(insights: Insights, overview: LiveOverview) -> tuple[Notice, ...]:
    """Return what operators should look at, the most urgent first."""
    queue, live = insights.queue, overview.live
    queues = insights.queues(live.at)
    notices = []
    if live.paused is not None:
        paused_at = _time_of(queue.audit(limit=MAX_EVENTS_READ), EventKind.QUEUE_PAUSED, live.paused)
        notices.append(Notice(NoticeKind.QUEUE_PAUSED, live.paused, paused_at))
    by_worker = [status for status in queues if not status.settings.manual]
    waiting = live.states.get(DocumentState.WAITING, 0)
    if len(by_worker) < len(queues):
        waiting = sum(status.waiting for status in by_worker)
    if waiting and live.paused is None:
        waiting_by_queue = {status.name: status.waiting for status in by_worker if not status.paused}
        notices += _without_worker(insights, waiting, waiting_by_queue, live.at)
    notices += _failing(queue, live.at)
    notices += _paused_queues(queue, [status.name for status in queues if status.paused and status.waiting])
    notices += _paused_customers(queue, insights.scheduler_snapshot(live.at).closed)
    paused = tuple(worker.report.name for worker in queue.workers() if worker.paused is not None)
    if paused:
        notices.append(Notice(NoticeKind.WORKERS_PAUSED, names=paused))
    if overview.overdue:
        notices.append(Notice(NoticeKind.OVERDUE, levels=overview.overdue))
    return tuple(notices)


def customer_notices(insights: Insights, overview: LiveOverview, name: str) -> tuple[Notice, ...]:
    """Return what concerns one customer, without names and reasons of operators."""
    customer, now = insights.queue.customer(name), overview.live.at
    if overview.live.paused is not None:
        return (Notice(NoticeKind.QUEUE_PAUSED),)
    if customer.settings.paused:
        return (Notice(NoticeKind.CUSTOMERS_PAUSED),)
    if not customer.waiting:
        return ()
    waiting: Counter[str] = Counter()
    for lane in customer.lanes:
        waiting[lane.queue] += lane.waiting
    queues, total = insights.queues(now), customer.waiting
    paused = tuple(status.name for status in queues if status.paused and waiting.pop(status.name, 0))
    total -= sum(waiting.pop(status.name, 0) for status in queues if status.settings.manual)
    notices = _without_worker(insights, total, waiting, now) if total else []
    return (*notices, Notice(NoticeKind.QUEUES_PAUSED, names=paused)) if paused else tuple(notices)


def _without_worker(insights: Insights, total: int, waiting: Mapping[str, int], now: int) -> list[Notice]:
    """Return a notice if no worker takes documents, or none those of some queues; `waiting` is by queue."""
    if not insights.has_worker(now):
        return [Notice(NoticeKind.NO_WORKERS, n=total)]
    unserved = insights.unserved([name for name, n in waiting.items() if n], now)
    if not unserved:
        return []
    names = tuple(islice((name for name in waiting if name in unserved), MAX_NAMES + 1))
    return [Notice(NoticeKind.QUEUES_UNSERVED, names=names, n=sum(waiting[name] for name in unserved))]


def _failing(queue: QueueReader, now: int) -> list[Notice]:
    """Return a notice if many of the documents that ended lately have failed."""
    failed = len(queue.failures(TimeRange(max(0, now - FAILING_WINDOW), now + 1), limit=MAX_FAILED_READ))
    if failed < MIN_FAILED:
        return []
    total = read_history(queue, HistoryQuery(max(0, now - FAILING_WINDOW), now + 1)).total
    ended = failed + sum(point.figures.done for point in total if point.figures is not None)
    return [Notice(NoticeKind.FAILING, n=failed, of=ended)] if failed >= MIN_FAILED_PART * ended else []


def _paused_queues(queue: QueueReader, names: Sequence[str]) -> list[Notice]:
    """Return a notice of paused queues in which documents wait, with the pause itself if there is one."""
    if not names:
        return []
    shown = tuple(names[: MAX_NAMES + 1])
    operator = queue.paused(names[0]) if len(names) == 1 else None
    if operator is None:
        return [Notice(NoticeKind.QUEUES_PAUSED, names=shown)]
    paused_at = _time_of(queue.audit(limit=MAX_EVENTS_READ), EventKind.QUEUE_PAUSED, operator, names[0])
    return [Notice(NoticeKind.QUEUES_PAUSED, operator, paused_at, shown)]


def _paused_customers(queue: QueueReader, closed: Sequence[ClosedLane]) -> list[Notice]:
    """Return a notice of paused customers whose documents wait, with the pause itself if there is one."""
    names = islice(dict.fromkeys(lane.customer for lane in closed), MAX_CUSTOMERS_READ)
    paused = list(islice((name for name in names if queue.customer(name).settings.paused), MAX_NAMES + 1))
    if not paused:
        return []
    if len(paused) > 1:
        return [Notice(NoticeKind.CUSTOMERS_PAUSED, names=tuple(paused))]
    for event in queue.audit(limit=MAX_EVENTS_READ, customer=paused[0]):
        if event.kind is EventKind.CUSTOMER_CHANGED and event.detail.get("paused"):
            return [Notice(NoticeKind.CUSTOMERS_PAUSED, event.operator, event.at, tuple(paused))]
    return [Notice(NoticeKind.CUSTOMERS_PAUSED, names=tuple(paused))]


def _time_of(events: Sequence[Event], kind: EventKind, operator: Operator, queue: str | None = None) -> int | None:
    """Return when the operator did it last, to one queue or (None) to all."""
    matching = (event for event in events if event.kind is kind and event.detail.get("queue") == queue)
    return next((event.at for event in matching if event.operator == operator), None)
