"""Make the PDFs of two customers, one of them a flood, and submit them."""

import io
from collections.abc import Iterator
from typing import Final

from demo.documents import make_document
from inturn import NewDocument, Queue
from inturn.blobs import Blobs

FLOOD: Final = "Flood Archive"
DAILY: Final = "Daily Dental"
DAILY_DOCUMENTS: Final = 4
"""Documents of the customer that comes when the flood is there."""
DAMAGED_PAGE: Final = 2
"""In the first document of the flood that has so many pages, the bytes of this one are overwritten."""


def submit_documents(queue: Queue, blobs: Blobs, count: int) -> int:
    """Submit `count` documents of the flood, then those of the other customer; return how many."""
    flood = list(_make_documents(blobs, range(count), damaged=True))
    daily = list(_make_documents(blobs, range(count, count + DAILY_DOCUMENTS), damaged=False))
    queue.submit(FLOOD, flood)
    queue.submit(DAILY, daily)
    return len(flood) + len(daily)


def _make_documents(blobs: Blobs, seeds: range, *, damaged: bool) -> Iterator[NewDocument]:
    for seed in seeds:
        made = make_document("pdf", seed)
        data = made.data
        if damaged and made.pages >= DAMAGED_PAGE:
            data, damaged = damage_page(data, DAMAGED_PAGE), False
        blob = blobs.put(io.BytesIO(data))
        yield NewDocument(
            made.name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=made.media_type,
            pages=made.pages,
            queue="split",
        )


def damage_page(data: bytes, page: int) -> bytes:
    """Overwrite what stands on a page of a PDF from `demo.pdf`, as a bad disk might."""
    at = 0
    for _ in range(page):
        at = data.index(b"\nstream\n", at) + len(b"\nstream\n")
    end = data.index(b"\nendstream", at)
    return data[:at] + bytes(end - at) + data[end:]
