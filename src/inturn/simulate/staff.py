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

WAITED: Final = SECOND // 4
"""A shorter wait is the way to the worker, not a want of workers."""
TOUCH: Final = SECOND // 50
"""So long may two documents of one slot seem to overlap."""
AWAY: Final = 3
"""A slot that is idle for as long as so many documents take, while others wait, is away until it starts again."""
AWAY_AT_MOST: Final = 10
"""The same where attempts took time that nobody knows of."""


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

    def __init__(
        self,
        begun: Sequence[int | None],
        ended: Sequence[int | None],
        waited: Sequence[Waited],
        *,
        knows_all: bool = True,
    ) -> None:
        """Without knowing all, attempts are missing here: a slot that seems idle may have been at one of them."""
        known = {number: at for number, at in enumerate(ended) if at is not None}
        self._order = array("q", sorted(known, key=known.__getitem__))
        self._ends = array("q", (known[number] for number in self._order))
        self._starts = array(
            "q", sorted(_seen(at, end) for at, end in zip(begun, ended, strict=True) if at is not None)
        )
        self._n, self._waited, self._stretches = len(begun), waited, list(_stretches(waited))
        self._most = max(1, _most_running(self._starts, self._ends, 0, self._starts[-1] + 1)) if self._starts else 1
        usual = max(0, sum(self._ends) - sum(self._starts[: len(self._ends)])) // max(1, len(self._ends))
        self._away = max(WAITED, (AWAY if knows_all else AWAY_AT_MOST) * usual)
        self._longest_handover = self._away if knows_all else WAITED

    def staff(self) -> Staff:
        """Read off how many ran while others had to wait."""
        if not self._starts:
            return ONE
        changes = [*self._changes(), (self._starts[-1], self._most)]
        return Staff(self._most, tuple(_without_repeats(sorted(changes), self._most)))

    def _changes(self) -> Iterator[tuple[int, int]]:
        """Who stops while others wait, and is not back soon, is away since then; who starts is there."""
        steps, stretches = list(_steps(self._starts, self._ends)), deque(self._stretches)
        back = _back(steps)
        known, running, crowded_until = self._most, 0, 0
        for (at, step), again in zip(steps, back, strict=True):
            while stretches and stretches[0][0] <= at:
                begin, crowded_until = stretches.popleft()
                seen = self._most_running_soon(begin, crowded_until)
                if seen < known:
                    known = seen
                    yield max(_last_above(self._starts, self._ends, begin + 1, seen), 0), known
            is_crowded = at < crowded_until
            running += step
            if step > 0 and running > known:
                known = running if is_crowded else self._most
                yield at, known
            elif step < 0 and running < known and is_crowded and min(again, crowded_until) - at >= self._away:
                known = running
                yield at, known

    def _most_running_soon(self, begin: int, end: int) -> int:
        """In the first part of a stretch in which others wait; all that there are, if it is too short to tell."""
        if end - begin < self._away:
            return self._most
        return _most_running(self._starts, self._ends, begin, begin + self._away)

    def lags(self) -> Lags:
        """Those of the documents themselves: means would let a replay drift away from what was."""
        return Lags(_by_number(self._n, self._handovers()), _by_number(self._n, self._wakes()))

    def _handovers(self) -> Iterator[tuple[int, int]]:
        """A slot that ends a document while others wait starts the next one: who ended last, as others may be away."""
        ends, ended = self._ends, 0
        free: deque[int] = deque()
        for _, came, started, _ in sorted(self._waited, key=_started):
            while ended < len(ends) and ends[ended] <= started:
                free.append(ended)
                ended += 1
            while free and started - ends[free[0]] >= self._longest_handover:
                free.popleft()  # its worker went away
            last = next((each for each in reversed(free) if came <= ends[each] or self._is_awaited(ends[each])), None)
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


def _seen(began: int, ended: int | None) -> int:
    """From when on a document counts as running: as clocks differ, two that touch are no two workers."""
    return began if ended is None else began + min(TOUCH, max(0, ended - began) // 2)


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


def _steps(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """When one more or one less ran, in order; who ends at an instant has ended then."""
    ended = 0
    for at in starts:
        while ended < len(ends) and ends[ended] <= at:
            yield ends[ended], -1
            ended += 1
        yield at, 1
    yield from ((at, -1) for at in ends[ended:])


def _back(steps: Sequence[tuple[int, int]]) -> Sequence[int]:
    """For each step, when as many run again as before it; what ends for good is never back."""
    running = sum(step for _, step in steps)
    lifted: dict[int, int] = {}
    found = array("q", [0]) * len(steps)
    for place in range(len(steps) - 1, -1, -1):
        at, step = steps[place]
        if step > 0:
            lifted[running] = at
        running -= step
        found[place] = lifted.get(running, FOREVER) if step < 0 else at
    return found


def _without_repeats(changes: Iterable[tuple[int, int]], first: int) -> Iterator[tuple[int, int]]:
    now = first
    for at, workers in changes:
        if workers != now:
            yield at, workers
            now = workers
