"""Computations that people ask for: bounded, each in a process of its own.

Answers are told line by line, so that no server has to remember a job: who hangs up ends it.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final

from inturn.http.errors import TooManyError

MAX_CONCURRENT_JOBS: Final = 2
"""Jobs at a time: each keeps a processor busy."""
JOB_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that one may take."""
MAX_JOB_DOCUMENTS: Final = 50_000
"""Documents of one."""
NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"
MAX_LINE_BYTES: Final = 1 << 20
PROGRESS_PREFIX: Final = b'{"done"'


class JobRunner:
    """Those under way at this server."""

    def __init__(self) -> None:
        self._running = 0

    def require_capacity(self) -> None:
        """Refuse what cannot be done now."""
        if self._running >= MAX_CONCURRENT_JOBS:
            raise TooManyError(
                f"{MAX_CONCURRENT_JOBS} computations are under way at this server; try again in a moment", 5
            )

    async def stream(self, module: str, request: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """A line for each step: how far it is, then the result or what went wrong. `module` does it, asked on stdin."""
        self._running += 1
        try:
            async for line in _stream_process(module, request):
                yield line
        finally:
            self._running -= 1


async def _stream_process(module: str, request: Mapping[str, Any]) -> AsyncIterator[bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        limit=MAX_LINE_BYTES,
    )
    if process.stdin is None or process.stdout is None:
        raise AssertionError("a process with pipes has pipes")
    is_told = False
    try:
        async with asyncio.timeout(JOB_TIMEOUT_SECONDS):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            while line := await process.stdout.readline():
                is_told = not line.startswith(PROGRESS_PREFIX)
                yield line
        if not is_told:
            yield _error_line("it ended without a result; the log of the server's machine may tell why")
    except TimeoutError:
        yield _error_line(f"it took longer than {JOB_TIMEOUT_SECONDS:g} seconds; ask for less")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _error_line(text: str) -> bytes:
    return json.dumps({"error": text}).encode() + b"\n"


def ndjson_response(result: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a job, for the API's description."""
    content = {NDJSON_MEDIA_TYPE: {"schema": {"type": "string"}, "example": '{"done": 2000, "total": 6000}\n'}}
    about = f"A JSON object a line: how far it is, then {result}, or an `error`."
    return {200: {"description": about, "content": content}}
