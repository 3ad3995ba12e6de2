"""`/v1/customers`."""

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query

from inturn.errors import InvalidInputError, NotFoundError
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.course import Percentiles
from inturn.http.documents import Limit
from inturn.http.errors import Answers
from inturn.http.scoped import ByHand, Scoped, Seen
from inturn.http.service import Service
from inturn.http.views import counter_view
from inturn.insights import Entry, SortBy, counter_now, kept_counter
from inturn.model import Customer, RateLimit, clean_text
from inturn.policy import PriorityPolicy
from inturn.store import CustomerFilter, Page, Standings

router: Final = APIRouter(prefix="/v1", tags=["customers"])
FAR: Final = 2**62


class Sort(StrEnum):
    """What customers are sorted by; `wait` is the p95 of the last ten minutes."""

    NAME = "name"
    WAITING = "waiting"
    RUNNING = "running"
    LEVEL = "level"
    SHARE = "share"
    WAIT = "wait"
    UPDATED = "updated"


class Around(NamedTuple):
    """What customers are shown in the light of."""

    now: int
    priority: PriorityPolicy
    received: dict[str, float] | None
    """By customer; None for who may not see it, or before anything was started."""
    waits: dict[str, Percentiles]


@router.get("/customers", operation_id="listCustomers", responses=Answers.of(422))
def customers(  # noqa: PLR0913 - these are a query's parts
    seen: Seen,
    _: OperatorsEyes,
    text: Annotated[
        str | None, Query(description="Part of the name; with `sort`, or of the name it is shown by.")
    ] = None,
    *,
    waiting: bool | None = None,
    paused: bool | None = None,
    sort: Annotated[Sort | None, Query(description="Left out: by name, as the store has it.")] = None,
    down: Annotated[bool, Query(description="With `sort`: the largest first.")] = False,
    limit: Limit = 100,
    after: Annotated[
        str | None, Query(description="The `next` of the page before; with `sort`, how many to pass over.")
    ] = None,
) -> schemas.CustomerPage:
    """Operators: list customers.

    With `sort` the order is that of a summary, which each server keeps and brings up to date by what it hears of; the
    figures themselves are those of this moment.
    """
    where = CustomerFilter(None if text is None else clean_text("text", text), waiting, paused)
    service = seen.service
    around = _around(service, sees_all=True)
    if sort is None:
        cursor = None if after is None else clean_text("after", after)
        page, total, weight = service.queue.customers(where, limit=limit, after=cursor), None, None
    else:
        place = _place(after)
        listed = service.roster.page(where, _sort_by(sort, around, is_down=down), limit=limit, after=place)
        following = str(place + limit) if place + limit < listed.total else None
        page, total, weight = Page(_each(service, listed.names), following), listed.total, listed.weight
    shown = [customer_view(each, around, {}, _due(each, weight)) for each in page.items]
    return schemas.CustomerPage(at=around.now, customers=shown, next=page.next, total=total)


@router.get("/customers/{name:path}", operation_id="getCustomer", responses=Answers.of(422))
def customer(name: str, seen: Seen) -> schemas.CustomerNow:
    """One customer: its counter and when that resets, its lines and how long they wait, its settings and its share."""
    return _now(seen, seen.customer(name))


@router.patch("/customers/{name:path}", operation_id="updateCustomer", responses=Answers.of(413, 422))
def change(name: str, given: schemas.CustomerChange, by_hand: ByHand, _: OperatorsEyes) -> schemas.CustomerNow:
    """Operators: change what is given; also for a customer not seen yet."""
    changes: dict[str, Any] = {each: getattr(given, each) for each in given.model_fields_set}
    if isinstance(changes.get("rate"), schemas.Rate):
        changes["rate"] = RateLimit(changes["rate"].documents, changes["rate"].per)
    by_hand.service.queue.change_customer(name, by_hand.operator, **changes)
    return _now(by_hand, by_hand.customer(name))


