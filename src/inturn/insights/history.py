"""The history of a queue as series of equal steps, for charts and tables."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.policy.history import Figures, HistorySpan, sum_figures
from inturn.queue_reader import QueueReader
from inturn.store_history import HistoryCursor, HistoryRow, HistoryScope

MAX_POINTS: Final = 300
MAX_RANGE: Final = HistorySpan.HOUR.retention
DEFAULT_TOP: Final = 8
STEPS: Final = tuple(HistorySpan.MINUTE * n for n in (1, 5, 15, 30, 60, 3 * 60, 6 * 60, 12 * 60))
"""Lengths of a step. Minutes make those below an hour."""


class HistoryBy(StrEnum):
    """How the history is divided into series."""

    STATE = "state"
    """All queues together: the figures are by state."""
    QUEUE = "queue"
    LEVEL = "level"
    CUSTOMER = "customer"


SCOPES: Final = {
    HistoryBy.STATE: HistoryScope.QUEUE,
    HistoryBy.QUEUE: HistoryScope.NAMED_QUEUE,
    HistoryBy.LEVEL: HistoryScope.LEVEL,
    HistoryBy.CUSTOMER: HistoryScope.CUSTOMER,
}


class HistoryPoint(NamedTuple):
    """One step of a series; `figures` is None where nothing is known."""

    at: int
    figures: Figures | None


class HistorySeries(NamedTuple):
    """A queue, a level or a customer. An empty key is the sum of the queues or customers that are not shown."""

    key: str
    points: tuple[HistoryPoint, ...]


class HistoryView(NamedTuple):
    """Series over the same steps. `total` is of all queues, or of the queue or the customer asked for."""

    by: HistoryBy
    since: int
    until: int
    step: int
    cursor: HistoryCursor
    total: tuple[HistoryPoint, ...]
    series: tuple[HistorySeries, ...]


class HistoryQuery(NamedTuple):
    """What of the history is asked for: times in microseconds, `until` exclusive."""

    since: int
    until: int
    by: HistoryBy = HistoryBy.STATE
    customer: str | None = None
    top: int = DEFAULT_TOP
    step: int | None = None
    """None: the shortest one that gives at most `MAX_POINTS` points."""
    queue: str | None = None

    def check(self) -> None:
        """Refuse what has no answer."""
        if not 0 < self.until - self.since <= MAX_RANGE:
            raise InvalidInputError("`from` must be before `to`, and at most 90 days earlier")
        if self.customer is not None and self.by in {HistoryBy.LEVEL, HistoryBy.QUEUE}:
            raise InvalidInputError(f"history by {self.by} is of all customers; ask for by=state or by=customer")
        if self.queue is not None and self.by in {HistoryBy.LEVEL, HistoryBy.CUSTOMER}:
            raise InvalidInputError(f"history by {self.by} is of all queues; ask for by=state or by=queue")
        if self.queue is not None and self.customer is not None:
            raise InvalidInputError(
                "the history of a queue is of all customers; ask for a queue or a customer, not both"
            )
        if self.step is not None and self.step not in STEPS:
            steps = ", ".join(str(step // HistorySpan.MINUTE) for step in STEPS)
            raise InvalidInputError(f"a step is one of {steps} minutes")
        if self.step is not None and (self.until - self.since) // self.step > 10 * MAX_POINTS:
            raise InvalidInputError("these are too many steps; choose longer ones, or a shorter time")

    def choose_step(self, now: int) -> int:
        """Return the length of a step; minutes are kept for 48 hours."""
        shortest = HistorySpan.MINUTE if self.since >= now - HistorySpan.MINUTE.retention else HistorySpan.HOUR
        if self.step is not None:
            return max(self.step, shortest)
        fitting = (step for step in STEPS if step >= shortest and (self.until - self.since) / step <= MAX_POINTS)
        return next(fitting, STEPS[-1])


def read_history(queue: QueueReader, query: HistoryQuery) -> HistoryView:
    """Read series of the history."""
    query.check()
    cursor, step = queue.history_cursor(), query.choose_step(queue.now())
    span = HistorySpan.MINUTE if step < HistorySpan.HOUR else HistorySpan.HOUR
    begins = range(query.since - query.since % step, query.until, step)
    steps = _Steps(begins, cursor)

    def rows(scope: HistoryScope, key: str | None = None) -> tuple[HistoryRow, ...]:
        return queue.history(span, scope, begins.start, query.until, key=key)

    if query.queue is not None:
        total = steps.points(rows(HistoryScope.NAMED_QUEUE, query.queue), unknown=_before_queues(rows))
        series = [HistorySeries(query.queue, total)] if query.by is HistoryBy.QUEUE else []
    elif query.customer is not None:
        own, others = rows(HistoryScope.CUSTOMER, query.customer), rows(HistoryScope.CUSTOMER, "")
        total = steps.points(own, unknown=others)
        series = [HistorySeries(query.customer, total)] if query.by is HistoryBy.CUSTOMER else []
    else:
        total = steps.points(rows(HistoryScope.QUEUE))
        series = []
        if query.by is not HistoryBy.STATE:
            unknown = _before_queues(rows) if query.by is HistoryBy.QUEUE else ()
            top = None if query.by is HistoryBy.LEVEL else query.top
            series = steps.series(rows(SCOPES[query.by]), top, unknown)
    return HistoryView(query.by, begins.start, query.until, step, cursor, total, tuple(series))


def _before_queues(rows: Callable[[HistoryScope], Sequence[HistoryRow]]) -> list[HistoryRow]:
    """Return the rows of all queues together of times at which an older version kept none of single queues."""
    known = {row.at for row in rows(HistoryScope.NAMED_QUEUE)}
    return [row for row in rows(HistoryScope.QUEUE) if row.at not in known]


class _Steps:
    """Equal steps, and whether anything is known of each."""

    def __init__(self, begins: range, cursor: HistoryCursor) -> None:
        self._begins = begins
        self._cursor = cursor

    def points(self, rows: Sequence[HistoryRow], unknown: Sequence[HistoryRow] = ()) -> tuple[HistoryPoint, ...]:
        """Sum rows by step. A step without rows is zero, or unknown if one of `unknown` had activity."""
        steps, known = self._by_step(rows), {row.at for row in rows}
        hidden = {self._begin(row.at) for row in unknown if row.figures.activity() and row.at not in known}
        return tuple(HistoryPoint(at, self._figures(at, steps.get(at), is_hidden=at in hidden)) for at in self._begins)

    def series(
        self, rows: Sequence[HistoryRow], top: int | None, unknown: Sequence[HistoryRow] = ()
    ) -> list[HistorySeries]:
        """Return a series for each key: by key, or with `top` those of which most was processed, then all others."""
        by_key: dict[str, list[HistoryRow]] = {}
        for row in rows:
            by_key.setdefault(row.key, []).append(row)
        shown = sorted(key for key in by_key if key)
        if top is not None:
            shown.sort(key=lambda key: (_rank(by_key[key]), key))
            shown = shown[:top]
        rest = [row for key, own in by_key.items() if key not in shown for row in own]
        series = [HistorySeries(key, self.points(by_key[key], unknown)) for key in shown]
        return [*series, HistorySeries("", self.points(rest, unknown))] if rest else series

    def _figures(self, at: int, rows: list[HistoryRow] | None, *, is_hidden: bool) -> Figures | None:
        began_at = self._cursor.began_at
        if began_at is None or at + self._begins.step <= began_at or at > self._cursor.until:
            return None
        if rows is None:
            return None if is_hidden else Figures()
        return _sum_step(rows)

    def _by_step(self, rows: Iterable[HistoryRow]) -> dict[int, list[HistoryRow]]:
        steps: dict[int, list[HistoryRow]] = {}
        for row in rows:
            steps.setdefault(self._begin(row.at), []).append(row)
        return steps

    def _begin(self, at: int) -> int:
        return at - (at - self._begins.start) % self._begins.step


def _rank(rows: Sequence[HistoryRow]) -> tuple[int, int]:
    """Rank a queue or a customer by what was processed of it; what only waits ranks below."""
    figures = [row.figures for row in rows]
    return -sum(one.steps + one.done + one.failed for one in figures), -sum(one.activity() for one in figures)


def _sum_step(rows: list[HistoryRow]) -> Figures:
    """Sum rows of one step. What waits and runs is that of the last minute or hour that was looked at."""
    total = sum_figures(row.figures for row in rows)
    looked_at = [row.at for row in rows if row.figures.waiting is not None]
    if looked_at:
        last = sum_figures(row.figures for row in rows if row.at == max(looked_at))
        total.waiting, total.running = last.waiting, last.running
    return total
