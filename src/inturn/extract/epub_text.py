"""Reads the text of an EPUB: its pages in the order of its spine."""

from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from inturn import media_types
from inturn.extract import zip_checks
from inturn.extract.content import DAMAGED_NOTE, PICTURES_NOTE, UNREADABLE_NOTE, ExtractedContent
from inturn.extract.html_text import read_html
from inturn.extract.limits import ExtractLimits
from inturn.extract.xml_parts import XmlParser, attribute, local_name

CONTAINER_PART: Final = "META-INF/container.xml"
PAGE_EXTENSIONS: Final = (".xhtml", ".html", ".htm")
PICTURE_EXTENSIONS: Final = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")
UNORDERED_NOTE: Final = "the order of this book's pages cannot be read: they are in the order of their names"


def opf_name(package: zip_checks.Package, limits: ExtractLimits) -> str:
    """Return the name of the OPF part, which lists the pages; empty if the container names none."""
    container = _OpfParser(limits.depth)
    container.parse(package.read_chunks(CONTAINER_PART))
    return container.opf_path


def read_epub(package: zip_checks.Package, limits: ExtractLimits) -> ExtractedContent:
    """Read all pages."""
    opf_path = opf_name(package, limits)
    opf = _OpfParser(limits.depth)
    notes = [] if opf.parse(package.read_chunks(opf_path)) else [DAMAGED_NOTE]
    names = [normpath(join(dirname(opf_path), unquote(opf.hrefs[item]))) for item in opf.spine if item in opf.hrefs]
    if not names:
        names = sorted(name for name in package.names if name.lower().endswith(PAGE_EXTENSIONS))
        notes = [UNORDERED_NOTE]
    pages, is_fully_decoded = list[str](), True
    for name in dict.fromkeys(names):
        source, is_page_decoded = media_types.decode_html(package.read(name))
        is_fully_decoded = is_fully_decoded and is_page_decoded
        pages.append(read_html(source).text)
    if not is_fully_decoded:
        notes.append(UNREADABLE_NOTE)
    if any(name.lower().endswith(PICTURE_EXTENSIONS) for name in package.names):
        notes.append(PICTURES_NOTE)
    return ExtractedContent("\n\n".join(filter(None, pages)), notes=tuple(notes))


class _OpfParser(XmlParser):
    """Reads the page names of a container and of an OPF part."""

    def __init__(self, max_depth: int) -> None:
        super().__init__(max_depth)
        self.opf_path = ""
        self.hrefs: dict[str, str] = {}
        self.spine: list[str] = []

    def start(self, name: str, attributes: list[str]) -> None:
        super().start(name, attributes)
        local = local_name(name)
        if local == "rootfile" and not self.opf_path:
            self.opf_path = attribute(attributes, "full-path") or ""
        elif local == "item":
            self.hrefs[attribute(attributes, "id") or ""] = attribute(attributes, "href") or ""
        elif local == "itemref":
            self.spine.append(attribute(attributes, "idref") or "")
