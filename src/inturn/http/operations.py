"""`/healthz`, `/readyz`, `/metrics`, and the API's own description."""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from inturn.http import metrics, schemas
from inturn.http.auth import Anyone, OperatorsEyes
from inturn.http.errors import Answers
from inturn.http.service import service_of

router: Final = APIRouter(tags=["operations"])
API_VERSION: Final = "1"
DESCRIPTION: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/healthz", operation_id="getHealth")
async def healthz() -> schemas.Health:
    """Whether this server answers at all."""
    return schemas.Health(status="ok")


@router.get("/readyz", operation_id="getReadiness", responses={503: Answers.of()[503]})
def readyz(request: Request) -> schemas.Health:
    """Whether this server can do its work: the store answers."""
    service_of(request).queue.policy()
    return schemas.Health(status="ok")


@router.get(
    "/metrics", operation_id="getMetrics", response_class=PlainTextResponse, responses={**Answers.of(), **DESCRIPTION}
)
def metrics_page(request: Request, _: OperatorsEyes) -> PlainTextResponse:
    """Operators: numbers for Prometheus."""
    service = service_of(request)
    service.tally.polls.set(service.watcher.waiters)
    text = metrics.page(service.tally, service.insights, service.queue.store)
    return PlainTextResponse(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request, found: Anyone) -> JSONResponse:
    """The API's description; which version serves it is for operators."""
    described = request.app.openapi()
    if not found.sees_all:
        described = {**described, "info": {**described["info"], "version": API_VERSION}}
    return JSONResponse(described)
