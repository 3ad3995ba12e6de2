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

from inturn.errors import InturnError
from inturn.processing import allowed, parser, sandbox
from inturn.processing.bounds import Bounds
from inturn.processing.ledger import Job
from inturn.processing.output import ChildOutput
from inturn.processing.perform import DEFAULT, Where
from inturn.processing.wire import Message, Wire, WireError
from inturn.processing.workplace import Workplace, open_to_others, remove_tree

START_LIMIT: Final = 60.0
"""Seconds that a child may take to load its processor."""
PATIENCE: Final = 2.0
"""Seconds that a child whose wire is cut may take to end."""
CRASHES: Final = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP})
"""Signals by which a parser dies of an allocation that failed."""
FULL: Final = 0.6
"""Part of its memory that a process holds at least when an allocation fails: libraries take addresses of the rest."""
SPENT: Final = 0.25
"""Part of its memory that a child may hold after a document and get another one."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Exit(NamedTuple):
    """How a process ended."""

    status: int
    peak: int = 0
    """Bytes of memory it held at most; 0 if that is not known."""


GONE: Final = Exit(-int(signal.SIGKILL))


class ProcessorError(InturnError):
    """The processor cannot be used at all; the message says why."""

    code = "processor"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker's children are for."""

    processor: str
    slots: int
    limits: sandbox.Limits | None
    """The box they work in; None: they run as the worker does."""
    bounds: Bounds
    """For the default processor alone."""
    protected: tuple[str, ...] = ()
    """The store's file and the blobs' folder, which no child in a box may read."""

    @property
    def forks(self) -> bool:
        """The default processor is loaded once and forked: a new child for every few documents costs nothing then."""
        return self.processor == DEFAULT and self.limits is not None


class Hand:
    """One child."""

    def __init__(self, wire: Wire, scratch: Path, process: int, status: Callable[[float], Exit | None]) -> None:
        self.wire = wire
        self.scratch = scratch
        self.process = process
        self.jobs: dict[int, Job] = {}
        self.served = 0
        self.is_retiring = False
        self.is_condemned = False
        """Ended by the worker, for what one of its documents did: the others are innocent."""
        self.is_killed = False
        self.left_at = 0.0
        self.is_ready = False
        self.free_since = 0.0
        """When it could begin another document: when it was ready, or done with the last one."""
        self.started_at = time.monotonic()
        self.looked_at = self.started_at
        """When its folder was last looked at."""
        self.held = 0
        """Bytes it held after its last document."""
        self._status = status
        self._exit: Exit | None = None
        self._is_buried = False
        self._words: str | None = None
        """Why the worker ended it."""

    def give(self, job: Job, facts: dict[str, object], file: int | None) -> None:
        """Hand it a document, with its bytes if it has any."""
        self.jobs[job.number] = job
        job.given_at = time.monotonic()
        self.wire.say_later("work", job.number, facts, file is not None, fds=() if file is None else (file,))

    def cancel(self, job: Job) -> None:
        """Tell it that nobody wants this one any more."""
        self.wire.say_later("cancel", job.number)

    def hear(self) -> list[Message] | None:
        """What it says; None when it is gone, or talks nonsense."""
        try:
            return self.wire.hear()
        except WireError as wrong:
            self.kill(str(wrong))
            return None

    def kill(self, why: str) -> None:
        """End it now."""
        self.is_killed = True
        self._words = self._words or why
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def memory(self) -> int:
        """Bytes it holds."""
        try:
            return int(Path(f"/proc/{self.process}/statm").read_text(encoding="ascii").split()[1]) * PAGE
        except (OSError, IndexError, ValueError):
            return 0

    def is_busy(self) -> bool:
        """Whether it has anything to do."""
        return any(not job.is_finished for job in self.jobs.values())

    def waits_since(self) -> float | None:
        """Since when it has documents and works on none; None if it does, or has none."""
        jobs = [job for job in self.jobs.values() if not job.is_finished]
        if not self.is_ready or not jobs or any(job.begun_at is not None for job in jobs):
            return None
        return max(self.free_since, min(job.given_at for job in jobs))

    def is_gone(self) -> bool:
        """Whether it has ended; never waits."""
        return self._is_buried or self._status(0) is not None

    def bury(self) -> str:
        """How it ended, in words. It is gone, or hangs up now."""
        self.wire.close()
        self._is_buried = True
        self._exit = self._status(PATIENCE)
        return self._words or in_words(None if self._exit is None else self._exit.status)

    def exceeded(self, limits: sandbox.Limits) -> str | None:
        """Name the limit that its document certainly ran into; None if the cause may be another."""
        if self._exit is None or self._words is not None:
            return None
        if self._exit.status == -signal.SIGXCPU:
            return f"This document needs more than {limits.cpu} s of computing time, which is the limit"
        is_full = self._exit.peak > limits.memory * FULL and self.held < limits.memory * SPENT
        if -self._exit.status in CRASHES and is_full:
            return f"This document needs more than {limits.memory >> 20} MB of memory, which is the limit"
        return None


