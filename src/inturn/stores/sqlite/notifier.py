"""Wake a process that waits for another one's commit: inotify on the lock file, with slow polling as a fallback.

Watching the WAL would wake too early: it is written before the commit is visible.
"""

import ctypes
import os
import select
import threading
import time
from pathlib import Path
from typing import Final

IN_MODIFY: Final = 0x00000002
POLL_INTERVAL_SECONDS: Final = 0.5
"""Seconds between polls of a waiter."""


class Notifier:
    """Waits for commits of other processes. One thread waits at a time; without inotify it polls."""

    def __init__(self, lock_path: Path) -> None:
        self._lock_path = lock_path
        self._inotify_fd = -1
        self._wait_lock = threading.Lock()

    def wait(self, timeout: float) -> None:
        """Wait for a commit, the timeout or the next poll."""
        timeout = max(0.0, min(timeout, POLL_INTERVAL_SECONDS))
        with self._wait_lock:
            if self._inotify_fd < 0:
                self._inotify_fd = _open_inotify(self._lock_path)
            if self._inotify_fd < 0:
                time.sleep(min(timeout, 0.02))
                return
            ready, _, _ = select.select([self._inotify_fd], [], [], timeout)
            if ready:
                os.read(self._inotify_fd, 65_536)

    def start(self) -> None:
        """Start watching: commits after this wake `wait`, even if it is called later."""
        with self._wait_lock:
            if self._inotify_fd < 0:
                self._inotify_fd = _open_inotify(self._lock_path)

    def close(self) -> None:
        """Stop watching."""
        with self._wait_lock:
            if self._inotify_fd >= 0:
                os.close(self._inotify_fd)
                self._inotify_fd = -1


def _open_inotify(path: Path) -> int:
    """A descriptor that can be read when the file was written to; -1 where that cannot be had."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return -1
    if file < 0:
        return -1
    if libc.inotify_add_watch(file, os.fsencode(path), IN_MODIFY) < 0:
        os.close(file)
        return -1
    return int(file)
