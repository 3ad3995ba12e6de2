"""Serve `/v1/status`: what needs attention now."""

from typing import Final

from fastapi import APIRouter

from inturn.errors import NotFoundError
from inturn.http import schemas
from inturn.http.errors import ErrorResponses
from inturn.http.scope import CallerScope, ReadScope
from inturn.insights import Notice, customer_notices

router: Final = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/status", operation_id="getStatus", responses=ErrorResponses.of())
def status(scope: ReadScope) -> schemas.Status:
    """List what needs attention, the most urgent first: pauses, missing workers, failures, overdue documents.

    A customer's key gets what concerns the customer, without names and reasons of operators.
    """
    return schemas.Status(notices=[_serialize(notice) for notice in _notices(scope)])


def _notices(scope: CallerScope) -> tuple[Notice, ...]:
    app_state, customer = scope.app_state, scope.caller.customer
    if customer is None:
        return app_state.notices.current()
    try:
        return customer_notices(app_state.insights, app_state.history.current(), customer)
    except NotFoundError:  # a key may be created before the first document
        return ()


def _serialize(notice: Notice) -> schemas.Notice:
    operator = notice.operator
    return schemas.Notice(
        kind=str(notice.kind),
        operator=None if operator is None else operator.name,
        why="" if operator is None else operator.why,
        at=notice.at,
        names=list(notice.names),
        n=notice.n,
        of=notice.of,
        levels=list(notice.levels),
    )
