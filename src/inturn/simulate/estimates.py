"""How good the expected starts were: what `inturn why` would have said of a document right after it came.

A store keeps no estimates. But the queue's own lines at that moment can be had again by playing the past as it was; the
pace is taken from when documents really ended, and the answer is compared with when the document really started.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from statistics import median
from typing import Final, NamedTuple

from inturn.insights import ENOUGH_FINISHES, PACE_OVER, Span, expected_start, lived, open_lines
from inturn.insights.forecast import Arrived, Speed, begun_of, coming
from inturn.insights.reader import mine_of
from inturn.model import SECOND
from inturn.policy import Order
from inturn.policy.places import classic_before, fair_before
from inturn.simulate.engine import Playing
from inturn.simulate.history import History, Progress
from inturn.simulate.replay import AS_IT_WAS, replay
from inturn.store import Store

ASKED: Final = 300
LONG_ENOUGH: Final = SECOND
"""Whoever waits less has started before it can ask."""
LATELY: Final = 60 * SECOND


class Starts(NamedTuple):
    """Expected starts of a sample of the documents that had to wait, made again and compared with the real ones."""

    asked: int
    unknown: int
    """Too few documents had ended to say anything."""
    inside: int
    early: int
    """Started before the span."""
    late: int
    median_error: float | None
    """Seconds outside the span; most of the time 0 if estimates are good."""
    median_width: float | None
    """Seconds from the span's beginning to its end: a wide one is easily right."""


def starts_of(history: History, progress: Progress | None = None, asked: int = ASKED) -> Starts | None:
    """Ask again for a sample; None if nobody had to wait."""
    waited = [
        number for number in range(history.lead, len(history.arrivals)) if (history.waits[number] or 0) >= LONG_ENOUGH
    ]
    if not waited:
        return None
    sample = frozenset(waited[at * len(waited) // asked] for at in range(asked)) if len(waited) > asked else waited
    chosen = frozenset(sample)
    past = Past(history)
    spans: dict[int, Span | None] = {}

    def setting(playing: Playing, store: Store) -> None:
        def on_arrival(number: int, now: int) -> None:
            if number in chosen:
                spans[number] = _span(store, number, past, now)

        playing.on_arrival = on_arrival

    replay(history, AS_IT_WAS, progress, setting)
    return _compared(history, spans)


class Past:
    """What could be known of a history at any of its moments."""

    def __init__(self, history: History) -> None:
        self._arrivals = history.arrivals
        self._came = array("q", (each.at for each in history.arrivals))
        self._began = history.policies[0][0] if history.policies else history.arrivals[0].at
        waits = zip(self._came, history.waits, strict=True)
        self._starts = begun_of(self._came, sorted(came + wait for came, wait in waits if wait is not None))
        self._ends = array("q", sorted(each for each in history.finished if each is not None))

    def speed(self, now: int) -> Speed | None:
        """How fast documents were started, or finished if too few were started while others waited."""
        if (speed := self._starts.speed(now)) is not None:
            return speed
        for over in (LATELY, PACE_OVER):
            finished = bisect_left(self._ends, now) - bisect_left(self._ends, now - over)
            if finished >= ENOUGH_FINISHES:
                each = lived(over, self._began, now) / finished
                return Speed(each, each, is_loaded=False)
        return None

    def arrived(self, now: int) -> Arrived:
        """Who brought how many."""
        since = max(now - PACE_OVER, min(self._began, now))
        lately = slice(bisect_left(self._came, since), bisect_left(self._came, now))
        return Arrived(Counter(each.customer for each in self._arrivals[lately]), max(SECOND, now - since))


def _span(store: Store, number: int, past: Past, now: int) -> Span | None:
    standings = store.standings()
    document = store.document(str(number))
    place = next(
        (at for at, each in enumerate(standings.lines) if each[:2] == (document.customer, document.line_level)), None
    )
    speed = past.speed(now)
    if place is None or speed is None:
        return None
    lines, ahead = open_lines(standings), store.ahead(document.id)
    if standings.policy.order is Order.FAIR:
        before = fair_before(lines, place, ahead)
    else:
        before = classic_before(lines, place, ahead, document.seq)
    mine = mine_of(document, standings)
    rates = coming(mine, past.arrived(now), store.policy().policy.priority.thresholds)
    return expected_start(before, mine, speed, rates, now)


def _compared(history: History, spans: dict[int, Span | None]) -> Starts:
    inside = early = late = 0
    errors, widths = [], []
    for number, span in spans.items():
        if span is None:
            continue
        at = history.arrivals[number].at + (history.waits[number] or 0)
        early += at < span.earliest
        late += at > span.latest
        inside += span.earliest <= at <= span.latest
        errors.append(max(0, span.earliest - at, at - span.latest) / SECOND)
        widths.append((span.latest - span.earliest) / SECOND)
    unknown = len(spans) - len(errors)
    known = (median(errors), median(widths)) if errors else (None, None)
    return Starts(len(spans), unknown, inside, early, late, *known)
