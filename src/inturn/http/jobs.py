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

AT_ONCE: Final = 2
"""Jobs at a time: each keeps a processor busy."""
LONGEST: Final = 60.0
"""Seconds that one may take."""
MOST: Final = 50_000
"""Documents of one."""
MEDIA: Final = "application/x-ndjson"
LINE: Final = 1 << 20
ON_THE_WAY: Final = b'{"done"'


class Jobs:
    """Those under way at this server."""

    def __init__(self) -> None:
        self._running = 0

    def check_room(self) -> None:
        """Refuse what cannot be done now."""
        if self._running >= AT_ONCE:
            raise TooManyError(f"{AT_ONCE} computations are under way at this server; try again in a moment", 5)

    async def told(self, module: str, asked: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """A line for each step: how far it is, then the result or what went wrong. `module` does it, asked on stdin."""
        self._running += 1
        try:
            async for line in _lines(module, asked):
                yield line
        finally:
            self._running -= 1


async def _lines(module: str, asked: Mapping[str, Any]) -> AsyncIterator[bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        limit=LINE,
    )
    if process.stdin is None or process.stdout is None:
        raise AssertionError("a process with pipes has pipes")
    is_told = False
    try:
        async with asyncio.timeout(LONGEST):
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            while line := await process.stdout.readline():
                is_told = not line.startswith(ON_THE_WAY)
                yield line
        if not is_told:
            yield _wrong("it ended without a result; the log of the server's machine may tell why")
    except TimeoutError:
        yield _wrong(f"it took longer than {LONGEST:g} seconds; ask for less")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _wrong(text: str) -> bytes:
    return json.dumps({"error": text}).encode() + b"\n"


def lines_of(result: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a job, for the API's description."""
    content = {MEDIA: {"schema": {"type": "string"}, "example": '{"done": 2000, "total": 6000}\n'}}
    about = f"A JSON object a line: how far it is, then {result}, or an `error`."
    return {200: {"description": about, "content": content}}
