"""What stands before every route: request ids, one log line each, and, without keys, nobody but this machine."""

import asyncio
import logging
import re
import secrets
import time
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inturn.errors import InturnError
from inturn.http.errors import MalformedError, RefusedError, StoppingError, TooLargeError, problem, told
from inturn.http.service import Service
from inturn.http.settings import is_loopback

log: Final = logging.getLogger("inturn.http")
FORWARDED: Final = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
UPLOADS: Final = "/v1/documents"
MAX_BODY: Final = 1 << 20
LENGTH: Final = re.compile(r"[0-9]{1,19}")
HEAD: Final = "HEAD"
GONE: Final = 499
"""The status that is logged and counted for a caller who hung up before all was sent; never an answer."""
STOPPING: Final = "this server stops; send the request again in a moment"
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
        visit = _Visit(scope, receive, send)
        try:
            await self._answered(visit)
        except HeadSentError:
            pass
        except InturnError as refused:
            await visit.answer(told(refused))
        except ClientDisconnect:
            visit.is_gone = True
        except asyncio.CancelledError:
            if not self._service.is_stopping:
                raise
            await visit.answer(told(StoppingError(STOPPING)))
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the caller gets an answer
            visit.wrong = _where(wrong)
            await visit.answer(problem(500, "unexpected", "something went wrong here"))
        finally:
            self._tell(visit)

    async def _answered(self, visit: "_Visit") -> None:
        if not self._service.settings.needs_keys:
            refuse_strangers(visit.headers)
        check_length(visit.headers)
        limit = None if visit.scope["path"] == UPLOADS else MAX_BODY
        await self._app(visit.scope, partial(visit.receive, limit), visit.send)

    def _tell(self, visit: "_Visit") -> None:
        """The path and never the query, the route and never a body: neither keys nor texts get into a log."""
        took, path = time.monotonic() - visit.began, visit.scope["path"]
        route = UPLOADS if path == UPLOADS else getattr(visit.scope.get("route"), "path", "none")
        status = GONE if visit.is_gone else visit.status
        self._service.tally.request(visit.method, route, status, took)
        facts = {
            "request": visit.id,
            "method": visit.method,
            "path": path,
            "status": status,
            "took": round(took * 1_000_000),
            "key": visit.scope["state"].get("key"),
        }
        line = f"{visit.method} {path} {'gone' if visit.is_gone else status} {took * 1_000:.1f} ms {visit.id}"
        if visit.wrong is not None:
            log.error("%s failed: %s", line, visit.wrong, extra={"facts": {**facts, "wrong": visit.wrong}})
        elif log.isEnabledFor(logging.INFO):
            # Not log.info, which looks for the line of code that called it: nobody wants to know that one.
            log.handle(log.makeRecord(log.name, logging.INFO, "", 0, line, (), None, extra={"facts": facts}))


class HeadSentError(OSError):
    """The answer to a HEAD has been sent; nothing more of it is needed."""


class _Visit:
    """One request on its way."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = Headers(scope=scope)
        given = self.headers.get("x-request-id", "")
        self.id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = self.id
        self.method: str = scope["method"]
        # A HEAD is a GET whose answer has no body.
        self.scope = {**scope, "method": "GET"} if self.method == HEAD else scope
        self.status = 0
        self.began = time.monotonic()
        self.wrong: str | None = None
        self.is_gone = False
        self._receive = receive
        self._send = send
        self._size = 0
        self._is_whole = False
        self._is_sent = False

    async def receive(self, limit: int | None) -> Message:
        """Pass the body on, refused once it is longer than the limit; uploads count for themselves."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_gone = self.is_gone or not (self._is_whole or self.status)
            return message
        self._is_whole = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        if limit is not None and self._size > limit:
            raise TooLargeError(f"this request may have {limit:,} bytes; send less")
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on, with the headers that all answers have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message["headers"]}
            always = [header for header in ALWAYS if header[0] not in given]
            message["headers"] = [*message["headers"], (b"x-request-id", self.id.encode()), *always]
        elif self.method == HEAD:
            await self._end_head(message)
            return
        await self._send(message)

    async def answer(self, answer: ASGIApp) -> None:
        """Answer what no route has answered."""
        if self.status == 0:
            with suppress(HeadSentError):
                await answer(self.scope, self._receive, self.send)

    async def _end_head(self, message: Message) -> None:
        """Send no body; stop a stream that would go on."""
        if not self._is_sent:
            self._is_sent = True
            await self._send({**message, "body": b"", "more_body": False})
        if message.get("more_body", False):
            raise HeadSentError


def check_length(headers: Headers) -> None:
    """Refuse a Content-Length that is no plain number."""
    if any(LENGTH.fullmatch(given) is None for given in headers.getlist("content-length")):
        raise MalformedError("Content-Length is the number of the body's bytes, in plain digits")


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
