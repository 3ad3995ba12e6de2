"""Read files that are known by their descriptors."""

import io
import os
from typing import Any


class DescriptorReader(io.RawIOBase):
    """Reads a file at an offset of its own; readers of one descriptor would share the kernel's offset."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = os.dup(fd)
        self._offset = 0

    def readable(self) -> bool:  # noqa: D102 - as in its base class
        return True

    def seekable(self) -> bool:  # noqa: D102 - as above
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: D102 - as above
        size = os.preadv(self._fd, [buffer], self._offset)
        self._offset += size
        return size

    def read_at(self, size: int, offset: int) -> bytes:
        """Read up to so many bytes from a place in the file; ValueError once it is closed."""
        if self.closed:
            raise ValueError("this file is closed: the document is no longer processed")
        return os.pread(self._fd, size, offset)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:  # noqa: D102 - as above
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: os.fstat(self._fd).st_size}[whence]
        self._offset = max(0, base + offset)
        return self._offset

    def close(self) -> None:  # noqa: D102 - as above
        if not self.closed:
            os.close(self._fd)
        super().close()


def read_all(fd: int) -> bytes:
    """Read a whole file, and close its descriptor."""
    with open(fd, "rb") as source:
        return source.read()
