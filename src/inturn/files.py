"""Creates files and folders that only their owner may read, under any umask.

Each is created with its final mode, so that it never has a wider one.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
GROUP_AND_OTHER_BITS: Final = 0o077


class PermissiveFile(NamedTuple):
    """A file or folder that users other than its owner may use."""

    path: Path
    mode: int
    is_folder: bool


def open_private_fd(path: Path, flags: int, mode: int = FILE_MODE) -> int:
    """Open a file by descriptor; a file that this call creates has exactly `mode`."""
    fd = _create(path, flags, mode)
    return os.open(path, flags | os.O_CLOEXEC) if fd is None else fd


def touch_private_file(path: Path) -> bool:
    """Create an empty file that only its owner may read; False if it exists already."""
    fd = _create(Path(os.path.realpath(path)), os.O_RDWR, FILE_MODE)
    if fd is None:
        return False
    os.close(fd)
    return True


def write_private(path: Path) -> BinaryIO:
    """Open a file for writing and truncate it; only its owner may read a new one."""
    return os.fdopen(open_private_fd(path, os.O_WRONLY | os.O_TRUNC), "wb")


def create_private_fd(path: Path) -> int:
    """Open a new file for writing by descriptor; FileExistsError if it exists already."""
    fd = _create(path, os.O_WRONLY, FILE_MODE)
    if fd is None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    return fd


def create_private_file(path: Path) -> BinaryIO:
    """Open a new file for writing; FileExistsError if it exists already."""
    return os.fdopen(create_private_fd(path), "wb")


def make_private_folder(folder: Path) -> bool:
    """Make a folder that only its owner may use; False if it exists already."""
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        return False
    if stat.S_IMODE(folder.stat().st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)
    return True


def fsync_paths(*paths: Path) -> None:
    """Make the bytes of files, or the names in folders, durable."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def permissive_files(paths: Iterable[Path]) -> list[PermissiveFile]:
    """Select the existing files and folders that users other than their owner may use."""
    permissive = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & GROUP_AND_OTHER_BITS:
            permissive.append(PermissiveFile(path, stat.S_IMODE(mode), stat.S_ISDIR(mode)))
    return permissive


def _create(path: Path, flags: int, mode: int) -> int | None:
    """Create a file and return its descriptor; None if it exists already."""
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        return None
    if stat.S_IMODE(os.fstat(fd).st_mode) != mode:  # a umask may restrict the owner too
        os.fchmod(fd, mode)
    return fd
