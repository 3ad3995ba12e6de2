"""How much a document may hold before a parser is let near it."""

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """Settings of the default processor; a document beyond one of them is rejected with a reason."""

    pages: int = 2_000
    pixels: int = 89_000_000
    entries: int = 2_000
    expanded: int = 200 * MEGABYTE
    ratio: int = 100
    text: int = 10 * MEGABYTE
    depth: int = 200
    """Elements, arrays or messages inside each other."""
    shown: int = 200_000
    """Bytes of text kept in the result itself; a longer text becomes a file of its own."""


def megabytes(count: int) -> str:
    """So many bytes in megabytes, in words."""
    return f"{count / MEGABYTE:.4g}"


class Budget:
    """What is left of the expanded size while a document is opened: headers lie, so bytes are counted."""

    def __init__(self, bounds: Bounds, size: int) -> None:
        self.bounds = bounds
        self.size = max(size, 1)
        self.expanded = 0

    def spend(self, count: int) -> str | None:
        """Count so many bytes; returns what is wrong, if this was too much."""
        self.expanded += count
        if self.expanded > self.bounds.expanded:
            return f"This file opens to more than {megabytes(self.bounds.expanded)} MB: it looks like a zip bomb"
        # Small files of blanks shrink well and hurt nobody.
        if self.expanded > MEGABYTE and self.expanded > self.size * self.bounds.ratio:
            return f"This file opens to more than {self.bounds.ratio} times its size: it looks like a zip bomb"
        return None
