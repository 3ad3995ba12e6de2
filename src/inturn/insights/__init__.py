"""The read model of all screens: queue state, and why a document waits. Data only; `explain` adds the prose."""

from inturn.insights.customer_index import CustomerEntry, CustomerIndex, SortBy
from inturn.insights.forecast import expected_start
from inturn.insights.overview import MAX_SHOWN_CUSTOMERS, live_overview
from inturn.insights.reader import (
    MIN_FINISHES,
    THROUGHPUT_WINDOW,
    Insights,
    counter_status,
    observed_window,
    open_lanes,
    stored_counter,
)
from inturn.insights.shares import SHARE_WINDOW, CustomerShare, ShareMeter, Shares
from inturn.insights.timeline import Timeline, TimelineEntry, document_timeline
from inturn.insights.views import (
    AtWork,
    BatchStatus,
    Bounds,
    BusyCustomer,
    ClosedBy,
    CounterStatus,
    LaneGroup,
    LiveOverview,
    LiveView,
    NoPlace,
    NoStart,
    Overview,
    SlotUse,
    Span,
    Why,
)

__all__ = [
    "MAX_SHOWN_CUSTOMERS",
    "MIN_FINISHES",
    "SHARE_WINDOW",
    "THROUGHPUT_WINDOW",
    "AtWork",
    "BatchStatus",
    "Bounds",
    "BusyCustomer",
    "ClosedBy",
    "CounterStatus",
    "CustomerEntry",
    "CustomerIndex",
    "CustomerShare",
    "Insights",
    "LaneGroup",
    "LiveOverview",
    "LiveView",
    "NoPlace",
    "NoStart",
    "Overview",
    "ShareMeter",
    "Shares",
    "SlotUse",
    "SortBy",
    "Span",
    "Timeline",
    "TimelineEntry",
    "Why",
    "counter_status",
    "document_timeline",
    "expected_start",
    "live_overview",
    "observed_window",
    "open_lanes",
    "stored_counter",
]
