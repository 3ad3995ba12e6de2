"""How many documents could run at a time, and when: read off what ran while others had to wait.

A store does not keep which workers there were. But while a document waits that any worker could have taken, all workers
are busy: as many as run then are all there are, and no more are thought to come until more are seen to run. As far as
the past does not tell, it counts as many as ever ran at a time.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from inturn.model import SECOND

WINDOW: Final = 5 * SECOND
MOST_WINDOWS: Final = 100_000
WAITED: Final = SECOND // 4
"""A shorter wait is the way to the worker, not a want of workers."""
LONG_ENOUGH: Final = 10
"""A window is as long as so many documents take: an attempt that nobody knows of is no worker that was away."""
TELLING: Final = 3
"""What is left of a stretch tells nothing if it is shorter than so many documents take."""


class Staff(NamedTuple):
    """Documents that can run at a time."""

    most: int
    changes: tuple[tuple[int, int], ...] = ()
    """When it became how many, the oldest first; before the first it is `most`."""


ONE: Final = Staff(1)
FOREVER: Final = 1 << 62


class Waited(NamedTuple):
    """From when on a document could have been started, and when it was."""

    number: int | None
    """None for a second start: nobody knows how long an idle worker took to notice that it was due."""
    came: int
    started: int
    tells: bool = True
    """Any worker could have taken it: that it waits tells that all are busy."""


class Lags(NamedTuple):
    """What workers take beside the work itself, in microseconds by document; the mean where it is not known."""

    handovers: Sequence[int]
    """From its end until its worker starts the next one, while others wait."""
    wakes: Sequence[int]
    """From its arrival until it starts, where a worker is idle."""


class Ran:
    """When documents began and ended to run, by their numbers, None where nobody knows; and which had to wait."""

    def __init__(self, begun: Sequence[int | None], ended: Sequence[int | None], waited: Sequence[Waited]) -> None:
        known = {number: at for number, at in enumerate(ended) if at is not None}
        self._order = array("q", sorted(known, key=known.__getitem__))
        self._ends = array("q", (known[number] for number in self._order))
        self._starts = array("q", sorted(at for at in begun if at is not None))
        self._n, self._waited, self._stretches = len(begun), waited, list(_stretches(waited))
        self._most = max(1, _most_running(self._starts, self._ends, 0, self._starts[-1] + 1)) if self._starts else 1

    def staff(self) -> Staff:
        """Read off how many ran while others had to wait."""
        starts, ends, most = self._starts, self._ends, self._most
        if not starts:
            return ONE
        usual = max(0, sum(ends) - sum(starts[: len(ends)])) // max(1, len(ends))
        window = max(WINDOW, LONG_ENOUGH * usual, (starts[-1] - starts[0]) // MOST_WINDOWS)
        changes = [(starts[0], most)]
        for (begin, end), (later, _) in pairwise([*self._stretches, (starts[-1] + 1, 0)]):
            for at in range(begin, end, window):
                until = min(at + window, end)
                if until - at >= min(window, TELLING * usual):
                    changes.append(self._changed(changes[-1], at, until))
            if (more := _exceeded(starts, ends, end, later, changes[-1][1])) is not None:
                changes.append((more, most))
        changes.append((max(starts[-1], changes[-1][0]), most))
        return Staff(most, tuple(_without_repeats(changes, most)))

    def _changed(self, last: tuple[int, int], at: int, until: int) -> tuple[int, int]:
        """How many there are in a window, and since when that is another number than before."""
        starts, ends, (since, known) = self._starts, self._ends, last
        running = _most_running(starts, ends, at, until)
        if running > known:
            return _exceeded(starts, ends, at, until, known) or at, running
        if running < known:
            return max(since, _last_above(starts, ends, until, running)), running
        return at, running

    def lags(self) -> Lags:
        """Those of the documents themselves: means would let a replay drift away from what was."""
        return Lags(_by_number(self._n, self._handovers()), _by_number(self._n, self._wakes()))

    def _handovers(self) -> Iterator[tuple[int, int]]:
        """A worker that ends a document while others wait starts the next one: whoever ended first starts first."""
        ends, ended = self._ends, 0
        free: deque[int] = deque()
        for _, came, started, _ in sorted(self._waited, key=_started):
            while ended < len(ends) and ends[ended] <= started:
                free.append(ended)
                ended += 1
            while free and started - ends[free[0]] >= WAITED:
                free.popleft()  # its worker went away
            last = next((each for each in free if came <= ends[each] or self._is_awaited(ends[each])), None)
            if last is not None:
                free.remove(last)
                yield self._order[last], started - ends[last]

    def _is_awaited(self, at: int) -> bool:
        """Whether somebody waited then for any worker."""
        place = bisect_right(self._stretches, (at, FOREVER)) - 1
        return place >= 0 and at <= self._stretches[place][1]

    def _wakes(self) -> Iterator[tuple[int, int]]:
        """Who did not wait long found a worker idle, unless all that ever were there ran."""
        for number, came, started, _ in self._waited:
            running = bisect_right(self._starts, came - 1) - bisect_right(self._ends, came)
            if number is not None and started - came < WAITED and running < self._most:
                yield number, started - came


def _started(waited: Waited) -> int:
    return waited.started


def _by_number(n: int, known: Iterable[tuple[int, int]]) -> Sequence[int]:
    found = array("q", [-1]) * n
    total = count = 0
    for number, lag in known:
        found[number] = lag
        total, count = total + lag, count + 1
    mean = round(total / count) if count else 0
    for number, lag in enumerate(found):
        if lag < 0:
            found[number] = mean
    return found


def _stretches(waited: Sequence[Waited]) -> Iterator[tuple[int, int]]:
    """The stretches in which somebody waited long enough to tell, none touching another."""
    begin = end = None
    for _, came, started, tells in waited:
        if not tells or started - came < WAITED:
            continue
        if begin is not None and end is not None and came <= end:
            end = max(end, started)
            continue
        if begin is not None and end is not None:
            yield begin, end
        begin, end = came, started
    if begin is not None and end is not None:
        yield begin, end


def _most_running(starts: Sequence[int], ends: Sequence[int], begin: int, end: int) -> int:
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


def _exceeded(starts: Sequence[int], ends: Sequence[int], begin: int, end: int, known: int) -> int | None:
    """When more ran than were known of, from `begin` on and before `end`."""
    started, ended = bisect_right(starts, begin - 1), bisect_right(ends, begin)
    while started < len(starts) and starts[started] < end:
        while ended < len(ends) and ends[ended] <= starts[started]:
            ended += 1
        started += 1
        if started - ended > known:
            return starts[started - 1]
    return None


def _without_repeats(changes: Iterable[tuple[int, int]], first: int) -> Iterator[tuple[int, int]]:
    now = first
    for at, workers in changes:
        if workers != now:
            yield at, workers
            now = workers
