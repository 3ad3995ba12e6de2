"""Stores blobs as objects in S3, or in another service that obstore supports.

    <prefix>/<ab>/<key>   <ab> are the last two digits of the key

The service itself makes an object durable, and visible only when it is complete.
"""

import hashlib
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore, S3Store, from_url

from inturn.blobs.base import (
    CHUNK_BYTES,
    Blobs,
    BlobWriter,
    blob_path,
    is_blob_key,
    missing_blob_error,
    require_hash,
    to_blob_error,
)
from inturn.clock import Clock, SystemClock
from inturn.errors import BlobError, InvalidInputError
from inturn.files import create_private_file
from inturn.ids import Ids, RandomIds

if TYPE_CHECKING:
    from obstore import ReadableFile
    from obstore.store import ClientConfig, RetryConfig

PART_BYTES: Final = 8 * 1024 * 1024
"""Size of one part of an upload. Up to `_MAX_CONCURRENT_PARTS` + 1 parts are in memory. S3 accepts 10,000 parts, so a
blob may have 80 GB."""

_S3_ENDPOINT_VARIABLE: Final = "AWS_ENDPOINT_URL_S3"
_MAX_CONCURRENT_PARTS: Final = 2
_LIST_PAGE_SIZE: Final = 1000
_RETRY: Final["RetryConfig"] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_CLIENT_CONFIG: Final["ClientConfig"] = {
    "connect_timeout": timedelta(seconds=5),
    "timeout": timedelta(seconds=60),
}
"""For one request, which carries at most one part."""


