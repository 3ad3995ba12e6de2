"""Builds the text of a document from its pieces, so that words of different cells, lines and paragraphs stay apart."""

from typing import Final

SEPARATORS: Final = ("", " ", "\t", "\n", "\n\n")
"""Weakest first: where several meet, the strongest stands."""
STRENGTH: Final = {separator: strength for strength, separator in enumerate(SEPARATORS)}


class TextBuilder:
    """Text in the making. Separators are written only between two pieces, never before the first or after the last."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._pending = ""

    def add(self, text: str) -> None:
        """Append a piece as it is."""
        if text:
            if self._pieces and self._pending:
                self._pieces.append(self._pending)
            self._pending = ""
            self._pieces.append(text)

    def add_collapsed(self, text: str) -> None:
        """Append a piece in which any run of white space counts as one blank."""
        words = text.split()
        if not words:
            if text:
                self.separate(" ")
            return
        if text[0].isspace():
            self.separate(" ")
        self.add(" ".join(words))
        if text[-1].isspace():
            self.separate(" ")

    def separate(self, separator: str) -> None:
        """Keep what follows apart from what went before."""
        if STRENGTH[separator] > STRENGTH[self._pending]:
            self._pending = separator

    def __str__(self) -> str:
        return "".join(self._pieces)


def name_set(text: str) -> frozenset[str]:
    """The names in a text, with blanks between them."""
    return frozenset(text.split())
