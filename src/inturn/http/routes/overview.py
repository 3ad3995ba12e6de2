"""Serve `/v1/overview` to operators."""

from collections import Counter
from typing import Annotated, Final

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.failures import RecentFailures
from inturn.http.routes.workers import progress_part
from inturn.http.scope import ReadScope, WriteScope
from inturn.http.serializers import serialize_share
from inturn.http.stats import HISTORY_WINDOW, HistoryPoint, Percentiles, QueueHistory, WorkerShares
from inturn.insights import AtWork, BusyCustomer, LaneGroup, LiveOverview, Shares
from inturn.model import DocumentState
from inturn.values import SECOND

router: Final = APIRouter(prefix="/v1", tags=["operators"])
MAX_TOP_CUSTOMERS: Final = 6
MAX_DOCUMENTS_PER_WORKER: Final = 20


@router.get("/overview", operation_id="getOverview", responses=ErrorResponses.of(422))
def overview(
    scope: ReadScope,
    _: OperatorAccess,
    since: Annotated[int, Query(ge=0, le=2**62, description="Only points of the history after this time.")] = 0,
) -> schemas.Overview:
    """Operators: waiting and running documents, waits, shares, workers, and the last ten minutes.

    The store is read at most once a second for all callers. The history begins when this server starts.
    """
    history = scope.app_state.history
    state = scope.app_state
    return serialize_overview(history.current(), history, state.shares, state.failures.current(), since)


@router.post("/failures/acknowledge", operation_id="acknowledgeFailures", responses=ErrorResponses.of(422))
def acknowledge_failures(scope: WriteScope, _: OperatorAccess) -> schemas.RecentFailures:
    """Operators: the failures so far are known. Overviews count later ones; the audit log has who and when."""
    scope.app_state.queue.acknowledge_failures(scope.operator)
    scope.app_state.failures.reset()
    return serialize_failures(scope.app_state.failures.current())


def serialize_overview(
    snapshot: LiveOverview, history: QueueHistory, shares: WorkerShares, failures: RecentFailures, since: int
) -> schemas.Overview:
    """Build the overview from a snapshot of the queue and its history."""
    live, policy = snapshot.live, snapshot.policy.policy
    last, measured = snapshot.last_level, shares.current()
    return schemas.Overview(
        at=live.at,
        paused=None if live.paused is None else schemas.Paused(operator=live.paused.name, why=live.paused.why),
        states={str(state): live.states.get(state, 0) for state in DocumentState},
        waiting={level: live.waiting.get(level, 0) for level in range(last + 1)} | dict(live.waiting),
        oldest_wait=snapshot.oldest_wait,
        customers=snapshot.customers,
        held_customers=snapshot.held_customers,
        held=snapshot.held,
        per_second=live.per_second,
        waits=_serialize_waits(history.wait_percentiles()),
        overdue=schemas.Overdue(
            after=policy.turns.overdue_after,
            every=policy.turns.overdue_every,
            levels=list(snapshot.overdue),
            uses=snapshot.overdue_uses,
        ),
        quiet=_serialize_group(snapshot.quiet, history.wait_percentiles(HISTORY_WINDOW, lambda level: level < last)),
        busy=_serialize_group(snapshot.busy, history.wait_percentiles(HISTORY_WINDOW, lambda level: level >= last)),
        last_level=last,
        busiest=[_serialize_busy_customer(entry, shares) for entry in live.busiest],
        top_customers=[
            schemas.TopCustomer(customer=name, **serialize_share(share).model_dump())
            for name, share in (() if measured is None else measured.top(MAX_TOP_CUSTOMERS))
        ],
        share_window=None if measured is None else _serialize_share_window(measured),
        workers=[_serialize_worker(activity) for activity in live.at_work],
        failures=serialize_failures(failures),
        history=_serialize_history(history.points(since)),
    )


def serialize_failures(failures: RecentFailures) -> schemas.RecentFailures:
    """Serialize the failures of the last hour."""
    event = failures.acknowledged
    operator = None if event is None else event.operator
    return schemas.RecentFailures(
        since=failures.since,
        failed=failures.failed,
        customers=[schemas.FailingCustomer(customer=name, failed=n) for name, n in failures.customers],
        acknowledged=None
        if event is None or operator is None
        else schemas.Acknowledgement(at=event.at, operator=operator.name, why=operator.why),
    )


def _serialize_waits(percentiles: Percentiles | None) -> schemas.WaitPercentiles | None:
    return None if percentiles is None else schemas.WaitPercentiles(**percentiles._asdict())


def _serialize_group(group: LaneGroup, waits: Percentiles | None) -> schemas.CustomerGroup:
    return schemas.CustomerGroup(**group._asdict(), waits=_serialize_waits(waits))


def _serialize_busy_customer(entry: BusyCustomer, shares: WorkerShares) -> schemas.BusyCustomer:
    customer = entry.customer
    waiting: Counter[int] = Counter()
    for lane in customer.lanes:
        waiting[lane.level] += lane.waiting
    return schemas.BusyCustomer(
        customer=customer.name,
        display_name=customer.settings.display_name,
        level=entry.level,
        waiting=customer.waiting,
        running=customer.running,
        paused=customer.settings.paused,
        at_slot_limit=customer.at_slot_limit,
        lines=dict(waiting),
        share=serialize_share(shares.of(customer.name)),
    )


def _serialize_share_window(shares: Shares) -> schemas.ShareWindow:
    return schemas.ShareWindow(
        since=shares.since, until=shares.until, worker_seconds=shares.worked / SECOND, documents=shares.documents
    )


def _serialize_worker(activity: AtWork) -> schemas.WorkerActivity:
    report = activity.worker.report
    documents = [
        schemas.RunningDocument(
            id=document.id,
            name=document.spec.name,
            customer=document.customer,
            level=document.level,
            started_at=document.work_began_at,
            done=progress_part(report.progress.get(document.id)),
        )
        for document in activity.documents[:MAX_DOCUMENTS_PER_WORKER]
    ]
    return schemas.WorkerActivity(
        name=report.name,
        host=report.host,
        slots=report.slots,
        busy=report.busy,
        processor=report.processor,
        queues=list(report.queues),
        started_at=report.started_at,
        seen_at=activity.worker.seen_at,
        stopping=report.stopping,
        documents=documents,
        claimed_ahead=activity.claimed_ahead,
    )


def _serialize_history(points: list[HistoryPoint]) -> schemas.History:
    """Serialize by column: each name is sent once, not once a point."""
    waits = [point.waits for point in points]
    return schemas.History(
        at=[point.at for point in points],
        waiting=[point.waiting for point in points],
        running=[point.running for point in points],
        per_second=[round(point.per_second, 2) for point in points],
        customers=[point.customers for point in points],
        failed=[point.failed for point in points],
        overdue_uses=[point.overdue_uses for point in points],
        p50=[None if wait is None else wait.p50 for wait in waits],
        p95=[None if wait is None else wait.p95 for wait in waits],
        p99=[None if wait is None else wait.p99 for wait in waits],
    )
