"""What is done by hand to many documents at once: `/v1/documents/cancel`, `/retry` and `/expedite`."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter

from inturn.errors import IllegalTransitionError, InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import CallerScope, WriteScope
from inturn.model import CANCELLABLE, RETRYABLE, DocumentState
from inturn.store import DocumentFilter, Operator

router: Final = APIRouter(prefix="/v1", tags=["documents"])


class BulkAction(NamedTuple):
    """What is to be done, and to documents of which states."""

    apply_to_filter: Callable[[DocumentFilter, Operator], int]
    apply_to_ids: Callable[[Sequence[str], Operator], Sequence[object]]
    allowed_states: frozenset[DocumentState]
    default_states: frozenset[DocumentState]
    """Unless states are given, or the documents themselves."""


@router.post("/documents/cancel", operation_id="cancelDocuments", responses=ErrorResponses.of(413, 422))
def cancel_documents(body: schemas.BulkFilter, scope: WriteScope) -> schemas.BulkResult:
    """Cancel all that match and have not ended; with `dry_run`, only count them."""
    queue = scope.app_state.queue
    return _apply(body, scope, BulkAction(queue.cancel_all, queue.store.cancel, CANCELLABLE, CANCELLABLE))


@router.post("/documents/retry", operation_id="retryDocuments", responses=ErrorResponses.of(413, 422))
def retry_documents(body: schemas.BulkFilter, scope: WriteScope) -> schemas.BulkResult:
    """Try all again that match and ended without a result; those cancelled only if `state` or `ids` say so."""
    queue, usual = scope.app_state.queue, RETRYABLE - {DocumentState.CANCELLED}
    return _apply(body, scope, BulkAction(queue.retry_all, queue.store.retry, RETRYABLE, usual))


@router.post("/documents/expedite", operation_id="expediteDocuments", responses=ErrorResponses.of(413, 422))
def expedite_documents(body: schemas.DocumentIds, scope: WriteScope, _: OperatorAccess) -> schemas.BulkResult:
    """Operators: move these before all levels, the oldest first; those that do not wait are passed over."""
    done = 0
    for document in reversed(scope.documents_by_id(body.ids)):
        try:
            scope.expedite(document.id)
        except IllegalTransitionError:
            continue
        done += 1
    return schemas.BulkResult(documents=done, done=True)


def _apply(body: schemas.BulkFilter, scope: CallerScope, action: BulkAction) -> schemas.BulkResult:
    conditions = body.model_dump(exclude={"dry_run", "ids"}, exclude_none=True)
    if body.ids is not None:
        if conditions:
            raise InvalidInputError("give ids alone, or conditions without ids")
        return _apply_by_ids(body.ids, scope, action, dry_run=body.dry_run)
    if not conditions:
        raise InvalidInputError("say which documents: give ids, or at least one of state, customer, level, batch, text")
    states = action.default_states if body.state is None else frozenset(DocumentState(state) for state in body.state)
    if not states <= action.allowed_states:
        raise InvalidInputError(f"this is for documents that are {', '.join(sorted(action.allowed_states))}")
    where = scope.restrict_filter(DocumentFilter(states, body.customer, body.level, body.batch, body.text))
    if body.dry_run:
        return schemas.BulkResult(documents=sum(scope.counts(where).states.values()), done=False)
    return schemas.BulkResult(documents=action.apply_to_filter(where, scope.operator), done=True)


def _apply_by_ids(ids: Sequence[str], scope: CallerScope, action: BulkAction, *, dry_run: bool) -> schemas.BulkResult:
    """Oldest first: a retry is a check, and the oldest should get the best level."""
    result = [
        document.id for document in reversed(scope.documents_by_id(ids)) if document.state in action.allowed_states
    ]
    n = len(result) if dry_run or not result else len(action.apply_to_ids(result, scope.operator))
    return schemas.BulkResult(documents=n, done=not dry_run)
