"""Start, track and end the child processes of a worker."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from inturn.config import DEFAULT_PROCESSOR
from inturn.errors import InturnError
from inturn.extract import parser
from inturn.extract.limits import ExtractLimits
from inturn.sandbox import allowed_paths, confinement
from inturn.worker.channel import Channel, ChannelError, Message
from inturn.worker.child_output import ChildOutput
from inturn.worker.inflight import Job
from inturn.worker.invoke import ExecutionMode
from inturn.worker.scratch import ScratchDir, make_world_readable, remove_tree

START_TIMEOUT_SECONDS: Final = 60.0
"""Seconds that a child may take to load its processor."""
EXIT_TIMEOUT_SECONDS: Final = 2.0
"""Seconds that a child may take to end after its channel was closed."""
CRASH_SIGNALS: Final = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP})
"""Signals that end a parser when an allocation fails."""
LOADER_FAILURE_STATUS: Final = 127
"""The status with which the C library ends a process if it has no memory for the variables of a thread."""
OUT_OF_MEMORY_SHARE: Final = 0.6
"""Share of its memory limit that a process holds at least when an allocation fails; libraries reserve the rest."""
RECYCLE_MEMORY_SHARE: Final = 0.25
"""Share of its memory limit that a child may hold after a document without being replaced."""
PAGE_SIZE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessExit(NamedTuple):
    """How a process ended."""

    status: int
    peak_bytes: int = 0
    """Peak memory in bytes; 0 if unknown."""


KILLED_EXIT: Final = ProcessExit(-int(signal.SIGKILL))


class ProcessorError(InturnError):
    """The processor cannot be loaded or started; the message has the reason."""

    code = "processor"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How a worker's children are started."""

    processor: str
    slots: int
    limits: confinement.SandboxLimits | None
    """Limits of their sandbox; None: they run without one."""
    bounds: ExtractLimits
    """Used by the default processor alone."""
    protected: tuple[str, ...] = ()
    """The store's file and the blobs' folder, which no sandboxed child may read."""

    @property
    def uses_fork_server(self) -> bool:
        """Whether the processor is loaded once and forked, which makes a new child cheap; the default one is."""
        return self.processor == DEFAULT_PROCESSOR and self.limits is not None


