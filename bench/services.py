"""Servers and workers that a benchmark starts: each in a folder and session of its own, each stopped by its id."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
DURABLE_REDIS = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
"""What Redis has acknowledged is on disk, as with SQLite's synchronous=FULL; one fsync for all that came in at once."""


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk that the repository is on; outside of it, where the system's folder is on that disk too."""
    usual = Path(tempfile.gettempdir())
    same = usual.stat().st_dev == ROOT.stat().st_dev
    with tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=usual if same else ROOT) as name:
        yield Path(name)


def wait_until(condition: Any, timeout: float, interval: float = 0.01) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(interval)
    return True


def start_process(
    command: Sequence[str], path: Path, extra_env: Mapping[str, str] | None = None, *, piped: bool = False
) -> subprocess.Popen[bytes]:
    """A process that sees the repository; what it says goes to a file in its folder.

    With `piped`, its stdin and stdout are pipes to this process.
    """
    source = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    with (path / "said.txt").open("ab") as said:
        return subprocess.Popen(  # noqa: S603 - our own commands
            command,
            cwd=path,
            env={**os.environ, "PYTHONPATH": source, **(extra_env or {})},
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else said,
            stderr=said,
            start_new_session=True,
        )


def kill(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """SIGKILL to each and all that descend from it, held still first so that none escapes meanwhile."""
    held: set[int] = set()
    while result := _descendants({process.pid for process in processes if process.poll() is None}) - held:
        for pid in result:
            _signal(pid, signal.SIGSTOP)
        held |= result
    for pid in held:
        _signal(pid, signal.SIGKILL)
    for process in processes:
        process.wait()
    if not wait_until(lambda: not any(_is_alive(pid) for pid in held), 10):
        raise RuntimeError(f"some of the processes {sorted(held)} do not die")


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    """State, parent, group, session and so on; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_alive(pid: int) -> bool:
    stat = _stat(pid)
    return bool(stat) and stat[0] not in "ZX"


def _descendants(roots: set[int]) -> set[int]:
    """The processes themselves, whatever is in their sessions, and all children of these."""
    stats = {int(item): _stat(int(item)) for item in os.listdir("/proc") if item.isdigit()}  # noqa: PTH208 - names only
    result = {pid for pid, stat in stats.items() if stat and (pid in roots or int(stat[3]) in roots)}
    while more := {pid for pid, stat in stats.items() if stat and int(stat[1]) in result} - result:
        result |= more
    return {pid for pid in result if stats[pid][0] not in "ZX"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _responds(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as talk:
            talk.sendall(b"PING\r\n")
            return talk.recv(16).startswith(b"+PONG")
    except OSError:
        return False


@contextmanager
def redis(path: Path, settings: Sequence[str] = DURABLE_REDIS) -> Iterator[str]:
    """The address of a Redis on loopback whose data is in this folder; another port when somebody was faster."""
    server = shutil.which("redis-server")
    if server is None:
        sys.exit("bench workers: needs redis-server on the PATH (Debian: apt-get install redis-server)")
    for _ in range(5):
        port = free_port()
        given = [server, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(path), *settings]
        process = start_process(given, path)
        try:
            if wait_until(lambda: process.poll() is not None or _responds(port), 10) and process.poll() is None:  # noqa: B023
                yield f"redis://127.0.0.1:{port}"
                return
        finally:
            kill([process])
    raise RuntimeError(f"redis-server does not start: {(path / 'said.txt').read_text(errors='replace')[-500:]}")


class SystemUnderTest(ABC):
    """One system under test, from an empty store on: used as a context, it leaves no process and no file behind."""

    name: str
    settings: str

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            self.path = self._stack.enter_context(folder())
            self._stack.callback(self.kill)
            self._open(self._stack)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Make the store."""

    @abstractmethod
    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        """Put documents into the store."""

    @abstractmethod
    def _commands(self) -> list[list[str]]:
        """What starts the workers: two slots, or two for each worker of a fleet."""

    @abstractmethod
    def finished(self) -> int:
        """How many documents the system's own store has a result of."""

    def pending(self) -> int:
        """How many the store still knows of without a result: queued, in somebody's hands, or failed."""
        return 0

    def _environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        for command in self._commands():
            self.processes.append(start_process(command, self.path, self._environment()))

    def kill(self) -> None:
        kill(self.processes)
        self.processes = []

    def output_tail(self) -> str:
        """The end of what its processes wrote, for an error."""
        said = self.path / "said.txt"
        return said.read_text(encoding="utf-8", errors="replace")[-1500:] if said.exists() else ""
