"""Which documents that have not ended lack their files: they would fail when their turn comes."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from inturn.blobs import Blobs, FolderBlobs
from inturn.blobs.copying import present
from inturn.errors import NotFoundError
from inturn.i18n import Texts
from inturn.model import ENDED, Document, DocumentState
from inturn.queue import Queue
from inturn.store import DocumentFilter

PAGE: Final = 1_000
ASKED_ONE_BY_ONE: Final = 200
"""Objects that an object store is asked for one by one; for more, all of it is listed once."""
SHOWN: Final = 10
"""Customers that are named."""


class MissingFiles(NamedTuple):
    """How many files were looked for, and the customers of those that are missing, those with the most first."""

    checked: int
    customers: dict[str, int]
    is_unknown: bool = False
    """There are files, and nobody said where."""

    @property
    def missing(self) -> int:
        """All that are missing."""
        return sum(self.customers.values())


def find_missing(queue: Queue, blobs: Blobs | None, *, is_told: bool) -> MissingFiles:
    """Look for the file of every document that has not ended, page by page. `is_told`: whether a place was named."""
    if not is_told:
        return MissingFiles(0, {}, is_unknown=next(_documents(queue), None) is not None)
    has = _lookup(blobs)
    checked, customers = 0, Counter[str]()
    for document in _documents(queue):
        checked += 1
        if not has(document.given.blob or "") and _is_still_there(queue, document):
            customers[document.customer] += 1
    return MissingFiles(checked, dict(sorted(customers.items(), key=lambda each: (-each[1], each[0]))))


def describe_missing(found: MissingFiles, texts: Texts) -> Iterator[tuple[str, str]]:
    """A line for people, where there is anything to say."""
    if found.is_unknown:
        yield texts.text("label_files"), texts.text("files_unknown")
    elif found.missing:
        named = ", ".join(f"{name} {texts.number(n)}" for name, n in list(found.customers.items())[:SHOWN])
        more = ", …" if len(found.customers) > SHOWN else ""
        yield texts.text("label_files"), texts.text("files_missing", n=found.missing, customers=f"{named}{more}")
    elif found.checked:
        yield texts.text("label_files"), texts.text("files_there", n=found.checked)


def _documents(queue: Queue) -> Iterator[Document]:
    """Those with a file that have not ended."""
    where, after = DocumentFilter(frozenset(DocumentState) - ENDED), None
    while True:
        page = queue.documents(where, limit=PAGE, after=after)
        yield from (each for each in page.items if each.given.blob is not None)
        if (after := page.next) is None:
            return


def _is_still_there(queue: Queue, document: Document) -> bool:
    """Whether it has not ended or been deleted meanwhile, and its file with it."""
    try:
        return queue.document(document.id).state not in ENDED
    except NotFoundError:
        return False


def _lookup(blobs: Blobs | None) -> Callable[[str], bool]:
    if blobs is None:
        return lambda _: False
    if isinstance(blobs, FolderBlobs):
        return blobs.has
    return _Objects(blobs).has


class _Objects:
    """An object store that answers slowly."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._asked = 0
        self._listed: set[str] | None = None

    def has(self, key: str) -> bool:
        """Whether there is such an object. One that came after the listing is asked for."""
        self._asked += 1
        if self._asked > ASKED_ONE_BY_ONE and self._listed is None:
            self._listed = present(self._blobs)
        return (self._listed is not None and key in self._listed) or self._blobs.has(key)
