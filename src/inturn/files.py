"""Create files and folders that their owner alone may read, whatever the umask says.

Each is created with its final mode, so that there is no moment in which it is wider.
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
"""The mode bits of group and others."""


class PermissiveFile(NamedTuple):
    """A file or folder that others than its owner may use."""

    path: Path
    mode: int
    is_folder: bool


def open_private_fd(path: Path, flags: int, mode: int = FILE_MODE) -> int:
    """Open a file by descriptor; a file that this call creates has exactly `mode`."""
    file = _create(path, flags, mode)
    return os.open(path, flags | os.O_CLOEXEC) if file is None else file


def touch_private_file(path: Path) -> bool:
    """Create an empty file that its owner alone may read; False if there is one already."""
    file = _create(Path(os.path.realpath(path)), os.O_RDWR, FILE_MODE)
    if file is None:
        return False
    os.close(file)
    return True


def write_private(path: Path) -> BinaryIO:
    """Open a file for writing from its beginning; a new one may be read by its owner alone."""
    return os.fdopen(open_private_fd(path, os.O_WRONLY | os.O_TRUNC), "wb")


def create_private_fd(path: Path) -> int:
    """Open a new file for writing by descriptor; FileExistsError if there is one already."""
    file = _create(path, os.O_WRONLY, FILE_MODE)
    if file is None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    return file


def create_private_file(path: Path) -> BinaryIO:
    """Open a new file for writing; FileExistsError if there is one already."""
    return os.fdopen(create_private_fd(path), "wb")


def make_private_folder(folder: Path) -> bool:
    """Make a folder that its owner alone may use; False if there is one already."""
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        return False
    if stat.S_IMODE(folder.stat().st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)
    return True


def fsync_paths(*paths: Path) -> None:
    """Wait until files, or the names in folders, are on the disk."""
    for path in paths:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def permissive_files(paths: Iterable[Path]) -> list[PermissiveFile]:
    """Those of the files and folders that exist and that others than their owner may use."""
    wide = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & GROUP_AND_OTHER_BITS:
            wide.append(PermissiveFile(path, stat.S_IMODE(mode), stat.S_ISDIR(mode)))
    return wide


def _create(path: Path, flags: int, mode: int) -> int | None:
    """A descriptor of a file that was not there before; None if it was."""
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        return None
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:  # a umask that takes rights from the owner as well
        os.fchmod(file, mode)
    return file
