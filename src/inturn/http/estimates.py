"""Starts that were told, compared with when documents did start. Kept in this process, the newest of them."""

import statistics
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final

from inturn.http import schemas
from inturn.insights import Span
from inturn.store import Event, EventKind

MAX_OPEN_ESTIMATES: Final = 10_000
MAX_COMPARED: Final = 1_000
ABANDONED_EVENT_KINDS: Final = frozenset({EventKind.CANCELLED, EventKind.EXPIRED})


class EstimateTracker:
    """The first span told for each document, until it starts."""

    def __init__(self) -> None:
        self.comparison_listeners: list[Callable[[float], None]] = []
        """Called with the distance from the span, in seconds."""
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Span] = OrderedDict()
        self._errors: deque[int] = deque(maxlen=MAX_COMPARED)
        self._inside = self._early = self._late = 0

    def record(self, id_: str, span: Span) -> None:
        """Somebody heard this; the first word counts."""
        with self._lock:
            self._open.setdefault(id_, span)
            if len(self._open) > MAX_OPEN_ESTIMATES:
                self._open.popitem(last=False)

    def on_events(self, events: Sequence[Event]) -> None:
        """Compare what started."""
        with self._lock:
            for event in events if self._open else ():
                for id_ in event.documents:
                    if event.kind is EventKind.STARTED and (span := self._open.pop(id_, None)) is not None:
                        self._compare(span, event.at)
                    elif event.kind in ABANDONED_EVENT_KINDS:
                        self._open.pop(id_, None)

    def summary(self) -> schemas.Estimates:
        """How good they were."""
        with self._lock:
            return schemas.Estimates(
                open=len(self._open),
                compared=self._inside + self._early + self._late,
                inside=self._inside,
                early=self._early,
                late=self._late,
                median_error=round(statistics.median(self._errors)) if self._errors else None,
            )

    def _compare(self, span: Span, at: int) -> None:
        if at < span.earliest:
            self._early += 1
        elif at > span.latest:
            self._late += 1
        else:
            self._inside += 1
        error = max(0, span.earliest - at, at - span.latest)
        self._errors.append(error)
        for call in self.comparison_listeners:
            call(error / 1_000_000)
