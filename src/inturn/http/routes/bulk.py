"""Serve the bulk actions `/v1/documents/cancel`, `/retry` and `/expedite`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from fastapi import APIRouter

from inturn.errors import IllegalTransitionError, InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import CallerScope, WriteScope
from inturn.model import CANCELLABLE, RETRYABLE, DocumentState
from inturn.store_types import DocumentFilter, DocumentTime, Operator

router: Final = APIRouter(prefix="/v1", tags=["documents"])


class BulkAction(NamedTuple):
    """An action, and the document states that it applies to."""

    apply_to_filter: Callable[[DocumentFilter, Operator], int]
    apply_to_ids: Callable[[Sequence[str], Operator], Sequence[object]]
    allowed_states: frozenset[DocumentState]
    default_states: frozenset[DocumentState]
    """The states of a filter that names none."""
    default_time: DocumentTime
    """The time that `since` and `until` are about without `time`: what can be retried has ended."""


@router.post("/documents/cancel", operation_id="cancelDocuments", responses=ErrorResponses.of(413, 422))
def cancel_documents(body: schemas.BulkFilter, scope: WriteScope) -> schemas.BulkResult:
    """Cancel all matching documents that have not finished; with `dry_run`, only count them."""
    queue = scope.app_state.queue
    states = CANCELLABLE, CANCELLABLE
    return _apply(body, scope, BulkAction(queue.cancel_all, queue.cancel_many, *states, DocumentTime.SUBMITTED))


@router.post("/documents/retry", operation_id="retryDocuments", responses=ErrorResponses.of(413, 422))
def retry_documents(body: schemas.BulkRetry, scope: WriteScope) -> schemas.BulkResult:
    """Retry all matching documents that ended without a result; cancelled ones only by `state` or `ids`."""
    queue = scope.app_state.queue
    states = RETRYABLE, RETRYABLE - {DocumentState.CANCELLED}
    retry_all = partial(queue.retry_all, from_start=body.from_start)
    retry_many = partial(queue.retry_many, from_start=body.from_start)
    return _apply(body, scope, BulkAction(retry_all, retry_many, *states, DocumentTime.ENDED))


@router.post("/documents/expedite", operation_id="expediteDocuments", responses=ErrorResponses.of(413, 422))
def expedite_documents(body: schemas.BulkExpedite, scope: WriteScope, _: OperatorAccess) -> schemas.BulkResult:
    """Operators: move these documents before all levels, oldest first; those that do not wait are skipped."""
    done = 0
    for document in reversed(scope.documents_by_id(body.ids)):
        try:
            scope.expedite(document.id, undo=body.undo)
        except IllegalTransitionError:
            continue
        done += 1
    return schemas.BulkResult(documents=done, done=True)


def _apply(body: schemas.BulkFilter, scope: CallerScope, action: BulkAction) -> schemas.BulkResult:
    conditions = body.model_dump(exclude={"dry_run", "ids", "time", "from_start"}, exclude_none=True)
    if body.ids is not None:
        if conditions:
            raise InvalidInputError("give ids alone, or conditions without ids")
        return _apply_by_ids(body.ids, scope, action, dry_run=body.dry_run)
    if not conditions:
        raise InvalidInputError(
            "no documents are named: give ids, or at least one of state, customer, level, batch, group, queue, parent,"
            " parts, text, since, until"
        )
    states = action.default_states if body.state is None else frozenset(DocumentState(state) for state in body.state)
    if not states <= action.allowed_states:
        raise InvalidInputError(f"the state must be one of {', '.join(sorted(action.allowed_states))}")
    chosen = DocumentFilter(states, body.customer, body.level, body.batch, body.text, body.group)
    chosen = chosen._replace(queue=body.queue, parent=body.parent).with_parts(body.parts)
    where = scope.restrict_filter(chosen)
    where = where.within(DocumentTime(body.time) if body.time else action.default_time, body.since, body.until)
    if body.dry_run:
        return schemas.BulkResult(documents=sum(scope.counts(where).states.values()), done=False)
    return schemas.BulkResult(documents=action.apply_to_filter(where, scope.operator), done=True)


def _apply_by_ids(ids: Sequence[str], scope: CallerScope, action: BulkAction, *, dry_run: bool) -> schemas.BulkResult:
    """Apply the action oldest first: a retry is a check, and the oldest document should get the best level."""
    allowed = [
        document.id for document in reversed(scope.documents_by_id(ids)) if document.state in action.allowed_states
    ]
    n = len(allowed) if dry_run or not allowed else len(action.apply_to_ids(allowed, scope.operator))
    return schemas.BulkResult(documents=n, done=not dry_run)
