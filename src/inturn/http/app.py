"""Puts the application together."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route

from inturn import __version__
from inturn.http import (
    access,
    audit,
    bulk,
    checks,
    customers,
    documents,
    errors,
    events,
    operations,
    overview,
    pages,
    policy,
    schemas,
    signing,
    simulations,
    whole,
)
from inturn.http.arrivals import take_in
from inturn.http.gathering import Gathering
from inturn.http.guard import Guard
from inturn.http.service import Service

ABOUT: Final = (
    "A durable document queue in which no customer waits behind another customer's pile. "
    "Times and durations are whole microseconds. Errors are RFC 9457 problems; compare their `code`."
)
ROUTERS: Final = (
    documents,
    bulk,
    checks,
    customers,
    policy,
    simulations,
    events,
    overview,
    audit,
    access,
    whole,
    operations,
    signing,
    pages,
)
CAPITAL: Final = re.compile("[A-Z]")
NAMED: Final = (schemas.Problem, schemas.Submission, schemas.GivenDocument)
"""Schemas that only descriptions written by hand refer to."""


def create_app(service: Service) -> FastAPI:
    """The application; while it runs, so does the service's watcher."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with service:
            yield

    app = FastAPI(
        title="Inturn",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.gathering = Gathering(partial(take_in, service.queue), "inturn-intake")
    app.router.routes.insert(0, Route("/v1/documents", documents.Submit(), methods=["POST"]))
    app.state.routes = [route for module in ROUTERS for route in module.router.routes]
    for module in ROUTERS:
        app.include_router(module.router)
    errors.install(app)
    app.add_middleware(Guard, service=service)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return app


def describe(app: FastAPI) -> dict[str, Any]:
    """The API's description, with our errors in the place of FastAPI's."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        kept = made["components"]["schemas"]
        for model in NAMED:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            kept.update(schema.pop("$defs", {}))
            kept[model.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            kept.pop(name, None)
        for schema in kept.values():
            _drop_defaults(schema)
        for operation in (each for path in made["paths"].values() for each in path.values()):
            operation["summary"] = CAPITAL.sub(
                lambda found: f" {found[0].lower()}", operation["operationId"]
            ).capitalize()
        app.openapi_schema = made
    return app.openapi_schema


def _drop_defaults(schema: dict[str, Any]) -> None:
    """Leave defaults to the words of a field: generators of types take a field with a default for a required one."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)
