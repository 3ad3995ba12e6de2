"""Map errors to RFC 9457 problems with stable codes, and define the errors that only HTTP has.

The docstring of an error with a status of 500 or more is the `detail` that callers get.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from inturn import errors
from inturn.http.schemas import Problem

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
STATUS_TITLES: Final = {
    400: "Bad request",
    401: "API key required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Upload timed out",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Invalid input",
    429: "Limit reached",
    500: "Unexpected error",
    503: "Temporarily unavailable",
    507: "Disk full",
}


class MalformedError(errors.InturnError):
    """The request is not valid HTTP."""

    code = "bad_request"


class StoppingError(errors.InturnError):
    """This server is stopping: send the request again in a moment."""

    code = "stopping"


class UnauthorizedError(errors.InturnError):
    """The API key is missing or not valid: send it as `Authorization: Bearer inturn_…`."""

    code = "unauthorized"


class ReadOnlyKeyError(errors.InturnError):
    """A read-only API key cannot change anything."""

    code = "read_only_key"


class RefusedError(errors.InturnError):
    """The request is not from this machine, or from a page of another origin."""

    code = "refused"


class TooLargeError(errors.InturnError):
    """The request is over a size limit."""

    code = "too_large"


class TooSlowError(errors.InturnError):
    """The upload timed out."""

    code = "too_slow"


class UnsupportedMediaTypeError(errors.InturnError):
    """The address does not accept this media type."""

    code = "wrong_media"


class TooManyError(errors.InturnError):
    """A limit is reached: try again after `retry_after` seconds."""

    code = "too_many"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after: Final = max(1, math.ceil(retry_after))


class QuotaError(TooManyError):
    """A customer has reached its quota."""

    code = "quota"


STATUS_BY_ERROR: Final[Mapping[type[errors.InturnError], int]] = {
    MalformedError: 400,
    StoppingError: 503,
    UnauthorizedError: 401,
    ReadOnlyKeyError: 403,
    RefusedError: 403,
    TooLargeError: 413,
    TooSlowError: 408,
    UnsupportedMediaTypeError: 415,
    TooManyError: 429,
    errors.BlobTooLargeError: 413,
    errors.BlobFullError: 507,
    errors.StoreFullError: 507,
    errors.BlobError: 503,
    errors.StoreError: 503,
    errors.NotFoundError: 404,
    errors.IllegalTransitionError: 409,
    errors.StaleFenceError: 409,
    errors.KeyConflictError: 409,
    errors.VersionConflictError: 409,
    errors.InvalidInputError: 422,
    errors.InturnError: 500,
}
"""The first matching class counts."""
CODE_BY_STATUS: Final = {
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    422: "invalid_input",
    500: "unexpected",
}
NO_SUCH_ADDRESS: Final = "there is nothing at this address"


def status_of(error: errors.InturnError) -> int:
    """Return the HTTP status of an error."""
    return next(status for kind, status in STATUS_BY_ERROR.items() if isinstance(error, kind))


def problem_response(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Build a problem response; programs compare its `code`."""
    problem = Problem(
        type=f"urn:inturn:error:{code}",
        title=STATUS_TITLES.get(status, "Error"),
        status=status,
        code=code,
        detail=detail,
    )
    return JSONResponse(problem.model_dump(), status, dict(headers or {}), media_type=PROBLEM_MEDIA_TYPE)


def error_response(error: errors.InturnError) -> JSONResponse:
    """Build the response to an error of Inturn, with the headers of its status."""
    headers: dict[str, str] = {}
    if isinstance(error, TooManyError):
        headers["Retry-After"] = str(error.retry_after)
    elif isinstance(error, errors.StoreError) and not isinstance(error, errors.StoreFullError):
        headers["Retry-After"] = "5"
    elif isinstance(error, StoppingError):
        headers |= {"Retry-After": "5", "Connection": "close"}
    elif isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = "Bearer"
    status = status_of(error)
    # Messages of internal errors name files and hosts: they belong in the log only.
    detail = (type(error).__doc__ or "").strip() if status >= 500 else str(error)
    return problem_response(status, error.code, detail, headers)


def _handle_inturn_error(_: Request, exc: Exception) -> JSONResponse:
    if not isinstance(exc, errors.InturnError):
        raise exc
    return error_response(exc)


def _handle_http_exception(request: Request, exc: Exception) -> JSONResponse:
    if not isinstance(exc, HTTPException):
        raise exc
    if isinstance(exc.__cause__, errors.InturnError):  # raised while FastAPI read the body
        return error_response(exc.__cause__)
    if exc.status_code == 400:  # FastAPI could not read the body
        return problem_response(422, errors.InvalidInputError.code, "the body cannot be read: send JSON in UTF-8")
    detail = {404: NO_SUCH_ADDRESS, 405: "this address does not accept this method"}.get(exc.status_code)
    code = CODE_BY_STATUS.get(exc.status_code, "bad_request")
    headers = _allow_header(request) if exc.status_code == 405 else exc.headers
    return problem_response(exc.status_code, code, detail or str(exc.detail), headers)


def _allow_header(request: Request) -> dict[str, str]:
    """List the methods of all routes at this address; Starlette lists those of the first route only."""
    routes: Sequence[Route] = request.app.state.routes
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in matching for method in route.methods or ()}
    return {"Allow": ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))}


def _handle_validation_error(_: Request, exc: Exception) -> JSONResponse:
    if not isinstance(exc, RequestValidationError):
        raise exc
    return problem_response(422, errors.InvalidInputError.code, describe_validation_errors(exc.errors()))


def describe_validation_errors(details: Any) -> str:
    """Describe validation errors by field, without values: these may be a document's text."""
    parts = [": ".join(filter(None, (".".join(map(str, detail["loc"])), detail["msg"]))) for detail in details]
    return "; ".join(parts[:5])


def install_error_handlers(app: FastAPI, missing_page: Callable[[Request], Response | None]) -> None:
    """Respond to every error with a problem; to an unknown address with `missing_page`, if it returns one."""

    def handle_http_exception(request: Request, exc: Exception) -> Response:
        page = missing_page(request) if getattr(exc, "status_code", None) == 404 else None
        return page or _handle_http_exception(request, exc)

    app.add_exception_handler(errors.InturnError, _handle_inturn_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)


class ErrorResponses:
    """The error responses of routes, for OpenAPI."""

    @classmethod
    def of(cls, *statuses: int) -> dict[int | str, dict[str, Any]]:
        """Describe the errors of every route, and these."""
        return {status: cls._describe(status) for status in sorted({401, 403, 404, 429, 503, *statuses})}

    @classmethod
    def _describe(cls, status: int) -> dict[str, Any]:
        schema = {"$ref": "#/components/schemas/Problem"}
        response: dict[str, Any] = {
            "description": STATUS_TITLES[status],
            "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}},
        }
        if status in {429, 503}:
            header = {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}
            response["headers"] = {"Retry-After": header}
        return response
