"""Parses XML parts of a document with expat. Rejects a document type and elements nested too deep.

Expat works chunk by chunk and builds no tree, so that memory grows neither with depth nor with length.
"""

from collections.abc import Iterable
from typing import Final
from xml.parsers import expat

from inturn.processor_api import Reject

DOCTYPE_ERROR: Final = "This file defines its own XML document type (DOCTYPE), which is not allowed"


class XmlParser:
    """Parses one part and checks its depth; subclasses read elements."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.ordered_attributes = True
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.StartElementHandler = self.start
        self._parser.EndElementHandler = self.end

    def parse(self, chunks: Iterable[bytes]) -> bool:
        """Parse a whole part; False if it is not well-formed. Elements before the damage are read."""
        try:
            for chunk in chunks:
                self._parser.Parse(chunk)
            self._parser.Parse(b"", True)
        except expat.ExpatError:
            return False
        return True

    def start(self, name: str, attributes: list[str]) -> None:  # noqa: ARG002 - for subclasses
        """Handle the start of an element; `attributes` alternates names and values."""
        self._depth += 1
        if self._depth > self._max_depth:
            raise Reject(f"XML elements in this file lie more than {self._max_depth} deep inside each other")

    def end(self, name: str) -> None:  # noqa: ARG002 - for subclasses
        """Handle the end of an element."""
        self._depth -= 1


def local_name(name: str) -> str:
    """Remove the namespace prefix of a name."""
    return name.rpartition(":")[2]


def attribute(attributes: list[str], name: str) -> str | None:
    """Return the value of an attribute, by its local name."""
    for at in range(0, len(attributes), 2):
        if local_name(attributes[at]) == name:
            return attributes[at + 1]
    return None


def _refuse_doctype(*_: object) -> None:
    raise Reject(DOCTYPE_ERROR)
