"""How many pages a document has, cheaply and without a parser: what it costs is known when it is submitted.

Pure Python, bounded in time and memory, and whatever the bytes are it never raises: a wrong count costs a customer a
turn, a crash would cost the submission.
"""

import re
from pathlib import Path

from inturn.processing import archives, images, kinds, pdfs
from inturn.processing.bounds import MEGABYTE

MOST_READ = 64 * MEGABYTE
MOST_OPENED = 32 * MEGABYTE
MOST_ENTRIES = 2_000
LETTERS_A_PAGE = 3_000
DOCX_PAGES = re.compile(rb"<(?:\w+:)?Pages>\s*(\d{1,6})\s*<")
ODT_PAGES = re.compile(rb'page-count="(\d{1,6})"')
OPEN_PAGE = re.compile(rb"<(?:draw:page|table:table)[ >]")
SLIDE = re.compile(r"ppt/slides/slide\d+\.xml")
SHEET = re.compile(r"xl/(?:worksheets|chartsheets)/[^/]+\.xml")


def count_pages(document: bytes | Path, media_type: str | None = None) -> int | None:
    """Pages, slides or sheets; a text counts one per 3,000 letters. None if it cannot be told."""
    if isinstance(document, Path):
        try:
            with document.open("rb") as file:
                document = file.read(MOST_READ)
        except OSError:
            return None
    data = document[:MOST_READ]
    # What it is, its bytes say; what it was called counts only among texts.
    kind = kinds.sniff(data[: kinds.HEAD]) or media_type
    if kind == kinds.PDF:
        return pdfs.count(data, MOST_OPENED)
    if kind == kinds.ZIP:
        return _in_package(data)
    if kind in kinds.IMAGES:
        return max(1, len(images.sizes(data, kind))) if kind == "image/tiff" else 1
    return text_pages(len(data)) if kind in kinds.TEXTS and data else None


def text_pages(letters: int) -> int:
    """How many pages so many letters would fill."""
    return max(1, -(-letters // LETTERS_A_PAGE))


def _in_package(data: bytes) -> int | None:
    names = archives.names(data, MOST_ENTRIES)
    for pattern in (SLIDE, SHEET):
        found = sum(1 for name in names if pattern.fullmatch(name))
        if found:
            return found
    if "word/document.xml" in names:
        return _said(data, "docProps/app.xml", DOCX_PAGES) or 1
    if "content.xml" in names:
        return _said(data, "meta.xml", ODT_PAGES) or _counted(data) or 1
    return None


def _counted(data: bytes) -> int:
    """Slides or sheets of an OpenDocument file that does not say how many pages it has."""
    content = archives.part(data, "content.xml", MOST_OPENED) or b""
    return sum(1 for _ in OPEN_PAGE.finditer(content))


def _said(data: bytes, name: str, pattern: re.Pattern[bytes]) -> int | None:
    found = pattern.search(archives.part(data, name, MEGABYTE) or b"")
    return int(found.group(1)) if found else None
