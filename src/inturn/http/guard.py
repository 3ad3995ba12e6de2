"""What stands before every route: request ids, one log line each, and, without keys, nobody but this machine."""

import logging
import re
import secrets
import time
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inturn.errors import InturnError
from inturn.http.errors import RefusedError, TooLargeError, problem, told
from inturn.http.service import Service
from inturn.http.settings import is_loopback

log: Final = logging.getLogger("inturn.http")
FORWARDED: Final = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
UPLOADS: Final = "/v1/documents"
MAX_BODY: Final = 1 << 20
ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        visit = _Visit(send, given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8))
        scope.setdefault("state", {})["request_id"] = visit.id
        try:
            if not self._service.settings.needs_keys:
                refuse_strangers(headers)
            await self._app(scope, receive if scope["path"] == UPLOADS else bounded(receive), visit.send)
        except InturnError as refused:
            await self._answer(visit, told(refused), scope, receive)
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the caller gets an answer
            visit.wrong = _where(wrong)
            await self._answer(visit, problem(500, "unexpected", "something went wrong here"), scope, receive)
        finally:
            self._tell(visit, scope)

    async def _answer(self, visit: "_Visit", answer: ASGIApp, scope: Scope, receive: Receive) -> None:
        if visit.status == 0:
            await answer(scope, receive, visit.send)

    def _tell(self, visit: "_Visit", scope: Scope) -> None:
        """The path and never the query, the route and never a body: neither keys nor texts get into a log."""
        took = time.monotonic() - visit.began
        route = UPLOADS if scope["path"] == UPLOADS else getattr(scope.get("route"), "path", "none")
        self._service.tally.request(scope["method"], route, visit.status, took)
        facts = {
            "request": visit.id,
            "method": scope["method"],
            "path": scope["path"],
            "status": visit.status,
            "took": round(took * 1_000_000),
            "key": scope["state"].get("key"),
        }
        line = f"{scope['method']} {scope['path']} {visit.status or 'gone'} {took * 1_000:.1f} ms {visit.id}"
        if visit.wrong is not None:
            log.error("%s failed: %s", line, visit.wrong, extra={"facts": {**facts, "wrong": visit.wrong}})
        elif log.isEnabledFor(logging.INFO):
            # Not log.info, which looks for the line of code that called it: nobody wants to know that one.
            log.handle(log.makeRecord(log.name, logging.INFO, "", 0, line, (), None, extra={"facts": facts}))


class _Visit:
    """One request on its way."""

    def __init__(self, send: Send, id_: str) -> None:
        self.id = id_
        self.status = 0
        self.began = time.monotonic()
        self.wrong: str | None = None
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass an answer on, with the headers that all answers have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message["headers"]}
            always = [header for header in ALWAYS if header[0] not in given]
            message["headers"] = [*message["headers"], (b"x-request-id", self.id.encode()), *always]
        await self._send(message)


def bounded(receive: Receive) -> Receive:
    """The same body, refused once it is longer than any call needs; uploads count for themselves."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise TooLargeError(f"this request may have {MAX_BODY:,} bytes; send less")
        return message

    return counted


def refuse_strangers(headers: Headers) -> None:
    """Without keys the name of this machine must be one of its own, no page from elsewhere asks, and no proxy."""
    if not FORWARDED.isdisjoint(name for name, _ in headers.raw):
        raise RefusedError("a proxy sent this, and without keys only this machine is served: start with --auth keys")
    if not is_own(f"//{headers.get('host', '')}"):
        raise RefusedError("without keys this server answers to localhost and 127.0.0.1 alone, as the Host header")
    origin = headers.get("origin")
    if origin is not None and not is_own(origin):
        raise RefusedError("without keys no page from elsewhere may use this server")


@lru_cache(maxsize=256)
def is_own(url: str) -> bool:
    """Whether an address names this machine by a name that nobody else can point at it."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def _where(wrong: BaseException) -> str:
    """The kind of error and the place, without its words: they may be a document's."""
    trace: Any = wrong.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(wrong).__name__}{at}"
