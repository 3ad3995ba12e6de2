"""Wrap every request: request id, log line, metrics, body limit, and the local-only check without keys."""

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
"""Logged and counted when the client disconnects before its request is complete; never sent."""
STOPPING_MESSAGE: Final = "this server is stopping; send the request again in a moment"
DEFAULT_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class RequestMiddleware:
    """The outermost ASGI layer of the application."""

    def __init__(self, app: ASGIApp, app_state: AppState) -> None:
        self._app = app
        self._app_state = app_state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = _RequestContext(scope, receive, send)
        try:
            await self._handle(context)
        except HeadSentError:
            pass
        except InturnError as error:
            await context.respond(error_response(error))
        except ClientDisconnect:
            context.is_disconnected = True
        except asyncio.CancelledError:
            if not self._app_state.is_stopping:
                raise
            await context.respond(error_response(StoppingError(STOPPING_MESSAGE)))
        except Exception as error:  # noqa: BLE001 - every failure gets a response
            context.error = _describe_exception(error)
            await context.respond(
                problem_response(500, "unexpected", "unexpected error in the server; its log has the details")
            )
        finally:
            self._log_request(context)

    async def _handle(self, context: "_RequestContext") -> None:
        if not self._app_state.settings.needs_keys:
            require_local_request(context.headers)
        require_valid_content_length(context.headers)
        limit = None if context.scope["path"] == UPLOAD_PATH else MAX_BODY_BYTES
        await self._app(context.scope, partial(context.receive, limit), context.send)

    def _log_request(self, context: "_RequestContext") -> None:
        """Log the path without its query, and no body: neither keys nor texts get into a log."""
        duration, path = time.monotonic() - context.started_at, context.scope["path"]
        route = getattr(context.scope.get("route"), "path", "none")
        status = STATUS_CLIENT_CLOSED if context.is_disconnected else context.status
        self._app_state.metrics.observe_request(context.method, route, status, duration)
        facts = {
            "request": context.id,
            "method": context.method,
            "path": path,
            "status": status,
            "took": round(duration * 1_000_000),
            "key": context.scope["state"].get("key"),
        }
        line = (
            f"{context.method} {path} {'gone' if context.is_disconnected else status} {duration * 1_000:.1f} ms "
            f"{context.id}"
        )
        if context.error is not None:
            log.error("%s failed: %s", line, context.error, extra={"facts": {**facts, "wrong": context.error}})
        else:
            log.info("%s", line, extra={"facts": facts})


class HeadSentError(OSError):
    """The response to a HEAD is complete; the route may stop."""


class _RequestContext:
    """The state of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = Headers(scope=scope)
        header = self.headers.get("x-request-id", "")
        self.id = header if REQUEST_ID_PATTERN.fullmatch(header) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = self.id
        self.method: str = scope["method"]
        # A HEAD is a GET whose response has no body.
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
        """Receive a chunk of the body; refuse a body above the limit. Uploads have their own limit."""
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
        """Send a message of the response, with the default headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            names = {name for name, _ in message["headers"]}
            defaults = [header for header in DEFAULT_HEADERS if header[0] not in names]
            message["headers"] = [*message["headers"], (b"x-request-id", self.id.encode()), *defaults]
        elif self.method == HEAD:
            await self._finish_head(message)
            return
        await self._send(message)

    async def respond(self, response: ASGIApp) -> None:
        """Send a response unless a route has begun one."""
        if self.status == 0:
            with suppress(HeadSentError):
                await response(self.scope, self._receive, self.send)

    async def _finish_head(self, message: Message) -> None:
        """Send an empty body, and stop a stream."""
        if not self._is_head_sent:
            self._is_head_sent = True
            await self._send({**message, "body": b"", "more_body": False})
        if message.get("more_body", False):
            raise HeadSentError


def require_valid_content_length(headers: Headers) -> None:
    """Refuse a Content-Length that is not a plain number."""
    if any(CONTENT_LENGTH_PATTERN.fullmatch(value) is None for value in headers.getlist("content-length")):
        raise MalformedError("Content-Length must be the number of bytes of the body, in plain digits")


def require_local_request(headers: Headers) -> None:
    """Refuse proxies, foreign Host names and foreign origins: a server without keys serves this machine only."""
    if not FORWARDED_HEADERS.isdisjoint(name for name, _ in headers.raw):
        raise RefusedError(
            "this request came through a proxy, and without keys only this machine is served: start with --auth keys"
        )
    if not is_local_url(f"//{headers.get('host', '')}"):
        raise RefusedError("without keys the Host header must be localhost or 127.0.0.1")
    origin = headers.get("origin")
    if origin is not None and not is_local_url(origin):
        raise RefusedError("without keys no page of another origin may use this server")


def is_local_url(url: str) -> bool:
    """Whether the host of a URL is a loopback name or address, which foreign DNS cannot redirect."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def _describe_exception(exc: BaseException) -> str:
    """Return the type and place of an error, without its message, which may quote a document."""
    trace: Any = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(exc).__name__}{at}"
