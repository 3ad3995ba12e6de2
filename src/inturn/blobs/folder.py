"""Stores blobs as files in a local folder.

    <folder>/tmp/<key>    being written; never read
    <folder>/<ab>/<key>   complete; <ab> are the last two digits of the key

All folders must be on one file system, so that the rename from `tmp` is atomic. Files are 0600 and folders 0700.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from inturn.blobs.base import Blobs, BlobWriter, blob_path, is_blob_key, missing_blob_error, to_blob_error
from inturn.clock import Clock, SystemClock
from inturn.files import create_private_fd, fsync_paths, make_private_folder
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
    """A blob store in a folder, which is made if it is missing."""

    def __init__(self, folder: Path, clock: Clock | None = None, ids: Ids | None = None) -> None:
        self.folder: Final = folder.absolute()
        self._clock: Final = clock or SystemClock()
        self._ids: Final = ids or RandomIds()
        with _translate_errors("use", self.folder):
            self._prepare()

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        """Start a new blob. Its temporary file has a name of its own, so that leftovers of a dead writer do no harm."""
        (new,) = self._ids.make(1, self._clock.now())
        return _FileWriter(self.folder, key or new, limit, self.folder / TEMPORARY_FOLDER / new)

    def open(self, key: str) -> BinaryIO:
        """Open the blob's file."""
        path = self._path(key)
        with _translate_errors("read", self.folder):
            try:
                return path.open("rb")
            except FileNotFoundError as missing:
                raise missing_blob_error(key, self.folder) from missing

    @contextmanager
    def local(
        self,
        key: str,
        *,
        sha256: str | None = None,
        folder: Path | None = None,  # noqa: ARG002 - it needs no copy
    ) -> Iterator[Path]:
        """Provide the blob's own file: writing to it damages the blob."""
        if sha256 is None:
            self.open(key).close()
        else:
            self.check(key, sha256)
        yield self._path(key)

    def check(self, key: str, sha256: str) -> None:
        """Read everything and check the hash."""
        with _translate_errors("read", self.folder):
            super().check(key, sha256)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files without fsync: a file that a power cut brings back is an orphan, which a later sweep removes."""
        paths = [self._path(key) for key in keys]
        with _translate_errors("delete from", self.folder):
            for path in paths:
                path.unlink(missing_ok=True)

    def has(self, key: str) -> bool:
        """Return whether the blob exists."""
        with _translate_errors("read", self.folder):
            return self._path(key).exists()

    def link(self, source: "FolderBlobs", key: str) -> bool:
        """Hard-link a blob of another folder into this one; False if the file systems allow no link.

        The link is durable only after `sync`. The other folder may delete its name of the blob.
        """
        with _translate_errors("link into", self.folder):
            try:
                os.link(source.folder / blob_path(key), self._path(key))
            except FileExistsError:
                return True
            except FileNotFoundError as missing:
                raise missing_blob_error(key, source.folder) from missing
            except OSError as error:
                if error.errno in _LINK_UNSUPPORTED_ERRNOS:
                    return False
                raise
        return True

    def sync(self) -> None:
        """Make the names of all blobs durable."""
        with _translate_errors("write to", self.folder):
            fsync_paths(*(self.folder / shard for shard in SHARDS))

    def keys(self, older_than: int) -> Iterator[str]:
        """List the complete files last written before this time."""
        for shard in SHARDS:
            yield from (name for name in self._keys_older_than(shard, older_than) if name.endswith(shard))

    def remove_unfinished(self, older_than: int) -> int:
        """Remove temporary files last written before this time. Their writer, if it is alive, fails at its commit."""
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
        # Always sync: another process may have made the folders a moment ago and not synced them yet.
        fsync_paths(self.folder)

    def _keys_older_than(self, folder: str, older_than: int) -> list[str]:
        """List all names at once, so that the caller may delete files while it iterates."""
        old: list[str] = []
        with _translate_errors("list", self.folder), os.scandir(self.folder / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted, or renamed out of tmp, in the meantime
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
                fsync_paths(self._path.parent)
            except BaseException:
                # The name may not survive a power cut, so the blob must not stay visible.
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
            fd, self._fd = self._fd, -1
            os.close(fd)


@contextmanager
def _translate_errors(action: str, folder: Path) -> Iterator[None]:
    """Translate errors of the system, with advice."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE_BY_ERRNO.get(error.errno or 0, "check the folder and its disk")
        raise to_blob_error(f"cannot {action} the blob folder {folder}", error, advice) from error


def _make_folders(folder: Path) -> None:
    """Make a folder and its parents; sync the name of each into its parent."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    make_private_folder(folder)
    fsync_paths(folder.parent)
