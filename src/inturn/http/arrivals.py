"""Submissions on their way into the queue: their bytes first, then the commit. What was kept for nothing is deleted.

Those that come in at the same time go through each step together: files are synced side by side, and one commit
keeps the documents of all.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from inturn.blobs import Blob
from inturn.errors import InturnError
from inturn.http import schemas
from inturn.http.scoped import Scoped
from inturn.http.uploads import Upload
from inturn.model import NewDocument, Receipt
from inturn.processing import kinds
from inturn.processing.pages import count_pages
from inturn.queue import Queue
from inturn.store import Submission

_KEEPERS: Final = ThreadPoolExecutor(16, "inturn-keeper")
"""Threads that wait for the disk."""


class Taken(NamedTuple):
    """Whose documents came in, and their receipts."""

    customer: str
    receipts: tuple[Receipt, ...]


class Parcel(NamedTuple):
    """What a request brings: whose it is, and what is said of each document, with its bytes if it has any."""

    customer: str
    documents: Sequence[tuple[schemas.GivenDocument, Upload | None]]


class Arrival:
    """One submission: `prepare`, `keep`, then its `submission` goes to the store, then `end`."""

    def __init__(self, scoped: Scoped, key: str | None, read: Callable[[], Parcel]) -> None:
        self.submission: Submission | None = None
        self.taken: Taken | None = None
        self.refused: Exception | None = None
        self._scoped = scoped
        self._service = scoped.service
        self._key = key
        self._read = read
        self._parcel = Parcel("", ())
        self._kept: list[str] = []

    def attempt(self, step: Callable[[], None]) -> None:
        """Go one step, unless an earlier one failed; what is left behind then is deleted."""
        if self.refused is None:
            try:
                step()
            except Exception as refused:  # noqa: BLE001 - whoever waits for it is told
                self.refused = refused
                self._drop_unknown()

    def prepare(self) -> None:
        """Read what was given, and write files without waiting for the disk."""
        if self.submission is None:
            customer, documents = self._parcel = self._read()
            files = [file for _, file in documents if file is not None]
            self._service.quotas.check(customer, len(documents), sum(file.size for file in files))
            for file in files:
                file.write(self._service.kept_files())

    def keep(self) -> None:
        """Make the files durable."""
        if self.submission is None:
            customer, given = self._parcel
            documents = [self._document(each, file) for each, file in given]
            self.submission = self._scoped.submission(customer, documents, self._key)

    def keep_alone(self) -> None:
        """Both at once."""
        self.prepare()
        self.keep()

    def end(self, answer: tuple[Receipt, ...] | Exception) -> None:
        """Hear what the store says."""
        if isinstance(answer, Exception):
            raise answer
        customer, given = self._parcel
        if self._key is not None:
            self._drop_unknown()  # a repeat was answered with the first receipts, and has the first blobs
        self._service.quotas.add(customer, len(given), sum(file.size for _, file in given if file is not None))
        self.taken = Taken(customer, answer)

    def _document(self, given: schemas.GivenDocument, file: Upload | None) -> NewDocument:
        if file is None:
            return _new(given, name=given.name, uri=given.uri)
        blob = file.keep(self._service.kept_files())
        self._kept.append(blob.key)
        media_type = kinds.media_type_of(file.head, file.name)
        pages = self._pages(blob, media_type)
        return _new(
            given,
            name=file.name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=media_type,
            pages=pages,
        )

    def _pages(self, blob: Blob, media_type: str | None) -> int | None:
        """Counted only where they cost something: it takes time."""
        if not self._service.prices_pages():
            return None
        with self._service.kept_files().local(blob.key) as path:
            return count_pages(path, media_type)

    def _drop_unknown(self) -> None:
        """What the store says it does not know: a commit whose answer was lost may have succeeded."""
        with suppress(InturnError):
            if self._kept:
                self._service.kept_files().delete(self._service.queue.store.unknown_blobs(self._kept))


def take_in(queue: Queue, arrivals: Sequence[Arrival]) -> list[Taken | Exception]:
    """Take in what came at the same time: for each its receipts, or why it was refused."""
    for arrival in arrivals:
        arrival.attempt(arrival.prepare)
    list(_KEEPERS.map(lambda arrival: arrival.attempt(arrival.keep), arrivals))
    ready = [(arrival, arrival.submission) for arrival in arrivals if arrival.submission and not arrival.refused]
    for (arrival, _), answer in zip(ready, _submitted(queue, [each for _, each in ready]), strict=True):
        arrival.attempt(partial(arrival.end, answer))
    return [
        arrival.taken or arrival.refused or AssertionError("it was neither taken nor refused") for arrival in arrivals
    ]


def _submitted(queue: Queue, submissions: Sequence[Submission]) -> Sequence[tuple[Receipt, ...] | Exception]:
    try:
        return queue.store.submit_all(submissions) if submissions else ()
    except Exception as wrong:  # noqa: BLE001 - as above
        return [wrong] * len(submissions)


def _new(given: schemas.GivenDocument, **more: Any) -> NewDocument:
    values: dict[str, Any] = {
        "batch": given.batch,
        "metadata": given.metadata,
        "cost": given.cost,
        "delay": given.delay,
        "start_by": given.start_by,
    }
    return NewDocument(**values, **more)
