"""Parse multipart bodies as a stream: count bytes against limits, and write files in chunks."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from inturn.blobs import Blob, Blobs, BlobWriter
from inturn.errors import InvalidInputError
from inturn.http.errors import TooLargeError, TooSlowError
from inturn.http.settings import Limits
from inturn.media_types import SNIFF_BYTES
from inturn.values import sanitize_name

CHUNK_BYTES: Final = 256 * 1024
"""Bytes that are buffered before they are written."""
BOUNDARY_PATTERN: Final = re.compile(r';\s*boundary=(?:"([^"]+)"|([^\s";]+))', re.IGNORECASE)
MAX_FIELD_BYTES: Final = 64 * 1024
UPLOAD_THREADS: Final = 16
Answer = TypeVar("Answer")

_UPLOAD_POOL: Final = ThreadPoolExecutor(UPLOAD_THREADS, "inturn-upload")


async def run_in_upload_thread(function: Callable[[], Answer]) -> Answer:
    """Run a blocking write in the upload pool, which other routes do not use."""
    return await asyncio.get_running_loop().run_in_executor(_UPLOAD_POOL, function)


class Upload:
    """A file of a form."""

    def __init__(self, name: str, limit: int) -> None:
        self.name: Final = name
        self.head = b""
        self.size = 0
        self._limit = limit
        self._buffered: list[bytes] = []
        self._writer: BlobWriter | None = None

    def add(self, chunk: bytes) -> None:
        """Buffer a chunk; refuse a file above the limit."""
        self.size += len(chunk)
        if self.size > self._limit:
            raise TooLargeError(f"a file may have {self._limit:,} bytes; send a smaller one")
        if len(self.head) < SNIFF_BYTES:
            self.head += chunk[: SNIFF_BYTES - len(self.head)]
        self._buffered.append(chunk)

    def write(self, blobs: Blobs) -> None:
        """Write the buffered chunks."""
        if self._writer is None:
            self._writer = blobs.begin(limit=self._limit)
        chunks, self._buffered = self._buffered, []
        for chunk in chunks:
            self._writer.write(chunk)

    def commit(self, blobs: Blobs) -> Blob:
        """Make the file durable."""
        self.write(blobs)
        if self._writer is None:
            raise AssertionError("write() sets the writer")
        return self._writer.commit()

    def abort(self) -> None:
        """Drop the file and everything written of it."""
        self._buffered = []
        if self._writer is not None:
            self._writer.abort()


class MultipartForm:
    """A multipart body: its fields, and its files as far as they have arrived."""

    def __init__(self, content_type: str, limits: Limits) -> None:
        match = BOUNDARY_PATTERN.search(content_type)
        if match is None:
            raise InvalidInputError("a multipart body needs a boundary in its Content-Type")
        self.fields: dict[str, bytes] = {}
        self.files: list[Upload] = []
        self.buffered_bytes = 0
        self.size = 0
        self._limits = limits
        self._is_complete = False
        self._header: list[bytes] = [b"", b""]
        self._headers: dict[bytes, bytes] = {}
        self._field: str | None = None
        self._file: Upload | None = None
        callbacks: Any = {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._add_header(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._add_header(1, data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open_part,
            "on_part_data": lambda data, start, end: self._add_data(data[start:end]),
            "on_end": self._finish,
        }
        try:
            self._parser = MultipartParser((match[1] or match[2]).encode("latin-1"), callbacks)
        except FormParserError as error:
            raise InvalidInputError(f"the boundary of the body is not valid: {error}") from error

    def feed(self, chunk: bytes) -> None:
        """Parse a chunk of the body."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise InvalidInputError("the body is not a multipart form; see RFC 7578") from error

    def write(self, blobs: Blobs) -> None:
        """Write the buffered chunks of all files."""
        self.buffered_bytes = 0
        for file in self.files:
            file.write(blobs)

    def require_complete(self) -> None:
        """Refuse a body without its last boundary."""
        if not self._is_complete:
            raise InvalidInputError("the body ends before its last boundary: send all of it")

    def abort(self) -> None:
        """Drop all files that are not committed."""
        for file in self.files:
            file.abort()

    def _begin_part(self) -> None:
        self._headers, self._header, self._field, self._file = {}, [b"", b""], None, None

    def _add_header(self, index: int, chunk: bytes) -> None:
        self._header[index] += chunk

    def _end_header(self) -> None:
        self._headers[self._header[0].lower()] = self._header[1]
        self._header = [b"", b""]

    def _open_part(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" in options:
            if len(self.files) >= self._limits.files:
                raise TooLargeError(
                    f"a request may have {self._limits.files} files; send the others in another request"
                )
            file_name = sanitize_name(options[b"filename"].decode("utf-8", "replace"))
            self._file = Upload(file_name or "unnamed", self._limits.file)
            self.files.append(self._file)
        else:
            if len(self.fields) >= self._limits.fields:
                raise TooLargeError(f"a form may have {self._limits.fields} fields")
            if not name or name in self.fields:
                raise InvalidInputError("each field of the form needs a name of its own")
            self._field = name
            self.fields[name] = b""

    def _add_data(self, chunk: bytes) -> None:
        if self._file is not None:
            self._file.add(chunk)
            self.buffered_bytes += len(chunk)
            self.size += len(chunk)
        elif self._field is not None:
            self.fields[self._field] += chunk
            if len(self.fields[self._field]) > MAX_FIELD_BYTES:
                raise TooLargeError(f"a field of the form may have {MAX_FIELD_BYTES:,} bytes")

    def _finish(self) -> None:
        self._is_complete = True


class RequestBody:
    """Read a request's body within limits on its size and its pauses."""

    def __init__(self, request: Request, limits: Limits, max_bytes: int) -> None:
        self._receive = request.receive
        self._stall_seconds = limits.stall_seconds
        self._max_bytes = max_bytes
        self._size = 0
        self._is_complete = False
        content_length = request.headers.get("content-length", "")
        if content_length and int(content_length) > max_bytes:  # the middleware has checked that it is a number
            raise self._too_large()

    async def read(self, consume: Callable[[bytes], Awaitable[None] | None]) -> None:
        """Pass on each chunk; an awaitable that `consume` returns is awaited before the next one."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._stall_seconds) as timeout:
                while not self._is_complete:
                    work = consume(await self._next_chunk())
                    if work is not None:
                        timeout.reschedule(None)  # a slow disk is not a slow caller
                        await work
                    if not self._is_complete:
                        timeout.reschedule(loop.time() + self._stall_seconds)
        except TimeoutError:
            raise TooSlowError(f"no data arrived for {self._stall_seconds:g} s; send the request again") from None

    async def drain(self) -> None:
        """Read the rest of a refused body, so that the client reads the response."""
        with suppress(TooLargeError, TooSlowError, ClientDisconnect):
            await self.read(lambda _: None)

    async def read_all(self) -> bytes:
        """Read the whole body into memory."""
        chunks: list[bytes] = []
        await self.read(chunks.append)
        return b"".join(chunks)

    async def _next_chunk(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._is_complete = not message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        self._size += len(chunk)
        if self._size > self._max_bytes:
            raise self._too_large()
        return chunk

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"a request may have {self._max_bytes:,} bytes; send less at a time")


async def receive_form(form: MultipartForm, body: RequestBody, blobs: Blobs) -> None:
    """Read a form, and write its files as chunks arrive."""

    def consume(chunk: bytes) -> Awaitable[None] | None:
        form.feed(chunk)
        return run_in_upload_thread(lambda: form.write(blobs)) if form.buffered_bytes >= CHUNK_BYTES else None

    await body.read(consume)
    form.require_complete()
