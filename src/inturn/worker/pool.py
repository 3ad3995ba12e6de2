"""The children of a worker, as the worker sees them: how they start, what they hold, how they end."""

import json
import os
import select
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
"""Seconds that a child whose wire is cut may take to end."""
CRASH_SIGNALS: Final = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP})
"""Signals by which a parser dies of an allocation that failed."""
OUT_OF_MEMORY_SHARE: Final = 0.6
"""Part of its memory that a process holds at least when an allocation fails: libraries take addresses of the rest."""
RECYCLE_MEMORY_SHARE: Final = 0.25
"""Part of its memory that a child may hold after a document and get another one."""
PAGE_SIZE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessExit(NamedTuple):
    """How a process ended."""

    status: int
    peak_bytes: int = 0
    """Bytes of memory it held at most; 0 if that is not known."""


KILLED_EXIT: Final = ProcessExit(-int(signal.SIGKILL))


class ProcessorError(InturnError):
    """The processor cannot be used at all; the message says why."""

    code = "processor"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What a worker's children are for."""

    processor: str
    slots: int
    limits: confinement.SandboxLimits | None
    """The box they work in; None: they run as the worker does."""
    bounds: ExtractLimits
    """For the default processor alone."""
    protected: tuple[str, ...] = ()
    """The store's file and the blobs' folder, which no child in a box may read."""

    @property
    def uses_fork_server(self) -> bool:
        """The default processor is loaded once and forked: a new child for every few documents costs nothing then."""
        return self.processor == DEFAULT_PROCESSOR and self.limits is not None


