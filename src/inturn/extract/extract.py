"""Extracts text, pages, type, language and metadata of a document: the default processor.

Run it in the sandbox: a document that passes the checks may still exploit a bug of a parser.
"""

from collections.abc import Mapping
from typing import Any

from inturn import media_types
from inturn.extract import checks, image_size, parser, readers
from inturn.extract.content import OUT_OF_MEMORY
from inturn.extract.limits import ExtractLimits
from inturn.extract.page_count import count_pages
from inturn.extract.parser import prepare, warm
from inturn.processor_api import OpenDocument, Reject, Result

__all__ = ["extract", "prepare", "warm"]

NO_OCR_NOTE = "no text was read: OCR needs Tesseract's language data"
NO_TEXT_NOTE = "no text was found; if its pages are pictures: OCR needs Tesseract's language data"
METADATA_KEYS = (
    *("title", "subject", "authors", "created_at", "modified_at", "keywords", "producer", "pdf_version"),
    *("from_email", "to_emails", "cc_emails", "message_id", "attachments", "sheet_names", "width", "height"),
)
MAX_METADATA_CHARACTERS, MAX_METADATA_ITEMS = 2_000, 100


def extract(document: OpenDocument, bounds: ExtractLimits | None = None) -> Result:
    """Read a document; reject one that is damaged, locked or beyond a limit, with a reason for users."""
    limits = bounds or ExtractLimits()
    try:
        with document.open() as file:
            data = file.read()
        media_type = checks.check(data, document.name, limits)
        return _truncate_text(_read(data, media_type, limits), limits)
    except MemoryError as error:
        raise Reject(OUT_OF_MEMORY) from error


def _read(data: bytes, media_type: str, limits: ExtractLimits) -> dict[str, Any]:
    if media_type in media_types.IMAGES and not parser.ocr_languages():
        width, height = image_size.frame_sizes(data, media_type)[0]
        pages = count_pages(data, media_type) or 1
        return _result_value("", pages, media_type, None, {"width": width, "height": height}, [NO_OCR_NOTE])
    content = readers.read(data, media_type, limits)
    pages = content.pages or count_pages(data, media_type) or 1
    if pages > limits.pages and media_type not in media_types.ESTIMATED_PAGE_TYPES:
        raise Reject(f"This document has {pages:,} pages; the limit is {limits.pages:,}")
    notes = list(content.notes)
    if not content.text.strip():
        notes.append("no text was found" if parser.ocr_languages() else NO_TEXT_NOTE)
    if media_type in media_types.MACRO_TYPES and b"/vbaProject.bin" in data:
        media_type = media_types.MACRO_TYPES[media_type]
    return _result_value(content.text, pages, media_type, content.language, _select_metadata(content.metadata), notes)


def _result_value(
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


def _select_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Select the metadata in `METADATA_KEYS`, as plain JSON and truncated."""
    selected: dict[str, Any] = {}
    for name in METADATA_KEYS:
        value = metadata.get(name)
        if isinstance(value, str) and value:
            selected[name.removesuffix("_at")] = value[:MAX_METADATA_CHARACTERS]
        elif isinstance(value, list) and value:
            selected[name] = [str(item)[:MAX_METADATA_CHARACTERS] for item in value[:MAX_METADATA_ITEMS]]
        elif isinstance(value, int) and value:
            selected[name] = value
    return selected


def _truncate_text(value: dict[str, Any], limits: ExtractLimits) -> Result:
    """Move a long text into a file; its beginning stays in the value."""
    text = value["text"].encode()
    if len(text) <= limits.inline_text_bytes:
        return Result(value)
    start = text[: limits.inline_text_bytes].decode(errors="ignore")
    note = f"the text has {len(text):,} bytes: its beginning is here, all of it in text.txt"
    return Result({**value, "text": start, "notes": [*value["notes"], note]}, {"text.txt": text})
