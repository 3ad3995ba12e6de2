"""A worker's folder for temporary files: it goes with the worker, however that ends."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

PREFIX: Final = "inturn-worker-"
LOCK: Final = "lock"
YOUNG: Final = 3_600.0
"""Seconds in which a folder without a lock may belong to a worker that is just making it."""


class Workplace:
    """Made when first asked for. A worker that was killed could not clean up: the next one does it for him.

    The folder is held by a lock on a file in it, which the kernel lets go when the process is gone.
    """

    @cached_property
    def path(self) -> Path:
        """The folder."""
        clear_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._held = os.open(folder / "new", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        (folder / "new").rename(folder / LOCK)  # whoever sees it by this name sees it locked
        return folder

    def close(self) -> None:
        """Remove it. A child may have left anything in it."""
        if "path" in self.__dict__:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            del self.path


def clear_abandoned() -> None:
    """Remove the folders of workers that are gone, as far as they are ours."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not folder.is_symlink() and folder.stat().st_uid == os.geteuid() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > YOUNG
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def holds_more(folder: Path, most: int, entries: int) -> bool:
    """Whether there are more than so many bytes or entries below a folder; looks no further than it has to.

    What cannot be looked at counts as too much: folders too deep for a path, or locked, hide something.
    """
    held, seen, folders = 0, 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    seen += 1
                    with suppress(FileNotFoundError):
                        held += entry.stat(follow_symlinks=False).st_blocks * 512
                    if held > most or seen > entries:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
        except FileNotFoundError:
            continue  # gone meanwhile
        except OSError:
            return True
    return False
