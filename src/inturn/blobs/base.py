"""What every keeper of documents' bytes promises.

1. When `commit` or `put` returns, the bytes survive a crash of the process and of the machine.
2. Before that nobody can see them: a blob is there entirely or not at all, whenever the process dies.
3. A blob never changes. Its key is a new UUID, never a name that somebody gave.
4. What went wrong is told by a `BlobError`, and then nothing was kept.
"""

import errno
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Protocol, Self

from inturn.errors import (
    BlobDamagedError,
    BlobError,
    BlobFullError,
    BlobNotFoundError,
    BlobTooLargeError,
    InvalidInputError,
)
from inturn.ids import clean_id

CHUNK_BYTES: Final = 1024 * 1024
"""How much is read and written at a time."""

_DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Blob(NamedTuple):
    """Bytes that are kept."""

    key: str
    sha256: str
    size: int


class BlobWriter(ABC):
    """Bytes on their way in, a chunk at a time: for callers that get them piece by piece.

    As a context manager it aborts what was not committed. After an error it has already aborted itself.
    """

    def __init__(self, key: str, limit: int | None = None) -> None:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidInputError(f"a limit must be a whole number of bytes, 0 or more, not {limit!r}")
        self.key: Final = key
        self._limit: Final = limit
        self._hash: Final = hashlib.sha256()
        self._size = 0
        self._ended = False

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Add bytes; past the limit everything is dropped and `BlobTooLargeError` raised."""
        self._require_open()
        with memoryview(chunk) as view:
            size = self._size + view.nbytes
        if self._limit is not None and size > self._limit:
            self.abort()
            raise BlobTooLargeError(
                f"a document may have {self._limit:,} bytes and this one has more; send a smaller one"
            )
        try:
            self._append(chunk)
        except BaseException:
            self.abort()
            raise
        self._hash.update(chunk)
        self._size = size

    def commit(self) -> Blob:
        """Make the bytes durable, then visible under their key."""
        self._require_open()
        try:
            self._finish()
        except BaseException:
            self.abort()
            raise
        self._ended = True
        return Blob(self.key, self._hash.hexdigest(), self._size)

    def abort(self) -> None:
        """Drop everything. It may be called at any time: after a commit or another abort it does nothing."""
        if not self._ended:
            self._ended = True
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abort()

    def _require_open(self) -> None:
        if self._ended:
            raise BlobError("this blob was already committed or aborted; begin another one")

    @abstractmethod
    def _append(self, chunk: bytes | bytearray | memoryview) -> None:
        """Take all of the chunk."""

    @abstractmethod
    def _finish(self) -> None:
        """Durable first, visible second."""

    @abstractmethod
    def _drop(self) -> None:
        """Leave nothing behind and raise nothing: an error is usually under way already."""


class Blobs(Protocol):
    """Keeps documents' bytes. One may be used by many threads; a `BlobWriter` by one at a time."""

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        """Start a new blob of at most `limit` bytes; a `key` is that of a blob elsewhere of which this is a copy."""
        ...

    def put(self, source: BinaryIO, *, limit: int | None = None) -> Blob:
        """Keep all that can be read from the source, of any length and without holding it in memory."""
        with self.begin(limit=limit) as writing:
            while chunk := source.read(CHUNK_BYTES):
                writing.write(chunk)
            return writing.commit()

    def open(self, key: str) -> BinaryIO:
        """The bytes, from the beginning and seekable; not compared with any hash. The caller closes it."""
        ...

    def local(self, key: str, *, sha256: str | None = None, folder: Path | None = None) -> AbstractContextManager[Path]:
        """A file with the bytes, to be read only, that is there inside the `with`; with a hash it is verified first.

        A copy, where one has to be made, lies in `folder`, or else among the machine's temporary files.
        """
        ...

    def check(self, key: str, sha256: str) -> None:
        """Read everything and raise `BlobDamagedError` unless it has this hash."""
        summed = hashlib.sha256()
        with self.open(key) as source:
            while chunk := source.read(CHUNK_BYTES):
                summed.update(chunk)
        require_hash(key, sha256, summed.hexdigest())

    def has(self, key: str) -> bool:
        """Whether there is such a blob; its bytes are not read."""
        try:
            self.open(key).close()
        except BlobNotFoundError:
            return False
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs; those that are not there are no error."""
        ...

    def keys(self, older_than: int) -> Iterator[str]:
        """Blobs last changed before this time, in microseconds since 1970: those a sweep for orphans looks at."""
        ...

    def remove_unfinished(self, older_than: int) -> int:
        """Remove what writers that died before this time left unfinished; how many there were."""
        ...


def blob_path(key: str) -> str:
    """Where a key lies, below the top: shards by its last two digits, since keys made in one hour begin alike.

    Only a UUID passes, so that no key leads anywhere else.
    """
    clean = clean_id(key)
    return f"{clean[-2:]}/{clean}"


def is_blob_key(name: str) -> bool:
    """Whether a name found in the store is one that we gave; others are left alone."""
    try:
        return clean_id(name) == name
    except InvalidInputError:
        return False


def require_hash(key: str, expected: str, actual: str) -> None:
    """Refuse bytes whose hash is not the one that was noted when they came in."""
    if actual != expected.lower():
        raise BlobDamagedError(
            f"blob {key} is damaged: its SHA-256 is {actual}, not {expected}; restore it from a backup"
        )


def to_blob_error(action: str, error: OSError, advice: str) -> BlobError:
    """The system's error as one of ours; what to do about a full disk is known, otherwise the caller advises."""
    if error.errno in _DISK_FULL_ERRNOS:
        return BlobFullError(f"{action}: {error.strerror}; make room and try again")
    return BlobError(f"{action}: {error.strerror or error}; {advice}")
