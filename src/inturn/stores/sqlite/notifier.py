"""Wakes a process that waits for another one's commit: inotify on the gate, with a slow poll behind it.

The log itself would ring too early: it is written before the commit can be seen.
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
"""Seconds after which a waiter looks for itself, whatever the doorbell does."""


class Notifier:
    """Rings when a writer has left the gate. One thread waits at a time; where there is no inotify, it sleeps."""

    def __init__(self, lock_path: Path) -> None:
        self._lock_path = lock_path
        self._inotify_fd = -1
        self._wait_lock = threading.Lock()

    def wait(self, timeout: float) -> None:
        """Until it rings, or the time is over, or it is time to look anyway."""
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
        """Begin to listen: what is committed after this will ring, even before `wait` is called."""
        with self._wait_lock:
            if self._inotify_fd < 0:
                self._inotify_fd = _open_inotify(self._lock_path)

    def close(self) -> None:
        """Listen no more."""
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
