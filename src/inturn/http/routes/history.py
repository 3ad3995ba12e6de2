"""Serve `/v1/history`."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.errors import ErrorResponses
from inturn.http.scope import ReadScope
from inturn.insights import DEFAULT_TOP, HistoryBy, HistoryPoint, HistoryQuery, HistorySeries, HistoryView, read_history
from inturn.policy.history import Figures
from inturn.values import SECOND

router: Final = APIRouter(prefix="/v1", tags=["operators"])
DEFAULT_RANGE: Final = 3_600 * SECOND
MAX_TOP: Final = 50
MAX_TIME: Final = 2**62
COUNTED: Final = (
    "submitted",
    "started",
    "done",
    "failed",
    "cancelled",
    "expired",
    "steps",
    "parts",
    "waiting",
    "running",
    "worked",
)


@router.get("/history", operation_id="getHistory", responses=ErrorResponses.of(404, 422))
def history(  # noqa: PLR0913, PLR0917 - one parameter for each option
    scope: ReadScope,
    since: Annotated[
        int | None, Query(alias="from", ge=0, le=MAX_TIME, description="Default: an hour before `to`.")
    ] = None,
    until: Annotated[int | None, Query(alias="to", ge=0, le=MAX_TIME, description="Exclusive. Default: now.")] = None,
    by: Annotated[
        HistoryBy, Query(description="Series by queue, level or customer; `state` gives the total alone.")
    ] = HistoryBy.STATE,
    customer: Annotated[str | None, Query(description="Of this customer. A customer's key always has its own.")] = None,
    queue: Annotated[str | None, Query(description="Of this queue alone; for operators.")] = None,
    top: Annotated[int, Query(ge=1, le=MAX_TOP, description="Queues or customers with series of their own.")] = (
        DEFAULT_TOP
    ),
    step: Annotated[int | None, Query(description="Of 1, 5, 15 or 30 minutes, 1, 3, 6 or 12 hours.")] = None,
) -> schemas.QueueHistory:
    """Documents submitted, started and ended, waits and processing times, by minute or hour.

    Minutes are kept for 48 hours, hours for 90 days. The store keeps them, whichever servers and workers run.
    """
    source = scope.app_state.queue
    to = source.now() if until is None else until
    begin = max(0, to - DEFAULT_RANGE) if since is None else since
    owner = None if customer is None and scope.caller.customer is None else scope.resolve_customer(customer)
    return serialize_history(read_history(source, HistoryQuery(begin, to, by, owner, top, step, queue)))


def serialize_history(view: HistoryView) -> schemas.QueueHistory:
    """Serialize by column: each name is sent once, not once a step."""
    cursor = view.cursor
    return schemas.QueueHistory(
        by=view.by,
        step=view.step,
        began_at=cursor.began_at,
        known_until=None if cursor.began_at is None else cursor.until,
        at=[point.at for point in view.total],
        total=schemas.HistoryFigures(**_columns(view.total)),
        series=[_serialize_series(view.by, series) for series in view.series],
    )


def _serialize_series(by: HistoryBy, series: HistorySeries) -> schemas.HistorySeries:
    return schemas.HistorySeries(
        queue=series.key or None if by is HistoryBy.QUEUE else None,
        level=int(series.key) if by is HistoryBy.LEVEL else None,
        customer=series.key or None if by is HistoryBy.CUSTOMER else None,
        **_columns(series.points),
    )


def _columns(points: Sequence[HistoryPoint]) -> dict[str, list[int | None]]:
    figures = [point.figures for point in points]
    columns = {name: [None if one is None else getattr(one, name) for one in figures] for name in COUNTED}
    columns["wait_p50"] = [_percentile(one, 0.5) for one in figures]
    columns["wait_p95"] = [_percentile(one, 0.95) for one in figures]
    return columns


def _percentile(figures: Figures | None, part: float) -> int | None:
    return None if figures is None else figures.wait_percentile(part)
