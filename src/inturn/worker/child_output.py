"""Log the output of sandboxed children line by line, marked as theirs.

A child that was taken over must not write to the worker's terminal, nor into its log in the worker's name.
"""

import logging
import os
import threading
import time
from contextlib import suppress
from typing import Final

log: Final = logging.getLogger("inturn.worker")
MAX_LINE_BYTES: Final = 2_000
"""Bytes of one line; the rest is cut off."""
MAX_LINES_PER_SECOND: Final = 100
READ_BYTES: Final = 1 << 16


class ChildOutput:
    """A pipe for the children's output, and the thread that logs it."""

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        self._window_start = 0.0
        self._lines_in_window = 0
        self._thread = threading.Thread(target=self._relay, name="inturn-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Log the rest, once no child holds the other end; wait a second at most."""
        os.close(self.write_fd)
        self._thread.join(1.0)

    def _relay(self) -> None:
        with suppress(OSError), os.fdopen(self._read_fd, "rb", buffering=0) as source:
            line = b""
            while data := source.read(READ_BYTES):
                *lines, rest = data.split(b"\n")
                for end in lines:
                    self._log(line + end[:MAX_LINE_BYTES])
                    line = b""
                line = (line + rest[:MAX_LINE_BYTES])[:MAX_LINE_BYTES]
            self._log(line)

    def _log(self, line: bytes) -> None:
        text = "".join(char if char.isprintable() else " " for char in line[:MAX_LINE_BYTES].decode(errors="replace"))
        if not text.strip():
            return
        now = time.monotonic()
        if now >= self._window_start + 1:
            self._window_start, self._lines_in_window = now, 0
        self._lines_in_window += 1
        if self._lines_in_window <= MAX_LINES_PER_SECOND:
            log.info("a child printed: %s", text.rstrip())
        elif self._lines_in_window == MAX_LINES_PER_SECOND + 1:
            log.info("children print more than %d lines a second: the rest is not logged", MAX_LINES_PER_SECOND)
