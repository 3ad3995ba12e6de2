"""Defines the content that a reader extracts, and the notes and reasons that several readers share."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

UNREADABLE_NOTE: Final = "some letters could not be read: the text is in an unknown encoding"
DAMAGED_NOTE: Final = "a part of this file is damaged: the text after the damage is missing"
PICTURES_NOTE: Final = "not read: pictures inside this document"
PASSWORD_PROTECTED: Final = "This document is protected by a password: remove it and send the document again"  # noqa: S105 - a message
DAMAGED: Final = "This document is damaged and cannot be read"
OUT_OF_MEMORY: Final = "This document needs more memory than one document may use"


class ExtractedContent(NamedTuple):
    """The text and metadata of a document, with notes about the parts that were not read."""

    text: str
    metadata: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()
    pages: int | None = None
    """None if the reader did not count them."""
    language: str | None = None
