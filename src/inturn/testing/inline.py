"""Run processors inline, in the test's own process, on the documents of a queue."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from inturn.blobs import Blobs
from inturn.errors import InvalidInputError
from inturn.model import DEFAULT_QUEUE, Document
from inturn.processor_api import Reject, Retry, json_text
from inturn.queue import DEFAULT_LEASE, Queue
from inturn.testing.given import GivenDocument
from inturn.worker.channel import JsonText
from inturn.worker.content import ContentIO
from inturn.worker.inflight import InflightJobs, Job
from inturn.worker.invoke import (
    SUCCESSES,
    ExecutionMode,
    InvocationResult,
    InvocationStatus,
    execution_mode,
    invoke,
    invoke_async,
    write_files,
    write_step,
)
from inturn.worker.marked import marked_functions, marks_of
from inturn.worker.reply_store import DocumentIO, Reply, ReplyStore
from inturn.worker.step_reader import Question, StepReader
from inturn.worker.step_view import AskKind, EarlierSteps

WORKER_NAME: Final = "inline"


def run_inline(
    queue: Queue, processor: Callable[..., Any], *, blobs: Blobs | None = None, limit: int = 1_000
) -> list[Document]:
    """Process all claimable documents one by one; return them in their new states.

    They are those of the queues that the processor is marked with, or else of the default queue. Retries keep their
    delay: advance the clock and call this again.
    """
    names = [mark.queue for mark in marks_of(processor)] or [DEFAULT_QUEUE]
    return InlineWorker(queue, dict.fromkeys(names, processor), blobs).run(limit)


def run_pipeline(
    queue: Queue, module: ModuleType, *, blobs: Blobs | None = None, limit: int = 100_000
) -> list[Document]:
    """Process all claimable documents, and their parts, with the marked functions of a module, until none is left.

    Returns them in their new states, in the order of their first steps. It may stand in for `inturn worker MODULE`.
    """
    processors = {name: function for name, (_, function) in marked_functions(module).items()}
    return InlineWorker(queue, processors, blobs).run(limit)


class InlineWorker:
    """Does what a worker and its children do, in one thread."""

    def __init__(self, queue: Queue, processors: Mapping[str, Callable[..., Any]], blobs: Blobs | None) -> None:
        marks = [mark for function in processors.values() for mark in marks_of(function)]
        attempts = {mark.queue: mark.options.max_attempts for mark in marks if mark.options.max_attempts is not None}
        content = ContentIO(blobs, None)
        self._queue = queue
        self._processors = processors
        self._inflight = InflightJobs(queue, WORKER_NAME, DEFAULT_LEASE, tuple(processors), attempts)
        self._io = DocumentIO(content, ReplyStore(content, queue, is_sandboxed=False), StepReader(queue, blobs))

    def run(self, limit: int) -> list[Document]:
        """Process up to `limit` steps; return the documents."""
        ids: list[str] = []
        while len(ids) < limit and (jobs := self._ack_and_claim(1)):
            ids.append(jobs[0].claim.document.id)
            self._process(jobs[0])
        self._ack_and_claim(0)
        return [self._queue.document(id_) for id_ in dict.fromkeys(ids)]

    def _ack_and_claim(self, limit: int) -> list[Job]:
        try:
            return self._inflight.ack_and_claim(limit)
        except InvalidInputError:  # an outcome was refused: it fails its document
            self._inflight.record_one_by_one()
            return self._inflight.ack_and_claim(limit)

    def _process(self, job: Job) -> None:
        with tempfile.TemporaryDirectory(prefix="inturn-inline-") as folder:
            try:
                with self._open_document(job.claim.document, Path(folder)) as document:
                    job.begun_at = time.monotonic()
                    result = _invoke(self._processors[job.claim.document.queue], document)
                    self._finish(job, result, Path(folder))
            except (Reject, Retry) as error:
                self._inflight.fail(job, error)

    def _finish(self, job: Job, result: InvocationResult, folder: Path) -> None:
        match result.status:
            case InvocationStatus.ERROR:
                self._inflight.fail(job, result.reason)
            case InvocationStatus.RETRY:
                raise Retry(result.reason, after=result.value)
            case InvocationStatus.REJECT:
                raise Reject(result.reason)
            case _:
                reply = _reply(result, folder)
                self._inflight.finish(job, self._io.replies.store(reply, job.claim.document, folder))

    @contextmanager
    def _open_document(self, document: Document, folder: Path) -> Iterator[GivenDocument]:
        spec = document.spec
        fake = GivenDocument(
            self._read_content(document),
            name=spec.name,
            customer=document.customer,
            media_type=spec.media_type,
            metadata=spec.metadata,
            attempt=document.attempt,
            id=document.id,
            uri=spec.uri,
            queue=document.queue,
            step=document.step,
        )

        def ask(kind: AskKind, number: int, name: str | None) -> int:
            return self._io.steps.answer(document, Question(kind, number, name))

        fake.earlier = EarlierSteps(ask, folder, count(), document.step)
        try:
            yield fake
        finally:
            fake.close()

    def _read_content(self, document: Document) -> bytes:
        if not self._io.content.has_content(document.spec):
            return b""
        content = self._io.content.prepare(document.spec)
        try:
            return content.path.read_bytes()
        finally:
            content.close()


def _reply(result: InvocationResult, folder: Path) -> Reply:
    """Do what a child does with a result before it replies, and what the channel does with the reply."""
    if result.status not in SUCCESSES:
        raise AssertionError(result.status)
    text, numbers = json_text(result.value), count()
    files, step = write_files(result.files, folder, numbers), write_step(result.step, folder, numbers)
    return Reply.parse(result.status, result.reason, files, [*step, JsonText(text, len(text.encode()))])


def _invoke(processor: Callable[..., Any], document: GivenDocument) -> InvocationResult:
    if execution_mode(processor) is ExecutionMode.LOOP:
        return asyncio.run(invoke_async(processor, document))
    return invoke(processor, document)
