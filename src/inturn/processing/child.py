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
from inturn.processing import parser, sandbox
from inturn.processing.handler import Reject
from inturn.processing.perform import Processor, Said, Told, Where, keep_files, load, perform, perform_async, where_of
from inturn.processing.wire import Message, Wire, written

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
            raise Reject(f"this document is a reference to {self.uri}, and this worker fetches nothing from there")
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
        self.say("begun", document.number)
        return True

    def _process(self, document: DocumentAtHand) -> None:
        if not self._begins(document):
            return
        if self._before_each is not None:
            self._before_each()
        began = time.perf_counter()
        told = perform(self._processor, document)
        took = time.perf_counter() - began
        self.look_up()
        self._tell(document, told, took)

    def _tell(self, document: DocumentAtHand, told: Told, took: float) -> None:
        """Say what came of it; if the next one can begin now, in one breath with that."""
        number, reason = document.number, told.reason.encode(errors="replace").decode()
        more = self._is_alone and bool(self._todo) and not self._todo[0].stopped
        self._at_hand.pop(number, None)
        try:
            files = keep_files(told.files, self.scratch, self._numbers) if told.files else []
            if told.said is Said.DONE:
                self.say(told.said, number, took, reason, files, text=written(told.value), more=more)
            else:
                self.say(told.said, number, took, reason, files, told.value, more=more)
        except (OSError, TypeError, ValueError, RecursionError) as wrong:
            why = str(wrong).encode(errors="replace").decode()
            reason = f"the result cannot be kept: {why}; a result is JSON, and its files are bytes or paths"
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
            began = time.perf_counter()
            try:
                told = await perform_async(self._processor, document)
            except asyncio.CancelledError:
                told = Told(Said.ERROR, reason="cancelled")
            self._tell(document, told, time.perf_counter() - began)


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
        end = socket.socket(fileno=self._wire.take_fd())
        process = os.fork()
        if process:
            end.close()
            self._wire.say("forked", process)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._alarm)
            os.close(self._bell)
            self._wire.close()
            sandbox.die_with_parent()
            self._start(Wire(end, takes_fds=True), scratch)
            status = 0
        finally:
            os._exit(status)

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._wire.say("ended", found[0], os.waitstatus_to_exitcode(found[1]))


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
        processor = load(spec["processor"])
        if is_nursery:  # of the default processor: there is no other
            parser.warm()
    except Exception as wrong:  # noqa: BLE001 - the worker says it and ends
        reason = str(wrong) if isinstance(wrong, InturnError) else f"{type(wrong).__name__}: {wrong}"
        wire.say("unready", f"the processor {spec['processor']} cannot be loaded: {reason}")
        return

    readable = [] if limits is None else _readable(Path(spec["library"]))

    def start(own: Wire, scratch: Path) -> None:
        where, box = where_of(processor), None
        if limits is not None:
            try:
                box = sandbox.enter(limits, readable, scratch).renew
            except (InturnError, OSError) as wrong:
                own.say("unready", f"the sandbox cannot be entered: {wrong}")
                return
        own.say("ready", where)
        Child(own, scratch, processor, box).serve(where, spec["slots"])

    if is_nursery:
        wire.say("ready", Where.PROCESSES)
        Nursery(wire, start).serve()
    else:
        start(wire, Path(spec["scratch"]))


def _readable(library: Path) -> list[Path]:
    """What children in the box may read; found out once for all that the nursery forks."""
    importable = [Path(each) for each in sys.path if each and Path(each).exists()]
    libraries = [library] if library.exists() else []
    return [*sandbox.needed_paths(), *libraries, *importable]


if __name__ == "__main__":
    main()