class ChildProcess:
    """One child."""

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
        """Ended by the worker, for what one of its documents did: the others are innocent."""
        self.is_killed = False
        self.retired_at = 0.0
        self.is_ready = False
        self.free_since = 0.0
        """When it could begin another document: when it was ready, or done with the last one."""
        self.started_at = time.monotonic()
        self.scratch_checked_at = self.started_at
        """When its folder was last looked at."""
        self.last_memory_bytes = 0
        """Bytes it held after its last document."""
        self._wait_exit = wait_exit
        self._exit: ProcessExit | None = None
        self._is_reaped = False
        self._kill_reason: str | None = None
        """Why the worker ended it."""

    def send_job(self, job: Job, fields: dict[str, object], fd: int | None) -> None:
        """Hand it a document, with its bytes if it has any."""
        self.jobs[job.number] = job
        job.sent_at = time.monotonic()
        self.channel.send_nowait("work", job.number, fields, fd is not None, fds=() if fd is None else (fd,))

    def cancel(self, job: Job) -> None:
        """Tell it that nobody wants this one any more."""
        self.channel.send_nowait("cancel", job.number)

    def receive(self) -> list[Message] | None:
        """What it says; None when it is gone, or talks nonsense."""
        try:
            return self.channel.receive()
        except ChannelError as error:
            self.kill(str(error))
            return None

    def kill(self, reason: str) -> None:
        """End it now."""
        self.is_killed = True
        self._kill_reason = self._kill_reason or reason
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def memory_bytes(self) -> int:
        """Bytes it holds."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_SIZE_BYTES
        except (OSError, IndexError, ValueError):
            return 0

    def is_busy(self) -> bool:
        """Whether it has anything to do."""
        return any(not job.is_finished for job in self.jobs.values())

    def stalled_since(self) -> float | None:
        """Since when it has documents and works on none; None if it does, or has none."""
        jobs = [job for job in self.jobs.values() if not job.is_finished]
        if not self.is_ready or not jobs or any(job.begun_at is not None for job in jobs):
            return None
        return max(self.free_since, min(job.sent_at for job in jobs))

    def has_exited(self) -> bool:
        """Whether it has ended; never waits."""
        return self._is_reaped or self._wait_exit(0) is not None

    def reap(self) -> str:
        """How it ended, in words. It is gone, or hangs up now."""
        self.channel.close()
        self._is_reaped = True
        self._exit = self._wait_exit(EXIT_TIMEOUT_SECONDS)
        return self._kill_reason or describe_exit(None if self._exit is None else self._exit.status)

    def exceeded_limit(self, limits: confinement.SandboxLimits) -> str | None:
        """Name the limit that its document certainly ran into; None if the cause may be another."""
        if self._exit is None or self._kill_reason is not None:
            return None
        if self._exit.status == -signal.SIGXCPU:
            return f"This document needs more than {limits.cpu_seconds} s of computing time, which is the limit"
        is_full = (
            self._exit.peak_bytes > limits.memory_bytes * OUT_OF_MEMORY_SHARE
            and self.last_memory_bytes < limits.memory_bytes * RECYCLE_MEMORY_SHARE
        )
        if -self._exit.status in CRASH_SIGNALS and is_full:
            return f"This document needs more than {limits.memory_bytes >> 20} MB of memory, which is the limit"
        return None


class ProcessPool:
    """Starts children and cleans up after them."""

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
        """Documents that a child works on at a time."""
        return 1 if self.mode in {None, ExecutionMode.PROCESSES} else self.spec.slots

    def max_children(self) -> int:
        """Children that there may be."""
        return self.spec.slots if self.mode in {None, ExecutionMode.PROCESSES} else 1

    def require_isolation(self) -> None:
        """Raise if no child in the box could be kept from the store and the blobs, before anything is claimed."""
        if self.spec.limits is not None:
            try:
                allowed_paths.refuse_protected(
                    allowed_paths.needed_paths(), [Path(path) for path in self.spec.protected]
                )
            except confinement.SandboxError as error:
                raise ProcessorError(str(error)) from error

    def start_child(self) -> ChildProcess:
        """A new child; it says when it is ready."""
        self._start_count += 1
        is_boxed = self.spec.limits is not None
        scratch = self._scratch_dir.make_child_dir(f"scratch-{self._start_count}", is_sandboxed=is_boxed)
        hand = self._fork(scratch) if self.spec.uses_fork_server else self._spawn(scratch)
        self.children.append(hand)
        return hand

    def retire(self, child: ChildProcess) -> None:
        """A child has done its share: it ends by itself, and nobody waits for it."""
        self.children.remove(child)
        child.channel.close()
        self._add_retired(child)

    def _add_retired(self, child: ChildProcess) -> None:
        child.retired_at = time.monotonic()
        self._retired.append(child)
        self.reap_retired()

    def reap_retired(self) -> None:
        """Clean up after those that are gone, once nobody wants the files they left; end those that will not go."""
        for hand in list(self._retired):
            if hand.jobs:
                continue
            if hand.has_exited():
                self._retired.remove(hand)
                remove_tree(hand.scratch)
            elif time.monotonic() > hand.retired_at + EXIT_TIMEOUT_SECONDS:
                hand.kill("it would not go")

    def remove(self, child: ChildProcess) -> str:
        """A child is gone: how it ended."""
        self.children.remove(child)
        words = child.reap()
        self._add_retired(child)
        return words

    def exceeded_limit(self, child: ChildProcess) -> str | None:
        """Name the limit that ended a child of the default processor; a user's own function is always tried again."""
        limits = self.spec.limits
        return child.exceeded_limit(limits) if limits is not None and self.spec.processor == DEFAULT_PROCESSOR else None

    def close(self) -> None:
        """End all children."""
        for hand in (*self.children, *self._retired):
            hand.kill("the worker ends")
            hand.reap()
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
        process, wire = _spawn_program(self.spec, self._library, scratch, self._environment(scratch), self._output_fd())
        return ChildProcess(wire, scratch, process.pid, partial(_wait_exit, process))

    def _fork(self, scratch: Path) -> ChildProcess:
        try:
            nursery = self._running_fork_server()
            process, ours = nursery.fork(scratch)
        except (OSError, ProcessorError):  # killed, perhaps for its memory: once more
            self._close_fork_server()
            nursery = self._running_fork_server()
            process, ours = nursery.fork(scratch)
        return ChildProcess(Channel(ours), scratch, process, partial(nursery.wait_exit, process))

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
        """Where children print; None: where the worker does."""
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
    """A child that has the processor loaded and forks the others."""

    def __init__(self, spec: ChildSpec, library: Path, environment: dict[str, str], output: int | None) -> None:
        self._process, self._channel = _spawn_program(spec, library, None, environment, output)
        self._exits: dict[int, ProcessExit] = {}
        message = self._receive_until("ready", "unready")
        if message[0] == "unready":
            raise ProcessorError(message[1])

    def fork(self, scratch: Path) -> tuple[int, socket.socket]:
        """A new child: its process, and our end of its wire."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._channel.send("fork", str(scratch), fds=[theirs.fileno()])
            return int(self._receive_until("forked")[1]), ours
        except BaseException:
            ours.close()
            raise

    def wait_exit(self, pid: int, timeout: float) -> ProcessExit | None:
        """How a child that it forked ended; None if it has not after so many seconds."""
        until = time.monotonic() + timeout
        while pid not in self._exits:
            if not select.select([self._channel.fileno()], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            try:
                self._receive()
            except (OSError, ProcessorError):
                return KILLED_EXIT  # the nursery is, and took its children along
        return self._exits.pop(pid)

    def close(self) -> None:
        """It ends, and whatever it forked with it."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def _receive_until(self, *kinds: str) -> Message:
        """The next message with one of these heads; ends of children are remembered meanwhile."""
        while True:
            for message in self._receive():
                if message[0] in kinds:
                    return message

    def _receive(self) -> list[Message]:
        messages = self._channel.receive()
        if messages is None:
            raise ProcessorError("the processor's process ended while it started; try inturn doctor")
        for message in messages:
            if message[0] == "ended":
                self._exits[message[1]] = ProcessExit(message[2], message[3])
        return messages


def describe_exit(status: int | None) -> str:
    """What an exit status means."""
    if status is None:
        return "its process ended"
    if status >= 0:
        return f"its process ended itself with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
    match -status:
        case signal.SIGKILL:
            return "its process was killed (SIGKILL): out of memory, or by somebody"
        case signal.SIGXCPU:
            return "it used more CPU time than one document may"
        case _:
            return f"its process crashed ({name})"


def _spawn_program(
    spec: ChildSpec, library: Path, scratch: Path | None, environment: dict[str, str], output: int | None
) -> tuple[subprocess.Popen[bytes], Channel]:
    """Start a child, or the nursery if there is no folder to work in."""
    reported = {**asdict(spec), "library": str(library), "scratch": None if scratch is None else str(scratch)}
    # Nothing of the default processor lies in the working directory; a function of the user's may.
    isolated = ["-P"] if spec.processor == DEFAULT_PROCESSOR else []
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *isolated, "-m", "inturn.worker.child", str(number), json.dumps(reported)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=(number,),
            process_group=0,  # a Ctrl-C is the worker's to hear
        )
    return process, Channel(ours)


def _wait_exit(process: subprocess.Popen[bytes], timeout: float) -> ProcessExit | None:
    try:
        return ProcessExit(process.wait(timeout=timeout))
    except subprocess.TimeoutExpired:
        return None
