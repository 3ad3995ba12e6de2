"""Run a worker's child process: it processes the documents that the worker sends, and replies with their results.

Started as `python -m inturn.worker.child N SPEC`: descriptor N is its end of the channel. It opens neither store nor
blobs. Contents come in as open files, and the files of a result are left in a folder for the worker.
"""

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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from inturn.config import DEFAULT_PROCESSOR
from inturn.errors import InturnError
from inturn.extract import parser
from inturn.extract.limits import ExtractLimits
from inturn.processor_api import EndedPart, Reject, Retry, StoredFile, describe_unfetched
from inturn.sandbox import allowed_paths, confinement, privileges
from inturn.worker.channel import Channel, ChannelError, Message, encode_result
from inturn.worker.invoke import (
    SUCCESSES,
    ExecutionMode,
    InvocationResult,
    InvocationStatus,
    Processor,
    execution_mode,
    invoke,
    invoke_async,
    load_processor,
    write_files,
    write_step,
)
from inturn.worker.open_files import DescriptorReader
from inturn.worker.questions import MAX_THREADS_ASKING, OpenQuestions
from inturn.worker.routing import load_processors, processor_paths
from inturn.worker.step_view import AskKind, EarlierSteps

if TYPE_CHECKING:
    import asyncio

STDERR_FD: Final = 2
PROGRESS_INTERVAL_SECONDS: Final = 0.25
"""Seconds between two progress messages of a document: a processor may report every page."""


class ChildDocument:
    """Implements `OpenDocument`, which describes the methods."""

    def __init__(self, child: "Child", number: int, fields: Mapping[str, Any], fd: int | None) -> None:
        self.number = number
        self.id: str = fields["id"]
        self.customer: str = fields["customer"]
        self.name: str = fields["name"]
        self.queue: str = fields["queue"]
        self.media_type: str | None = fields["media_type"]
        self.size: int | None = fields["size"]
        self.uri: str | None = fields["uri"]
        self.attempt: int = fields["attempt"]
        self.step: int = fields["step"]
        self.metadata: Mapping[str, Any] = fields["metadata"]
        self.cancel_requested = False
        self.began_at = 0.0
        self._path = None if fields["path"] is None else Path(fields["path"])
        self._copy: Path | None = None
        self._child = child
        self._fd = fd
        self._progress_sent_at = 0.0
        self._earlier = EarlierSteps(partial(child.ask, number), child.scratch, child.file_numbers, self.step)

    @property
    def results(self) -> Mapping[str, Any]:
        return self._earlier.results

    def result_files(self, queue: str) -> Mapping[str, StoredFile]:
        return self._earlier.result_files(queue)

    @property
    def parts(self) -> Sequence[EndedPart]:
        return self._earlier.parts

    @property
    def cancelled(self) -> bool:
        if not self.cancel_requested:
            self._child.poll_messages()
        return self.cancel_requested

    def open(self) -> BinaryIO:
        return io.BufferedReader(DescriptorReader(self._require_fd()))

    def path(self) -> Path:
        self._require_fd()
        if self._path is not None:
            return self._path
        if self._copy is None:
            self._copy = self._child.scratch / f"document-{self.number}"
            with self.open() as source, self._copy.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        return self._copy

    def progress(self, done: float, total: float | None = None) -> None:
        now = time.monotonic()
        if done == total or now - self._progress_sent_at >= PROGRESS_INTERVAL_SECONDS:
            self._progress_sent_at = now
            self._child.send("progress", self.number, done, total)

    def _require_fd(self) -> int:
        if self._fd is not None:
            return self._fd
        if self.uri is not None:
            raise Reject(describe_unfetched(self.uri))
        raise Reject("this document has no content: nothing was uploaded, and it names no uri")

    def close(self) -> None:
        """Close the content, and delete its copy and those of earlier steps' files."""
        self._earlier.close()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)


