"""How many documents could run at a time, and when: read off what ran while others had to wait.

A store does not keep which workers there were. But while a document waits that any worker could have taken, all workers
are busy: as many as run then are all there are, and no more are thought to come until more are seen to run. As far as
the past does not tell, it counts as many as ever ran at a time.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from inturn.model import SECOND

MIN_QUEUED_WAIT: Final = SECOND // 4
"""A shorter wait is the way to the worker, not a want of workers."""
MAX_OVERLAP: Final = SECOND // 50
"""So long may two documents of one slot seem to overlap."""
AWAY_FACTOR: Final = 3
"""A slot that is idle for as long as so many documents take, while others wait, is away until it starts again."""
AWAY_FACTOR_INCOMPLETE: Final = 10
"""The same where attempts took time that nobody knows of."""


class Capacity(NamedTuple):
    """Documents that can run at a time."""

    peak: int
    changes: tuple[tuple[int, int], ...] = ()
    """When it became how many, the oldest first; before the first it is `most`."""


SINGLE_SLOT: Final = Capacity(1)
FAR_FUTURE: Final = 1 << 62


class QueuedWait(NamedTuple):
    """From when on a document could have been started, and when it was."""

    number: int | None
    """None for a second start: nobody knows how long an idle worker took to notice that it was due."""
    arrived: int
    started: int
    shows_saturation: bool = True
    """Any worker could have taken it: that it waits tells that all are busy."""


class WorkerDelays(NamedTuple):
    """What workers take beside the work itself, in microseconds by document; the mean where it is not known."""

    handovers: Sequence[int]
    """From its end until its worker starts the next one, while others wait."""
    wakeups: Sequence[int]
    """From its arrival until it starts, where a worker is idle."""


class ExecutionLog:
    """When documents began and ended to run, by their numbers, None where nobody knows; and which had to wait."""

    def __init__(
        self,
        starts: Sequence[int | None],
        ends: Sequence[int | None],
        waits: Sequence[QueuedWait],
        *,
        is_complete: bool = True,
    ) -> None:
        """Without knowing all, attempts are missing here: a slot that seems idle may have been at one of them."""
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
        """Read off how many ran while others had to wait."""
        if not self._starts:
            return SINGLE_SLOT
        changes = [*self._changes(), (self._starts[-1], self._peak)]
        return Capacity(self._peak, tuple(_without_repeats(sorted(changes), self._peak)))

    def _changes(self) -> Iterator[tuple[int, int]]:
        """Who stops while others wait, and is not back soon, is away since then; who starts is there."""
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
        """In the first part of a stretch in which others wait; all that there are, if it is too short to tell."""
        if end - begin < self._away_threshold:
            return self._peak
        return _peak_running(self._starts, self._ends, begin, begin + self._away_threshold)

    def delays(self) -> WorkerDelays:
        """Those of the documents themselves: means would let a replay drift away from what was."""
        return WorkerDelays(_fill_missing(self._count, self._handovers()), _fill_missing(self._count, self._wakeups()))

    def _handovers(self) -> Iterator[tuple[int, int]]:
        """A slot that ends a document while others wait starts the next one: who ended last, as others may be away."""
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
        """Whether somebody waited then for any worker."""
        place = bisect_right(self._saturated_periods, (at, FAR_FUTURE)) - 1
        return place >= 0 and at <= self._saturated_periods[place][1]

    def _wakeups(self) -> Iterator[tuple[int, int]]:
        """Who did not wait long found a worker idle, unless all that ever were there ran."""
        for number, came, started, _ in self._waits:
            running = bisect_right(self._starts, came - 1) - bisect_right(self._ends, came)
            if number is not None and started - came < MIN_QUEUED_WAIT and running < self._peak:
                yield number, started - came


def _effective_start(began: int, ended: int | None) -> int:
    """From when on a document counts as running: as clocks differ, two that touch are no two workers."""
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
    """The stretches in which somebody waited long enough to tell, none touching another."""
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
    """The most that ran at a time from `begin` on and before `end`; who ends at an instant has ended then."""
    started, ended = bisect_right(starts, begin), bisect_right(ends, begin)
    most = started - ended
    while started < len(starts) and starts[started] < end:
        while ended < len(ends) and ends[ended] <= starts[started]:
            ended += 1
        started += 1
        most = max(most, started - ended)
    return most


def _last_above(starts: Sequence[int], ends: Sequence[int], until: int, known: int) -> int:
    """When more than these ran for the last time before `until`: the end after which it was never so again."""
    for ended in range(bisect_right(ends, until - 1) - 1, -1, -1):
        if bisect_right(starts, ends[ended] - 1) - ended > known:
            return ends[ended]
    return 0


def _running_steps(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """When one more or one less ran, in order; who ends at an instant has ended then."""
    ended = 0
    for at in starts:
        while ended < len(ends) and ends[ended] <= at:
            yield ends[ended], -1
            ended += 1
        yield at, 1
    yield from ((at, -1) for at in ends[ended:])


def _recovery_times(steps: Sequence[tuple[int, int]]) -> Sequence[int]:
    """For each step, when as many run again as before it; what ends for good is never back."""
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
