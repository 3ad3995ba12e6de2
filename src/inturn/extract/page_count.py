"""Counts the pages of a document without a parser, so that its cost is known when it is submitted.

Pure Python, bounded in time and memory. It never raises on any bytes: an inexact count is better than a failed
submission.
"""

import re
from pathlib import Path

from inturn import media_types
from inturn.extract import image_size, pdf_checks, zip_checks
from inturn.extract.limits import MEGABYTE

MAX_READ_BYTES = 64 * MEGABYTE
MAX_UNPACKED_BYTES = 32 * MEGABYTE
MAX_ENTRIES = 2_000
CHARACTERS_PER_PAGE = 3_000
DOCX_PAGES = re.compile(rb"<(?:\w+:)?Pages>\s*(\d{1,6})\s*<")
ODT_PAGES = re.compile(rb'page-count="(\d{1,6})"')
OPEN_DOCUMENT_PAGE = re.compile(rb"<(?:draw:page|table:table)[ >]")
SLIDE = re.compile(r"ppt/slides/slide\d+\.xml")
SHEET = re.compile(r"xl/(?:worksheets|chartsheets)/[^/]+\.xml")


def count_pages(document: bytes | Path, media_type: str | None = None) -> int | None:
    """Count pages, slides or sheets; a text has one per 3,000 characters. None if the count is unknown."""
    if isinstance(document, Path):
        try:
            with document.open("rb") as file:
                document = file.read(MAX_READ_BYTES)
        except OSError:
            return None
    data = document[:MAX_READ_BYTES]
    # The bytes decide; the given type counts only if they are unknown.
    media_type = media_types.sniff(data[: media_types.SNIFF_BYTES]) or media_type
    if media_type == media_types.PDF:
        return pdf_checks.pdf_page_count(data, MAX_UNPACKED_BYTES)
    if media_type == media_types.ZIP:
        return _count_package_pages(data)
    if media_type in media_types.IMAGES:
        return max(1, len(image_size.frame_sizes(data, media_type))) if media_type == "image/tiff" else 1
    return estimate_text_pages(len(data)) if media_type in media_types.TEXTS and data else None


def estimate_text_pages(characters: int) -> int:
    """Estimate how many pages a text fills."""
    return max(1, -(-characters // CHARACTERS_PER_PAGE))


def _count_package_pages(data: bytes) -> int | None:
    names = zip_checks.entry_names(data, MAX_ENTRIES)
    for pattern in (SLIDE, SHEET):
        pages = sum(1 for name in names if pattern.fullmatch(name))
        if pages:
            return pages
    if "word/document.xml" in names:
        return _declared_pages(data, "docProps/app.xml", DOCX_PAGES) or 1
    if "content.xml" in names:
        return _declared_pages(data, "meta.xml", ODT_PAGES) or _count_open_document_pages(data) or 1
    return None


def _count_open_document_pages(data: bytes) -> int:
    """Count slides or sheets of an OpenDocument file that does not declare its pages."""
    content = zip_checks.read_part(data, "content.xml", MAX_UNPACKED_BYTES) or b""
    return sum(1 for _ in OPEN_DOCUMENT_PAGE.finditer(content))


def _declared_pages(data: bytes, name: str, pattern: re.Pattern[bytes]) -> int | None:
    match = pattern.search(zip_checks.read_part(data, name, MEGABYTE) or b"")
    return int(match.group(1)) if match else None
