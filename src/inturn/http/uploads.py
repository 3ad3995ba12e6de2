"""Multipart bodies as they come in: counted byte by byte, files written away in pieces, nothing ever held whole."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from inturn.blobs import Blob, Blobs, Writing
from inturn.errors import InvalidInputError
from inturn.http.errors import TooLargeError, TooSlowError
from inturn.http.settings import Limits
from inturn.model import fit_name
from inturn.processing.kinds import HEAD

PIECE: Final = 256 * 1024
"""How much of a body is held before it is written away."""
BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]+)"|([^\s";]+))', re.IGNORECASE)
MAX_FIELD: Final = 64 * 1024
THREADS: Final = 16
"""More of them only wait for each other."""
Answer = TypeVar("Answer")

_POOL: Final = ThreadPoolExecutor(THREADS, "inturn-upload")


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Run what writes to disks beside the event loop, on threads that no other route can use up."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, work)


class Upload:
    """One file of a form."""

    def __init__(self, name: str, limit: int) -> None:
        self.name: Final = name
        self.head = b""
        self.size = 0
        self._limit = limit
        self._held: list[bytes] = []
        self._writing: Writing | None = None

    def add(self, piece: bytes) -> None:
        """More of it."""
        self.size += len(piece)
        if self.size > self._limit:
            raise TooLargeError(f"a file may have {self._limit:,} bytes; send a smaller one")
        if len(self.head) < HEAD:
            self.head += piece[: HEAD - len(self.head)]
        self._held.append(piece)

    def write(self, blobs: Blobs) -> None:
        """Write away what is held."""
        if self._writing is None:
            self._writing = blobs.begin(limit=self._limit)
        held, self._held = self._held, []
        for piece in held:
            self._writing.write(piece)

    def keep(self, blobs: Blobs) -> Blob:
        """Make all of it durable."""
        self.write(blobs)
        if self._writing is None:
            raise AssertionError("write begins it")
        return self._writing.commit()

    def abort(self) -> None:
        """Leave nothing behind."""
        self._held = []
        if self._writing is not None:
            self._writing.abort()


class Form:
    """A multipart body: its fields, and its files as far as they have come in."""

    def __init__(self, content_type: str, limits: Limits) -> None:
        found = BOUNDARY.search(content_type)
        if found is None:
            raise InvalidInputError("a multipart body needs a boundary in its Content-Type")
        self.fields: dict[str, bytes] = {}
        self.files: list[Upload] = []
        self.held = 0
        self.size = 0
        self._limits = limits
        self._over = False
        self._header: list[bytes] = [b"", b""]
        self._headers: dict[bytes, bytes] = {}
        self._field: str | None = None
        self._file: Upload | None = None
        callbacks: Any = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._add_header(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._add_header(1, data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": lambda data, start, end: self._add(data[start:end]),
            "on_end": self._end,
        }
        try:
            self._parser = MultipartParser((found[1] or found[2]).encode("latin-1"), callbacks)
        except FormParserError as wrong:
            raise InvalidInputError(f"the body's boundary is of no use: {wrong}") from wrong

    def feed(self, chunk: bytes) -> None:
        """Parse what came in."""
        try:
            self._parser.write(chunk)
        except FormParserError as wrong:
            raise InvalidInputError("the body is no multipart form; see RFC 7578") from wrong

    def write(self, blobs: Blobs) -> None:
        """Write away what is held of all files."""
        self.held = 0
        for file in self.files:
            file.write(blobs)

    def must_be_over(self) -> None:
        """Refuse a body that breaks off."""
        if not self._over:
            raise InvalidInputError("the body ends before its last boundary: send all of it")

    def abort(self) -> None:
        """Leave nothing behind."""
        for file in self.files:
            file.abort()

    def _begin(self) -> None:
        self._headers, self._header, self._field, self._file = {}, [b"", b""], None, None

    def _add_header(self, which: int, piece: bytes) -> None:
        self._header[which] += piece

    def _end_header(self) -> None:
        self._headers[self._header[0].lower()] = self._header[1]
        self._header = [b"", b""]

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" in options:
            if len(self.files) >= self._limits.files:
                raise TooLargeError(f"a request may bring {self._limits.files} files; send the others in another one")
            given = fit_name(options[b"filename"].decode("utf-8", "replace"))
            self._file = Upload(given or "unnamed", self._limits.file)
            self.files.append(self._file)
        else:
            if len(self.fields) >= self._limits.fields:
                raise TooLargeError(f"a form may have {self._limits.fields} fields")
            if not name or name in self.fields:
                raise InvalidInputError("each field of the form needs a name of its own")
            self._field = name
            self.fields[name] = b""

    def _add(self, piece: bytes) -> None:
        if self._file is not None:
            self._file.add(piece)
            self.held += len(piece)
            self.size += len(piece)
        elif self._field is not None:
            self.fields[self._field] += piece
            if len(self.fields[self._field]) > MAX_FIELD:
                raise TooLargeError(f"a field of the form may have {MAX_FIELD:,} bytes")

    def _end(self) -> None:
        self._over = True


class Body:
    """A request's body: never more than the limit, never standing still for long."""

    def __init__(self, request: Request, limits: Limits, most: int) -> None:
        self._receive = request.receive
        self._stall = limits.stall
        self._most = most
        self._size = 0
        self._is_over = False
        said = request.headers.get("content-length", "")
        if said and int(said) > most:  # the guard has seen to it that it is a number
            raise self._too_large()

    async def read(self, take: Callable[[bytes], Awaitable[None] | None]) -> None:
        """Hand on the pieces as they come in; what `take` returns is awaited before the next one."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._stall) as limit:
                while not self._is_over:
                    work = take(await self._next())
                    if work is not None:
                        limit.reschedule(None)  # the disk's time is not the caller's
                        await work
                    if not self._is_over:
                        limit.reschedule(loop.time() + self._stall)
        except TimeoutError:
            raise TooSlowError(f"nothing came in for {self._stall:g} s; send the request again") from None

    async def drain(self) -> None:
        """Read the rest of what was refused, so that the caller gets to read the reason."""
        with suppress(TooLargeError, TooSlowError, ClientDisconnect):
            await self.read(lambda _: None)

    async def whole(self) -> bytes:
        """All of it."""
        pieces: list[bytes] = []
        await self.read(pieces.append)
        return b"".join(pieces)

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._is_over = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        self._size += len(piece)
        if self._size > self._most:
            raise self._too_large()
        return piece

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"a request may have {self._most:,} bytes; send less at a time")


async def receive(form: Form, body: Body, blobs: Blobs) -> None:
    """Read a form; what was held becomes files on the disk, a piece at a time."""

    def take(piece: bytes) -> Awaitable[None] | None:
        form.feed(piece)
        return in_thread(lambda: form.write(blobs)) if form.held >= PIECE else None

    await body.read(take)
    form.must_be_over()
