"""Limits that a document must meet before a parser opens it."""

from dataclasses import dataclass

from inturn.processor_api import Reject

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """Settings of the default processor; a document beyond one of them is rejected with a reason."""

    pages: int = 2_000
    pixels: int = 89_000_000
    entries: int = 2_000
    unpacked_bytes: int = 200 * MEGABYTE
    ratio: int = 100
    """Unpacked bytes per packed byte."""
    text_bytes: int = 10 * MEGABYTE
    depth: int = 200
    """Nested elements, arrays or messages."""
    inline_text_bytes: int = 200_000
    """Bytes of text in the result itself; a longer text becomes a file of its own."""


def require_text_size(size: int, limits: ExtractLimits) -> None:
    """Reject a text that is longer than the limit."""
    if size > limits.text_bytes:
        raise Reject(f"This text has {size / MEGABYTE:.1f} MB; the limit is {_format_megabytes(limits.text_bytes)} MB")


class UnpackBudget:
    """Counts unpacked bytes while a document is opened. Sizes in headers are not trusted."""

    def __init__(self, limits: ExtractLimits, packed_bytes: int, bomb: str = "zip bomb") -> None:
        self.limits = limits
        self._packed_bytes = max(packed_bytes, 1)
        self._unpacked_bytes = 0
        self._bomb = bomb

    def spend(self, count: int) -> None:
        """Count unpacked bytes; reject the document when they exceed the size or the ratio allowed."""
        self._unpacked_bytes += count
        limits = self.limits
        if self._unpacked_bytes > limits.unpacked_bytes:
            size = _format_megabytes(limits.unpacked_bytes)
            raise Reject(f"This file opens to more than {size} MB: it looks like a {self._bomb}")
        # The ratio does not apply to small files: a file of blanks shrinks a thousandfold and does no harm.
        if self._unpacked_bytes > MEGABYTE and self._unpacked_bytes > self._packed_bytes * limits.ratio:
            raise Reject(f"This file opens to more than {limits.ratio} times its size: it looks like a {self._bomb}")


def _format_megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.4g}"
