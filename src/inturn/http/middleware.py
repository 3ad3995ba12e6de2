"""What stands before every route: request ids, one log line each, and, without keys, nobody but this machine."""

import asyncio
import re
import secrets
import time
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inturn.errors import InturnError
from inturn.http import log
from inturn.http.errors import (
    MalformedError,
    RefusedError,
    StoppingError,
    TooLargeError,
    error_response,
    problem_response,
)
from inturn.http.settings import is_loopback
from inturn.http.state import AppState

FORWARDED_HEADERS: Final = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
REQUEST_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
UPLOAD_PATH: Final = "/v1/documents"
MAX_BODY_BYTES: Final = 1 << 20
CONTENT_LENGTH_PATTERN: Final = re.compile(r"[0-9]{1,19}")
HEAD: Final = "HEAD"
STATUS_CLIENT_CLOSED: Final = 499
"""The status that is logged and counted for a caller who hung up before all was sent; never an answer."""
STOPPING_MESSAGE: Final = "this server stops; send the request again in a moment"
DEFAULT_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class RequestMiddleware:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, app_state: AppState) -> None:
        self._app = app
        self._app_state = app_state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _RequestContext(scope, receive, send)
        try:
            await self._handle(visit)
        except HeadSentError:
            pass
        except InturnError as refused:
            await visit.respond(error_response(refused))
        except ClientDisconnect:
            visit.is_disconnected = True
        except asyncio.CancelledError:
            if not self._app_state.is_stopping:
                raise
            await visit.respond(error_response(StoppingError(STOPPING_MESSAGE)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            visit.error = _describe_exception(error)
            await visit.respond(problem_response(500, "unexpected", "something went wrong here"))
        finally:
            self._log_request(visit)

    async def _handle(self, context: "_RequestContext") -> None:
        if not self._app_state.settings.needs_keys:
            require_local_request(context.headers)
        require_valid_content_length(context.headers)
        limit = None if context.scope["path"] == UPLOAD_PATH else MAX_BODY_BYTES
        await self._app(context.scope, partial(context.receive, limit), context.send)

    def _log_request(self, context: "_RequestContext") -> None:
        """The path and never the query, the route and never a body: neither keys nor texts get into a log."""
        took, path = time.monotonic() - context.started_at, context.scope["path"]
        route = getattr(context.scope.get("route"), "path", "none")
        status = STATUS_CLIENT_CLOSED if context.is_disconnected else context.status
        self._app_state.metrics.observe_request(context.method, route, status, took)
        facts = {
            "request": context.id,
            "method": context.method,
            "path": path,
            "status": status,
            "took": round(took * 1_000_000),
            "key": context.scope["state"].get("key"),
        }
        line = (
            f"{context.method} {path} {'gone' if context.is_disconnected else status} {took * 1_000:.1f} ms "
            f"{context.id}"
        )
        if context.error is not None:
            log.error("%s failed: %s", line, context.error, extra={"facts": {**facts, "wrong": context.error}})
        else:
            log.info("%s", line, extra={"facts": facts})


class HeadSentError(OSError):
    """The answer to a HEAD has been sent; nothing more of it is needed."""


class _RequestContext:
    """One request on its way."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = Headers(scope=scope)
        given = self.headers.get("x-request-id", "")
        self.id = given if REQUEST_ID_PATTERN.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = self.id
        self.method: str = scope["method"]
        # A HEAD is a GET whose answer has no body.
        self.scope = {**scope, "method": "GET"} if self.method == HEAD else scope
        self.status = 0
        self.started_at = time.monotonic()
        self.error: str | None = None
        self.is_disconnected = False
        self._receive = receive
        self._send = send
        self._body_size = 0
        self._is_body_complete = False
        self._is_head_sent = False

    async def receive(self, limit: int | None) -> Message:
        """Pass the body on, refused once it is longer than the limit; uploads count for themselves."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_disconnected = self.is_disconnected or not (self._is_body_complete or self.status)
            return message
        self._is_body_complete = not message.get("more_body", False)
        self._body_size += len(message.get("body", b""))
        if limit is not None and self._body_size > limit:
            raise TooLargeError(f"this request may have {limit:,} bytes; send less")
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on, with the headers that all answers have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message["headers"]}
            always = [header for header in DEFAULT_HEADERS if header[0] not in given]
            message["headers"] = [*message["headers"], (b"x-request-id", self.id.encode()), *always]
        elif self.method == HEAD:
            await self._finish_head(message)
            return
        await self._send(message)

    async def respond(self, response: ASGIApp) -> None:
        """Answer what no route has answered."""
        if self.status == 0:
            with suppress(HeadSentError):
                await response(self.scope, self._receive, self.send)

    async def _finish_head(self, message: Message) -> None:
        """Send no body; stop a stream that would go on."""
        if not self._is_head_sent:
            self._is_head_sent = True
            await self._send({**message, "body": b"", "more_body": False})
        if message.get("more_body", False):
            raise HeadSentError


def require_valid_content_length(headers: Headers) -> None:
    """Refuse a Content-Length that is no plain number."""
    if any(CONTENT_LENGTH_PATTERN.fullmatch(given) is None for given in headers.getlist("content-length")):
        raise MalformedError("Content-Length is the number of the body's bytes, in plain digits")


def require_local_request(headers: Headers) -> None:
    """Without keys the name of this machine must be one of its own, no page from elsewhere asks, and no proxy."""
    if not FORWARDED_HEADERS.isdisjoint(name for name, _ in headers.raw):
        raise RefusedError("a proxy sent this, and without keys only this machine is served: start with --auth keys")
    if not is_local_url(f"//{headers.get('host', '')}"):
        raise RefusedError("without keys this server answers to localhost and 127.0.0.1 alone, as the Host header")
    origin = headers.get("origin")
    if origin is not None and not is_local_url(origin):
        raise RefusedError("without keys no page from elsewhere may use this server")


def is_local_url(url: str) -> bool:
    """Whether an address names this machine by a name that nobody else can point at it."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def _describe_exception(exc: BaseException) -> str:
    """The kind of error and the place, without its words: they may be a document's."""
    trace: Any = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(exc).__name__}{at}"
