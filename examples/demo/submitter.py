"""Makes the documents, keeps their bytes, and submits them when the plan says so."""

import io
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple

from demo.documents import SampleDocument, make_binder, make_document
from demo.workload import BINDER, MIN_BINDER_PAGES, PlannedSubmission
from inturn.blobs import Blobs
from inturn.model import NewDocument
from inturn.queue import Queue


class PreparedDocument(NamedTuple):
    """A document that can be submitted, and what must come out of it."""

    planned: PlannedSubmission
    spec: NewDocument
    sha256: str
    """Of the bytes as they were made, before anything was kept."""
    title: str
    has_text: bool


def prepare(
    planned: Sequence[PlannedSubmission], blobs: Blobs, progress: Callable[[int], None]
) -> list[PreparedDocument]:
    """Make each document and keep its bytes; `progress` is told how many there are."""
    result = []
    for number, planned_submission in enumerate(planned, 1):
        made = _make(planned_submission)
        blob = blobs.put(io.BytesIO(made.data))
        given = NewDocument(
            made.name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=made.media_type,
            batch="demo",
            pages=made.pages,
        )
        result.append(
            PreparedDocument(
                planned_submission,
                given,
                sha256(made.data).hexdigest(),
                made.content.title,
                planned_submission.kind != "png",
            )
        )
        progress(number)
    return result


def _make(planned: PlannedSubmission) -> SampleDocument:
    if planned.kind == BINDER:
        return make_binder(planned.seed, MIN_BINDER_PAGES + 7 * planned.seed % (MIN_BINDER_PAGES // 2))
    return make_document(planned.kind, planned.seed)


class Submitter(threading.Thread):
    """Submits what comes at its time: one call for what a customer sends at once."""

    def __init__(self, queue: Queue, documents: Iterable[PreparedDocument]) -> None:
        super().__init__(name="inturn-demo-submitter", daemon=True)
        self._queue = queue
        self._batches = [
            list(item) for _, item in groupby(documents, key=lambda prepared_document: prepared_document.planned[:2])
        ]
        self._stop_event = threading.Event()
        self.by_id: dict[str, PreparedDocument] = {}
        self.levels: dict[str, int] = {}
        """What each customer's newest document got."""
        self.error: Exception | None = None

    def run(self) -> None:  # noqa: D102 - a thread's own
        began = time.monotonic()
        try:
            for call in self._batches:
                at, customer = call[0].planned[:2]
                if self._stop_event.wait(max(0.0, began + at - time.monotonic())):
                    return
                receipts = self._queue.submit(customer, [prepared_document.spec for prepared_document in call])
                self.by_id.update(zip((receipt.id for receipt in receipts), call, strict=True))
                self.levels[customer] = receipts[-1].level
        except Exception as error:  # noqa: BLE001 - raised again by `check`, in the main thread
            self.error = error

    def check(self) -> None:
        """Whatever went wrong in the thread."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Submit nothing more."""
        self._stop_event.set()
        self.join()
