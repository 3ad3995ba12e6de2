"""The one read model for every screen: what waits, and why a document waits where it does. Data only, no prose."""

from inturn.insights.reader import ENOUGH_FINISHES, PACE_OVER, Insights, expected_start, open_lines
from inturn.insights.views import (
    AtWork,
    BatchNow,
    Bounds,
    Busiest,
    Closed,
    CounterNow,
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
    "AtWork",
    "BatchNow",
    "Bounds",
    "Busiest",
    "Closed",
    "CounterNow",
    "Insights",
    "LiveView",
    "NoPlace",
    "NoStart",
    "Overview",
    "Span",
    "Why",
    "expected_start",
    "open_lines",
]
