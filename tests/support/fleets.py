"""Workers of the tests' own, each in a process of its own, stopped by its id."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import inturn
from waiting import wait_until

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(inturn.__file__).parents[1]), str(Path(__file__).parent)]),
}


class Record:
    """What tasks wrote down, one line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines_read = 0

    def all(self) -> list[Any]:
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def next(self, n: int) -> list[Any]:
        """The next n lines, as soon as they are there."""
        wait_until(lambda: len(self.all()) >= self._lines_read + n)
        lines = self.all()[self._lines_read :]
        self._lines_read += len(lines)
        return lines


@contextmanager
def running_process(command: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that sees the sources; asked to end, then waited for."""
    with log.open("ab") as said:
        process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-m", *command],
            cwd=log.parent,
            env={**ENVIRONMENT, **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def log_contains(log: Path) -> Callable[[str], bool]:
    """Whether a process has said something by now."""
    return lambda text: log.exists() and text in log.read_text(errors="replace")
