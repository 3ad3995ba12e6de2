"""Defines the contract of blob stores, with these guarantees.

1. When `commit` or `put` returns, the bytes survive a crash of the process and of the machine.
2. Before that the blob is not visible. It exists completely or not at all, whenever the process dies.
3. A blob never changes. Its key is a new UUID, never a name from a user.
4. A failed operation raises a `BlobError` and stores nothing.
"""

import errno
import hashlib
import shutil
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

_DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Blob(NamedTuple):
    """Key, hash and size of a stored blob."""

    key: str
    sha256: str
    size: int


class BlobWriter(ABC):
    """Writes a new blob chunk by chunk.

    As a context manager it aborts unless it was committed. An error in `write` or `commit` aborts it too.
    """

    def __init__(self, key: str, limit: int | None = None) -> None:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidInputError(f"a limit must be a whole number of bytes, 0 or more, not {limit!r}")
        self.key: Final = key
        self._limit: Final = limit
        self._hash: Final = hashlib.sha256()
        self._size = 0
        self._ended = False

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes so far, in hex."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Append bytes; beyond the limit, abort and raise `BlobTooLargeError`."""
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
        return Blob(self.key, self.sha256, self._size)

    def abort(self) -> None:
        """Discard all bytes. After a commit or another abort it does nothing."""
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
        """Write all of the chunk."""

    @abstractmethod
    def _finish(self) -> None:
        """Make the bytes durable, then visible."""

    @abstractmethod
    def _drop(self) -> None:
        """Discard all bytes. Must not raise: the caller is usually handling an error."""


class Blobs(Protocol):
    """Stores the bytes of documents. Safe for many threads; a `BlobWriter` is for one thread at a time."""

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        """Start a new blob of at most `limit` bytes; give a `key` only to copy a blob from another store."""
        ...

    def put(self, source: BinaryIO, *, limit: int | None = None) -> Blob:
        """Store all bytes of the source, in chunks of 1 MB."""
        with self.begin(limit=limit) as writer:
            shutil.copyfileobj(source, writer, CHUNK_BYTES)
            return writer.commit()

    def open(self, key: str) -> BinaryIO:
        """Open a blob for reading, seekable; its hash is not checked. The caller closes the file."""
        ...

    def local(self, key: str, *, sha256: str | None = None, folder: Path | None = None) -> AbstractContextManager[Path]:
        """Provide a read-only file with the bytes inside the `with`; with `sha256`, check its hash first.

        A store that must copy the bytes uses `folder`, or else the system's temporary folder.
        """
        ...

    def check(self, key: str, sha256: str) -> None:
        """Read everything and raise `BlobDamagedError` unless it has this hash."""
        digest = hashlib.sha256()
        with self.open(key) as source:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
        require_hash(key, sha256, digest.hexdigest())

    def has(self, key: str) -> bool:
        """Return whether the blob exists, without reading its bytes."""
        try:
            self.open(key).close()
        except BlobNotFoundError:
            return False
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs; missing ones are ignored."""
        ...

    def keys(self, older_than: int) -> Iterator[str]:
        """List the blobs last written before this time, in microseconds since 1970."""
        ...

    def remove_unfinished(self, older_than: int) -> int:
        """Remove unfinished blobs last written before this time; return how many."""
        ...


def blob_path(key: str) -> str:
    """Return the path of a key below the top folder. Rejects a key that is not a UUID.

    The shard is the last two digits, since keys of one hour begin alike.
    """
    clean = clean_id(key)
    return f"{clean[-2:]}/{clean}"


def is_blob_key(name: str) -> bool:
    """Return whether a name in the store is a blob key; files with other names are left alone."""
    try:
        return clean_id(name) == name
    except InvalidInputError:
        return False


def require_hash(key: str, expected: str, actual: str) -> None:
    """Raise `BlobDamagedError` unless the hashes are equal."""
    if actual != expected.lower():
        raise BlobDamagedError(
            f"blob {key} is damaged: its SHA-256 is {actual}, not {expected}; restore it from a backup"
        )


def missing_blob_error(key: str, location: object) -> BlobNotFoundError:
    """Make the error for a blob that is not in the store."""
    return BlobNotFoundError(
        f"there is no blob {key} in {location}: it was deleted, or the documents of this queue are stored elsewhere"
    )


def to_blob_error(action: str, error: OSError, advice: str) -> BlobError:
    """Translate an error of the system; the advice is for errors other than a full disk."""
    if error.errno in _DISK_FULL_ERRNOS:
        return BlobFullError(f"{action}: {error.strerror}; make room and try again")
    return BlobError(f"{action}: {error.strerror or error}; {advice}")
