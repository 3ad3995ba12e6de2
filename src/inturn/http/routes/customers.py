"""`/v1/customers`."""

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query

from inturn.errors import InvalidInputError, NotFoundError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.routes.documents import PageLimit
from inturn.http.scope import CallerScope, ReadScope, WriteScope
from inturn.http.serializers import serialize_counter
from inturn.http.state import AppState
from inturn.http.stats import Percentiles
from inturn.insights import CustomerEntry, SortBy, counter_status, stored_counter
from inturn.model import Customer, RateLimit, clean_text
from inturn.policy import PriorityPolicy
from inturn.store import CustomerFilter, Page, SchedulerSnapshot

router: Final = APIRouter(prefix="/v1", tags=["customers"])
MAX_OFFSET: Final = 2**62


class CustomerSort(StrEnum):
    """What customers are sorted by; `wait` is the p95 of the last ten minutes."""

    NAME = "name"
    WAITING = "waiting"
    RUNNING = "running"
    LEVEL = "level"
    SHARE = "share"
    WAIT = "wait"
    UPDATED = "updated"


class CustomerContext(NamedTuple):
    """What customers are shown in the light of."""

    now: int
    priority: PriorityPolicy
    received_shares: dict[str, float] | None
    """By customer; None for who may not see it, or before anything was started."""
    wait_percentiles: dict[str, Percentiles]


@router.get("/customers", operation_id="listCustomers", responses=ErrorResponses.of(422))
def customers(  # noqa: PLR0913 - these are a query's parts
    scope: ReadScope,
    _: OperatorAccess,
    text: Annotated[
        str | None, Query(description="Part of the name; with `sort`, or of the name it is shown by.")
    ] = None,
    *,
    waiting: bool | None = None,
    paused: bool | None = None,
    sort: Annotated[CustomerSort | None, Query(description="Left out: by name, as the store has it.")] = None,
    down: Annotated[bool, Query(description="With `sort`: the largest first.")] = False,
    limit: PageLimit = 100,
    after: Annotated[
        str | None, Query(description="The `next` of the page before; with `sort`, how many to pass over.")
    ] = None,
) -> schemas.CustomerPage:
    """Operators: list customers.

    With `sort` the order is that of a summary, which each server keeps and brings up to date by what it hears of; the
    figures themselves are those of this moment.
    """
    where = CustomerFilter(None if text is None else clean_text("text", text), waiting, paused)
    service = scope.app_state
    around = _load_context(service, sees_all=True)
    if sort is None:
        cursor = None if after is None else clean_text("after", after)
        page, total, weight = service.queue.customers(where, limit=limit, after=cursor), None, None
    else:
        place = _parse_offset(after)
        listed = service.customer_index.page(
            where, _sort_by(sort, around, is_descending=down), limit=limit, after=place
        )
        following = str(place + limit) if place + limit < listed.total else None
        page, total, weight = Page(_load_customers(service, listed.names), following), listed.total, listed.weight
    shown = [
        serialize_customer(customer, around, {}, _approximate_due_share(customer, weight)) for customer in page.items
    ]
    return schemas.CustomerPage(at=around.now, customers=shown, next=page.next, total=total)


@router.get("/customers/{name:path}", operation_id="getCustomer", responses=ErrorResponses.of(422))
def customer(name: str, scope: ReadScope) -> schemas.CustomerDetail:
    """One customer: its counter and when that resets, its lines and how long they wait, its settings and its share."""
    return _serialize_detail(scope, scope.customer(name))


@router.patch("/customers/{name:path}", operation_id="updateCustomer", responses=ErrorResponses.of(413, 422))
def update_customer(
    name: str, body: schemas.CustomerChange, scope: WriteScope, _: OperatorAccess
) -> schemas.CustomerDetail:
    """Operators: change what is given; also for a customer not seen yet."""
    changes: dict[str, Any] = {item: getattr(body, item) for item in body.model_fields_set}
    if isinstance(changes.get("rate"), schemas.Rate):
        changes["rate"] = RateLimit(changes["rate"].documents, changes["rate"].per)
    scope.app_state.queue.change_customer(name, scope.operator, **changes)
    return _serialize_detail(scope, scope.customer(name))


@router.post("/customers/{name:path}/purge", operation_id="purgeCustomer", responses=ErrorResponses.of(413, 422))
def purge(name: str, body: schemas.Purge, scope: WriteScope, _: OperatorAccess) -> schemas.PurgeResult:
    """Operators: delete a customer's documents, results, blobs and keys. The counter and the settings stay."""
    known = scope.customer(name)
    if body.confirm != known.name:
        raise InvalidInputError("confirm must be the customer's name once more; nothing was deleted")
    removed = scope.app_state.queue.purge(known.name, scope.operator)
    if scope.app_state.blobs is not None:
        scope.app_state.blobs.delete(removed.blobs)
    return schemas.PurgeResult(documents=removed.documents, blobs=len(removed.blobs))


