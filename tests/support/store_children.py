"""Processes that do one thing to a store: forks of a process that has imported it, 20 ms each instead of 500.

What they do is a function of `sqlite_processes`, `postgres_processes` or `worker_process`; it sends lines of JSON.
"""

import functools
import json
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from waiting import TIMEOUT_SECONDS

MODULES = ("sqlite_processes", "postgres_processes", "worker_process")


class Child:
    """A process that runs one function of a module."""

    def __init__(self, module: str, function: str, *args: str, **environment: str) -> None:
        self._errors = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed with the child
        stdin, self._stdin = multiprocessing.Pipe(duplex=False)
        self._stdout, stdout = multiprocessing.Pipe(duplex=False)
        environment = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ} | environment
        self._process = _fork_server().Process(
            target=_run, args=((stdin, stdout), self._errors.name, environment, module, function, args), daemon=True
        )
        self._process.start()
        stdin.close()
        stdout.close()
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def _listen(self) -> None:
        with os.fdopen(os.dup(self._stdout.fileno()), encoding="utf-8") as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def receive(self) -> Any:
        """The next thing it sends."""
        line = self._lines.get(timeout=TIMEOUT_SECONDS)
        assert line.endswith("\n"), self.stderr_text()
        return json.loads(line)

    def go(self) -> None:
        """Let it begin, or go on."""
        os.write(self._stdin.fileno(), b"go\n")

    def end(self) -> list[Any]:
        """All that it still sends, when it has ended well."""
        self._process.join(TIMEOUT_SECONDS)
        assert self._process.exitcode == 0, self.stderr_text()
        return self._remaining_messages()

    def kill(self) -> list[Any]:
        """All that it still sent before it was killed."""
        self._process.kill()
        self._process.join()
        return self._remaining_messages()

    def close(self) -> None:
        """Kill it, if it still runs, and forget it."""
        self._process.kill()
        self._process.join()
        self._listener.join()
        for part in (self._stdin, self._stdout, self._process, self._errors):
            part.close()

    def _remaining_messages(self) -> list[Any]:
        self._listener.join()
        lines = [self._lines.get() for _ in range(self._lines.qsize())]
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def stderr_text(self) -> str:
        with open(self._errors.name, encoding="utf-8") as errors:  # noqa: PTH123 - a name, not a path
            return errors.read()


def children_of(module: str) -> Iterator[Callable[..., Child]]:
    """For a fixture: start children; those that a test leaves running are killed."""
    started: list[Child] = []

    def start(function: str, *args: object) -> Child:
        started.append(Child(module, function, *map(str, args)))
        return started[-1]

    try:
        yield start
    finally:
        for child in started:
            child.close()


@functools.cache
def _fork_server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(MODULES))
    # It finds the modules by its environment alone, and says nothing about those that it does not find.
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), given]))
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        os.environ.update({} if given is None else {"PYTHONPATH": given})
    return context


def _run(
    pipes: tuple[Connection, Connection],
    errors: str,
    environment: dict[str, str],
    module: str,
    function: str,
    args: tuple[str, ...],
) -> None:
    """In the child: take over streams and environment, then call the function."""
    assert module in sys.modules, f"the fork server has not loaded {module}"
    os.environ.pop("PYTHONPATH", None)
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR may be another
    with open(errors, "wb") as stderr:  # noqa: PTH123 - a name, not a path
        for number, stream in enumerate((*pipes, stderr)):
            os.dup2(stream.fileno(), number)
    for pipe in pipes:
        pipe.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - likewise
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - likewise
    getattr(__import__(module), function)(*args)
