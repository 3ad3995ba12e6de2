"""Submissions on their way into the queue: their bytes first, then the commit. What was kept for nothing is deleted.

Those that come in at the same time go through each step together: files are synced side by side, and one commit
keeps the documents of all.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from inturn import media_types
from inturn.blobs import Blob
from inturn.errors import InturnError
from inturn.extract.page_count import count_pages
from inturn.http import schemas
from inturn.http.scope import CallerScope
from inturn.http.uploads.multipart import Upload
from inturn.model import NewDocument, Receipt
from inturn.queue import Queue
from inturn.store import Submission

_DISK_POOL: Final = ThreadPoolExecutor(16, "inturn-keeper")
"""Threads that wait for the disk."""


class AcceptedSubmission(NamedTuple):
    """Whose documents came in, and their receipts."""

    customer: str
    receipts: tuple[Receipt, ...]


class UploadContents(NamedTuple):
    """What a request brings: whose it is, and what is said of each document, with its bytes if it has any."""

    customer: str
    documents: Sequence[tuple[schemas.DocumentSpec, Upload | None]]


class PendingSubmission:
    """One submission: `prepare`, `keep`, then its `submission` goes to the store, then `end`."""

    def __init__(self, scope: CallerScope, idempotency_key: str | None, read: Callable[[], UploadContents]) -> None:
        self.submission: Submission | None = None
        self.accepted: AcceptedSubmission | None = None
        self.error: Exception | None = None
        self._scope = scope
        self._app_state = scope.app_state
        self._idempotency_key = idempotency_key
        self._read = read
        self._contents = UploadContents("", ())
        self._stored_blobs: list[str] = []

    def run_step(self, step: Callable[[], None]) -> None:
        """Go one step, unless an earlier one failed; what is left behind then is deleted."""
        if self.error is None:
            try:
                step()
            except Exception as refused:  # noqa: BLE001 - whoever waits for it is told
                self.error = refused
                self._delete_unreferenced_blobs()

    def prepare(self) -> None:
        """Read what was given, and write files without waiting for the disk."""
        if self.submission is None:
            customer, documents = self._contents = self._read()
            files = [file for _, file in documents if file is not None]
            self._app_state.quotas.check(customer, len(documents), sum(file.size for file in files))
            for file in files:
                file.write(self._app_state.require_blobs())

    def commit_files(self) -> None:
        """Make the files durable."""
        if self.submission is None:
            customer, given = self._contents
            documents = [self._document(document_spec, file) for document_spec, file in given]
            self.submission = self._scope.submission(customer, documents, self._idempotency_key)

    def prepare_and_commit(self) -> None:
        """Both at once."""
        self.prepare()
        self.commit_files()

    def complete(self, outcome: tuple[Receipt, ...] | Exception) -> None:
        """Hear what the store says."""
        if isinstance(outcome, Exception):
            raise outcome
        customer, given = self._contents
        if self._idempotency_key is not None:
            self._delete_unreferenced_blobs()  # a repeat was answered with the first receipts, and has the first blobs
        self._app_state.quotas.add(customer, len(given), sum(file.size for _, file in given if file is not None))
        self.accepted = AcceptedSubmission(customer, outcome)

    def _document(self, spec: schemas.DocumentSpec, file: Upload | None) -> NewDocument:
        if file is None:
            return _new_document(spec, name=spec.name, uri=spec.uri)
        blob = file.commit(self._app_state.require_blobs())
        self._stored_blobs.append(blob.key)
        media_type = media_types.media_type_of(file.head, file.name)
        pages = self._page_count(blob, media_type)
        return _new_document(
            spec,
            name=file.name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=media_type,
            pages=pages,
        )

    def _page_count(self, blob: Blob, media_type: str | None) -> int | None:
        """Counted only where they cost something: it takes time."""
        if not self._app_state.charges_per_page():
            return None
        with self._app_state.require_blobs().local(blob.key) as path:
            return count_pages(path, media_type)

    def _delete_unreferenced_blobs(self) -> None:
        """What the store says it does not know: a commit whose answer was lost may have succeeded."""
        with suppress(InturnError):
            if self._stored_blobs:
                self._app_state.require_blobs().delete(
                    self._app_state.queue.store.unreferenced_blobs(self._stored_blobs)
                )


def submit_batch(queue: Queue, batch: Sequence[PendingSubmission]) -> list[AcceptedSubmission | Exception]:
    """Take in what came at the same time: for each its receipts, or why it was refused."""
    for arrival in batch:
        arrival.run_step(arrival.prepare)
    list(_DISK_POOL.map(lambda submission: submission.run_step(submission.commit_files), batch))
    ready = [(arrival, arrival.submission) for arrival in batch if arrival.submission and not arrival.error]
    for (arrival, _), answer in zip(
        ready, _store_submissions(queue, [submission for _, submission in ready]), strict=True
    ):
        arrival.run_step(partial(arrival.complete, answer))
    return [
        arrival.accepted or arrival.error or AssertionError("it was neither taken nor refused") for arrival in batch
    ]


def _store_submissions(queue: Queue, submissions: Sequence[Submission]) -> Sequence[tuple[Receipt, ...] | Exception]:
    try:
        return queue.store.submit_all(submissions) if submissions else ()
    except Exception as error:  # noqa: BLE001 - as above
        return [error] * len(submissions)


def _new_document(spec: schemas.DocumentSpec, **content_fields: Any) -> NewDocument:
    values: dict[str, Any] = {
        "batch": spec.batch,
        "metadata": spec.metadata,
        "cost": spec.cost,
        "delay": spec.delay,
        "start_by": spec.start_by,
    }
    return NewDocument(**values, **content_fields)