class ChildProcess:
    """A child process, as its worker sees it."""

    def __init__(
        self, channel: Channel, scratch: Path, pid: int, wait_exit: Callable[[float], ProcessExit | None]
    ) -> None:
        self.channel = channel
        self.scratch = scratch
        self.pid = pid
        self.jobs: dict[int, Job] = {}
        self.jobs_sent = 0
        self.is_retiring = False
        self.killed_by_worker = False
        """Killed because of one of its documents; the others are released without losing an attempt."""
        self.is_killed = False
        self.is_distrusted = False
        """It sent a malformed message: what it sends after that is ignored."""
        self.retired_at = 0.0
        self.is_ready = False
        self.free_since = 0.0
        """When it became ready, or finished its last document."""
        self.started_at = time.monotonic()
        self.scratch_checked_at = self.started_at
        self.last_memory_bytes = 0
        """Memory after its last document."""
        self._wait_exit = wait_exit
        self._exit: ProcessExit | None = None
        self._is_reaped = False
        self._kill_reason: str | None = None

    def send_job(self, job: Job, fields: dict[str, object], fd: int | None) -> None:
        """Send a document, with the descriptor of its content if it has any."""
        self.jobs[job.number] = job
        job.sent_at = time.monotonic()
        self.channel.send_nowait("work", job.number, fields, fd is not None, fds=() if fd is None else (fd,))

    def cancel(self, job: Job) -> None:
        """Notify the child that a document was cancelled."""
        self.channel.send_nowait("cancel", job.number)

    def receive(self) -> list[Message] | None:
        """Read its messages; None when it is gone, or was killed for a message that is too large."""
        try:
            return self.channel.receive()
        except ChannelError as error:
            self.kill(str(error))
            return None

    def kill(self, reason: str) -> None:
        """Send SIGKILL; the first reason counts."""
        self.is_killed = True
        self._kill_reason = self._kill_reason or reason
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def memory_bytes(self) -> int:
        """Return its resident memory; 0 if it is gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_SIZE_BYTES
        except (OSError, IndexError, ValueError):
            return 0

    def is_busy(self) -> bool:
        """Return whether it has a document that is not finished."""
        return any(not job.is_finished for job in self.jobs.values())

    def stalled_since(self) -> float | None:
        """Return since when it has documents and has started none; None if it runs one, or has none."""
        jobs = [job for job in self.jobs.values() if not job.is_finished]
        if not self.is_ready or not jobs or any(job.begun_at is not None for job in jobs):
            return None
        return max(self.free_since, min(job.sent_at for job in jobs))

    def has_exited(self) -> bool:
        """Return whether it has ended, without waiting."""
        return self._is_reaped or self._wait_exit(0) is not None

    def reap(self) -> str:
        """Close its channel, wait for its end, and describe how it ended."""
        self.channel.close()
        self._is_reaped = True
        self._exit = self._wait_exit(EXIT_TIMEOUT_SECONDS)
        return self._kill_reason or describe_exit(None if self._exit is None else self._exit.status)

    def exceeded_limit(self, limits: confinement.SandboxLimits) -> str | None:
        """Describe the limit that its document has exceeded; None if the end may have another cause."""
        if self._exit is None or self._kill_reason is not None:
            return None
        if self._exit.status == -signal.SIGXCPU:
            return f"This document needs more than {limits.cpu_seconds} s of computing time, which is the limit"
        is_full = (
            self._exit.peak_bytes > limits.memory_bytes * OUT_OF_MEMORY_SHARE
            and self.last_memory_bytes < limits.memory_bytes * RECYCLE_MEMORY_SHARE
        )
        if is_full and (-self._exit.status in CRASH_SIGNALS or self._exit.status == LOADER_FAILURE_STATUS):
            return f"This document needs more than {limits.memory_bytes >> 20} MB of memory, which is the limit"
        return None


class ProcessPool:
    """Starts children and removes their files when they have ended."""

    def __init__(self, spec: ChildSpec, scratch_dir: ScratchDir) -> None:
        self.spec = spec
        self._scratch_dir = scratch_dir
        self.mode: ExecutionMode | None = ExecutionMode.PROCESSES if spec.processor == DEFAULT_PROCESSOR else None
        self.children: list[ChildProcess] = []
        self._fork_server: ForkServer | None = None
        self._output: ChildOutput | None = None
        self._start_count = 0
        self._retired: list[ChildProcess] = []

    def jobs_per_child(self) -> int:
        """Return how many documents a child runs at a time."""
        return 1 if self.mode in {None, ExecutionMode.PROCESSES} else self.spec.slots

    def max_children(self) -> int:
        """Return how many children run at a time."""
        return self.spec.slots if self.mode in {None, ExecutionMode.PROCESSES} else 1

    def require_isolation(self) -> None:
        """Raise ProcessorError if sandboxed children could read the store or the blobs."""
        if self.spec.limits is not None:
            try:
                allowed_paths.refuse_protected(
                    allowed_paths.needed_paths(), [Path(path) for path in self.spec.protected]
                )
            except confinement.SandboxError as error:
                raise ProcessorError(str(error)) from error

    def start_child(self) -> ChildProcess:
        """Start a child; it sends `ready` when it has loaded the processor."""
        self._start_count += 1
        is_sandboxed = self.spec.limits is not None
        scratch = self._scratch_dir.make_child_dir(f"scratch-{self._start_count}", is_sandboxed=is_sandboxed)
        child = self._fork(scratch) if self.spec.uses_fork_server else self._spawn(scratch)
        self.children.append(child)
        return child

    def retire(self, child: ChildProcess) -> None:
        """Let a child end by itself; `reap_retired` cleans up later."""
        self.children.remove(child)
        child.channel.close()
        self._add_retired(child)

    def _add_retired(self, child: ChildProcess) -> None:
        child.retired_at = time.monotonic()
        self._retired.append(child)
        self.reap_retired()

    def reap_retired(self) -> None:
        """Remove the files of ended children whose results are stored; kill those that do not end in time."""
        for child in list(self._retired):
            if child.jobs:
                continue
            if child.has_exited():
                self._retired.remove(child)
                remove_tree(child.scratch)
            elif time.monotonic() > child.retired_at + EXIT_TIMEOUT_SECONDS:
                child.kill("it did not end in time")

    def remove(self, child: ChildProcess) -> str:
        """Remove a child that has ended; describe how it ended."""
        self.children.remove(child)
        exit_reason = child.reap()
        self._add_retired(child)
        return exit_reason

    def exceeded_limit(self, child: ChildProcess) -> str | None:
        """Describe the limit that ended a child; None for a user's function, which always gets another attempt."""
        limits = self.spec.limits
        return child.exceeded_limit(limits) if limits is not None and self.spec.processor == DEFAULT_PROCESSOR else None

    def close(self) -> None:
        """Kill all children and the fork server."""
        for child in (*self.children, *self._retired):
            child.kill("the worker ends")
            child.reap()
        self.children.clear()
        self._retired.clear()
        if self._fork_server is not None:
            self._fork_server.close()
        if self._output is not None:
            self._output.close()
            self._output = None

    @property
    def _library(self) -> Path:
        return self._scratch_dir.path / "library"

    def _spawn(self, scratch: Path) -> ChildProcess:
        process, channel = _spawn_program(
            self.spec, self._library, scratch, self._environment(scratch), self._output_fd()
        )
        return ChildProcess(channel, scratch, process.pid, partial(_wait_exit, process))

    def _fork(self, scratch: Path) -> ChildProcess:
        try:
            server = self._running_fork_server()
            pid, sock = server.fork(scratch)
        except (OSError, ProcessorError):  # killed, perhaps for its memory: try once more
            self._close_fork_server()
            server = self._running_fork_server()
            pid, sock = server.fork(scratch)
        return ChildProcess(Channel(sock), scratch, pid, partial(server.wait_exit, pid))

    def _running_fork_server(self) -> "ForkServer":
        if self._fork_server is None:
            if not self._library.exists():
                self._prepare_library()
            self._fork_server = ForkServer(
                self.spec, self._library, self._environment(self._library), self._output_fd()
            )
        return self._fork_server

    def _close_fork_server(self) -> None:
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None

    def _prepare_library(self) -> None:
        try:
            parser.prepare(self._library)
            make_world_readable(self._library)
        except (OSError, subprocess.SubprocessError) as error:
            raise ProcessorError(f"the default processor cannot be made ready in {self._library}: {error}") from error

    def _output_fd(self) -> int | None:
        """Return the descriptor for sandboxed children's output; None: they print where the worker does."""
        if self.spec.limits is not None and self._output is None:
            self._output = ChildOutput()
        return None if self._output is None else self._output.write_fd

    def _environment(self, temp_dir: Path) -> dict[str, str]:
        folders = allowed_paths.import_path() if self.spec.processor == DEFAULT_PROCESSOR else sys.path
        path = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        if self.spec.limits is None:
            return {**os.environ, "MALLOC_ARENA_MAX": "2", **path}
        return {**confinement.child_environment(temp_dir), **path}


