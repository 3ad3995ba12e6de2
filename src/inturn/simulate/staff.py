"""How many documents could run at a time, and when: read off what ran while others had to wait.

A store does not keep which workers there were. But while a document waits that any worker could have taken, all workers
are busy: as many as run then are all there are, and no more are thought to come until more are seen to run. As far as
the past does not tell, it counts as many as ever ran at a time.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final, NamedTuple

from inturn.model import SECOND

WINDOW: Final = 5 * SECOND
MOST_WINDOWS: Final = 100_000
WAITED: Final = SECOND // 4
"""A shorter wait is the way to the worker, not a want of workers."""


LONG_ENOUGH: Final = 10
"""A window is as long as so many documents take: the first attempt of one that was tried again left no trace, and is
not to be taken for a worker that was away."""
TELLING: Final = 3
"""What is left of a stretch tells nothing if it is shorter than so many documents take."""


class Staff(NamedTuple):
    """Documents that can run at a time."""

    most: int
    changes: tuple[tuple[int, int], ...] = ()
    """When it became how many, the oldest first; before the first it is `most`."""
    handover: int = 0
    """Microseconds from the end of a document to the start of the next one while others wait."""
    wake: int = 0
    """Microseconds from the arrival of a document to its start where a worker is idle."""


ONE: Final = Staff(1)


def staff_of(begun: Iterable[int], ended: Iterable[int], waited: Sequence[tuple[int, int]]) -> Staff:
    """Read off when documents began and ended to run, and from when to when any of them waited for a worker."""
    starts, ends = array("q", sorted(begun)), array("q", sorted(ended))
    if not starts:
        return ONE
    most = max(1, _most_running(starts, ends, 0, starts[-1] + 1))
    stretches = list(_stretches(waited))
    usual = max(0, sum(ends) - sum(starts[: len(ends)])) // max(1, len(ends))
    window = max(WINDOW, LONG_ENOUGH * usual, (starts[-1] - starts[0]) // MOST_WINDOWS)
    changes: list[tuple[int, int]] = []
    for (begin, end), (later, _) in pairwise([*stretches, (starts[-1] + 1, 0)]):
        for at in range(begin, end, window):
            until = min(at + window, end)
            if until - at >= min(window, TELLING * usual):
                changes.append((at, _most_running(starts, ends, at, until)))
        if changes and (more := _exceeded(starts, ends, end, later, changes[-1][1])) is not None:
            changes.append((more, most))
    changes.append((starts[-1], most))
    handover = _mean(_handovers(starts, ends, stretches))
    wake = _mean(_wakes(starts, ends, waited, most))
    return Staff(most, tuple(_without_repeats(changes, most)), handover, wake)


def _wakes(starts: Sequence[int], ends: Sequence[int], waited: Iterable[tuple[int, int]], most: int) -> list[int]:
    """How long documents waited that found a worker idle."""
    return [
        started - came
        for came, started in waited
        if started - came < WAITED and bisect_right(starts, came - 1) - bisect_right(ends, came) < most
    ]


def _handovers(starts: Sequence[int], ends: Sequence[int], stretches: Iterable[tuple[int, int]]) -> list[int]:
    """While others wait, each end is followed by a start: the first by the first, the second by the second."""
    found = []
    for begin, end in stretches:
        start, ended = bisect_right(starts, begin), bisect_right(ends, begin)
        while start < len(starts) and ended < len(ends) and ends[ended] < end:
            if 0 <= (gap := starts[start] - ends[ended]) < WAITED:
                found.append(gap)
            start, ended = start + 1, ended + 1
    return found


def _mean(values: Sequence[int]) -> int:
    return round(fmean(values)) if values else 0


def _stretches(waited: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The stretches in which somebody waited long enough to tell, none touching another."""
    begin = end = None
    for came, started in waited:
        if started - came < WAITED:
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
