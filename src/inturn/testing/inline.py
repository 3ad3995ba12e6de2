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
from inturn.model import Claim, Document, Progress
from inturn.processor import Reject, Retry
from inturn.queue import DEFAULT_LEASE, Queue, json_text
from inturn.worker.content import ContentIO
from inturn.worker.inflight import InflightJobs, Job
from inturn.worker.invoke import (
    ExecutionMode,
    InvocationResult,
    InvocationStatus,
    execution_mode,
    invoke,
    invoke_async,
    write_files,
)

WORKER_NAME: Final = "inline"


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
        self.progress_reports: list[Progress] = []
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
        self.progress_reports.append(Progress(done, total))

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
    ledger, desk = InflightJobs(queue, WORKER_NAME, DEFAULT_LEASE), ContentIO(blobs, None)
    seen: list[str] = []
    while len(seen) < limit:
        jobs = ledger.ack_and_claim(1)
        if not jobs:
            break
        seen.append(jobs[0].claim.document.id)
        _process(ledger, desk, jobs[0], processor)
    ledger.ack_and_claim(0)
    return [queue.document(id_) for id_ in dict.fromkeys(seen)]


def _process(inflight: InflightJobs, content_io: ContentIO, job: Job, processor: Callable[..., Any]) -> None:
    try:
        with _open_document(content_io, job.claim) as document:
            job.begun_at = time.monotonic()
            invocation_result = _invoke(processor, document)
    except (Reject, Retry) as error:
        inflight.fail(job, error)
        return
    if invocation_result.status is InvocationStatus.DONE:
        with tempfile.TemporaryDirectory(prefix="inturn-inline-") as folder:
            files = write_files(invocation_result.files, Path(folder), count())
            inflight.finish(job, content_io.store_result(json_text(invocation_result.value), files, Path(folder)))
    elif invocation_result.status is InvocationStatus.ERROR:
        inflight.fail(job, invocation_result.reason)
    else:
        inflight.fail(
            job,
            Retry(invocation_result.reason, after=invocation_result.value)
            if invocation_result.status is InvocationStatus.RETRY
            else Reject(invocation_result.reason),
        )


def _invoke(processor: Callable[..., Any], document: GivenDocument) -> InvocationResult:
    if execution_mode(processor) is ExecutionMode.LOOP:
        return asyncio.run(invoke_async(processor, document))
    return invoke(processor, document)


@contextmanager
def _open_document(content_io: ContentIO, claimed: Claim) -> Iterator[GivenDocument]:
    stored, given = claimed.document, claimed.document.spec
    content = b""
    if content_io.has_content(given):
        document_content = content_io.prepare(given)
        try:
            content = document_content.path.read_bytes()
        finally:
            document_content.close()
    document = GivenDocument(
        content,
        name=given.name,
        customer=stored.customer,
        media_type=given.media_type,
        metadata=given.metadata,
        attempt=stored.attempt,
        id=stored.id,
        uri=given.uri,
    )
    try:
        yield document
    finally:
        document.close()
