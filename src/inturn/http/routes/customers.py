"""Serve `/v1/customers`."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query

from inturn.errors import InvalidInputError, NotFoundError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.routes.filters import PageLimit
from inturn.http.scope import CallerScope, ReadScope, WriteScope
from inturn.http.serializers import serialize_counter, serialize_share
from inturn.http.state import AppState
from inturn.http.stats import Percentiles, WorkerShares
from inturn.insights import CustomerEntry, SortBy, counter_status, stored_counter
from inturn.model import Customer, RateLimit
from inturn.policy import PriorityPolicy
from inturn.store_answers import Page
from inturn.store_types import CustomerFilter
from inturn.values import clean_text

router: Final = APIRouter(prefix="/v1", tags=["customers"])
MAX_OFFSET: Final = 2**62
LaneWaits = Mapping[tuple[str, int], int]


class CustomerSort(StrEnum):
    """The figure that customers are sorted by; `wait` is the p95 of the last ten minutes."""

    NAME = "name"
    WAITING = "waiting"
    RUNNING = "running"
    LEVEL = "level"
    SHARE = "share"
    WAIT = "wait"
    UPDATED = "updated"


class CustomerContext(NamedTuple):
    """The figures that the serialization of customers needs."""

    now: int
    priority: PriorityPolicy
    shares: WorkerShares | None
    """None for a caller that may not see them."""
    wait_percentiles: dict[str, Percentiles]


@router.get("/customers", operation_id="listCustomers", responses=ErrorResponses.of(422))
def customers(  # noqa: PLR0913 - one parameter for each query parameter
    scope: ReadScope,
    _: OperatorAccess,
    text: Annotated[str | None, Query(description="Part of the name; with `sort`, also of the display name.")] = None,
    *,
    waiting: bool | None = None,
    paused: bool | None = None,
    sort: Annotated[CustomerSort | None, Query(description="Left out: by name, from the store.")] = None,
    down: Annotated[bool, Query(description="With `sort`: the largest first.")] = False,
    limit: PageLimit = 100,
    after: Annotated[
        str | None, Query(description="The `next` of the page before; with `sort`, the number of customers to skip.")
    ] = None,
) -> schemas.CustomerPage:
    """Operators: list customers.

    With `sort` the order comes from an index that each server keeps in memory and updates by events. The figures
    themselves are read now.
    """
    where = CustomerFilter(None if text is None else clean_text("text", text), waiting, paused)
    app_state = scope.app_state
    context = _load_context(app_state, sees_all=True)
    if sort is None:
        cursor = None if after is None else clean_text("after", after)
        page, total = app_state.queue.customers(where, limit=limit, after=cursor), None
    else:
        offset = _parse_offset(after)
        listed = app_state.customer_index.page(
            where, _sort_by(sort, context, is_descending=down), limit=limit, after=offset
        )
        next_offset = str(offset + limit) if offset + limit < listed.total else None
        page, total = Page(_load_customers(app_state, listed.names), next_offset), listed.total
    serialized = [serialize_customer(customer, context, {}) for customer in page.items]
    return schemas.CustomerPage(at=context.now, customers=serialized, next=page.next, total=total)


@router.get("/customers/{name:path}", operation_id="getCustomer", responses=ErrorResponses.of(422))
def customer(name: str, scope: ReadScope) -> schemas.CustomerDetail:
    """Return a customer: its counter, lanes with their waits, settings and share."""
    return _serialize_detail(scope, scope.customer(name))


@router.patch("/customers/{name:path}", operation_id="updateCustomer", responses=ErrorResponses.of(409, 413, 422))
def update_customer(
    name: str, body: schemas.CustomerChange, scope: WriteScope, _: OperatorAccess
) -> schemas.CustomerDetail:
    """Operators: change the settings given, also of a customer without documents."""
    changes = _given_settings(body)
    scope.app_state.queue.change_customer(name, scope.operator, expected=_given_settings(body.expected), **changes)
    return _serialize_detail(scope, scope.customer(name))


@router.post("/customers/{name:path}/purge", operation_id="purgeCustomer", responses=ErrorResponses.of(413, 422))
def purge(name: str, body: schemas.Purge, scope: WriteScope, _: OperatorAccess) -> schemas.PurgeResult:
    """Operators: delete a customer's documents, results, blobs and keys. The counter and the settings stay."""
    customer = scope.customer(name)
    if body.confirm != customer.name:
        raise InvalidInputError("confirm must repeat the customer's name; nothing was deleted")
    removed = scope.app_state.queue.purge(customer.name, scope.operator)
    if scope.app_state.blobs is not None:
        scope.app_state.blobs.delete(removed.blobs)
    return schemas.PurgeResult(documents=removed.documents, blobs=len(removed.blobs))


