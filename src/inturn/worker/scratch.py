"""Manage a worker's folder for temporary files; after a crash the next worker removes it."""

import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Final

DIR_PREFIX: Final = "inturn-worker-"
LOCK_FILE: Final = "lock"
MIN_ABANDONED_SECONDS: Final = 3_600.0
"""Seconds after which a folder without a lock file cannot belong to a starting worker."""


class ScratchDir:
    """A temporary folder, created on first use, which also removes folders of workers that were killed.

    A lock on a file in the folder shows that it is in use; the kernel releases the lock with the process.
    """

    @cached_property
    def path(self) -> Path:
        """The folder, locked for this process."""
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=DIR_PREFIX))
        self._lock_fd = os.open(folder / "new", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        (folder / "new").rename(folder / LOCK_FILE)  # under this name it is always locked
        return folder

    def make_child_dir(self, name: str, *, is_sandboxed: bool) -> Path:
        """Create a child's folder; with a worker that is root, a sandboxed child is another user and must reach it."""
        if is_sandboxed and os.geteuid() == 0:
            self.path.chmod(0o711)  # to enter, not to list
        scratch = self.path / name
        scratch.mkdir(mode=0o700)
        return scratch

    def close(self) -> None:
        """Remove the folder with all that children have left in it."""
        if "path" in self.__dict__:
            remove_tree(self.path)
            os.close(self._lock_fd)
            del self.path


def make_world_readable(folder: Path) -> None:
    """Let other users read a folder and all below it, if this process is root."""
    if os.geteuid() == 0:
        folder.chmod(0o755)
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                Path(parent, name).chmod(0o755)


def remove_tree(folder: Path) -> None:
    """Remove a folder as far as possible, even if it is nested deeper than Python's stack or has no permissions."""
    with suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            names = (f"{secrets.token_hex(8)}-{number}" for number in count())
            while _flatten_once(top, names):
                pass
        finally:
            os.close(top)
        folder.rmdir()


def _flatten_once(top: int, names: Iterator[str]) -> bool:
    """Remove files and empty folders, and move nested folders to the top; return whether there were any."""
    has_moved = False
    for name, is_folder in _list_entries(top):
        with suppress(OSError):  # removed meanwhile, or not ours
            if not is_folder:
                os.unlink(name, dir_fd=top)
                continue
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                has_moved |= _move_children_up(below, top, names)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)
    return has_moved


def _move_children_up(below: int, top: int, names: Iterator[str]) -> bool:
    has_moved = False
    for name, is_folder in _list_entries(below):
        with suppress(OSError):
            if is_folder:
                os.rename(name, next(names), src_dir_fd=below, dst_dir_fd=top)
                has_moved = True
            else:
                os.unlink(name, dir_fd=below)
    return has_moved


def _list_entries(folder: int) -> list[tuple[str, bool]]:
    """List names and whether they are folders; folders get permissions for their owner."""
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        with suppress(OSError):
            if is_folder:
                os.chmod(name, 0o700, dir_fd=folder)
    return listed


def remove_abandoned() -> None:
    """Remove this user's folders whose workers have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{DIR_PREFIX}*"):
        with suppress(OSError):
            if not folder.is_symlink() and folder.stat().st_uid == os.geteuid() and _is_abandoned(folder):
                remove_tree(folder)


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > MIN_ABANDONED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def exceeds_size(folder: Path, max_bytes: int, max_entries: int) -> bool:
    """Return whether a folder holds more bytes or entries; stop counting at the limit.

    Folders that cannot be read count as too much: they are too deep for a path, or were locked to hide something.
    """
    size, entries_seen, folders = 0, 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    entries_seen += 1
                    with suppress(FileNotFoundError):
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if size > max_bytes or entries_seen > max_entries:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:
            return True
    return False
