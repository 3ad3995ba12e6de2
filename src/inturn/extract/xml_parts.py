"""Parses XML parts of a document with expat: no document type, and elements not too deep inside each other.

Expat keeps its own stack and works piece by piece: neither a deep part nor a long one needs memory of ours.
"""

from collections.abc import Iterable
from typing import Final
from xml.parsers import expat

from inturn.processor import Reject

DOCTYPE_ERROR: Final = "This file defines its own XML document type (DOCTYPE), which is not allowed"


class XmlParser:
    """Parses one part and counts how deep it is; subclasses read something."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.ordered_attributes = True
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.StartElementHandler = self.start
        self._parser.EndElementHandler = self.end

    def parse(self, pieces: Iterable[bytes]) -> bool:
        """Parse a whole part; False if it is not well-formed, after what could be read."""
        try:
            for piece in pieces:
                self._parser.Parse(piece)
            self._parser.Parse(b"", True)
        except expat.ExpatError:
            return False
        return True

    def start(self, name: str, attributes: list[str]) -> None:  # noqa: ARG002 - for subclasses
        """An element begins; attributes are a flat list of names and values."""
        self._depth += 1
        if self._depth > self._max_depth:
            raise Reject(f"XML elements in this file lie more than {self._max_depth} deep inside each other")

    def end(self, name: str) -> None:  # noqa: ARG002 - for subclasses
        """An element ends."""
        self._depth -= 1


def attribute(attributes: list[str], name: str) -> str | None:
    """The value of an attribute, by its name without a prefix."""
    for at in range(0, len(attributes), 2):
        if attributes[at].rpartition(":")[2] == name:
            return attributes[at + 1]
    return None


def _refuse_doctype(*_: object) -> None:
    raise Reject(DOCTYPE_ERROR)
