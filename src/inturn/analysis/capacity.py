"""Infer the number of workers over time from what ran while other documents waited.

A store does not record which workers there were. While a document waits that any worker could have taken, all
workers are
busy, so the number of running documents is the capacity at that time. Outside such periods the peak is assumed.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from inturn.values import SECOND

MIN_QUEUED_WAIT: Final = SECOND // 4
"""Microseconds; a shorter wait is latency, not a lack of workers."""
MAX_OVERLAP: Final = SECOND // 50
"""Microseconds by which two documents of one slot may seem to overlap."""
AWAY_FACTOR: Final = 3
"""A slot idle for this many mean service times while others wait counts as away until it starts again."""
AWAY_FACTOR_INCOMPLETE: Final = 10
"""The same where the times of some attempts are unknown."""


class Capacity(NamedTuple):
    """Documents that can run at once, over time."""

    peak: int
    changes: tuple[tuple[int, int], ...] = ()
    """(time, number) pairs, oldest first; before the first the capacity is `peak`."""


SINGLE_SLOT: Final = Capacity(1)
FAR_FUTURE: Final = 1 << 62


class QueuedWait(NamedTuple):
    """When a document could have started, and when it did."""

    number: int | None
    """None for a second start, whose wake-up delay is unknown."""
    arrived: int
    started: int
    shows_saturation: bool = True
    """Whether its wait shows that all workers were busy: any worker could have taken it."""


class WorkerDelays(NamedTuple):
    """Worker overhead per document in microseconds; the mean where unknown."""

    handovers: Sequence[int]
    """From a document's end until its worker starts the next, while others wait."""
    wakeups: Sequence[int]
    """From arrival to start where a worker was idle."""


class ExecutionLog:
    """Start and end times by document number (None if unknown), and the queued waits."""

    def __init__(
        self,
        starts: Sequence[int | None],
        ends: Sequence[int | None],
        waits: Sequence[QueuedWait],
        *,
        is_complete: bool = True,
    ) -> None:
        """If attempts are missing, a slot that seems idle may have been busy with one of them."""
        known = {number: at for number, at in enumerate(ends) if at is not None}
        self._order = array("q", sorted(known, key=known.__getitem__))
        self._ends = array("q", (known[number] for number in self._order))
        self._starts = array(
            "q", sorted(_effective_start(at, end) for at, end in zip(starts, ends, strict=True) if at is not None)
        )
        self._count, self._waits, self._saturated_periods = len(starts), waits, list(_find_saturated_periods(waits))
        self._peak = max(1, _peak_running(self._starts, self._ends, 0, self._starts[-1] + 1)) if self._starts else 1
        usual = max(0, sum(self._ends) - sum(self._starts[: len(self._ends)])) // max(1, len(self._ends))
        self._away_threshold = max(MIN_QUEUED_WAIT, (AWAY_FACTOR if is_complete else AWAY_FACTOR_INCOMPLETE) * usual)
        self._max_handover = self._away_threshold if is_complete else MIN_QUEUED_WAIT

    def capacity(self) -> Capacity:
        """Infer the capacity from the number running while others waited."""
        if not self._starts:
            return SINGLE_SLOT
        changes = [*self._changes(), (self._starts[-1], self._peak)]
        return Capacity(self._peak, tuple(_without_repeats(sorted(changes), self._peak)))

    def _changes(self) -> Iterator[tuple[int, int]]:
        """A slot that stops while others wait and does not start again soon is away from then on."""
        steps, stretches = list(_running_steps(self._starts, self._ends)), deque(self._saturated_periods)
        back = _recovery_times(steps)
        known, running, crowded_until = self._peak, 0, 0
        for (at, step), again in zip(steps, back, strict=True):
            while stretches and stretches[0][0] <= at:
                begin, crowded_until = stretches.popleft()
                seen = self._peak_at_start(begin, crowded_until)
                if seen < known:
                    known = seen
                    yield max(_last_above(self._starts, self._ends, begin + 1, seen), 0), known
            is_crowded = at < crowded_until
            running += step
            if step > 0 and running > known:
                known = running if is_crowded else self._peak
                yield at, known
            elif step < 0 and running < known and is_crowded and min(again, crowded_until) - at >= self._away_threshold:
                known = running
                yield at, known

    def _peak_at_start(self, begin: int, end: int) -> int:
        """Return the peak in the first part of a saturated period, or the overall peak if it is too short."""
        if end - begin < self._away_threshold:
            return self._peak
        return _peak_running(self._starts, self._ends, begin, begin + self._away_threshold)

    def delays(self) -> WorkerDelays:
        """Return the delays of each document; means would let a replay drift from the measurement."""
        return WorkerDelays(_fill_missing(self._count, self._handovers()), _fill_missing(self._count, self._wakeups()))

    def _handovers(self) -> Iterator[tuple[int, int]]:
        """Match each start while others wait with the slot that became free last."""
        ends, ended = self._ends, 0
        free: deque[int] = deque()
        for _, came, started, _ in sorted(self._waits, key=_start_of):
            while ended < len(ends) and ends[ended] <= started:
                free.append(ended)
                ended += 1
            while free and started - ends[free[0]] >= self._max_handover:
                free.popleft()  # its worker went away
            last = next((item for item in reversed(free) if came <= ends[item] or self._is_saturated(ends[item])), None)
            if last is not None:
                free.remove(last)
                yield self._order[last], started - ends[last]

    def _is_saturated(self, at: int) -> bool:
        """Whether a document waited for any worker at that time."""
        place = bisect_right(self._saturated_periods, (at, FAR_FUTURE)) - 1
        return place >= 0 and at <= self._saturated_periods[place][1]

    def _wakeups(self) -> Iterator[tuple[int, int]]:
        """Short waits met an idle worker, unless the peak was running."""
        for number, came, started, _ in self._waits:
            running = bisect_right(self._starts, came - 1) - bisect_right(self._ends, came)
            if number is not None and started - came < MIN_QUEUED_WAIT and running < self._peak:
                yield number, started - came


