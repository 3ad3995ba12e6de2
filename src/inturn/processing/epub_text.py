"""Reads the text of an EPUB: its pages, in the order of its spine."""

from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from inturn.processing import archives, kinds
from inturn.processing.bounds import Bounds
from inturn.processing.html_text import read_html
from inturn.processing.office_text import DAMAGED, OfficeText
from inturn.processing.xml_parts import XmlParser, attribute

CONTAINER: Final = "META-INF/container.xml"
PAGES: Final = (".xhtml", ".html", ".htm")
UNORDERED: Final = "the order of this book's pages cannot be read: they stand in the order of their names"


def opf_name(package: archives.Package, bounds: Bounds) -> str:
    """The part that says what is in the book; empty if there is none."""
    container = _Book(bounds.depth)
    container.parse(package.pieces(CONTAINER))
    return container.root


def read_epub(package: archives.Package, bounds: Bounds) -> OfficeText:
    """Read all pages."""
    notes: list[str] = []
    opf = opf_name(package, bounds)
    book = _Book(bounds.depth)
    if not book.parse(package.pieces(opf)):
        notes.append(DAMAGED)
    names = [normpath(join(dirname(opf), unquote(book.hrefs[each]))) for each in book.spine if each in book.hrefs]
    if not names:
        names = sorted(name for name in package.names if name.lower().endswith(PAGES))
        notes = [UNORDERED]
    pages, whole = [], True
    for name in dict.fromkeys(names):
        source, is_read = kinds.decode_html(package.read(name))
        whole = whole and is_read
        pages.append(read_html(source).text)
    if any(name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")) for name in package.names):
        notes.append("not read: pictures inside this document")
    return OfficeText("\n\n".join(filter(None, pages)), notes)


class _Book(XmlParser):
    """The names of pages in a container and a package file."""

    def __init__(self, most_depth: int) -> None:
        super().__init__(most_depth)
        self.root = ""
        self.hrefs: dict[str, str] = {}
        self.spine: list[str] = []

    def start(self, name: str, attributes: list[str]) -> None:
        super().start(name, attributes)
        local = name.rpartition(":")[2]
        if local == "rootfile" and not self.root:
            self.root = attribute(attributes, "full-path") or ""
        elif local == "item":
            self.hrefs[attribute(attributes, "id") or ""] = attribute(attributes, "href") or ""
        elif local == "itemref":
            self.spine.append(attribute(attributes, "idref") or "")
