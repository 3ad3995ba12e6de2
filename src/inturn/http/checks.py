"""`/v1/checks`: priority as a service, for systems with a queue of their own."""

from typing import Final

from fastapi import APIRouter

from inturn.http import schemas
from inturn.http.documents import Key
from inturn.http.errors import Answers
from inturn.http.scoped import Seen

router: Final = APIRouter(prefix="/v1", tags=["checks"])


@router.post("/checks", operation_id="checkPriority", responses=Answers.of(409, 413, 422))
def check(given: schemas.CheckRequest, seen: Seen, key: Key = None) -> schemas.Checks:
    """Tell which levels a customer's next documents get; each is a check, as if it had been submitted."""
    customer = seen.owner(given.customer)
    found = seen.service.queue.check(customer, given.count, key=key)
    checks = [schemas.Check(level=each.level, count=each.count) for each in found]
    return schemas.Checks(customer=customer, checks=checks)
