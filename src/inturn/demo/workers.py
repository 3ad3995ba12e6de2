"""The demo's worker processes, as the demo sees them: started, watched, and gone at the end, whatever happens."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from inturn.errors import InturnError

START_LIMIT: Final = 60.0
PATIENCE: Final = 5.0
"""Seconds that a worker may take to end before it is killed."""


class DemoError(InturnError):
    """The demo cannot go on, or did not come out as it must."""

    code = "demo"


class Workers:
    """So many processes that work on one store. Their output goes to files in the folder."""

    def __init__(self, folder: Path, store: Path, blobs: Path, number: int) -> None:
        self._logs = [folder / f"worker-{each}.log" for each in range(1, number + 1)]
        self._commands = [
            [sys.executable, "-m", "inturn.demo.work", str(store), str(blobs), log.stem] for log in self._logs
        ]
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.stop)
            for command, log in zip(self._commands, self._logs, strict=True):
                self.processes.append(_start(command, log))
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def wait_until(self, seen: Callable[[], int]) -> None:
        """Until as many are seen at work as were started."""
        until = time.monotonic() + START_LIMIT
        while seen() < len(self.processes):
            self.check()
            if time.monotonic() > until:
                raise DemoError(f"the workers have not started within {START_LIMIT:g} s")
            time.sleep(0.02)

    def check(self) -> None:
        """All of them must be alive."""
        for process, log in zip(self.processes, self._logs, strict=True):
            if process.poll() is not None:
                last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise DemoError(f"{log.stem} ended with status {process.returncode}: {last[0]}")

    def stop(self) -> None:
        """End all of them and wait for it."""
        for process in self.processes:
            process.terminate()
        until = time.monotonic() + PATIENCE
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with log.open("wb") as said:
        return subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=environment,
            process_group=0,  # a Ctrl-C is ours to hear
        )