class ForkServer:
    """Controls the process that has the processor loaded and forks the children."""

    def __init__(self, spec: ChildSpec, library: Path, environment: dict[str, str], output: int | None) -> None:
        self._process, self._channel = _spawn_program(spec, library, None, environment, output)
        self._exits: dict[int, ProcessExit] = {}
        message = self._receive_until("ready", "unready")
        if message[0] == "unready":
            raise ProcessorError(message[1])

    def fork(self, scratch: Path) -> tuple[int, socket.socket]:
        """Fork a child; return its process id and the worker's end of its channel."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._channel.send("fork", str(scratch), fds=[theirs.fileno()])
            return int(self._receive_until("forked")[1]), ours
        except BaseException:
            ours.close()
            raise

    def wait_exit(self, pid: int, timeout: float) -> ProcessExit | None:
        """Wait for the end of a forked child; None if it still runs after `timeout` seconds."""
        until = time.monotonic() + timeout
        while pid not in self._exits:
            if not self._channel.poll(max(0.0, until - time.monotonic())):
                return None
            try:
                self._receive()
            except (OSError, ProcessorError):
                return KILLED_EXIT  # the fork server has ended, and the kernel killed its children
        return self._exits.pop(pid)

    def close(self) -> None:
        """Kill the process, and with it all that it forked."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def _receive_until(self, *kinds: str) -> Message:
        """Wait for a message of one of these kinds; exits of children are recorded meanwhile."""
        while True:
            for message in self._receive():
                if message[0] in kinds:
                    return message

    def _receive(self) -> list[Message]:
        messages = self._channel.receive()
        if messages is None:
            raise ProcessorError("the processor's process ended while it started; run inturn doctor to find out why")
        for message in messages:
            if message[0] == "ended":
                self._exits[message[1]] = ProcessExit(message[2], message[3])
        return messages


def describe_exit(status: int | None) -> str:
    """Describe an exit status; None: unknown."""
    if status is None:
        return "its process ended"
    if status >= 0:
        return f"its process ended itself with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
    match -status:
        case signal.SIGKILL:
            return "its process was killed (SIGKILL): out of memory, or by another program"
        case signal.SIGXCPU:
            return "it used more CPU time than one document may"
        case _:
            return f"its process crashed ({name})"


def _spawn_program(
    spec: ChildSpec, library: Path, scratch: Path | None, environment: dict[str, str], output: int | None
) -> tuple[subprocess.Popen[bytes], Channel]:
    """Start a child, or the fork server if `scratch` is None."""
    arguments = {**asdict(spec), "library": str(library), "scratch": None if scratch is None else str(scratch)}
    # Without the working directory on the import path, where a user's function may be, but not the default processor.
    isolated = ["-P"] if spec.processor == DEFAULT_PROCESSOR else []
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *isolated, "-m", "inturn.worker.child", str(number), json.dumps(arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=(number,),
            process_group=0,  # a Ctrl-C goes to the worker alone
        )
    return process, Channel(ours)


def _wait_exit(process: subprocess.Popen[bytes], timeout: float) -> ProcessExit | None:
    try:
        return ProcessExit(process.wait(timeout=timeout))
    except subprocess.TimeoutExpired:
        return None
