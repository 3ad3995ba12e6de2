"""Reads the text of an EPUB: its pages, in the order of its spine."""

from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from inturn import media_types
from inturn.extract import zip_checks
from inturn.extract.html_text import read_html
from inturn.extract.limits import ExtractLimits
from inturn.extract.office_text import DAMAGED_NOTE, OfficeText
from inturn.extract.xml_parts import XmlParser, attribute

CONTAINER_PART: Final = "META-INF/container.xml"
PAGE_EXTENSIONS: Final = (".xhtml", ".html", ".htm")
UNORDERED_NOTE: Final = "the order of this book's pages cannot be read: they stand in the order of their names"


def opf_name(package: zip_checks.Package, limits: ExtractLimits) -> str:
    """The part that says what is in the book; empty if there is none."""
    container = _OpfParser(limits.depth)
    container.parse(package.read_chunks(CONTAINER_PART))
    return container.opf_path


def read_epub(package: zip_checks.Package, limits: ExtractLimits) -> OfficeText:
    """Read all pages."""
    notes: list[str] = []
    opf = opf_name(package, limits)
    book = _OpfParser(limits.depth)
    if not book.parse(package.read_chunks(opf)):
        notes.append(DAMAGED_NOTE)
    names = [normpath(join(dirname(opf), unquote(book.hrefs[item]))) for item in book.spine if item in book.hrefs]
    if not names:
        names = sorted(name for name in package.names if name.lower().endswith(PAGE_EXTENSIONS))
        notes = [UNORDERED_NOTE]
    pages, whole = [], True
    for name in dict.fromkeys(names):
        source, is_read = media_types.decode_html(package.read(name))
        whole = whole and is_read
        pages.append(read_html(source).text)
    if any(name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")) for name in package.names):
        notes.append("not read: pictures inside this document")
    return OfficeText("\n\n".join(filter(None, pages)), notes)


class _OpfParser(XmlParser):
    """The names of pages in a container and a package file."""

    def __init__(self, max_depth: int) -> None:
        super().__init__(max_depth)
        self.opf_path = ""
        self.hrefs: dict[str, str] = {}
        self.spine: list[str] = []

    def start(self, name: str, attributes: list[str]) -> None:
        super().start(name, attributes)
        local = name.rpartition(":")[2]
        if local == "rootfile" and not self.opf_path:
            self.opf_path = attribute(attributes, "full-path") or ""
        elif local == "item":
            self.hrefs[attribute(attributes, "id") or ""] = attribute(attributes, "href") or ""
        elif local == "itemref":
            self.spine.append(attribute(attributes, "idref") or "")
