"""Build the FastAPI application and its OpenAPI document."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from inturn import __version__
from inturn.http import errors, schemas
from inturn.http.middleware import RequestMiddleware
from inturn.http.routes import (
    api_keys,
    audit,
    bulk,
    checks,
    customers,
    documents,
    events,
    failures,
    health,
    history,
    human_steps,
    overview,
    policy,
    queue,
    search,
    session,
    simulations,
    static_files,
    status,
    steps,
    workers,
)
from inturn.http.state import AppState
from inturn.http.uploads.batcher import Batcher
from inturn.http.uploads.submit import submit_batch

API_DESCRIPTION: Final = (
    "A durable document queue in which no customer waits behind another customer's pile. "
    "Times and durations are whole microseconds. Errors are RFC 9457 problems; compare their `code`."
)
ROUTE_MODULES: Final = (
    documents,
    steps,
    search,
    bulk,
    checks,
    customers,
    policy,
    simulations,
    events,
    overview,
    history,
    audit,
    status,
    workers,
    failures,
    api_keys,
    queue,
    human_steps,
    health,
    session,
    static_files,
)
CAPITAL_LETTER: Final = re.compile("[A-Z]")
EXTRA_SCHEMAS: Final = (schemas.Problem, schemas.Submission, schemas.DocumentSpec)
"""Schemas that only the hand-written part of the OpenAPI document refers to."""


def create_app(app_state: AppState) -> FastAPI:
    """Build the application; its lifespan starts and stops the event poller."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with app_state:
            yield

    app = FastAPI(
        title="Inturn",
        version=__version__,
        description=API_DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.app_state = app_state
    app.state.submission_batcher = Batcher(partial(submit_batch, app_state.queue), "inturn-submit")
    app.state.routes = [route for module in ROUTE_MODULES for route in module.router.routes]
    for module in ROUTE_MODULES:
        app.include_router(module.router)
    errors.install_error_handlers(app, static_files.missing_page)
    app.add_middleware(RequestMiddleware, app_state=app_state)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return app


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Build the OpenAPI document, with Problem in place of FastAPI's validation errors."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = document["components"]["schemas"]
        for model in EXTRA_SCHEMAS:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            components.update(schema.pop("$defs", {}))
            components[model.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            components.pop(name, None)
        for schema in components.values():
            _drop_defaults(schema)
        for operation in (operation for path in document["paths"].values() for operation in path.values()):
            operation["summary"] = CAPITAL_LETTER.sub(
                lambda match: f" {match[0].lower()}", operation["operationId"]
            ).capitalize()
        app.openapi_schema = document
    return app.openapi_schema


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Remove defaults: type generators treat a field with a default as required. Descriptions name the default."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)
