"""Builds the text of a document from pieces, with separators between cells, lines and paragraphs."""

from typing import Final

SEPARATORS: Final = ("", " ", "\t", "\n", "\n\n")
"""Weakest first: of several adjacent separators the strongest is written."""
STRENGTH: Final = {separator: strength for strength, separator in enumerate(SEPARATORS)}


class TextBuilder:
    """Joins pieces of text. A separator is written only between two pieces, never first or last."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._pending = ""

    def add(self, text: str) -> None:
        """Append a piece unchanged."""
        if text:
            if self._pieces and self._pending:
                self._pieces.append(self._pending)
            self._pending = ""
            self._pieces.append(text)

    def add_words(self, text: str) -> None:
        """Append a piece unchanged, unless it is only white space: then it separates."""
        if text.isspace():
            self.separate(" ")
        else:
            self.add(text)

    def add_collapsed(self, text: str) -> None:
        """Append a piece with each run of white space as one blank."""
        if text[:1].isspace():
            self.separate(" ")
        self.add(" ".join(text.split()))
        if text[-1:].isspace():
            self.separate(" ")

    def separate(self, separator: str) -> None:
        """Request a separator before the next piece."""
        if STRENGTH[separator] > STRENGTH[self._pending]:
            self._pending = separator

    def __str__(self) -> str:
        return "".join(self._pieces)


def name_set(text: str) -> frozenset[str]:
    """Split a text of names at its blanks."""
    return frozenset(text.split())