class Child:
    """Processes documents one by one, in threads, or in an event loop."""

    def __init__(
        self, channel: Channel, scratch: Path, processor: Processor, before_document: Callable[[], None] | None = None
    ) -> None:
        self.scratch = scratch
        self.file_numbers = count()
        self._channel = channel
        self._processor = processor
        self._before_document = before_document
        self._send_lock = threading.Lock()
        self._receive_lock = threading.RLock()
        self._pending: deque[ChildDocument] = deque()
        self._documents: dict[int, ChildDocument] = {}
        self._questions = OpenQuestions()
        self._asking = threading.BoundedSemaphore(MAX_THREADS_ASKING)
        self._on_document: Callable[[ChildDocument], object] = self._pending.append
        self._on_cancel: Callable[[int], object] = lambda _: None
        self._is_single_threaded = True
        self._loop_thread: int | None = None

    def serve(self, mode: ExecutionMode, slots: int) -> None:
        """Process documents until the worker closes the channel."""
        self._is_single_threaded = mode is ExecutionMode.PROCESSES
        if mode is ExecutionMode.PROCESSES:
            self._serve_sequentially()
        elif mode is ExecutionMode.THREADS:
            self._serve_in_threads(slots)
        else:
            import asyncio  # noqa: PLC0415 - most children have no event loop, and start sooner without it

            asyncio.run(self._serve_in_event_loop(slots))

    def send(self, *message: Any, text: bytes | None = None, more: bool = False) -> None:
        """Send a message to the worker; threads may call it."""
        with self._send_lock:
            self._channel.send(*message, text=text, more=more)

    def ask(self, document: int, kind: AskKind, number: int, name: str | None) -> int:
        """Ask the worker for a file about a document, and wait for it; return its descriptor. Threads may call it."""
        if threading.get_ident() == self._loop_thread:  # it never waits for other threads: it reads their answers
            return self._ask(document, kind, number, name)
        with self._asking:
            return self._ask(document, kind, number, name)

    def _ask(self, document: int, kind: AskKind, number: int, name: str | None) -> int:
        if document not in self._documents:
            raise Retry("the document is no longer processed, so its earlier steps cannot be read")
        asked, question = self._questions.add(document)
        if document not in self._documents:  # it ended meanwhile
            self._questions.end(document)
        self.send("ask", document, asked, [kind, number, name])
        if not self._is_single_threaded and threading.get_ident() != self._loop_thread:
            question.answered.wait()  # another thread reads the channel
        while not question.answered.is_set():
            with self._receive_lock:
                if not question.answered.is_set() and not self._receive():
                    os._exit(0)
        return question.take()

    def poll_messages(self) -> None:
        """Read new messages of the worker without waiting, unless another thread or the loop reads them."""
        if self._is_single_threaded and self._receive_lock.acquire(blocking=False):
            try:
                if self._channel.poll(0):
                    self._receive()
            finally:
                self._receive_lock.release()

    def _receive(self) -> bool:
        """Wait for messages of the worker and handle them; return False when it is gone."""
        try:
            messages = self._channel.receive()
        except ChannelError as error:
            print(error, file=sys.stderr, flush=True)  # noqa: T201 - for the worker's log
            os._exit(1)
        for message in messages or ():
            self._handle_message(message)
        return messages is not None

    def _handle_message(self, message: Message) -> None:
        match message:
            case ["work", number, fields, has_file]:
                document = ChildDocument(self, number, fields, self._channel.take_fd() if has_file else None)
                self._documents[number] = document
                self._on_document(document)
            case ["cancel", number] if number in self._documents:
                self._documents[number].cancel_requested = True
                self._on_cancel(number)
            case ["answer", number, status, reason]:
                is_answered = status == InvocationStatus.DONE
                self._questions.answer(number, self._channel.take_fd() if is_answered else None, status, reason)

    def _forget(self, document: ChildDocument) -> None:
        self._documents.pop(document.number, None)
        self._questions.end(document.number)

    # -- one by one -------------------------------------------------------------------------------------------------

    def _serve_sequentially(self) -> None:
        while True:
            while self._pending:
                self._process(self._pending.popleft())
            with self._receive_lock:
                if not self._pending and not self._receive():
                    return

    def _begin_unless_cancelled(self, document: ChildDocument) -> bool:
        """Report the start of a document to the worker; return False if it was cancelled before."""
        if document.cancel_requested:
            self._forget(document)
            document.close()
            with self._send_lock:
                self._channel.send_buffered()
            return False
        document.began_at = time.monotonic()  # the same clock as the worker's
        self.send("begun", document.number, document.began_at)
        return True

    def _process(self, document: ChildDocument) -> None:
        if not self._begin_unless_cancelled(document):
            return
        if self._before_document is not None:
            self._before_document()
        invocation_result = invoke(self._processor, document)
        self.poll_messages()
        self._send_reply(document, invocation_result)

    def _send_reply(self, document: ChildDocument, result: InvocationResult) -> None:
        """Send the result; in one write with the start of the next document, if that can start now."""
        number, reason = document.number, result.reason.encode(errors="replace").decode()
        more = self._is_single_threaded and bool(self._pending) and not self._pending[0].cancel_requested
        self._forget(document)
        try:
            files = write_files(result.files, self.scratch, self.file_numbers) if result.files else []
            step = write_step(result.step, self.scratch, self.file_numbers)
            is_success = result.status in SUCCESSES
            text = encode_result(result.value) if is_success else None
            value = () if is_success else (result.value,)
            took = time.monotonic() - document.began_at
            self.send(result.status, number, took, reason, files, *step, *value, text=text, more=more)
        except (OSError, TypeError, ValueError, RecursionError) as error:
            detail = str(error).encode(errors="replace").decode()
            reason = f"the result cannot be stored: {detail}; a result is JSON, and its files are bytes or paths"
            took = time.monotonic() - document.began_at
            self.send(InvocationStatus.ERROR, number, took, reason, [], None, more=more)
        finally:
            document.close()

    # -- in threads -------------------------------------------------------------------------------------------------

    def _serve_in_threads(self, slots: int) -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

        with ThreadPoolExecutor(slots) as threads:
            self._on_document = lambda document: threads.submit(self._process, document)
            while self._receive():
                pass
            os._exit(0)  # the worker is gone, and so is the reader of what the threads still do

    # -- in an event loop ------------------------------------------------------------------------------------------

    async def _serve_in_event_loop(self, slots: int) -> None:
        import asyncio  # noqa: PLC0415 - as above

        loop, closed, free_slots = asyncio.get_running_loop(), asyncio.Event(), asyncio.Semaphore(slots)
        tasks: dict[int, asyncio.Task[None]] = {}

        def on_document(document: ChildDocument) -> None:
            tasks[document.number] = loop.create_task(self._process_async(document, free_slots))
            tasks[document.number].add_done_callback(partial(_remove_task, tasks, document.number))

        def on_readable() -> None:
            if not self._receive():
                loop.remove_reader(self._channel)
                closed.set()

        self._loop_thread = threading.get_ident()
        self._on_document, self._on_cancel = on_document, lambda number: tasks[number].cancel()
        loop.add_reader(self._channel, on_readable)
        await closed.wait()
        os._exit(0)

    async def _process_async(self, document: ChildDocument, slots: "asyncio.Semaphore") -> None:
        import asyncio  # noqa: PLC0415 - as above

        async with slots:
            if not self._begin_unless_cancelled(document):
                return
            try:
                invocation_result = await invoke_async(self._processor, document)
            except asyncio.CancelledError:
                invocation_result = InvocationResult(InvocationStatus.ERROR, reason="cancelled")
            self._send_reply(document, invocation_result)


