"""Which documents that have not ended lack their files: they would fail when their turn comes."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from inturn.blobs import Blobs, FolderBlobs
from inturn.blobs.copy import list_keys
from inturn.errors import NotFoundError
from inturn.i18n import Texts
from inturn.model import ENDED, Document, DocumentState
from inturn.queue import Queue
from inturn.store import DocumentFilter

PAGE_SIZE: Final = 1_000
MAX_SINGLE_LOOKUPS: Final = 200
"""Objects that an object store is asked for one by one; for more, all of it is listed once."""
MAX_CUSTOMERS_SHOWN: Final = 10
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


def find_missing(queue: Queue, blobs: Blobs | None, *, is_configured: bool) -> MissingFiles:
    """Look for the file of every document that has not ended, page by page. `is_configured`: whether a place was
    named.
    """
    if not is_configured:
        return MissingFiles(0, {}, is_unknown=next(_unended_documents(queue), None) is not None)
    has = _blob_lookup(blobs)
    checked, customers = 0, Counter[str]()
    for document in _unended_documents(queue):
        checked += 1
        if not has(document.spec.blob or "") and _still_needs_file(queue, document):
            customers[document.customer] += 1
    return MissingFiles(checked, dict(sorted(customers.items(), key=lambda item: (-item[1], item[0]))))


def describe_missing(result: MissingFiles, texts: Texts) -> Iterator[tuple[str, str]]:
    """A line for people, where there is anything to say."""
    if result.is_unknown:
        yield texts.text("label_files"), texts.text("files_unknown")
    elif result.missing:
        named = ", ".join(
            f"{name} {texts.number(n)}" for name, n in list(result.customers.items())[:MAX_CUSTOMERS_SHOWN]
        )
        more = ", …" if len(result.customers) > MAX_CUSTOMERS_SHOWN else ""
        yield texts.text("label_files"), texts.text("files_missing", n=result.missing, customers=f"{named}{more}")
    elif result.checked:
        yield texts.text("label_files"), texts.text("files_there", n=result.checked)


def _unended_documents(queue: Queue) -> Iterator[Document]:
    """Those with a file that have not ended."""
    where, after = DocumentFilter(frozenset(DocumentState) - ENDED), None
    while True:
        page = queue.documents(where, limit=PAGE_SIZE, after=after)
        yield from (document for document in page.items if document.spec.blob is not None)
        if (after := page.next) is None:
            return


def _still_needs_file(queue: Queue, document: Document) -> bool:
    """Whether it has not ended or been deleted meanwhile, and its file with it."""
    try:
        return queue.document(document.id).state not in ENDED
    except NotFoundError:
        return False


def _blob_lookup(blobs: Blobs | None) -> Callable[[str], bool]:
    if blobs is None:
        return lambda _: False
    if isinstance(blobs, FolderBlobs):
        return blobs.has
    return _ObjectLookup(blobs).has


class _ObjectLookup:
    """An object store that answers slowly."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._lookup_count = 0
        self._listing: set[str] | None = None

    def has(self, blob_key: str) -> bool:
        """Whether there is such an object. One that came after the listing is asked for."""
        self._lookup_count += 1
        if self._lookup_count > MAX_SINGLE_LOOKUPS and self._listing is None:
            self._listing = list_keys(self._blobs)
        return (self._listing is not None and blob_key in self._listing) or self._blobs.has(blob_key)
