"""Find documents that have not ended and lack their files; a worker would fail them."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from inturn.blobs import Blobs, FolderBlobs
from inturn.blobs.copy import list_keys
from inturn.errors import NotFoundError
from inturn.i18n import Texts
from inturn.model import ENDED, Document, DocumentState
from inturn.queue import Queue
from inturn.store_types import DocumentFilter

PAGE_SIZE: Final = 1_000
MAX_SINGLE_LOOKUPS: Final = 200
"""Lookups of single objects, before all objects are listed once."""
MAX_CUSTOMERS_SHOWN: Final = 10


class MissingFiles(NamedTuple):
    """The number of files checked, and of missing files by customer, most first."""

    checked: int
    customers: dict[str, int]
    is_unknown: bool = False
    """Documents have files, but no blob store is configured."""

    @property
    def missing(self) -> int:
        """The number of missing files."""
        return sum(self.customers.values())


def find_missing(queue: Queue, blobs: Blobs | None, *, is_configured: bool) -> MissingFiles:
    """Look up the file of every document that has not ended. `is_configured`: a blob store's address is known."""
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
    """Describe the files that are missing, unknown or all there."""
    if result.is_unknown:
        yield texts.text("label_files"), texts.text("files_unknown")
    elif result.missing:
        customers = ", ".join(
            f"{name} {texts.number(n)}" for name, n in list(result.customers.items())[:MAX_CUSTOMERS_SHOWN]
        )
        more = ", …" if len(result.customers) > MAX_CUSTOMERS_SHOWN else ""
        yield texts.text("label_files"), texts.text("files_missing", n=result.missing, customers=f"{customers}{more}")
    elif result.checked:
        yield texts.text("label_files"), texts.text("files_there", n=result.checked)


def _unended_documents(queue: Queue) -> Iterator[Document]:
    """Iterate over documents with a file that have not ended."""
    where, after = DocumentFilter(frozenset(DocumentState) - ENDED), None
    while True:
        page = queue.documents(where, limit=PAGE_SIZE, after=after)
        yield from (document for document in page.items if document.spec.blob is not None)
        if (after := page.next) is None:
            return


def _still_needs_file(queue: Queue, document: Document) -> bool:
    """Check that the document has not ended or been deleted since it was listed."""
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
    """Look up objects one by one, then in a listing: single requests are slow."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._lookup_count = 0
        self._listing: set[str] | None = None

    def has(self, blob_key: str) -> bool:
        """Check for an object; one that is not in the listing may be newer, and is looked up."""
        self._lookup_count += 1
        if self._lookup_count > MAX_SINGLE_LOOKUPS and self._listing is None:
            self._listing = list_keys(self._blobs)
        return (self._listing is not None and blob_key in self._listing) or self._blobs.has(blob_key)
