"""How much a document may hold before a parser is let near it."""

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """Settings of the default processor; a document beyond one of them is rejected with a reason."""

    pages: int = 2_000
    pixels: int = 89_000_000
    entries: int = 2_000
    unpacked_bytes: int = 200 * MEGABYTE
    ratio: int = 100
    text_bytes: int = 10 * MEGABYTE
    depth: int = 200
    """Elements, arrays or messages inside each other."""
    inline_text_bytes: int = 200_000
    """Bytes of text kept in the result itself; a longer text becomes a file of its own."""


def format_megabytes(size: int) -> str:
    """So many bytes in megabytes, in words."""
    return f"{size / MEGABYTE:.4g}"


class UnpackBudget:
    """What is left of the expanded size while a document is opened: headers lie, so bytes are counted."""

    def __init__(self, limits: ExtractLimits, size: int) -> None:
        self.limits = limits
        self.size = max(size, 1)
        self.unpacked_bytes = 0

    def spend(self, count: int) -> str | None:
        """Count so many bytes; returns what is wrong, if this was too much."""
        self.unpacked_bytes += count
        if self.unpacked_bytes > self.limits.unpacked_bytes:
            return (
                f"This file opens to more than {format_megabytes(self.limits.unpacked_bytes)} MB: it looks "
                f"like a zip bomb"
            )
        # Small files of blanks shrink well and hurt nobody.
        if self.unpacked_bytes > MEGABYTE and self.unpacked_bytes > self.size * self.limits.ratio:
            return f"This file opens to more than {self.limits.ratio} times its size: it looks like a zip bomb"
        return None
