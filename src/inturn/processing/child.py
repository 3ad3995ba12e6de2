"""The program of a worker's child: it processes what the worker hands it, and says what came of it.

Started as `python -m inturn.processing.child N SPEC`: descriptor N is its end of the wire. It holds no store and no
blobs: bytes come in as open files, and the files of a result are left in a folder for the worker to pick up.
"""

import asyncio
import contextlib
import gc
import io
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

from inturn.errors import InturnError
from inturn.processing import allowed, identity, parser, sandbox
from inturn.processing.bounds import Bounds
from inturn.processing.handler import Reject, describe_unfetched
from inturn.processing.perform import (
    DEFAULT,
    Processor,
    Said,
    Told,
    Where,
    keep_files,
    load,
    perform,
    perform_async,
    where_of,
)
from inturn.processing.wire import Message, Wire, written

STANDARD_ERROR: Final = 2
PROGRESS_EVERY: Final = 0.25
"""Seconds between two tellings of progress: a processor may call it for every page."""


class Reading(io.RawIOBase):
    """A file read from a place of its own: all readings of one descriptor share the kernel's."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = os.dup(file)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = os.preadv(self._file, [buffer], self._at)
        self._at += found
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._file).st_size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


class DocumentAtHand:
    """An `OpenDocument`, as the child has it: its methods are described there."""

    def __init__(self, child: "Child", number: int, facts: Mapping[str, Any], file: int | None) -> None:
        self.number = number
        self.id: str = facts["id"]
        self.customer: str = facts["customer"]
        self.name: str = facts["name"]
        self.media_type: str | None = facts["media_type"]
        self.size: int | None = facts["size"]
        self.uri: str | None = facts["uri"]
        self.attempt: int = facts["attempt"]
        self.metadata: Mapping[str, Any] = facts["metadata"]
        self.stopped = False
        self.began_at = 0.0
        self._path = None if facts["path"] is None else Path(facts["path"])
        self._copy: Path | None = None
        self._child = child
        self._file = file
        self._told_at = 0.0

    @property
    def cancelled(self) -> bool:
        if not self.stopped:
            self._child.look_up()
        return self.stopped

    def open(self) -> BinaryIO:
        return io.BufferedReader(Reading(self._bytes()))

    def path(self) -> Path:
        self._bytes()
        if self._path is not None:
            return self._path
        if self._copy is None:
            self._copy = self._child.scratch / f"document-{self.number}"
            with self.open() as source, self._copy.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        return self._copy

    def progress(self, done: float, total: float | None = None) -> None:
        now = time.monotonic()
        if done == total or now - self._told_at >= PROGRESS_EVERY:
            self._told_at = now
            self._child.say("progress", self.number, done, total)

    def _bytes(self) -> int:
        if self._file is not None:
            return self._file
        if self.uri is not None:
            raise Reject(describe_unfetched(self.uri))
        raise Reject("this document has no content: nothing was uploaded, and it names no uri")

    def close(self) -> None:
        """Let go of the bytes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)


