"""The read model of all screens: queue state, and why a document waits. Data only; `explain` adds the prose."""

from inturn.insights.at_work import is_silent
from inturn.insights.customer_index import CustomerEntry, CustomerIndex, SortBy
from inturn.insights.failures import (
    FailureGroup,
    FailureGroups,
    error_kind,
    failure_groups,
    failures_of_group,
    failures_of_group_id,
)
from inturn.insights.flow import MIN_FINISHES, THROUGHPUT_WINDOW, observed_window
from inturn.insights.forecast import expected_start
from inturn.insights.history import (
    DEFAULT_TOP,
    HistoryBy,
    HistoryPoint,
    HistoryQuery,
    HistorySeries,
    HistoryView,
    read_history,
)
from inturn.insights.lanes_ahead import open_lanes
from inturn.insights.notices import Notice, NoticeKind, customer_notices, queue_notices
from inturn.insights.overview import MAX_SHOWN_CUSTOMERS, live_overview
from inturn.insights.queue_order import PlacedDocument, waiting_in_order
from inturn.insights.reader import Insights, counter_status, stored_counter
from inturn.insights.shares import SHARE_WINDOW, CustomerShare, ShareMeter, Shares
from inturn.insights.step_spans import PartsSpan, StepSpan
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
    "DEFAULT_TOP",
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
    "FailureGroup",
    "FailureGroups",
    "HistoryBy",
    "HistoryPoint",
    "HistoryQuery",
    "HistorySeries",
    "HistoryView",
    "Insights",
    "LaneGroup",
    "LiveOverview",
    "LiveView",
    "NoPlace",
    "NoStart",
    "Notice",
    "NoticeKind",
    "Overview",
    "PartsSpan",
    "PlacedDocument",
    "ShareMeter",
    "Shares",
    "SlotUse",
    "SortBy",
    "Span",
    "StepSpan",
    "Timeline",
    "TimelineEntry",
    "Why",
    "counter_status",
    "customer_notices",
    "document_timeline",
    "error_kind",
    "expected_start",
    "failure_groups",
    "failures_of_group",
    "failures_of_group_id",
    "is_silent",
    "live_overview",
    "observed_window",
    "open_lanes",
    "queue_notices",
    "read_history",
    "stored_counter",
    "waiting_in_order",
]
