"""A worker's folder for temporary files: it goes with the worker, however that ends."""

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
"""Seconds in which a folder without a lock may belong to a worker that is just making it."""


class ScratchDir:
    """Made when first asked for. A worker that was killed could not clean up: the next one does it for him.

    The folder is held by a lock on a file in it, which the kernel lets go when the process is gone.
    """

    @cached_property
    def path(self) -> Path:
        """The folder."""
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=DIR_PREFIX))
        self._lock_fd = os.open(folder / "new", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        (folder / "new").rename(folder / LOCK_FILE)  # whoever sees it by this name sees it locked
        return folder

    def make_child_dir(self, name: str, *, is_sandboxed: bool) -> Path:
        """Make a folder in it for one child. A boxed child of root's is another user, which must get there."""
        if is_sandboxed and os.geteuid() == 0:
            self.path.chmod(0o711)  # it reaches its own folder, and can list nothing
        scratch = self.path / name
        scratch.mkdir(mode=0o700)
        return scratch

    def close(self) -> None:
        """Remove it. A child may have left anything in it."""
        if "path" in self.__dict__:
            remove_tree(self.path)
            os.close(self._lock_fd)
            del self.path


def make_world_readable(folder: Path) -> None:
    """Let children that are other users read a folder of root's, and all below it."""
    if os.geteuid() == 0:
        folder.chmod(0o755)
        for place, folders, files in os.walk(folder):
            for name in (*folders, *files):
                Path(place, name).chmod(0o755)


def remove_tree(folder: Path) -> None:
    """Remove a folder that a child wrote to, as far as possible: deeper than Python's own stack, or closed."""
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
    """Remove what lies in a folder, and bring up folders that lie in folders in it; whether there were any."""
    brought_up = False
    for name, is_folder in _list_entries(top):
        with suppress(OSError):  # gone meanwhile, or not ours
            if not is_folder:
                os.unlink(name, dir_fd=top)
                continue
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                brought_up |= _move_children_up(below, top, names)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)
    return brought_up


def _move_children_up(below: int, top: int, names: Iterator[str]) -> bool:
    brought_up = False
    for name, is_folder in _list_entries(below):
        with suppress(OSError):
            if is_folder:
                os.rename(name, next(names), src_dir_fd=below, dst_dir_fd=top)
                brought_up = True
            else:
                os.unlink(name, dir_fd=below)
    return brought_up


def _list_entries(folder: int) -> list[tuple[str, bool]]:
    """The names in a folder, and whether each is a folder, which is opened to its owner."""
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        with suppress(OSError):
            if is_folder:
                os.chmod(name, 0o700, dir_fd=folder)
    return listed


def remove_abandoned() -> None:
    """Remove the folders of workers that are gone, as far as they are ours."""
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
    """Whether there are more than so many bytes or entries below a folder; looks no further than it has to.

    What cannot be looked at counts as too much: folders too deep for a path, or locked, hide something.
    """
    held, seen, folders = 0, 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as result:
                for entry in result:
                    seen += 1
                    with suppress(FileNotFoundError):
                        held += entry.stat(follow_symlinks=False).st_blocks * 512
                    if held > max_bytes or seen > max_entries:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
        except FileNotFoundError:
            continue  # gone meanwhile
        except OSError:
            return True
    return False
