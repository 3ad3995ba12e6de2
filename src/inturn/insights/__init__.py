"""The one read model for every screen: what waits, and why a document waits where it does. Data only, no prose."""

from inturn.insights.board import SHOWN, board
from inturn.insights.reader import ENOUGH_FINISHES, PACE_OVER, Insights, expected_start, open_lines
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
    "Group",
    "Insights",
    "LiveView",
    "NoPlace",
    "NoStart",
    "Overview",
    "Span",
    "Why",
    "board",
    "expected_start",
    "open_lines",
]