def _effective_start(began: int, ended: int | None) -> int:
    """Return the start from which a document counts as running; clocks differ, so touching spans share a slot."""
    return began if ended is None else began + min(MAX_OVERLAP, max(0, ended - began) // 2)


def _start_of(waited: QueuedWait) -> int:
    return waited.started


def _fill_missing(n: int, known: Iterable[tuple[int, int]]) -> Sequence[int]:
    result = array("q", [-1]) * n
    total = count = 0
    for number, lag in known:
        result[number] = lag
        total, count = total + lag, count + 1
    mean = round(total / count) if count else 0
    for number, lag in enumerate(result):
        if lag < 0:
            result[number] = mean
    return result


def _find_saturated_periods(waits: Sequence[QueuedWait]) -> Iterator[tuple[int, int]]:
    """Return the disjoint periods in which a document waited long enough to show saturation."""
    begin = end = None
    for _, came, started, tells in waits:
        if not tells or started - came < MIN_QUEUED_WAIT:
            continue
        if begin is not None and end is not None and came <= end:
            end = max(end, started)
            continue
        if begin is not None and end is not None:
            yield begin, end
        begin, end = came, started
    if begin is not None and end is not None:
        yield begin, end


def _peak_running(starts: Sequence[int], ends: Sequence[int], begin: int, end: int) -> int:
    """Return the peak running in [begin, end); an end at an instant counts as ended."""
    started, ended = bisect_right(starts, begin), bisect_right(ends, begin)
    most = started - ended
    while started < len(starts) and starts[started] < end:
        while ended < len(ends) and ends[ended] <= starts[started]:
            ended += 1
        started += 1
        most = max(most, started - ended)
    return most


def _last_above(starts: Sequence[int], ends: Sequence[int], until: int, known: int) -> int:
    """Return the last time before `until` at which more than this number ran."""
    for ended in range(bisect_right(ends, until - 1) - 1, -1, -1):
        if bisect_right(starts, ends[ended] - 1) - ended > known:
            return ends[ended]
    return 0


def _running_steps(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return (time, +1 or -1) steps in order; ends come before starts of the same instant."""
    ended = 0
    for at in starts:
        while ended < len(ends) and ends[ended] <= at:
            yield ends[ended], -1
            ended += 1
        yield at, 1
    yield from ((at, -1) for at in ends[ended:])


def _recovery_times(steps: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Return for each step when as many run again as before it, or None."""
    running = sum(step for _, step in steps)
    lifted: dict[int, int] = {}
    result = array("q", [0]) * len(steps)
    for place in range(len(steps) - 1, -1, -1):
        at, step = steps[place]
        if step > 0:
            lifted[running] = at
        running -= step
        result[place] = lifted.get(running, FAR_FUTURE) if step < 0 else at
    return result


def _without_repeats(changes: Iterable[tuple[int, int]], first: int) -> Iterator[tuple[int, int]]:
    now = first
    for at, workers in changes:
        if workers != now:
            yield at, workers
            now = workers