class Child:
    """Processes documents in one of three ways."""

    def __init__(self, wire: Wire, scratch: Path, processor: Processor, box: Callable[[], None] | None = None) -> None:
        self.scratch = scratch
        self._wire = wire
        self._processor = processor
        self._before_each = box
        self._saying = threading.Lock()
        self._numbers = count()
        self._todo: deque[DocumentAtHand] = deque()
        self._at_hand: dict[int, DocumentAtHand] = {}
        self._is_alone = True

    def serve(self, where: Where, slots: int) -> None:
        """Until the worker hangs up."""
        self._is_alone = where is Where.PROCESSES
        if where is Where.PROCESSES:
            self._serve_one_by_one()
        elif where is Where.THREADS:
            self._serve_by_threads(slots)
        else:
            asyncio.run(self._serve_by_loop(slots))

    def say(self, *message: Any, text: bytes | None = None, more: bool = False) -> None:
        """Tell the worker."""
        with self._saying:
            self._wire.say(*message, text=text, more=more)

    def look_up(self) -> None:
        """Hear what the worker says meanwhile, if nobody else listens."""
        if self._is_alone and select.select([self._wire], [], [], 0)[0]:
            self._hear()

    def _hear(self) -> list[DocumentAtHand] | None:
        """New documents, which also stand in line; None when the worker is gone."""
        messages = self._wire.hear()
        if messages is None:
            return None
        came = [document for message in messages if (document := self._understood(message)) is not None]
        self._todo.extend(came)
        return came

    def _understood(self, message: Message) -> DocumentAtHand | None:
        if message[0] == "work":
            _, number, facts, has_file = message
            document = DocumentAtHand(self, number, facts, self._wire.take_fd() if has_file else None)
            self._at_hand[number] = document
            return document
        if message[0] == "cancel" and message[1] in self._at_hand:
            self._at_hand[message[1]].stopped = True
        return None

    # -- one by one -------------------------------------------------------------------------------------------------

    def _serve_one_by_one(self) -> None:
        while self._todo or self._hear() is not None:
            while self._todo:
                self._process(self._todo.popleft())

    def _begins(self, document: DocumentAtHand) -> bool:
        """Whether it is still wanted; if so, the worker is told."""
        if document.stopped:
            self._at_hand.pop(document.number, None)
            document.close()
            with self._saying:
                self._wire.release()
            return False
        document.began_at = time.monotonic()  # the same clock as the worker's
        self.say("begun", document.number, document.began_at)
        return True

    def _process(self, document: DocumentAtHand) -> None:
        if not self._begins(document):
            return
        if self._before_each is not None:
            self._before_each()
        told = perform(self._processor, document)
        self.look_up()
        self._tell(document, told)

    def _tell(self, document: DocumentAtHand, told: Told) -> None:
        """Say what came of it; if the next one can begin now, in one breath with that."""
        number, reason = document.number, told.reason.encode(errors="replace").decode()
        more = self._is_alone and bool(self._todo) and not self._todo[0].stopped
        self._at_hand.pop(number, None)
        try:
            files = keep_files(told.files, self.scratch, self._numbers) if told.files else []
            text = written(told.value) if told.said is Said.DONE else None
            value = () if told.said is Said.DONE else (told.value,)
            took = time.monotonic() - document.began_at
            self.say(told.said, number, took, reason, files, *value, text=text, more=more)
        except (OSError, TypeError, ValueError, RecursionError) as wrong:
            why = str(wrong).encode(errors="replace").decode()
            reason = f"the result cannot be kept: {why}; a result is JSON, and its files are bytes or paths"
            took = time.monotonic() - document.began_at
            self.say(Said.ERROR, number, took, reason, [], None, more=more)
        finally:
            document.close()

    # -- by threads -------------------------------------------------------------------------------------------------

    def _serve_by_threads(self, slots: int) -> None:
        with ThreadPoolExecutor(slots) as threads:
            while (came := self._hear()) is not None:
                for document in came:
                    threads.submit(self._process, document)
            os._exit(0)  # nobody is there to hear of what the threads still do

    # -- by loop ----------------------------------------------------------------------------------------------------

    async def _serve_by_loop(self, slots: int) -> None:
        loop, gone, room = asyncio.get_running_loop(), asyncio.Event(), asyncio.Semaphore(slots)
        tasks: dict[int, asyncio.Task[None]] = {}

        def hear() -> None:
            came = self._hear()
            if came is None:
                loop.remove_reader(self._wire)
                gone.set()
                return
            for document in came:
                tasks[document.number] = loop.create_task(self._process_async(document, room))
                tasks[document.number].add_done_callback(partial(_pop, tasks, document.number))
            for number, task in tasks.items():
                if number in self._at_hand and self._at_hand[number].stopped:
                    task.cancel()

        loop.add_reader(self._wire, hear)
        await gone.wait()
        os._exit(0)

    async def _process_async(self, document: DocumentAtHand, room: asyncio.Semaphore) -> None:
        async with room:
            if not self._begins(document):
                return
            try:
                told = await perform_async(self._processor, document)
            except asyncio.CancelledError:
                told = Told(Said.ERROR, reason="cancelled")
            self._tell(document, told)


