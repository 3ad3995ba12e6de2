"""`/v1/audit`, `/v1/workers` and `/v1/estimates`: what operators look at. For operators."""

from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.routes.documents import PageLimit
from inturn.http.scope import ReadScope
from inturn.http.serializers import serialize_audit_event
from inturn.model import MAX_NAME_LENGTH
from inturn.store import Event, EventKind, Store

router: Final = APIRouter(prefix="/v1", tags=["operators"])
READ_PAGE_SIZE: Final = 1_000
MAX_READS: Final = 10
"""Of so many events at most for one page."""


@router.get("/audit", operation_id="listAuditEvents", responses=ErrorResponses.of(422))
def audit(
    scope: ReadScope,
    _: OperatorAccess,
    kind: Annotated[list[EventKind] | None, Query(description="Of these kinds alone.")] = None,
    operator: Annotated[str | None, Query(max_length=MAX_NAME_LENGTH, description="Part of who did it.")] = None,
    customer: Annotated[str | None, Query(max_length=MAX_NAME_LENGTH, description="Part of a customer's name.")] = None,
    limit: PageLimit = 100,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="The `next` of the page before.")] = None,
) -> schemas.AuditPage:
    """Operators: what was done by hand, newest first, with who and why.

    A filtered page may hold fewer than `limit`, even none, and still have a `next`: so far it has looked.
    """
    wanted = AuditFilter(frozenset(kind or ()), (operator or "").casefold(), (customer or "").casefold())
    shown, following = find_audit_events(scope.app_state.queue.store, wanted, limit, before)
    return schemas.AuditPage(events=[serialize_audit_event(event) for event in shown], next=following)


class AuditFilter(NamedTuple):
    """Which events are looked for: every condition given must hold."""

    kinds: frozenset[EventKind]
    operator: str
    customer: str

    def matches(self, event: Event) -> bool:
        """Whether this is one."""
        who = "" if event.operator is None else event.operator.name
        return (
            (not self.kinds or event.kind in self.kinds)
            and self.operator in who.casefold()
            and self.customer in (event.customer or "").casefold()
        )


def find_audit_events(
    store: Store, where: AuditFilter, limit: int, before: int | None
) -> tuple[list[Event], int | None]:
    """The newest events that fit, and where to go on; None at the end. It reads so many at most, whatever is asked."""
    events: list[Event] = []
    at_once = READ_PAGE_SIZE if any(where) else limit + 1
    for _ in range(MAX_READS):
        page = store.audit(limit=at_once, before=before)
        for event in page:
            if len(events) == limit:
                return events, before
            before = event.number
            if where.matches(event):
                events.append(event)
        if len(page) < at_once:
            return events, None
    return events, before


@router.get("/workers", operation_id="listWorkers", responses=ErrorResponses.of())
def workers(scope: ReadScope, _: OperatorAccess) -> schemas.Workers:
    """Operators: workers as they were last heard of."""
    shown = [
        schemas.Worker(
            name=report.name,
            host=report.host,
            process=report.process,
            slots=report.slots,
            busy=report.busy,
            processor=report.processor,
            started_at=report.started_at,
            seen_at=seen_at,
            stopping=report.stopping,
        )
        for report, seen_at in scope.app_state.queue.store.workers()
    ]
    return schemas.Workers(workers=shown)


@router.get("/estimates", operation_id="getEstimates", responses=ErrorResponses.of())
def estimates(scope: ReadScope, _: OperatorAccess) -> schemas.Estimates:
    """Operators: expected starts that this server told, compared with what happened."""
    return scope.app_state.estimates.summary()