def serialize_customer(
    customer: Customer, context: CustomerContext, oldest_waits: dict[int, int], due_share: float | None
) -> schemas.Customer:
    """A customer; `oldest` is the longest wait of each open line."""
    settings, waits = customer.settings, context.wait_percentiles.get(customer.name)
    lines = [
        schemas.Lane(
            level=lane.level, waiting=lane.waiting, is_open=lane.is_open, oldest_wait=oldest_waits.get(lane.level)
        )
        for lane in customer.lanes
    ]
    share = None
    if context.received_shares is not None:
        received = context.received_shares.get(customer.name, 0.0) if context.received_shares else None
        share = schemas.Share(received=received, due=due_share)
    return schemas.Customer.model_construct(
        customer=customer.name,
        display_name=settings.display_name,
        counter=serialize_counter(counter_status(customer, context.priority)),
        level=context.priority.check(stored_counter(customer), context.now).level,
        waiting=customer.waiting,
        running=customer.running,
        lines=lines,
        weight=settings.weight,
        cap=settings.cap,
        rate=None if settings.rate is None else schemas.Rate(**settings.rate._asdict()),
        paused=settings.paused,
        keep=settings.keep,
        share=share,
        waits=None if waits is None else schemas.WaitPercentiles(**waits._asdict()),
    )


def _load_context(app_state: AppState, *, sees_all: bool) -> CustomerContext:
    now = app_state.clock.now()
    received = app_state.shares.by_customer(now) if sees_all else None
    return CustomerContext(
        now, app_state.insights.policy().policy.priority, received, app_state.history.wait_percentiles_by_customer()
    )


def _serialize_detail(scope: CallerScope, customer: Customer) -> schemas.CustomerDetail:
    service = scope.app_state
    around = _load_context(service, sees_all=scope.caller.sees_all)
    standings = service.insights.scheduler_snapshot(around.now)
    own = [line for line in standings.lanes if line.customer == customer.name]
    oldest = {line.level: max(0, around.now - line.head.ready_at) for line in own}
    shown = serialize_customer(customer, around, oldest, due_share(customer, standings))
    return schemas.CustomerDetail.model_construct(**dict(shown), at=around.now)


def due_share(customer: Customer, standings: SchedulerSnapshot) -> float | None:
    """A customer's weight among those with an open line; None if it has none."""
    weights = {line.customer: line.weight for line in standings.lanes}
    return weights[customer.name] / sum(weights.values()) if customer.name in weights else None


def _approximate_due_share(customer: Customer, total_weight: float | None) -> float | None:
    """The same by the weight of all those, a moment ago."""
    is_open = any(line.is_open and line.waiting > 0 for line in customer.lanes)
    return min(1.0, customer.settings.weight / total_weight) if total_weight and is_open else None


def _load_customers(app_state: AppState, names: tuple[str, ...]) -> tuple[Customer, ...]:
    result = []
    for name in names:
        with suppress(NotFoundError):
            result.append(app_state.queue.customer(name))
    return tuple(result)


def _sort_by(sort: CustomerSort, context: CustomerContext, *, is_descending: bool) -> SortBy:
    priority, received, waits = context.priority, context.received_shares or {}, context.wait_percentiles
    figures: dict[CustomerSort, Callable[[CustomerEntry], float | None]] = {
        CustomerSort.WAITING: lambda customer_entry: customer_entry.waiting,
        CustomerSort.RUNNING: lambda customer_entry: customer_entry.running,
        CustomerSort.LEVEL: lambda customer_entry: -customer_entry.next_count(priority, context.now),
        CustomerSort.SHARE: lambda customer_entry: received.get(customer_entry.name, 0.0),
        CustomerSort.WAIT: lambda customer_entry: (
            waits[customer_entry.name].p95 if customer_entry.name in waits else None
        ),
        CustomerSort.UPDATED: lambda customer_entry: customer_entry.updated_at,
    }
    return SortBy(figures.get(sort), is_descending)


def _parse_offset(after: str | None) -> int:
    if after is None:
        return 0
    if not after.isascii() or not after.isdigit() or int(after[:20]) > MAX_OFFSET:
        raise InvalidInputError("with sort, after is how many customers to pass over: 0 or more; use a page's next")
    return int(after)
