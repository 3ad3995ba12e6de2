"""Store the files of submissions, then commit their documents; delete files whose commit failed.

Concurrent submissions go through each step together: files are synced in parallel, and one commit stores all documents.
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
from inturn.store_types import Submission

_DISK_POOL: Final = ThreadPoolExecutor(16, "inturn-disk")


class AcceptedSubmission(NamedTuple):
    """The customer and the receipts of a committed submission."""

    customer: str
    receipts: tuple[Receipt, ...]


class UploadContents(NamedTuple):
    """The customer of a request, and the spec of each document with its file, if it has one."""

    customer: str
    documents: Sequence[tuple[schemas.DocumentSpec, Upload | None]]


class PendingSubmission:
    """A submission on its way: `prepare`, `commit_files`, the store's commit of `submission`, then `complete`."""

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
        """Run a step unless an earlier one failed; delete the stored files if it fails."""
        if self.error is None:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the waiting caller gets the error
                self.error = error
                self._delete_unreferenced_blobs()

    def prepare(self) -> None:
        """Read the contents, check the quota, and write the files without syncing them."""
        if self.submission is None:
            customer, documents = self._contents = self._read()
            files = [file for _, file in documents if file is not None]
            self._app_state.quotas.check(customer, len(documents), sum(file.size for file in files))
            for file in files:
                file.write(self._app_state.require_blobs())

    def commit_files(self) -> None:
        """Make the files durable, and build the submission."""
        if self.submission is None:
            customer, contents = self._contents
            documents = [self._document(spec, file) for spec, file in contents]
            self.submission = self._scope.submission(customer, documents, self._idempotency_key)

    def prepare_and_commit(self) -> None:
        """Run both steps."""
        self.prepare()
        self.commit_files()

    def complete(self, outcome: tuple[Receipt, ...] | Exception) -> None:
        """Take the receipts or the error of the store's commit."""
        if isinstance(outcome, Exception):
            raise outcome
        customer, documents = self._contents
        if self._idempotency_key is not None:
            self._delete_unreferenced_blobs()  # a repeated submission uses the files of the first one
        self._app_state.quotas.add(
            customer, len(documents), sum(file.size for _, file in documents if file is not None)
        )
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
        """Count pages only if the policy charges for them, as it takes time."""
        if not self._app_state.charges_per_page():
            return None
        with self._app_state.require_blobs().local(blob.key) as path:
            return count_pages(path, media_type)

    def _delete_unreferenced_blobs(self) -> None:
        """Delete files without a document. The store decides: a commit whose reply was lost may have succeeded."""
        with suppress(InturnError):
            if self._stored_blobs:
                self._app_state.require_blobs().delete(self._app_state.queue.unreferenced_blobs(self._stored_blobs))


def submit_batch(queue: Queue, batch: Sequence[PendingSubmission]) -> list[AcceptedSubmission | Exception]:
    """Submit a batch; return the receipts or the error of each submission."""
    for pending in batch:
        pending.run_step(pending.prepare)
    list(_DISK_POOL.map(lambda pending: pending.run_step(pending.commit_files), batch))
    ready = [(pending, pending.submission) for pending in batch if pending.submission and not pending.error]
    outcomes = _store_submissions(queue, [submission for _, submission in ready])
    for (pending, _), outcome in zip(ready, outcomes, strict=True):
        pending.run_step(partial(pending.complete, outcome))
    return [pending.accepted or pending.error or AssertionError("the submission has no outcome") for pending in batch]


def _store_submissions(queue: Queue, submissions: Sequence[Submission]) -> Sequence[tuple[Receipt, ...] | Exception]:
    try:
        return queue.submit_all(submissions) if submissions else ()
    except Exception as error:  # noqa: BLE001 - each waiting caller gets the error
        return [error] * len(submissions)


def _new_document(spec: schemas.DocumentSpec, **content_fields: Any) -> NewDocument:
    values: dict[str, Any] = {
        "batch": spec.batch,
        "group": spec.group,
        "queue": spec.queue,
        "steps": spec.steps,
        "metadata": spec.metadata,
        "cost": spec.cost,
        "delay": spec.delay,
        "start_by": spec.start_by,
    }
    return NewDocument(**values, **content_fields)
