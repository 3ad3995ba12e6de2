"""The default processor: text, pages, type, language and metadata of a document.

It is meant for the sandbox: what the guards let through still meets a parser, and parsers have bugs.
"""

from collections.abc import Mapping
from typing import Any

from inturn.processing import guards, images, kinds, parser, readers
from inturn.processing.bounds import Bounds
from inturn.processing.handler import OpenDocument, Reject, Result
from inturn.processing.pages import count_pages
from inturn.processing.parser import prepare, warm

__all__ = ["extract", "prepare", "warm"]

NO_OCR = "no text was read: OCR needs Tesseract's language data"
NO_TEXT = "no text was found; if its pages are pictures: OCR needs Tesseract's language data"
METADATA = (
    *("title", "subject", "authors", "created_at", "modified_at", "keywords", "producer", "pdf_version"),
    *("from_email", "to_emails", "cc_emails", "message_id", "attachments", "sheet_names", "width", "height"),
)
MOST_LETTERS, MOST_ITEMS = 2_000, 100


def extract(document: OpenDocument, bounds: Bounds | None = None) -> Result:
    """Read a document; one that is broken, locked or beyond bounds is rejected with a reason for people."""
    bounds = bounds or Bounds()
    try:
        with document.open() as file:
            data = file.read()
        media_type = guards.check(data, document.name, bounds)
        return _cut(_read(data, media_type, bounds), bounds)
    except MemoryError as error:
        raise Reject("This document needs more memory than one document may use") from error


def _read(data: bytes, media_type: str, bounds: Bounds) -> dict[str, Any]:
    if media_type in kinds.IMAGES and not parser.ocr_languages():
        width, height = images.sizes(data, media_type)[0]
        pages = count_pages(data, media_type) or 1
        return _value("", pages, media_type, None, {"width": width, "height": height}, [NO_OCR])
    content = readers.read(data, media_type, bounds)
    pages = content.pages or count_pages(data, media_type) or 1
    if pages > bounds.pages and media_type not in kinds.WITHOUT_PAGES:
        raise Reject(f"This document has {pages:,} pages; the limit is {bounds.pages:,}")
    notes = list(content.notes)
    if not content.text.strip():
        notes.append("no text was found" if parser.ocr_languages() else NO_TEXT)
    if media_type in kinds.MACROS and b"/vbaProject.bin" in data:
        media_type = kinds.MACROS[media_type]
    return _value(content.text, pages, media_type, content.language, _kept(content.metadata), notes)


def _value(
    text: str, pages: int, media_type: str, language: str | None, metadata: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    return {
        "text": text,
        "pages": pages,
        "media_type": media_type,
        "language": language,
        "metadata": dict(metadata),
        "notes": notes,
    }


def _kept(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that says something about the document, as plain JSON and not too much of it."""
    kept: dict[str, Any] = {}
    for name in METADATA:
        value = metadata.get(name)
        if isinstance(value, str) and value:
            kept[name.removesuffix("_at")] = value[:MOST_LETTERS]
        elif isinstance(value, list) and value:
            kept[name] = [str(item)[:MOST_LETTERS] for item in value[:MOST_ITEMS]]
        elif isinstance(value, int) and value:
            kept[name] = value
    return kept


def _cut(value: dict[str, Any], bounds: Bounds) -> Result:
    """A long text becomes a file of its own; its beginning stays in the value."""
    whole = value["text"].encode()
    if len(whole) <= bounds.shown:
        return Result(value)
    start = whole[: bounds.shown].decode(errors="ignore")
    note = f"the text has {len(whole):,} bytes: its beginning is here, all of it in text.txt"
    return Result({**value, "text": start, "notes": [*value["notes"], note]}, {"text.txt": whole})
