"""Blobs as objects in S3, or in whatever else obstore speaks to.

    <prefix>/<ab>/<key>   <ab> are the last two digits of the key

An object store shows an object only when it is complete, and keeps it safe by itself.
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

from inturn.blobs.base import CHUNK_BYTES, Blobs, BlobWriter, blob_path, is_blob_key, require_hash, to_blob_error
from inturn.clock import Clock, SystemClock
from inturn.errors import BlobError, BlobNotFoundError, InvalidInputError
from inturn.files import create_private_file
from inturn.ids import Ids, RandomIds

if TYPE_CHECKING:
    from obstore import ReadableFile
    from obstore.store import ClientConfig, RetryConfig

PART_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one part of an upload. Up to `_MAX_CONCURRENT_PARTS` + 1 of them are in memory; S3 takes 10,000, so 80 GB
at most."""

_S3_ENDPOINT_VARIABLE: Final = "AWS_ENDPOINT_URL_S3"
_MAX_CONCURRENT_PARTS: Final = 2
_LIST_PAGE_SIZE: Final = 1000
_RETRY: Final["RetryConfig"] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_CLIENT_CONFIG: Final["ClientConfig"] = {
    "connect_timeout": timedelta(seconds=5),
    "timeout": timedelta(seconds=60),
}
"""For one request, which carries one part at most: a slow network has time enough, a dead one does not hang us."""


class ObjectBlobs(Blobs):
    """Objects below one prefix of one bucket. `name` stands in errors."""

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
        """The bytes, asked for range by range as they are read."""
        return self._open(key, CHUNK_BYTES)

    @contextmanager
    def local(self, key: str, *, sha256: str | None = None, folder: Path | None = None) -> Iterator[Path]:
        """A copy, removed at the end."""
        with _temporary_folder(folder) as made:
            path = Path(made) / "blob"
            result = self._download(key, path)
            if sha256 is not None:
                require_hash(key, sha256, result)
            yield path

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, in bulk where the service can."""
        places = [blob_path(key) for key in keys]
        if not places:
            return
        with _translate_errors("delete from", self.name):
            try:
                obstore.delete(self._store, places)
            except FileNotFoundError:  # not S3: some services call a missing object an error and stop there
                for place in places:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._store, place)

    def keys(self, older_than: int) -> Iterator[str]:
        """Objects last written before this time, by the service's clock."""
        with _translate_errors("list", self.name):
            for page in obstore.list(self._store, chunk_size=_LIST_PAGE_SIZE):
                for object_meta in page:
                    key = object_meta["path"].rpartition("/")[2]
                    written = int(object_meta["last_modified"].timestamp() * 1_000_000)
                    if is_blob_key(key) and object_meta["path"] == blob_path(key) and written < older_than:
                        yield key

    def remove_unfinished(self, older_than: int) -> int:  # noqa: ARG002 - the same call for every kind of store
        """Nothing: unfinished uploads cannot be seen from here. A rule of the bucket removes them."""
        return 0

    def _open(self, key: str, buffer_bytes: int) -> BinaryIO:
        with _translate_errors("read from", self.name, key):
            readable_file = obstore.open_reader(self._store, blob_path(key), buffer_size=buffer_bytes)
        return io.BufferedReader(_ObjectReader(readable_file, self.name, key), CHUNK_BYTES)

    def _download(self, key: str, path: Path) -> str:
        """Copy into a new file; the hash of what came."""
        summed = hashlib.sha256()
        with self._open(key, PART_BYTES) as source:
            try:
                with create_private_file(path) as target:
                    while chunk := source.read(CHUNK_BYTES):
                        summed.update(chunk)
                        target.write(chunk)
                path.chmod(0o400)
            except OSError as error:
                raise _copy_error(path.parent.parent, error) from error
        return summed.hexdigest()


class _ObjectWriter(BlobWriter):
    def __init__(self, store: ObjectStore, name: str, key: str, limit: int | None) -> None:
        super().__init__(key, limit)
        self._name = name
        with _translate_errors("write to", name):
            self._writer = obstore.open_writer(
                store, blob_path(key), buffer_size=PART_BYTES, max_concurrency=_MAX_CONCURRENT_PARTS
            )

    def _append(self, chunk: bytes | bytearray | memoryview) -> None:
        # Parts are uploaded in the background: what the caller may change meanwhile is copied first.
        with _translate_errors("write to", self._name):
            self._writer.write(bytes(chunk))

    def _finish(self) -> None:
        with _translate_errors("write to", self._name):
            self._writer.close()

    def _drop(self) -> None:
        # Leaving with an exception is the writer's only way to abort an upload; closing it would complete it.
        error = BlobError("aborted")
        with suppress(Exception):  # also when the service is gone, or the upload has failed and ended by itself
            self._writer.__exit__(type(error), error, None)


class _ObjectReader(io.RawIOBase):
    """Lets the standard library buffer what obstore reads."""

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

    def readinto(self, buffer: Any, /) -> int:
        left = max(0, self._file.size - self._file.tell())  # older obstores take a read past the end for an error
        with _translate_errors("read from", self._name, self._key):
            chunk = self._file.read(min(len(buffer), left)) if left else b""
        size = len(chunk)
        buffer[:size] = memoryview(chunk)
        return size


def open_s3(bucket: str, prefix: str, endpoint: str | None, region: str | None) -> ObjectBlobs:
    """A bucket of S3 or of a service like it; what is None, and the credentials, come from AWS_* variables."""
    client: ClientConfig = {**_CLIENT_CONFIG}
    if endpoint is not None and endpoint.startswith("http://"):
        client["allow_http"] = True
    more = {"endpoint": endpoint, "region": region}
    if _S3_ENDPOINT_VARIABLE in os.environ:
        more["aws_endpoint_url_s3"] = endpoint  # it would win over the endpoint of the address
    with _translate_errors("open", f"s3://{bucket}"):
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config={name: value for name, value in more.items() if value is not None},  # type: ignore[arg-type]
            client_options=client,
            retry_config=_RETRY,
        )
    return ObjectBlobs(store, f"s3://{bucket}/{prefix}")


def open_by_url(url: str) -> ObjectBlobs:
    """Google Cloud Storage (`gs://`) or Azure (`az://`), set up by the variables that their own tools read."""
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
    """Turn obstore's errors into ours. Theirs run over many lines and may quote the server: the first line will do."""
    try:
        yield
    except FileNotFoundError as error:
        if key is not None and "NoSuchBucket" not in str(error):
            raise BlobNotFoundError(
                f"there is no blob {key} in {name}: it was deleted, or the documents of this queue are kept elsewhere"
            ) from error
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
