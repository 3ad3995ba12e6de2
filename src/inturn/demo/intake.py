"""Makes the documents, keeps their bytes, and submits them when the plan says so."""

import io
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple

from inturn.blobs import Blobs
from inturn.demo.documents import Made, bind, make
from inturn.demo.plan import BINDER, PAGES, Coming
from inturn.model import NewDocument
from inturn.queue import Queue


class Ready(NamedTuple):
    """A document that can be submitted, and what must come out of it."""

    coming: Coming
    given: NewDocument
    sha256: str
    """Of the bytes as they were made, before anything was kept."""
    title: str
    has_text: bool


def prepare(coming: Sequence[Coming], blobs: Blobs, progress: Callable[[int], None]) -> list[Ready]:
    """Make each document and keep its bytes; `progress` is told how many there are."""
    found = []
    for number, each in enumerate(coming, 1):
        made = _make(each)
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
        found.append(Ready(each, given, sha256(made.data).hexdigest(), made.content.title, each.kind != "png"))
        progress(number)
    return found


def _make(coming: Coming) -> Made:
    if coming.kind == BINDER:
        return bind(coming.seed, PAGES + 7 * coming.seed % (PAGES // 2))
    return make(coming.kind, coming.seed)


class Submitter(threading.Thread):
    """Submits what comes at its time: one call for what a customer sends at once."""

    def __init__(self, queue: Queue, ready: Iterable[Ready]) -> None:
        super().__init__(name="inturn-demo-submitter", daemon=True)
        self._queue = queue
        self._calls = [list(each) for _, each in groupby(ready, key=lambda each: each.coming[:2])]
        self._stopped = threading.Event()
        self.by_id: dict[str, Ready] = {}
        self.levels: dict[str, int] = {}
        """What each customer's newest document got."""
        self.wrong: Exception | None = None

    def run(self) -> None:  # noqa: D102 - a thread's own
        began = time.monotonic()
        try:
            for call in self._calls:
                at, customer = call[0].coming[:2]
                if self._stopped.wait(max(0.0, began + at - time.monotonic())):
                    return
                receipts = self._queue.submit(customer, [each.given for each in call])
                self.by_id.update(zip((receipt.id for receipt in receipts), call, strict=True))
                self.levels[customer] = receipts[-1].level
        except Exception as wrong:  # noqa: BLE001 - raised again by `check`, in the main thread
            self.wrong = wrong

    def check(self) -> None:
        """Whatever went wrong in the thread."""
        if self.wrong is not None:
            raise self.wrong

    def stop(self) -> None:
        """Submit nothing more."""
        self._stopped.set()
        self.join()
