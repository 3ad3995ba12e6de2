"""`/v1/audit`, `/v1/workers` and `/v1/estimates`: what operators look at. For operators."""

from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.documents import Limit
from inturn.http.errors import Answers
from inturn.http.scoped import Seen
from inturn.http.views import audit_view
from inturn.model import MAX_NAME
from inturn.store import Event, EventKind, Store

router: Final = APIRouter(prefix="/v1", tags=["operators"])
AT_ONCE: Final = 1_000
READS: Final = 10
"""Of so many events at most for one page."""


@router.get("/audit", operation_id="listAuditEvents", responses=Answers.of(422))
def audit(
    seen: Seen,
    _: OperatorsEyes,
    kind: Annotated[list[EventKind] | None, Query(description="Of these kinds alone.")] = None,
    operator: Annotated[str | None, Query(max_length=MAX_NAME, description="Part of who did it.")] = None,
    customer: Annotated[str | None, Query(max_length=MAX_NAME, description="Part of a customer's name.")] = None,
    limit: Limit = 100,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="The `next` of the page before.")] = None,
) -> schemas.Audit:
    """Operators: what was done by hand, newest first, with who and why.

    A filtered page may hold fewer than `limit`, even none, and still have a `next`: so far it has looked.
    """
    wanted = Wanted(frozenset(kind or ()), (operator or "").casefold(), (customer or "").casefold())
    shown, following = look(seen.service.queue.store, wanted, limit, before)
    return schemas.Audit(events=[audit_view(each) for each in shown], next=following)


class Wanted(NamedTuple):
    """Which events are looked for: every condition given must hold."""

    kinds: frozenset[EventKind]
    operator: str
    customer: str

    def fits(self, event: Event) -> bool:
        """Whether this is one."""
        who = "" if event.operator is None else event.operator.name
        return (
            (not self.kinds or event.kind in self.kinds)
            and self.operator in who.casefold()
            and self.customer in (event.customer or "").casefold()
        )


def look(store: Store, wanted: Wanted, limit: int, before: int | None) -> tuple[list[Event], int | None]:
    """The newest events that fit, and where to go on; None at the end. It reads so many at most, whatever is asked."""
    found: list[Event] = []
    at_once = AT_ONCE if any(wanted) else limit + 1
    for _ in range(READS):
        page = store.audit(limit=at_once, before=before)
        for event in page:
            if len(found) == limit:
                return found, before
            before = event.number
            if wanted.fits(event):
                found.append(event)
        if len(page) < at_once:
            return found, None
    return found, before


@router.get("/workers", operation_id="listWorkers", responses=Answers.of())
def workers(seen: Seen, _: OperatorsEyes) -> schemas.Workers:
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
        for report, seen_at in seen.service.queue.store.workers()
    ]
    return schemas.Workers(workers=shown)


@router.get("/estimates", operation_id="getEstimates", responses=Answers.of())
def estimates(seen: Seen, _: OperatorsEyes) -> schemas.Estimates:
    """Operators: expected starts that this server told, compared with what happened."""
    return seen.service.estimates.now()
