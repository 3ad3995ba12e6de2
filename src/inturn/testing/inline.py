"""Run processors inline, in the test's own process, on a queue or on a fake document."""

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
from inturn.model import DEFAULT_QUEUE, Claim, Document
from inturn.processor_api import Reject, Retry, json_text
from inturn.queue import DEFAULT_LEASE, Queue
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
from inturn.worker_report import Progress

WORKER_NAME: Final = "inline"


class GivenDocument:
    """A fake document for a processor."""

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
        queue: str = DEFAULT_QUEUE,
    ) -> None:
        self.id = id
        self.customer = customer
        self.name = name
        self.queue = queue
        self.media_type = media_type
        self.size: int | None = len(content)
        self.uri = uri
        self.attempt = attempt
        self.metadata = metadata
        self.cancelled = False
        self.progress_reports: list[Progress] = []
        """The progress that the processor reported."""
        self._content = content
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open(self) -> BinaryIO:
        """Open the content."""
        return io.BytesIO(self._content)

    def path(self) -> Path:
        """Write the content to a temporary file, which `close` removes."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="inturn-given-")
        path = Path(self._folder.name) / "document"
        path.write_bytes(self._content)
        return path

    def progress(self, done: float, total: float | None = None) -> None:
        """Append to `progress_reports`."""
        self.progress_reports.append(Progress(done, total))

    def close(self) -> None:
        """Remove the file that `path` made."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def run_inline(
    queue: Queue, processor: Callable[..., Any], *, blobs: Blobs | None = None, limit: int = 1_000
) -> list[Document]:
    """Process all claimable documents one by one; return them in their new states.

    Retries keep their delay: advance the clock and call this again.
    """
    inflight, content_io = InflightJobs(queue, WORKER_NAME, DEFAULT_LEASE), ContentIO(blobs, None)
    ids: list[str] = []
    while len(ids) < limit:
        jobs = inflight.ack_and_claim(1)
        if not jobs:
            break
        ids.append(jobs[0].claim.document.id)
        _process(inflight, content_io, jobs[0], processor)
    inflight.ack_and_claim(0)
    return [queue.document(id_) for id_ in dict.fromkeys(ids)]


def _process(inflight: InflightJobs, content_io: ContentIO, job: Job, processor: Callable[..., Any]) -> None:
    try:
        with _open_document(content_io, job.claim) as document:
            job.begun_at = time.monotonic()
            result = _invoke(processor, document)
    except (Reject, Retry) as error:
        inflight.fail(job, error)
        return
    if result.status is InvocationStatus.DONE:
        with tempfile.TemporaryDirectory(prefix="inturn-inline-") as folder:
            files = write_files(result.files, Path(folder), count())
            inflight.finish(job, content_io.store_result(json_text(result.value), files, Path(folder)))
    elif result.status is InvocationStatus.ERROR:
        inflight.fail(job, result.reason)
    else:
        inflight.fail(
            job,
            Retry(result.reason, after=result.value)
            if result.status is InvocationStatus.RETRY
            else Reject(result.reason),
        )


def _invoke(processor: Callable[..., Any], document: GivenDocument) -> InvocationResult:
    if execution_mode(processor) is ExecutionMode.LOOP:
        return asyncio.run(invoke_async(processor, document))
    return invoke(processor, document)


@contextmanager
def _open_document(content_io: ContentIO, claim: Claim) -> Iterator[GivenDocument]:
    document, spec = claim.document, claim.document.spec
    content = b""
    if content_io.has_content(spec):
        document_content = content_io.prepare(spec)
        try:
            content = document_content.path.read_bytes()
        finally:
            document_content.close()
    fake = GivenDocument(
        content,
        name=spec.name,
        customer=document.customer,
        media_type=spec.media_type,
        metadata=spec.metadata,
        attempt=document.attempt,
        id=document.id,
        uri=spec.uri,
    )
    try:
        yield fake
    finally:
        fake.close()