def serialize_customer(customer: Customer, context: CustomerContext, oldest_waits: LaneWaits) -> schemas.Customer:
    """Serialize a customer; `oldest_waits` has the longest wait of each lane by queue and level."""
    settings, waits = customer.settings, context.wait_percentiles.get(customer.name)
    lanes = [
        schemas.Lane(
            queue=lane.queue,
            level=lane.level,
            waiting=lane.waiting,
            is_open=lane.is_open,
            oldest_wait=oldest_waits.get((lane.queue, lane.level)),
        )
        for lane in customer.lanes
    ]
    return schemas.Customer.model_construct(
        customer=customer.name,
        display_name=settings.display_name,
        counter=serialize_counter(counter_status(customer, context.priority)),
        level=context.priority.check(stored_counter(customer), context.now).level,
        waiting=customer.waiting,
        running=customer.running,
        lines=lanes,
        weight=settings.weight,
        cap=settings.cap,
        rate=None if settings.rate is None else schemas.Rate(**settings.rate._asdict()),
        paused=settings.paused,
        at_slot_limit=customer.at_slot_limit,
        keep=settings.keep,
        share=None if context.shares is None else serialize_share(context.shares.of(customer.name)),
        waits=None if waits is None else schemas.WaitPercentiles(**waits._asdict()),
    )


def _given_settings(body: schemas.CustomerSettings) -> dict[str, Any]:
    given = {name: getattr(body, name) for name in body.model_fields_set if name != "expected"}
    if isinstance(given.get("rate"), schemas.Rate):
        given["rate"] = RateLimit(given["rate"].documents, given["rate"].per)
    return given


def _load_context(app_state: AppState, *, sees_all: bool) -> CustomerContext:
    now = app_state.clock.now()
    return CustomerContext(
        now,
        app_state.insights.policy().policy.priority,
        app_state.shares if sees_all else None,
        app_state.history.wait_percentiles_by_customer(),
    )


def _serialize_detail(scope: CallerScope, customer: Customer) -> schemas.CustomerDetail:
    app_state = scope.app_state
    context = _load_context(app_state, sees_all=scope.caller.sees_all)
    serialized = serialize_customer(customer, context, app_state.insights.lane_waits(customer.name, context.now))
    return schemas.CustomerDetail.model_construct(**dict(serialized), at=context.now)


def _load_customers(app_state: AppState, names: tuple[str, ...]) -> tuple[Customer, ...]:
    customers = []
    for name in names:
        with suppress(NotFoundError):
            customers.append(app_state.queue.customer(name))
    return tuple(customers)


def _sort_by(sort: CustomerSort, context: CustomerContext, *, is_descending: bool) -> SortBy:
    priority, waits = context.priority, context.wait_percentiles
    measured = None if context.shares is None else context.shares.current()
    worked = {} if measured is None else {name: share.worked for name, share in measured.customers.items()}
    figures: dict[CustomerSort, Callable[[CustomerEntry], float | None]] = {
        CustomerSort.WAITING: lambda entry: entry.waiting,
        CustomerSort.RUNNING: lambda entry: entry.running,
        CustomerSort.LEVEL: lambda entry: -entry.next_count(priority, context.now),
        CustomerSort.SHARE: lambda entry: worked.get(entry.name, 0),
        CustomerSort.WAIT: lambda entry: waits[entry.name].p95 if entry.name in waits else None,
        CustomerSort.UPDATED: lambda entry: entry.updated_at,
    }
    return SortBy(figures.get(sort), is_descending)


def _parse_offset(after: str | None) -> int:
    if after is None:
        return 0
    if not after.isascii() or not after.isdigit() or int(after[:20]) > MAX_OFFSET:
        raise InvalidInputError(
            "with sort, `after` must be the number of customers to skip, 0 or more; use the `next` of a page"
        )
    return int(after)
