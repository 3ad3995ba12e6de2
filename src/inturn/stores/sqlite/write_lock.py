"""The lock between processes that write to one file.

Writers wait in the kernel, in the order in which they came. Waiting for SQLite's own lock would be polling: with eight
processes, most of their time.
"""

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import apsw

from inturn.files import FILE_MODE, open_private_fd

EXCLUSIVE_NONBLOCKING: Final = fcntl.LOCK_EX | fcntl.LOCK_NB


class WriteLock:
    """A file lock. Releasing it writes to the file, which wakes those who wait for a commit (`notifier`).

    `flock` has no timeout, so a thread of its own waits in it. A caller whose time is up leaves the lock to that
    thread, which gives it back.
    """

    def __init__(self, path: Path, mode: int = FILE_MODE, timeout: float = 30.0) -> None:
        self._fd: int | None = None
        self._timeout = timeout
        self._requests: SimpleQueue[_Acquisition | None] = SimpleQueue()
        self._waiter: threading.Thread | None = None
        with suppress(OSError):
            self._fd = open_private_fd(path, os.O_RDWR, mode)

    def acquire(self) -> None:
        """Acquire the lock; without a lock file SQLite's own lock must do."""
        if self._fd is not None:
            try:
                fcntl.flock(self._fd, EXCLUSIVE_NONBLOCKING)
            except BlockingIOError:
                self._wait(self._fd)

    def release(self) -> None:
        """Release the lock, and wake those who wait for a commit."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            try:  # noqa: SIM105 - a context manager takes longer than the write
                os.pwrite(self._fd, b"!", 0)
            except OSError:  # a full disk, say: who waits looks for itself after a while
                pass

    def close(self) -> None:
        """Close the lock file."""
        if self._waiter is not None:
            self._requests.put(None)
            self._waiter = None
        elif self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _wait(self, fd: int) -> None:
        if self._waiter is None:
            self._waiter = threading.Thread(
                target=_wait_for_lock, args=(fd, self._requests), name="inturn-write-lock", daemon=True
            )
            self._waiter.start()
        acquisition = _Acquisition()
        self._requests.put(acquisition)
        try:
            is_held = acquisition.wait(self._timeout)
        except BaseException:  # a Ctrl-C: the lock may have been handed over all the same
            if acquisition.give_up():
                fcntl.flock(fd, fcntl.LOCK_UN)
            raise
        if not is_held:
            raise apsw.BusyError("another process holds the write lock")


class _Acquisition:
    """One caller's wait for the lock: it is either handed over or given up, never both."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handed_over = threading.Lock()
        self._handed_over.acquire()
        self._is_over = False

    def wait(self, timeout: float) -> bool:
        """Wait for the lock; False if the time was up before."""
        return self._handed_over.acquire(timeout=timeout) or self.give_up()

    def give_up(self) -> bool:
        """Wait no longer; True if the lock was handed over before."""
        with self._lock:
            was_handed_over, self._is_over = self._is_over, True
        return was_handed_over

    def hand_over(self) -> bool:
        """Hand the lock over; False if the caller has given up."""
        with self._lock:
            was_given_up, self._is_over = self._is_over, True
        self._handed_over.release()
        return not was_given_up


def _wait_for_lock(fd: int, requests: "SimpleQueue[_Acquisition | None]") -> None:
    """Acquire the lock for each that asks, until there is None; then close the file."""
    while (acquisition := requests.get()) is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not acquisition.hand_over():
            fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
