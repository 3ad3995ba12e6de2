"""What a proposed policy would have meant for the documents of the last day: a bounded job in a process of its own.

The answer is told line by line, so that no server has to remember a job: who hangs up ends it.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from inturn.errors import InvalidInputError
from inturn.http.errors import TooManyError
from inturn.policy import Policy

AT_ONCE: Final = 2
"""Previews at a time: each keeps a processor busy."""
LONGEST: Final = 60.0
"""Seconds that one may take."""
MOST: Final = 50_000
"""Documents, the newest of the time asked for."""
LINE: Final = 1 << 20


class Previews:
    """Those under way at this server. `url` is where the store is; None if no other process can open it."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._running = 0

    def check_room(self) -> None:
        """Refuse what cannot be done, or not now."""
        if self._url is None or self._url.startswith("memory:"):
            raise InvalidInputError("a queue in memory cannot be previewed: another process has to read its history")
        if self._running >= AT_ONCE:
            raise TooManyError(f"{AT_ONCE} previews are under way at this server; try again in a moment", 5)

    async def told(self, policy: Policy, since: int) -> AsyncIterator[bytes]:
        """A line for each step: how far it is, then the comparison or what went wrong."""
        self._running += 1
        try:
            asked = {"store": self._url, "policy": policy.plain(), "since": since, "most": MOST}
            async for line in _lines(asked):
                yield line
        finally:
            self._running -= 1


async def _lines(asked: dict[str, Any]) -> AsyncIterator[bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "inturn.simulate.preview"),
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
                is_told = b'"comparison"' in line[:20] or b'"error"' in line[:20]
                yield line
        if not is_told:
            yield _wrong("the preview ended without a result; the log of the server's machine may tell why")
    except TimeoutError:
        yield _wrong(f"the preview took longer than {LONGEST:g} seconds; ask for a shorter time")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _wrong(text: str) -> bytes:
    return json.dumps({"error": text}).encode() + b"\n"