class Nursery:
    """Loads the processor once, then forks a child whenever the worker asks: a new child costs next to nothing.

    It has no threads and opens no foreign file, so that what it forks is as good as new.
    """

    def __init__(self, wire: Wire, start: Callable[[Wire, Path], None]) -> None:
        self._wire = wire
        self._start = start
        self._alarm, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Until the worker hangs up."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        gc.freeze()  # no collection in a child touches, and thereby copies, what all share
        while True:
            ready, _, _ = select.select([self._wire.fileno(), self._alarm], [], [])
            if self._alarm in ready:
                os.read(self._alarm, 4096)
                self._bury()
            if self._wire.fileno() in ready:
                messages = self._wire.hear()
                if messages is None:
                    os._exit(0)
                for _, scratch in messages:
                    self._fork(Path(scratch))

    def _fork(self, scratch: Path) -> None:
        end, parent = socket.socket(fileno=self._wire.take_fd()), os.getpid()
        process = os.fork()
        if process:
            end.close()
            self._wire.say("forked", process)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            close_all_but(end.fileno())  # the nursery's own among them, by which the worker would hear lies
            sandbox.die_with_parent(parent)
            self._start(Wire(end, takes_fds=True), scratch)
            status = 0
        finally:
            os._exit(status)

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                process, status, usage = found
                self._wire.say("ended", process, os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10)


def _pop(tasks: dict[int, asyncio.Task[None]], number: int, _: asyncio.Task[None]) -> None:
    del tasks[number]


def main() -> None:
    """Begin as the worker says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when its children end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sandbox.die_with_parent()
    wire = Wire(socket.socket(fileno=int(sys.argv[1])), takes_fds=True)
    spec = json.loads(sys.argv[2])
    limits = None if spec["limits"] is None else sandbox.Limits(**spec["limits"])
    is_nursery = spec["scratch"] is None
    try:
        processor: Any = load(spec["processor"])
        if spec["processor"] == DEFAULT:
            processor = partial(processor, bounds=Bounds(**spec["bounds"]))
        if is_nursery:  # of the default processor: there is no other
            parser.warm()
    except Exception as wrong:  # noqa: BLE001 - the worker says it and ends
        reason = str(wrong) if isinstance(wrong, InturnError) else f"{type(wrong).__name__}: {wrong}"
        wire.say("unready", f"the processor {spec['processor']} cannot be loaded: {reason}")
        return

    try:
        start = _starter(spec, processor, limits)
    except (InturnError, OSError) as wrong:
        wire.say("unready", str(wrong))
        return
    if is_nursery:
        wire.say("ready", Where.PROCESSES)
        Nursery(wire, start).serve()
    else:
        start(wire, Path(spec["scratch"]))


def _starter(
    spec: Mapping[str, Any], processor: Processor, limits: sandbox.Limits | None
) -> Callable[[Wire, Path], None]:
    """Find out once, for all that the nursery forks, what a child may read; return what makes a process a child."""
    protected = [Path(path) for path in spec["protected"]]
    readable: tuple[Path, ...] = ()
    if limits is not None:
        library = Path(spec["library"])
        readable = allowed.readable_paths(spec["processor"], [library] if library.exists() else [], protected)
        identity.needs_search(readable, library.parent)  # both are remembered
        identity.has_high_users()

    def start(own: Wire, scratch: Path) -> None:
        where, box = where_of(processor), None
        if limits is not None:
            try:
                _leave_working_directory(scratch)
                if isinstance(sys.stdout, io.TextIOWrapper):
                    sys.stdout.reconfigure(line_buffering=True)  # it ends without a chance to print the rest
                box = sandbox.enter(limits, readable, scratch, protected=protected).renew
            except (InturnError, OSError) as wrong:
                own.say("unready", f"the sandbox cannot be entered: {wrong}")
                return
        own.say("ready", where)
        Child(own, scratch, processor, box).serve(where, spec["slots"])

    return start


def _leave_working_directory(scratch: Path) -> None:
    """Work in the folder that may be written to, and import nothing from where the worker was started."""
    here = Path.cwd()
    sys.path[:] = [entry for entry in sys.path if Path(entry).is_absolute() and Path(entry) != here]
    os.chdir(scratch)


def close_all_but(kept: int) -> None:
    """Close every descriptor but the standard ones and this."""
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > STANDARD_ERROR and descriptor != kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)


if __name__ == "__main__":
    main()
