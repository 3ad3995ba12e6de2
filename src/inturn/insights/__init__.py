"""The one read model for every screen: what waits, and why a document waits where it does. Data only, no prose."""

from inturn.insights.board import SHOWN, board
from inturn.insights.forecast import expected_start
from inturn.insights.life import Life, Moment, life
from inturn.insights.reader import (
    ALIVE,
    ENOUGH_FINISHES,
    PACE_OVER,
    Insights,
    counter_now,
    kept_counter,
    lived,
    open_lines,
)
from inturn.insights.roster import Entry, Roster, SortBy
from inturn.insights.views import (
    AtWork,
    BatchNow,
    Board,
    Bounds,
    Busiest,
    Closed,
    CounterNow,
    Group,
    LiveView,
    NoPlace,
    NoStart,
    Overview,
    Span,
    Why,
)

__all__ = [
    "ALIVE",
    "ENOUGH_FINISHES",
    "PACE_OVER",
    "SHOWN",
    "AtWork",
    "BatchNow",
    "Board",
    "Bounds",
    "Busiest",
    "Closed",
    "CounterNow",
    "Entry",
    "Group",
    "Insights",
    "Life",
    "LiveView",
    "Moment",
    "NoPlace",
    "NoStart",
    "Overview",
    "Roster",
    "SortBy",
    "Span",
    "Why",
    "board",
    "counter_now",
    "expected_start",
    "kept_counter",
    "life",
    "lived",
    "open_lines",
]
