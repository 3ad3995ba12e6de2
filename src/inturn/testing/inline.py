"""Processors in a user's tests: called in the test's own process, on a queue in memory or on a document made up."""

import asyncio
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from inturn.blobs import Blobs
from inturn.model import Claimed, Document, Progress
from inturn.processing.desk import Desk
from inturn.processing.handler import Reject, Retry
from inturn.processing.ledger import Job, Ledger
from inturn.processing.perform import Said, Told, Where, keep_files, perform, perform_async, where_of
from inturn.queue import DEFAULT_LEASE, Queue, json_text

WORKER: Final = "inline"


class GivenDocument:
    """A document made up for a test, as a processor sees it."""

    def __init__(  # noqa: PLR0913 - one for each thing a processor may look at
        self,
        content: bytes = b"",
        *,
        name: str = "document",
        customer: str = "customer",
        media_type: str | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        attempt: int = 1,
        id: str = "018f3c5e-0000-7000-8000-000000000000",
        uri: str | None = None,
    ) -> None:
        self.id = id
        self.customer = customer
        self.name = name
        self.media_type = media_type
        self.size: int | None = len(content)
        self.uri = uri
        self.attempt = attempt
        self.metadata = metadata
        self.cancelled = False
        self.told: list[Progress] = []
        """What the processor said of its progress."""
        self._content = content
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open(self) -> BinaryIO:
        """Its bytes."""
        return io.BytesIO(self._content)

    def path(self) -> Path:
        """A file with its bytes, there as long as this object."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="inturn-given-")
        path = Path(self._folder.name) / "document"
        path.write_bytes(self._content)
        return path

    def progress(self, done: float, total: float | None = None) -> None:
        """Remembers it in `told`."""
        self.told.append(Progress(done, total))

    def close(self) -> None:
        """Remove the file that `path` made."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def run_inline(
    queue: Queue, processor: Callable[..., Any], *, blobs: Blobs | None = None, limit: int = 1_000
) -> list[Document]:
    """Process whatever can be claimed, one after another, here and now; the documents as they stand afterwards.

    What is to be tried again waits for its delay, as it would in earnest: advance the clock and call this again.
    """
    ledger, desk = Ledger(queue, WORKER, DEFAULT_LEASE), Desk(blobs, None)
    seen: list[str] = []
    while len(seen) < limit:
        jobs = ledger.exchange(1)
        if not jobs:
            break
        seen.append(jobs[0].claimed.document.id)
        _process(ledger, desk, jobs[0], processor)
    ledger.exchange(0)
    return [queue.document(id_) for id_ in dict.fromkeys(seen)]


def _process(ledger: Ledger, desk: Desk, job: Job, processor: Callable[..., Any]) -> None:
    try:
        with _given(desk, job.claimed) as document:
            job.begun_at = time.monotonic()
            told = _called(processor, document)
    except (Reject, Retry) as wrong:
        ledger.failed(job, wrong)
        return
    if told.said is Said.DONE:
        with tempfile.TemporaryDirectory(prefix="inturn-inline-") as folder:
            files = keep_files(told.files, Path(folder), count())
            ledger.done(job, desk.keep(json_text(told.value), files, Path(folder)))
    elif told.said is Said.ERROR:
        ledger.failed(job, told.reason)
    else:
        ledger.failed(job, Retry(told.reason, after=told.value) if told.said is Said.RETRY else Reject(told.reason))


def _called(processor: Callable[..., Any], document: GivenDocument) -> Told:
    if where_of(processor) is Where.LOOP:
        return asyncio.run(perform_async(processor, document))
    return perform(processor, document)


@contextmanager
def _given(desk: Desk, claimed: Claimed) -> Iterator[GivenDocument]:
    kept, given = claimed.document, claimed.document.given
    content = b""
    if desk.has_bytes(given):
        found = desk.prepare(given)
        try:
            content = found.path.read_bytes()
        finally:
            found.release()
    document = GivenDocument(
        content,
        name=given.name,
        customer=kept.customer,
        media_type=given.media_type,
        metadata=given.metadata,
        attempt=kept.attempt,
        id=kept.id,
        uri=given.uri,
    )
    try:
        yield document
    finally:
        document.close()
