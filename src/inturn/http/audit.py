"""`/v1/audit`, `/v1/workers` and `/v1/estimates`: what operators look at. For operators."""

from typing import Annotated, Final

from fastapi import APIRouter, Query

from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.documents import Limit
from inturn.http.errors import Answers
from inturn.http.scoped import Seen
from inturn.http.views import audit_view

router: Final = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/audit", responses=Answers.of(422))
def audit(
    seen: Seen,
    _: OperatorsEyes,
    limit: Limit = 100,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="The `next` of the page before.")] = None,
) -> schemas.Audit:
    """Operators: what was done by hand, newest first, with who and why."""
    found = seen.service.queue.store.audit(limit=limit + 1, before=before)
    shown = found[:limit]
    return schemas.Audit(
        events=[audit_view(each) for each in shown], next=shown[-1].number if len(found) > limit else None
    )


@router.get("/workers", responses=Answers.of())
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


@router.get("/estimates", responses=Answers.of())
def estimates(seen: Seen, _: OperatorsEyes) -> schemas.Estimates:
    """Operators: expected starts that this server told, compared with what happened."""
    return seen.service.estimates.now()
