"""Puts the application together."""

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
    health,
    overview,
    policy,
    queue,
    session,
    simulations,
    static_files,
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
    bulk,
    checks,
    customers,
    policy,
    simulations,
    events,
    overview,
    audit,
    api_keys,
    queue,
    health,
    session,
    static_files,
)
CAPITAL_LETTER: Final = re.compile("[A-Z]")
EXTRA_SCHEMAS: Final = (schemas.Problem, schemas.Submission, schemas.DocumentSpec)
"""Schemas that only descriptions written by hand refer to."""


def create_app(app_state: AppState) -> FastAPI:
    """The application; while it runs, so does the service's watcher."""

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
    app.state.submission_batcher = Batcher(partial(submit_batch, app_state.queue), "inturn-intake")
    app.state.routes = [route for module in ROUTE_MODULES for route in module.router.routes]
    for module in ROUTE_MODULES:
        app.include_router(module.router)
    errors.install_error_handlers(app)
    app.add_middleware(RequestMiddleware, app_state=app_state)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return app


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """The API's description, with our errors in the place of FastAPI's."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        stored = made["components"]["schemas"]
        for model in EXTRA_SCHEMAS:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            stored.update(schema.pop("$defs", {}))
            stored[model.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            stored.pop(name, None)
        for schema in stored.values():
            _drop_defaults(schema)
        for operation in (item for path in made["paths"].values() for item in path.values()):
            operation["summary"] = CAPITAL_LETTER.sub(
                lambda match: f" {match[0].lower()}", operation["operationId"]
            ).capitalize()
        app.openapi_schema = made
    return app.openapi_schema


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Leave defaults to the words of a field: generators of types take a field with a default for a required one."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)
