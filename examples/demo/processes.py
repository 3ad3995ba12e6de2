"""The demo's processes, workers and page: started, watched, and gone at the end, whatever happens."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from inturn.errors import InturnError

START_TIMEOUT_SECONDS: Final = 60.0
STOP_TIMEOUT_SECONDS: Final = 20.0
"""Seconds that one may take to end before it is killed, and leaves its folder: many for a busy machine."""


class DemoError(InturnError):
    """The demo cannot go on, or did not come out as it must."""

    code = "demo"


class ChildProcesses:
    """Processes of ours, by name. Their output goes to files in the folder."""

    def __init__(self, folder: Path, commands: Mapping[str, Sequence[str]], inherited_fds: Sequence[int] = ()) -> None:
        self._commands = {folder / f"{name}.log": list(command) for name, command in commands.items()}
        self._inherited_fds = tuple(inherited_fds)
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.stop)
            for log, command in self._commands.items():
                self.processes.append(_start_process(command, log, self._inherited_fds))
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def check(self) -> None:
        """All of them must be alive."""
        for process, log in zip(self.processes, self._commands, strict=True):
            if process.poll() is not None:
                last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise DemoError(f"{log.stem} ended with status {process.returncode}: {last[0]}")

    def stop(self) -> None:
        """End all of them and wait for it."""
        for process in self.processes:
            process.terminate()
        until = time.monotonic() + STOP_TIMEOUT_SECONDS
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


class Workers(ChildProcesses):
    """So many workers on one store."""

    def __init__(self, folder: Path, store: Path, blobs: Path, number: int) -> None:
        names = [f"worker-{item}" for item in range(1, number + 1)]
        command = [sys.executable, "-m", "demo.worker_process", str(store), str(blobs)]
        super().__init__(folder, {name: [*command, name] for name in names})

    def wait_until_started(self, count_started: Callable[[], int]) -> None:
        """Until as many are seen at work as were started."""
        until = time.monotonic() + START_TIMEOUT_SECONDS
        while count_started() < len(self.processes):
            self.check()
            if time.monotonic() > until:
                raise DemoError(f"the workers have not started within {START_TIMEOUT_SECONDS:g} s")
            time.sleep(0.02)


class PageServer(ChildProcesses):
    """The web page of a store, on a free port of this machine; its address is known before it is up."""

    def __init__(self, folder: Path, store: Path, blobs: Path) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        number = self._socket.fileno()
        command = [sys.executable, "-m", "demo.server_process", str(store), str(blobs), str(number)]
        super().__init__(folder, {"page": command}, [number])

    def __enter__(self) -> Self:
        with self._socket:  # from now on it is the process's own
            return super().__enter__()


def _start_process(command: list[str], log: Path, inherited_fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with log.open("wb") as said:
        return subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=environment,
            process_group=0,  # a Ctrl-C is ours to hear
            pass_fds=inherited_fds,
        )