class ObjectBlobs(Blobs):
    """A blob store below one prefix of one bucket. Errors quote its `name`."""

    def __init__(
        self,
        store: ObjectStore,
        name: str,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.name: Final = name
        self._store: Final = store
        self._clock: Final = clock or SystemClock()
        self._ids: Final = ids or RandomIds()

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        """Start a new blob of at most `limit` bytes."""
        (new,) = self._ids.make(1, self._clock.now())
        return _ObjectWriter(self._store, self.name, key or new, limit)

    def open(self, key: str) -> BinaryIO:
        """Open an object; its bytes are requested range by range."""
        return self._open(key, CHUNK_BYTES)

    @contextmanager
    def local(self, key: str, *, sha256: str | None = None, folder: Path | None = None) -> Iterator[Path]:
        """Provide a copy, which is removed at the end."""
        with _temporary_folder(folder) as temporary:
            path = Path(temporary) / "blob"
            actual = self._download(key, path)
            if sha256 is not None:
                require_hash(key, sha256, actual)
            yield path

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, in bulk where the service can."""
        paths = [blob_path(key) for key in keys]
        if not paths:
            return
        with _translate_errors("delete from", self.name):
            try:
                obstore.delete(self._store, paths)
            except FileNotFoundError:  # some services, not S3, stop at a missing object
                for path in paths:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._store, path)

    def keys(self, older_than: int) -> Iterator[str]:
        """List the objects last written before this time, by the clock of the service."""
        with _translate_errors("list", self.name):
            for page in obstore.list(self._store, chunk_size=_LIST_PAGE_SIZE):
                for object_meta in page:
                    key = object_meta["path"].rpartition("/")[2]
                    written = int(object_meta["last_modified"].timestamp() * 1_000_000)
                    if is_blob_key(key) and object_meta["path"] == blob_path(key) and written < older_than:
                        yield key

    def remove_unfinished(self, older_than: int) -> int:  # noqa: ARG002 - the same call for every kind of store
        """Do nothing: obstore cannot list unfinished uploads. A lifecycle rule of the bucket removes them."""
        return 0

    def _open(self, key: str, buffer_bytes: int) -> BinaryIO:
        with _translate_errors("read from", self.name, key):
            readable_file = obstore.open_reader(self._store, blob_path(key), buffer_size=buffer_bytes)
        return io.BufferedReader(_ObjectReader(readable_file, self.name, key), CHUNK_BYTES)

    def _download(self, key: str, path: Path) -> str:
        """Copy an object into a new file; return its SHA-256."""
        digest = hashlib.sha256()
        with self._open(key, PART_BYTES) as source:
            try:
                with create_private_file(path) as target:
                    while chunk := source.read(CHUNK_BYTES):
                        digest.update(chunk)
                        target.write(chunk)
                path.chmod(0o400)
            except OSError as error:
                raise _copy_error(path.parent.parent, error) from error
        return digest.hexdigest()


class _ObjectWriter(BlobWriter):
    def __init__(self, store: ObjectStore, name: str, key: str, limit: int | None) -> None:
        super().__init__(key, limit)
        self._name = name
        with _translate_errors("write to", name):
            self._writer = obstore.open_writer(
                store, blob_path(key), buffer_size=PART_BYTES, max_concurrency=_MAX_CONCURRENT_PARTS
            )

    def _append(self, chunk: bytes | bytearray | memoryview) -> None:
        # Copied, since parts are uploaded in the background and the caller may reuse its buffer.
        with _translate_errors("write to", self._name):
            self._writer.write(bytes(chunk))

    def _finish(self) -> None:
        with _translate_errors("write to", self._name):
            self._writer.close()

    def _drop(self) -> None:
        # obstore aborts an upload only when its context exits with an exception; `close` would complete it.
        error = BlobError("aborted")
        with suppress(Exception):  # the service may be gone, or the upload may have failed already
            self._writer.__exit__(type(error), error, None)


class _ObjectReader(io.RawIOBase):
    """Adapts a reader of obstore to the standard library's buffered reader."""

    def __init__(self, file: "ReadableFile", name: str, key: str) -> None:
        self._file = file
        self._name = name
        self._key = key

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readall(self) -> bytes:
        """Read the rest in parts; the inherited method would send a request for each 8 KiB."""
        parts = []
        while part := self.read(PART_BYTES):
            parts.append(part)
        return b"".join(parts)

    def readinto(self, buffer: Any, /) -> int:
        left = max(0, self._file.size - self._file.tell())  # older versions of obstore raise at a read past the end
        with _translate_errors("read from", self._name, self._key):
            chunk = self._file.read(min(len(buffer), left)) if left else b""
        size = len(chunk)
        buffer[:size] = memoryview(chunk)
        return size


def open_s3(bucket: str, prefix: str, endpoint: str | None, region: str | None) -> ObjectBlobs:
    """Open a bucket of S3 or a compatible service; credentials and None values come from AWS_* variables."""
    client: ClientConfig = {**_CLIENT_CONFIG}
    if endpoint is not None and endpoint.startswith("http://"):
        client["allow_http"] = True
    config = {"endpoint": endpoint, "region": region}
    if _S3_ENDPOINT_VARIABLE in os.environ:
        config["aws_endpoint_url_s3"] = endpoint  # the variable would override the endpoint of the address
    with _translate_errors("open", f"s3://{bucket}"):
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config={name: value for name, value in config.items() if value is not None},  # type: ignore[arg-type]
            client_options=client,
            retry_config=_RETRY,
        )
    return ObjectBlobs(store, f"s3://{bucket}/{prefix}")


def open_by_url(url: str) -> ObjectBlobs:
    """Open Google Cloud Storage (`gs://`) or Azure (`az://`), configured by the variables of their own tools."""
    with _translate_errors("open", url):
        return ObjectBlobs(from_url(url, client_options=_CLIENT_CONFIG, retry_config=_RETRY), url)


def _temporary_folder(folder: Path | None) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="inturn-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise _copy_error(folder or tempfile.gettempdir(), error) from error


def _copy_error(folder: Path | str, error: OSError) -> BlobError:
    return to_blob_error(f"cannot copy a blob to {folder}", error, "check that folder, or set TMPDIR to another")


@contextmanager
def _translate_errors(action: str, name: str, key: str | None = None) -> Iterator[None]:
    """Translate errors of obstore. Only their first line is quoted: the others may repeat the server's answer."""
    try:
        yield
    except FileNotFoundError as error:
        if key is not None and "NoSuchBucket" not in str(error):
            raise missing_blob_error(key, name) from error
        raise BlobError(f"cannot {action} {name}: there is no such bucket; make it, or correct the address") from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise BlobError(
            f"cannot {action} {name}: access was refused; check the credentials and their rights"
        ) from error
    except (BaseError, OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        first = str(error).partition("\n")[0][:300]
        raise BlobError(
            f"cannot {action} {name}: {first}; check the address, the network and the credentials"
        ) from error