class ForkServerProcess:
    """Loads the processor once, then forks a child for each request of the worker.

    It has no threads and opens no customer's file, so a forked child starts in a clean state.
    """

    def __init__(self, channel: Channel, start_child: Callable[[Channel, Path], None]) -> None:
        self._channel = channel
        self._start_child = start_child
        self._wakeup_r, self._wakeup_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Fork children until the worker closes the channel."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_w, warn_on_full_buffer=False)
        poller = select.poll()
        for fd in (self._channel.fileno(), self._wakeup_r):
            poller.register(fd, select.POLLIN)
        gc.freeze()  # a collection in a child would touch, and so copy, the pages that all share
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if self._wakeup_r in ready:
                os.read(self._wakeup_r, 4096)
                self._reap()
            if self._channel.fileno() in ready:
                messages = self._channel.receive()
                if messages is None:
                    os._exit(0)
                for _, scratch in messages:
                    self._fork(Path(scratch))

    def _fork(self, scratch: Path) -> None:
        child_end, parent = socket.socket(fileno=self._channel.take_fd()), os.getpid()
        pid = os.fork()
        if pid:
            child_end.close()
            self._channel.send("forked", pid)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            close_other_fds(child_end.fileno())  # the fork server's channel too: a child must not speak for it
            confinement.die_with_parent(parent)
            self._start_child(Channel(child_end, takes_fds=True), scratch)
            status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, usage = ended
                self._channel.send("ended", pid, os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10)


