"""Serve `/v1/failures` to operators: failed documents by kind of error, and the retry of a kind."""

from typing import Final

from fastapi import APIRouter

from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.routes.filters import Since, Until
from inturn.http.scope import ReadScope, WriteScope
from inturn.insights import FailureGroup, failure_groups, failures_of_group_id
from inturn.store_types import TimeRange
from inturn.values import SECOND

router: Final = APIRouter(prefix="/v1", tags=["operators"])
DEFAULT_RANGE: Final = 86_400 * SECOND
MAX_CUSTOMERS: Final = 5


@router.get("/failures", operation_id="listFailures", responses=ErrorResponses.of(422))
def list_failures(scope: ReadScope, _: OperatorAccess, since: Since = None, until: Until = None) -> schemas.Failures:
    """Operators: group documents that failed by the first line of their error, the largest group first.

    Parts of split documents are among them: each failed by itself. Without `since`, those of the last 24 hours. At most
    the newest 10,000 are read; `oldest_at` says so.
    """
    now = scope.app_state.queue.now()
    within = TimeRange(max(0, now - DEFAULT_RANGE) if since is None else since, now + 1 if until is None else until)
    listed = failure_groups(scope.app_state.queue, within)
    return schemas.Failures(
        since=within.since or 0,
        until=within.until or now,
        documents=listed.documents,
        oldest_at=listed.oldest_at,
        groups=[_serialize_group(group) for group in listed.groups],
    )


@router.post("/failures/{group}/retry", operation_id="retryFailures", responses=ErrorResponses.of(413, 422))
def retry_failures(group: str, body: schemas.FailureRange, scope: WriteScope, _: OperatorAccess) -> schemas.BulkResult:
    """Operators: retry the documents of a group that failed in a range of time; with `dry_run`, only count them."""
    queue = scope.app_state.queue
    since = max(0, queue.now() - DEFAULT_RANGE) if body.since is None else body.since
    members = failures_of_group_id(queue, group, TimeRange(since, body.until))
    if body.dry_run:
        return schemas.BulkResult(documents=len(members), done=False)
    return schemas.BulkResult(
        documents=queue.retry_in_chunks(
            [failure.id for failure in members], scope.operator, from_start=body.from_start
        ),
        done=True,
    )


def _serialize_group(group: FailureGroup) -> schemas.FailureGroup:
    example = group.example
    return schemas.FailureGroup(
        id=group.id,
        error=group.kind,
        documents=group.count,
        customers=len(group.customers),
        most=list(group.customers[:MAX_CUSTOMERS]),
        first_at=group.first_at,
        last_at=group.last_at,
        example=schemas.FailureExample(
            id=example.id, name=example.name, customer=example.customer, error=example.error or ""
        ),
    )