@router.post("/customers/{name:path}/purge", operation_id="purgeCustomer", responses=Answers.of(413, 422))
def purge(name: str, given: schemas.Purge, by_hand: ByHand, _: OperatorsEyes) -> schemas.Purged:
    """Operators: delete a customer's documents, results, blobs and keys. The counter and the settings stay."""
    known = by_hand.customer(name)
    if given.confirm != known.name:
        raise InvalidInputError("confirm must be the customer's name once more; nothing was deleted")
    removed = by_hand.service.queue.purge(known.name, by_hand.operator)
    if by_hand.service.blobs is not None:
        by_hand.service.blobs.delete(removed.blobs)
    return schemas.Purged(documents=removed.documents, blobs=len(removed.blobs))


def customer_view(customer: Customer, around: Around, oldest: dict[int, int], due: float | None) -> schemas.Customer:
    """A customer; `oldest` is the longest wait of each open line."""
    settings, waits = customer.settings, around.waits.get(customer.name)
    lines = [
        schemas.Line(level=each.level, waiting=each.waiting, is_open=each.is_open, oldest_wait=oldest.get(each.level))
        for each in customer.lines
    ]
    share = None
    if around.received is not None:
        received = around.received.get(customer.name, 0.0) if around.received else None
        share = schemas.Share(received=received, due=due)
    return schemas.Customer.model_construct(
        customer=customer.name,
        display_name=settings.display_name,
        counter=counter_view(counter_now(customer, around.priority)),
        level=around.priority.check(kept_counter(customer), around.now).level,
        waiting=customer.waiting,
        running=customer.running,
        lines=lines,
        weight=settings.weight,
        cap=settings.cap,
        rate=None if settings.rate is None else schemas.Rate(**settings.rate._asdict()),
        paused=settings.paused,
        keep=settings.keep,
        share=share,
        waits=None if waits is None else schemas.Waits(**waits._asdict()),
    )


def _around(service: Service, *, sees_all: bool) -> Around:
    now = service.clock.now()
    received = service.shares.all(now) if sees_all else None
    return Around(now, service.insights.policy().policy.priority, received, service.course.waits_by_customer())


def _now(seen: Scoped, found: Customer) -> schemas.CustomerNow:
    service = seen.service
    around = _around(service, sees_all=seen.caller.sees_all)
    standings = service.insights.standings(around.now)
    own = [line for line in standings.lines if line.customer == found.name]
    oldest = {line.level: max(0, around.now - line.head.ready_at) for line in own}
    shown = customer_view(found, around, oldest, share_due(found, standings))
    return schemas.CustomerNow.model_construct(**dict(shown), at=around.now)


def share_due(customer: Customer, standings: Standings) -> float | None:
    """A customer's weight among those with an open line; None if it has none."""
    weights = {line.customer: line.weight for line in standings.lines}
    return weights[customer.name] / sum(weights.values()) if customer.name in weights else None


def _due(customer: Customer, weight: float | None) -> float | None:
    """The same by the weight of all those, a moment ago."""
    is_open = any(line.is_open and line.waiting > 0 for line in customer.lines)
    return min(1.0, customer.settings.weight / weight) if weight and is_open else None


def _each(service: Service, names: tuple[str, ...]) -> tuple[Customer, ...]:
    found = []
    for name in names:
        with suppress(NotFoundError):
            found.append(service.queue.customer(name))
    return tuple(found)


def _sort_by(sort: Sort, around: Around, *, is_down: bool) -> SortBy:
    priority, received, waits = around.priority, around.received or {}, around.waits
    figures: dict[Sort, Callable[[Entry], float | None]] = {
        Sort.WAITING: lambda each: each.waiting,
        Sort.RUNNING: lambda each: each.running,
        Sort.LEVEL: lambda each: -each.next_count(priority, around.now),
        Sort.SHARE: lambda each: received.get(each.name, 0.0),
        Sort.WAIT: lambda each: waits[each.name].p95 if each.name in waits else None,
        Sort.UPDATED: lambda each: each.updated_at,
    }
    return SortBy(figures.get(sort), is_down)


def _place(after: str | None) -> int:
    if after is None:
        return 0
    if not after.isascii() or not after.isdigit() or int(after[:20]) > FAR:
        raise InvalidInputError("with sort, after is how many customers to pass over: 0 or more; use a page's next")
    return int(after)
