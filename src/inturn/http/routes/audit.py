"""Serve `/v1/audit` and `/v1/estimates` to operators."""

from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.routes.filters import PageLimit, Since, Until
from inturn.http.scope import ReadScope
from inturn.http.serializers import serialize_audit_event
from inturn.queue_reader import QueueReader
from inturn.store_types import ALL_TIME, Event, EventKind, TimeRange
from inturn.values import MAX_NAME_LENGTH

router: Final = APIRouter(prefix="/v1", tags=["operators"])
READ_PAGE_SIZE: Final = 1_000
MAX_READS: Final = 10
"""Reads of `READ_PAGE_SIZE` events for one page."""


@router.get("/audit", operation_id="listAuditEvents", responses=ErrorResponses.of(422))
def audit(  # noqa: PLR0913 - one parameter for each filter
    scope: ReadScope,
    _: OperatorAccess,
    *,
    kind: Annotated[list[EventKind] | None, Query(description="Only these kinds.")] = None,
    operator: Annotated[
        str | None, Query(max_length=MAX_NAME_LENGTH, description="Part of the operator's name.")
    ] = None,
    customer: Annotated[str | None, Query(max_length=MAX_NAME_LENGTH, description="Part of a customer's name.")] = None,
    since: Since = None,
    until: Until = None,
    limit: PageLimit = 100,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="The `next` of the page before.")] = None,
) -> schemas.AuditPage:
    """Operators: list manual actions, newest first, with operator and reason.

    A filtered page may have fewer than `limit` events, even none, and still a `next`: it has read that far.
    """
    within = TimeRange(since, until)
    where = AuditFilter(frozenset(kind or ()), (operator or "").casefold(), (customer or "").casefold(), within)
    events, next_before = find_audit_events(scope.app_state.queue, where, limit, before)
    return schemas.AuditPage(events=[serialize_audit_event(event) for event in events], next=next_before)


class AuditFilter(NamedTuple):
    """A filter of audit events; all conditions given must hold."""

    kinds: frozenset[EventKind]
    operator: str
    customer: str
    within: TimeRange = ALL_TIME
    """Applied by the store."""

    def matches(self, event: Event) -> bool:
        """Whether an event meets all conditions."""
        name = "" if event.operator is None else event.operator.name
        return (
            (not self.kinds or event.kind in self.kinds)
            and self.operator in name.casefold()
            and self.customer in (event.customer or "").casefold()
        )


def find_audit_events(
    queue: QueueReader, where: AuditFilter, limit: int, before: int | None
) -> tuple[list[Event], int | None]:
    """Return the newest matching events, and the cursor of the next page or None. The number of reads is bounded."""
    events: list[Event] = []
    read_limit = READ_PAGE_SIZE if any(where[:3]) else limit + 1
    for _ in range(MAX_READS):
        page = queue.audit(limit=read_limit, before=before, within=where.within)
        for event in page:
            if len(events) == limit:
                return events, before
            before = event.number
            if where.matches(event):
                events.append(event)
        if len(page) < read_limit:
            return events, None
    return events, before


@router.get("/estimates", operation_id="getEstimates", responses=ErrorResponses.of())
def estimates(scope: ReadScope, _: OperatorAccess) -> schemas.Estimates:
    """Operators: compare this server's estimated starts with real ones."""
    return scope.app_state.estimates.summary()