def _remove_task(tasks: "dict[int, asyncio.Task[None]]", number: int, _: "asyncio.Task[None]") -> None:
    del tasks[number]


def main() -> None:
    """Start as a child or as the fork server, by the worker's arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when its children end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    confinement.die_with_parent()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])), takes_fds=True)
    spec = json.loads(sys.argv[2])
    limits = None if spec["limits"] is None else confinement.SandboxLimits(**spec["limits"])
    is_fork_server = spec["scratch"] is None
    try:
        processor = load_processors(spec["processor"], partial(_load, ExtractLimits(**spec["bounds"])))
        if is_fork_server:  # only the default processor has one
            parser.warm()
    except Exception as error:  # noqa: BLE001 - the worker reports it and ends
        reason = str(error) if isinstance(error, InturnError) else f"{type(error).__name__}: {error}"
        channel.send("unready", f"the processor {spec['processor']} cannot be loaded: {reason}")
        return

    try:
        start_child = _child_starter(spec, processor, limits)
    except (InturnError, OSError) as error:
        channel.send("unready", str(error))
        return
    if is_fork_server:
        channel.send("ready", ExecutionMode.PROCESSES)
        ForkServerProcess(channel, start_child).serve()
    else:
        start_child(channel, Path(spec["scratch"]))


def _load(bounds: ExtractLimits, path: str) -> Processor:
    """Import a processor; the default one gets its limits."""
    processor: Any = load_processor(path)
    return partial(processor, bounds=bounds) if path == DEFAULT_PROCESSOR else processor


def _child_starter(
    spec: Mapping[str, Any], processor: Processor, limits: confinement.SandboxLimits | None
) -> Callable[[Channel, Path], None]:
    """Return a function that turns this process into a child; its readable paths are computed once for all forks."""
    protected = [Path(path) for path in spec["protected"]]
    readable: tuple[Path, ...] = ()
    if limits is not None:
        library = Path(spec["library"])
        for path in processor_paths(spec["processor"]).values():  # what is loaded may be read: the same for each
            readable = allowed_paths.readable_paths(path, [library] if library.exists() else [], protected)
        privileges.path_closed_to_others(readable, library.parent)  # both results are cached for the forks
        privileges.has_high_uids()

    def start_child(channel: Channel, scratch: Path) -> None:
        mode, renew_limit = execution_mode(processor), None
        if limits is not None:
            try:
                _leave_working_directory(scratch)
                if isinstance(sys.stdout, io.TextIOWrapper):
                    sys.stdout.reconfigure(line_buffering=True)  # its end flushes nothing
                sandboxed = confinement.enter_sandbox(limits, readable, scratch, protected=protected)
                renew_limit = sandboxed.renew_cpu_limit
            except (InturnError, OSError) as error:
                channel.send("unready", f"the sandbox cannot be entered: {error}")
                return
        channel.send("ready", mode)
        Child(channel, scratch, processor, renew_limit).serve(mode, spec["slots"])

    return start_child


def _leave_working_directory(scratch: Path) -> None:
    """Change to the writable folder, and import nothing from the folder that the worker was started in."""
    here = Path.cwd()
    sys.path[:] = [entry for entry in sys.path if Path(entry).is_absolute() and Path(entry) != here]
    os.chdir(scratch)


def close_other_fds(fd: int) -> None:
    """Close every descriptor but the standard ones and `fd`."""
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > STDERR_FD and descriptor != fd:
            with contextlib.suppress(OSError):
                os.close(descriptor)


if __name__ == "__main__":
    main()
