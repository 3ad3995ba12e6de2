"""A queue on a real file, blobs in a real folder, and workers: in a thread of the test, or in processes of their own.

Whatever a test leaves running is ended with it.
"""

import hashlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import inturn
from empty_queue import empty_queue
from inturn.blobs import Blobs, FolderBlobs
from inturn.config import DEFAULT_PROCESSOR
from inturn.model import Document, DocumentState, NewDocument
from inturn.policy import RetryPolicy
from inturn.queue import Queue
from inturn.store_types import DocumentFilter, Event, EventKind, Operator
from inturn.stores.sqlite import SqliteStore
from inturn.worker.worker import OutcomeCounts, Worker, WorkerOptions
from store_children import Child
from waiting import TIMEOUT_SECONDS, wait_until

"""Seconds after which something is taken for stuck; nothing is measured by it."""
SECOND = 1_000_000
FAST_RETRIES = RetryPolicy(first_delay=1_000, longest_delay=8_000)
SOURCE = Path(inturn.__file__).parents[1]
HERE = Path(__file__).parent
TEST_OPERATOR = Operator("a test", "to see what happens")
DONE, FAILED = DocumentState.DONE, DocumentState.FAILED
PROCESSORS = ("processors:act", "processors:act_in_threads", "processors:act_in_loop")
"""One processor of each kind: a plain function, a function with threads, a coroutine function."""


def eventually(condition: Callable[[], Any], message: str = "") -> Any:
    """What comes to be true, sooner or later."""
    return wait_until(condition, message=message or "it never came true")


class WorkerThread:
    """A worker in a thread."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._counts: OutcomeCounts | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="worker under test")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._counts = self.worker.run()
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits for it
            self._error = error

    def wait(self) -> OutcomeCounts:
        """What came of it, when it has ended by itself; what it raised is raised here."""
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive(), "the worker does not end"
        if self._error is not None:
            raise self._error
        assert self._counts is not None
        return self._counts._replace(handed_back=0)  # on a slow machine, what stood behind another goes back meanwhile

    def stop(self, *, at_once: bool = False) -> OutcomeCounts:
        self.worker.stop(at_once=at_once)
        return self.wait()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        if self._thread.is_alive():
            self.worker.stop(at_once=True)
            self._thread.join(TIMEOUT_SECONDS)


class WorkerHarness:
    """A queue, its blobs, and who works there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = empty_queue(folder / "queue.db")
        self.store = SqliteStore(self.path)
        self.queue = Queue(self.store, retries=FAST_RETRIES)
        self.blobs = FolderBlobs(folder / "blobs")
        self._running: list[WorkerThread] = []

    # -- documents ----------------------------------------------------------------------------------------------

    def document(self, content: bytes | None = None, *, name: str = "a document", **options: Any) -> NewDocument:
        fields = {item: options.pop(item) for item in ("uri", "max_attempts", "delay", "start_by") if item in options}
        if content is not None:
            with self.blobs.begin() as writing:
                writing.write(content)
                blob = writing.commit()
            fields.update(blob=blob.key, sha256=blob.sha256, size=blob.size)
        return NewDocument(name, metadata=options, **fields)

    def submit(self, do: str, customer: str = "acme", content: bytes | None = None, **options: Any) -> str:
        return self.queue.submit(customer, [self.document(content, do=do, **options)])[0].id

    def submit_many(self, times: int, /, do: str, customer: str = "acme", **options: Any) -> list[str]:
        return [receipt.id for receipt in self.queue.submit(customer, [self.document(do=do, **options)] * times)]

    def state(self, id_: str) -> DocumentState:
        return self.queue.document(id_).state

    def all_documents(self) -> Iterator[Document]:
        after = None
        while True:
            page = self.queue.documents(limit=1_000, after=after)
            yield from page.items
            if (after := page.next) is None:
                return

    def states(self) -> dict[str, int]:
        return {str(state): n for state, n in self.store.counts(DocumentFilter()).states.items()}

    def events(self) -> Iterator[Event]:
        number = 0
        while some := self.store.events(number, limit=5_000):
            yield from some
            number = some[-1].number

    def count_events(self, kind: EventKind) -> Counter[str]:
        """How often each document was told of by events of a kind."""
        return Counter(id_ for event in self.events() if event.kind is kind for id_ in event.documents)

    def wait_for_heartbeats(self, id_: str, n: int) -> None:
        """Wait until the lease of a running document was renewed so many times; that is done four times in a lease."""
        for _ in range(n):
            last = self.queue.document(id_).lease_until
            eventually(lambda last=last: self.queue.document(id_).lease_until != last)

    # -- workers ------------------------------------------------------------------------------------------------

    def start_worker(
        self,
        processor: str | Callable[..., Any] = "processors:act",
        *,
        blobs: Blobs | None = None,
        queue: Queue | None = None,
        maintenance: Any = None,
        **options: Any,
    ) -> WorkerThread:
        """A worker that goes on until it is told to stop."""
        worker = Worker(
            queue or self.queue,
            processor,
            blobs=blobs or self.blobs,
            maintenance=maintenance,
            options=WorkerOptions(**options),
        )
        running = WorkerThread(worker)
        self._running.append(running)
        return running

    def run_until_empty(self, processor: str | Callable[..., Any] = "processors:act", **options: Any) -> OutcomeCounts:
        """A worker that ends when nothing is left."""
        return self.start_worker(processor, until_empty=True, **options).wait()

    def run_default_processor(self, **options: Any) -> OutcomeCounts:
        return self.run_until_empty(DEFAULT_PROCESSOR, **options)

    def close(self) -> None:
        for running in self._running:
            running.close()
        self.store.close()


class ScriptProcess(Child):
    """A function of `worker_process`: a worker, a submitter or maintenance in a process of its own."""

    def __init__(self, function: str, *args: object, folder: Path) -> None:
        super().__init__("worker_process", function, *map(str, args), TMPDIR=str(folder))
        self.messages: list[Any] = []
        """All that was received from it."""

    def receive(self) -> Any:
        self.messages.append(super().receive())
        return self.messages[-1]

    def has_message(self) -> bool:
        return not self._lines.empty()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit status, when it has ended; `messages` has the rest of what it sent."""
        self._process.join(TIMEOUT_SECONDS)
        status = self._process.exitcode
        assert status is not None, self.stderr_text()
        self.messages += self._remaining_messages()
        return status

    def kill(self) -> list[Any]:
        remaining = super().kill()
        self.messages += remaining
        return remaining


def children_of(pid: int) -> list[tuple[int, str]]:
    """A process's children, each with the time it began, by which a new one of the same number is told apart."""
    running = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [(item, facts[19]) for item in running if (facts := proc_stat(item)) and facts[1] == str(pid)]


def descendants_of(pid: int) -> list[tuple[int, str]]:
    direct = children_of(pid)
    return [*direct, *(item for child, _ in direct for item in descendants_of(child))]


def is_alive(pid: int, start_time: str) -> bool:
    facts = proc_stat(pid)
    return facts is not None and facts[19] == start_time and facts[0] != "Z"


def proc_stat(pid: int) -> Sequence[str] | None:
    """The fields of /proc/N/stat from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None


def max_overlap(log: Path) -> int:
    """The most calls of `processors.overlap` that ran at the same time."""
    return max(accumulate(1 if sign == "+" else -1 for sign in log.read_text(encoding="ascii")))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
