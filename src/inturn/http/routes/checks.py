"""Serve `/v1/checks`: priority as a service, for systems with their own queue."""

from typing import Final

from fastapi import APIRouter

from inturn.http import schemas
from inturn.http.errors import ErrorResponses
from inturn.http.routes.documents import IdempotencyKey
from inturn.http.scope import ReadScope

router: Final = APIRouter(prefix="/v1", tags=["checks"])


@router.post("/checks", operation_id="checkPriority", responses=ErrorResponses.of(409, 413, 422))
def check(body: schemas.CheckRequest, scope: ReadScope, idempotency_key: IdempotencyKey = None) -> schemas.Checks:
    """Check the levels of a customer's next documents; the counter changes as if they had been submitted."""
    customer = scope.resolve_customer(body.customer)
    checks = scope.app_state.queue.check(customer, body.count, key=idempotency_key)
    return schemas.Checks(
        customer=customer, checks=[schemas.Check(level=check.level, count=check.count) for check in checks]
    )
