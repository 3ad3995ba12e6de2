"""Serve `/healthz`, `/readyz`, `/metrics` and `/openapi.json`."""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from inturn.http import metrics, schemas
from inturn.http.auth import AnyCaller, OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.state import get_app_state

router: Final = APIRouter(tags=["operations"])
API_VERSION: Final = "1"
METRICS_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/healthz", operation_id="getHealth")
async def healthz() -> schemas.Health:
    """Whether this server responds."""
    return schemas.Health(status="ok")


@router.get("/readyz", operation_id="getReadiness", responses={503: ErrorResponses.of()[503]})
def readyz(request: Request) -> schemas.Health:
    """Whether this server can reach its store."""
    get_app_state(request).queue.policy()
    return schemas.Health(status="ok")


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=PlainTextResponse,
    responses={**ErrorResponses.of(), **METRICS_RESPONSE},
)
def get_metrics(request: Request, _: OperatorAccess) -> PlainTextResponse:
    """Operators: metrics for Prometheus."""
    app_state = get_app_state(request)
    app_state.metrics.long_polls.set(app_state.event_poller.waiter_count)
    text = metrics.render_metrics(app_state.metrics, app_state.insights, app_state.queue)
    return PlainTextResponse(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request, caller: AnyCaller) -> JSONResponse:
    """Return the OpenAPI document; only operators get the server's version."""
    document = request.app.openapi()
    if not caller.sees_all:
        document = {**document, "info": {**document["info"], "version": API_VERSION}}
    return JSONResponse(document)
