"""`/v1/customers`."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query

from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.documents import Limit
from inturn.http.errors import Answers
from inturn.http.scoped import ByHand, Scoped, Seen
from inturn.http.views import customer_view, share_due
from inturn.model import Customer, RateLimit, clean_text
from inturn.store import CustomerFilter

router: Final = APIRouter(prefix="/v1", tags=["customers"])


@router.get("/customers", responses=Answers.of(422))
def customers(
    seen: Seen,
    _: OperatorsEyes,
    text: Annotated[str | None, Query(description="Part of the name.")] = None,
    *,
    waiting: bool | None = None,
    paused: bool | None = None,
    limit: Limit = 100,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
) -> schemas.CustomerPage:
    """Operators: list customers by name."""
    where = CustomerFilter(None if text is None else clean_text("text", text), waiting, paused)
    cursor = None if after is None else clean_text("after", after)
    page = seen.service.queue.customers(where, limit=limit, after=cursor)
    shown = [customer_view(each, seen.service.insights, {}, None) for each in page.items]
    return schemas.CustomerPage(customers=shown, next=page.next)


@router.get("/customers/{name:path}", responses=Answers.of(422))
def customer(name: str, seen: Seen) -> schemas.Customer:
    """One customer: its counter and when that resets, its lines and how long they wait, its settings and its share."""
    return _view(seen, seen.customer(name))


@router.patch("/customers/{name:path}", responses=Answers.of(413, 422))
def change(name: str, given: schemas.CustomerChange, by_hand: ByHand, _: OperatorsEyes) -> schemas.Customer:
    """Operators: change what is given; also for a customer not seen yet."""
    changes: dict[str, Any] = {each: getattr(given, each) for each in given.model_fields_set}
    if isinstance(changes.get("rate"), schemas.Rate):
        changes["rate"] = RateLimit(changes["rate"].documents, changes["rate"].per)
    by_hand.service.queue.change_customer(name, by_hand.operator, **changes)
    return _view(by_hand, by_hand.customer(name))


@router.post("/customers/{name:path}/purge", responses=Answers.of(413, 422))
def purge(name: str, given: schemas.Purge, by_hand: ByHand, _: OperatorsEyes) -> schemas.Purged:
    """Operators: delete a customer's documents, results, blobs and keys. The counter and the settings stay."""
    known = by_hand.customer(name)
    if given.confirm != known.name:
        raise InvalidInputError("confirm must be the customer's name once more; nothing was deleted")
    removed = by_hand.service.queue.purge(known.name, by_hand.operator)
    if by_hand.service.blobs is not None:
        by_hand.service.blobs.delete(removed.blobs)
    return schemas.Purged(documents=removed.documents, blobs=len(removed.blobs))


def _view(seen: Scoped, found: Customer) -> schemas.Customer:
    service = seen.service
    now = service.clock.now()
    standings = service.insights.standings(now)
    own = [line for line in standings.lines if line.customer == found.name]
    oldest = {line.level: max(0, now - line.head.ready_at) for line in own}
    share = None
    if seen.caller.sees_all:
        share = schemas.Share(received=service.shares.of(found.name, now), due=share_due(found, standings))
    return customer_view(found, service.insights, oldest, share)