class Crew:
    """Starts children and cleans up after them."""

    def __init__(self, spec: Spec, workplace: Workplace) -> None:
        self.spec = spec
        self._workplace = workplace
        self.where: Where | None = Where.PROCESSES if spec.processor == DEFAULT else None
        self.hands: list[Hand] = []
        self._nursery: Nursery | None = None
        self._output: ChildOutput | None = None
        self._started = 0
        self._leaving: list[Hand] = []

    def capacity(self) -> int:
        """Documents that a child works on at a time."""
        return 1 if self.where in {None, Where.PROCESSES} else self.spec.slots

    def most(self) -> int:
        """Children that there may be."""
        return self.spec.slots if self.where in {None, Where.PROCESSES} else 1

    def check(self) -> None:
        """Raise if no child in the box could be kept from the store and the blobs, before anything is claimed."""
        if self.spec.limits is not None:
            try:
                allowed.refuse_protected(allowed.needed_paths(), [Path(path) for path in self.spec.protected])
            except sandbox.SandboxError as error:
                raise ProcessorError(str(error)) from error

    def start(self) -> Hand:
        """A new child; it says when it is ready."""
        self._started += 1
        is_boxed = self.spec.limits is not None
        scratch = self._workplace.make_scratch(f"scratch-{self._started}", is_boxed=is_boxed)
        hand = self._fork(scratch) if self.spec.forks else self._spawn(scratch)
        self.hands.append(hand)
        return hand

    def dismiss(self, hand: Hand) -> None:
        """A child has done its share: it ends by itself, and nobody waits for it."""
        self.hands.remove(hand)
        hand.wire.close()
        self._leave(hand)

    def _leave(self, hand: Hand) -> None:
        hand.left_at = time.monotonic()
        self._leaving.append(hand)
        self.tidy()

    def tidy(self) -> None:
        """Clean up after those that are gone, once nobody wants the files they left; end those that will not go."""
        for hand in list(self._leaving):
            if hand.jobs:
                continue
            if hand.is_gone():
                self._leaving.remove(hand)
                remove_tree(hand.scratch)
            elif time.monotonic() > hand.left_at + PATIENCE:
                hand.kill("it would not go")

    def remove(self, hand: Hand) -> str:
        """A child is gone: how it ended."""
        self.hands.remove(hand)
        words = hand.bury()
        self._leave(hand)
        return words

    def exceeded(self, hand: Hand) -> str | None:
        """Name the limit that ended a child of the default processor; a user's own function is always tried again."""
        limits = self.spec.limits
        return hand.exceeded(limits) if limits is not None and self.spec.processor == DEFAULT else None

    def close(self) -> None:
        """End all children."""
        for hand in (*self.hands, *self._leaving):
            hand.kill("the worker ends")
            hand.bury()
        self.hands.clear()
        self._leaving.clear()
        if self._nursery is not None:
            self._nursery.close()
        if self._output is not None:
            self._output.close()
            self._output = None

    @property
    def _library(self) -> Path:
        return self._workplace.path / "library"

    def _spawn(self, scratch: Path) -> Hand:
        process, wire = _program(self.spec, self._library, scratch, self._environment(scratch), self._printing())
        return Hand(wire, scratch, process.pid, partial(_waited, process))

    def _fork(self, scratch: Path) -> Hand:
        try:
            nursery = self._living_nursery()
            process, ours = nursery.fork(scratch)
        except (OSError, ProcessorError):  # killed, perhaps for its memory: once more
            self._bury_nursery()
            nursery = self._living_nursery()
            process, ours = nursery.fork(scratch)
        return Hand(Wire(ours), scratch, process, partial(nursery.status, process))

    def _living_nursery(self) -> "Nursery":
        if self._nursery is None:
            if not self._library.exists():
                self._prepare()
            self._nursery = Nursery(self.spec, self._library, self._environment(self._library), self._printing())
        return self._nursery

    def _bury_nursery(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None

    def _prepare(self) -> None:
        try:
            parser.prepare(self._library)
            open_to_others(self._library)
        except (OSError, subprocess.SubprocessError) as wrong:
            raise ProcessorError(f"the default processor cannot be made ready in {self._library}: {wrong}") from wrong

    def _printing(self) -> int | None:
        """Where children print; None: where the worker does."""
        if self.spec.limits is not None and self._output is None:
            self._output = ChildOutput()
        return None if self._output is None else self._output.file

    def _environment(self, temporary: Path) -> dict[str, str]:
        folders = allowed.import_path() if self.spec.processor == DEFAULT else sys.path
        path = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        if self.spec.limits is None:
            return {**os.environ, "MALLOC_ARENA_MAX": "2", **path}
        return {**sandbox.environment(temporary), **path}


class Nursery:
    """A child that has the processor loaded and forks the others."""

    def __init__(self, spec: Spec, library: Path, environment: dict[str, str], output: int | None) -> None:
        self._process, self._wire = _program(spec, library, None, environment, output)
        self._ended: dict[int, Exit] = {}
        message = self._next("ready", "unready")
        if message[0] == "unready":
            raise ProcessorError(message[1])

    def fork(self, scratch: Path) -> tuple[int, socket.socket]:
        """A new child: its process, and our end of its wire."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._wire.say("fork", str(scratch), fds=[theirs.fileno()])
            return int(self._next("forked")[1]), ours
        except BaseException:
            ours.close()
            raise

    def status(self, process: int, patience: float) -> Exit | None:
        """How a child that it forked ended; None if it has not after so many seconds."""
        until = time.monotonic() + patience
        while process not in self._ended:
            if not select.select([self._wire.fileno()], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            try:
                self._hear()
            except (OSError, ProcessorError):
                return GONE  # the nursery is, and took its children along
        return self._ended.pop(process)

    def close(self) -> None:
        """It ends, and whatever it forked with it."""
        self._wire.close()
        self._process.kill()
        self._process.wait()

    def _next(self, *words: str) -> Message:
        """The next message with one of these heads; ends of children are remembered meanwhile."""
        while True:
            for message in self._hear():
                if message[0] in words:
                    return message

    def _hear(self) -> list[Message]:
        messages = self._wire.hear()
        if messages is None:
            raise ProcessorError("the processor's process ended while it started; try inturn doctor")
        for message in messages:
            if message[0] == "ended":
                self._ended[message[1]] = Exit(message[2], message[3])
        return messages


def in_words(status: int | None) -> str:
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


def _program(
    spec: Spec, library: Path, scratch: Path | None, environment: dict[str, str], output: int | None
) -> tuple[subprocess.Popen[bytes], Wire]:
    """Start a child, or the nursery if there is no folder to work in."""
    told = {**asdict(spec), "library": str(library), "scratch": None if scratch is None else str(scratch)}
    # Nothing of the default processor lies in the working directory; a function of the user's may.
    isolated = ["-P"] if spec.processor == DEFAULT else []
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *isolated, "-m", "inturn.processing.child", str(number), json.dumps(told)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=(number,),
            process_group=0,  # a Ctrl-C is the worker's to hear
        )
    return process, Wire(ours)


def _waited(process: subprocess.Popen[bytes], patience: float) -> Exit | None:
    try:
        return Exit(process.wait(timeout=patience))
    except subprocess.TimeoutExpired:
        return None
