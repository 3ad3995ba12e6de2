"""Blobs as files in a folder of this machine.

    <folder>/tmp/<key>    being written; never read
    <folder>/<ab>/<key>   complete; <ab> are the last two digits of the key

All of it is one file system, so that the rename from `tmp` is atomic. Files are 0600 and folders 0700.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from inturn.blobs.base import Blobs, BlobWriter, blob_path, is_blob_key, to_blob_error
from inturn.clock import Clock, SystemClock
from inturn.errors import BlobNotFoundError
from inturn.files import create_private_fd, make_private_folder
from inturn.ids import Ids, RandomIds

TEMPORARY_FOLDER: Final = "tmp"
SHARDS: Final = tuple(f"{number:02x}" for number in range(256))

_LINK_UNSUPPORTED_ERRNOS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS})
_ADVICE_BY_ERRNO: Final = {
    errno.EACCES: "give the user that runs Inturn the right to read and write this folder",
    errno.EPERM: "give the user that runs Inturn the right to read and write this folder",
    errno.EROFS: "the disk is mounted read-only; mount it for writing, or choose another folder",
    errno.ENOENT: "the folder is gone; mount or restore it and start Inturn again",
    errno.ENOTDIR: "something on the path is a file; choose another folder",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.EIO: "the disk reports an error; look at the system's log before you go on",
}


class FolderBlobs(Blobs):
    """A folder, which is made if it is missing."""

    def __init__(self, folder: Path, clock: Clock | None = None, ids: Ids | None = None) -> None:
        self.folder: Final = folder.absolute()
        self._clock: Final = clock or SystemClock()
        self._ids: Final = ids or RandomIds()
        with _translate_errors("use", self.folder):
            self._prepare()

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        """Start a new blob; what a writer of the same key that died left behind is in nobody's way."""
        (new,) = self._ids.make(1, self._clock.now())
        return _FileWriter(self.folder, key or new, limit, self.folder / TEMPORARY_FOLDER / new)

    def open(self, key: str) -> BinaryIO:
        """The bytes, from the beginning."""
        path = self._path(key)
        with _translate_errors("read", self.folder):
            try:
                return path.open("rb")
            except FileNotFoundError as missing:
                raise _missing_blob_error(key, self.folder) from missing

    @contextmanager
    def local(
        self,
        key: str,
        *,
        sha256: str | None = None,
        folder: Path | None = None,  # noqa: ARG002 - it needs no copy
    ) -> Iterator[Path]:
        """The blob's own file: whoever writes to it damages the blob."""
        if sha256 is None:
            self.open(key).close()
        else:
            self.check(key, sha256)
        yield self._path(key)

    def check(self, key: str, sha256: str) -> None:
        """Read everything and compare."""
        with _translate_errors("read", self.folder):
            super().check(key, sha256)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files. Not synced: one that a power cut brings back is an orphan, and the next sweep's."""
        paths = [self._path(key) for key in keys]
        with _translate_errors("delete from", self.folder):
            for path in paths:
                path.unlink(missing_ok=True)

    def has(self, key: str) -> bool:
        """Whether there is such a blob."""
        with _translate_errors("read", self.folder):
            return self._path(key).exists()

    def link(self, source: "FolderBlobs", key: str) -> bool:
        """Take a blob over from another folder by a hard link; False where the file systems allow none.

        Not synced: see `sync`. A blob never changes, and the other folder may delete its name.
        """
        try:
            os.link(source.folder / blob_path(key), self._path(key))
        except FileExistsError:
            return True
        except FileNotFoundError as missing:
            raise _missing_blob_error(key, source.folder) from missing
        except OSError as error:
            if error.errno in _LINK_UNSUPPORTED_ERRNOS:
                return False
            raise to_blob_error(f"cannot link into {self.folder}", error, "check the folder and its disk") from error
        return True

    def sync(self) -> None:
        """Wait until the names of all blobs are on the disk."""
        with _translate_errors("write to", self.folder):
            for shard in SHARDS:
                _fsync_folder(self.folder / shard)

    def keys(self, older_than: int) -> Iterator[str]:
        """Complete files last written before this time."""
        for shard in SHARDS:
            yield from (name for name in self._keys_older_than(shard, older_than) if name.endswith(shard))

    def remove_unfinished(self, older_than: int) -> int:
        """Remove temporary files that nobody has written to since. A writer that still lives fails at its commit."""
        old = self._keys_older_than(TEMPORARY_FOLDER, older_than)
        with _translate_errors("delete from", self.folder):
            for name in old:
                (self.folder / TEMPORARY_FOLDER / name).unlink(missing_ok=True)
        return len(old)

    def _path(self, key: str) -> Path:
        return self.folder / blob_path(key)

    def _prepare(self) -> None:
        _make_folders(self.folder)
        for name in (TEMPORARY_FOLDER, *SHARDS):
            make_private_folder(self.folder / name)
        # Another process may have made some of them a moment ago and not yet synced: whoever opens the folder, syncs.
        _fsync_folder(self.folder)

    def _keys_older_than(self, folder: str, older_than: int) -> list[str]:
        """Names are listed before any is handed out, so that the caller may delete while it goes through them."""
        old: list[str] = []
        with _translate_errors("list", self.folder), os.scandir(self.folder / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted, or renamed out of tmp, since the folder was read
                    if is_blob_key(entry.name) and entry.stat(follow_symlinks=False).st_mtime_ns // 1_000 < older_than:
                        old.append(entry.name)
        return old


class _FileWriter(BlobWriter):
    def __init__(self, folder: Path, key: str, limit: int | None, temporary: Path) -> None:
        super().__init__(key, limit)
        self._folder = folder
        self._temporary = temporary
        self._path = folder / blob_path(key)
        with _translate_errors("write to", folder):
            self._fd = create_private_fd(self._temporary)

    def _append(self, chunk: bytes | bytearray | memoryview) -> None:
        with _translate_errors("write to", self._folder), memoryview(chunk).cast("B") as rest:
            written = 0
            while written < len(rest):
                written += os.write(self._fd, rest[written:])

    def _finish(self) -> None:
        with _translate_errors("write to", self._folder):
            os.fsync(self._fd)
            self._close()
            self._temporary.rename(self._path)
            try:
                _fsync_folder(self._path.parent)
            except BaseException:
                # Its name may not survive a power cut, so it must not be seen now either.
                with suppress(OSError):
                    self._path.unlink()
                raise

    def _drop(self) -> None:
        with suppress(OSError):
            self._close()
        with suppress(OSError):
            self._temporary.unlink()

    def _close(self) -> None:
        if self._fd >= 0:
            file, self._fd = self._fd, -1
            os.close(file)


@contextmanager
def _translate_errors(action: str, folder: Path) -> Iterator[None]:
    """Turn the system's errors into ours, with what to do about them."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE_BY_ERRNO.get(error.errno or 0, "check the folder and its disk")
        raise to_blob_error(f"cannot {action} the blob folder {folder}", error, advice) from error


def _missing_blob_error(key: str, folder: Path) -> BlobNotFoundError:
    return BlobNotFoundError(
        f"there is no blob {key} in {folder}: it was deleted, or the documents of this queue are kept elsewhere"
    )


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it, each synced into the one that holds it."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    make_private_folder(folder)
    _fsync_folder(folder.parent)


def _fsync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
