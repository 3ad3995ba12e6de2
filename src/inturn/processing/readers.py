"""Chooses how each kind of document is read: by the reader that keeps most of its words.

Measured on real files as the share of words that come out (`tests/processing/test_recall.py` holds each kind to 0.98):
kreuzberg keeps all words of PDF, XLSX, XLS and PPT. It loses some of HTML, e-mail, DOCX, PPTX, DOC, OpenDocument, EPUB
and RTF, whatever its output format: these are read here.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from inturn.processing import archives, kinds, office_text, parser, pdf_forms
from inturn.processing.bounds import Bounds, megabytes
from inturn.processing.doc_text import read_doc
from inturn.processing.epub_text import read_epub
from inturn.processing.handler import Reject
from inturn.processing.html_text import read_html
from inturn.processing.languages import two_letters
from inturn.processing.mail_text import read_mail
from inturn.processing.office_text import read_office
from inturn.processing.pages import count_pages, text_pages
from inturn.processing.properties import read_properties
from inturn.processing.rtf_text import read_rtf

UNREADABLE: Final = "some letters could not be read: the text is in an unknown encoding"
CLOSED: Final = "attachments were not read: send them as documents of their own"
OLD: Final = "this is an old Office format: headers, footers, comments and text in drawings may be missing"
DETECTED: Final = 20_000
"""Letters of a text whose language is looked for."""


class Content(NamedTuple):
    """What was read of a document."""

    text: str
    metadata: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()
    pages: int | None = None
    """None: to be counted."""
    language: str | None = None


def read(data: bytes, media_type: str, bounds: Bounds) -> Content:
    """Read a document of a kind that was checked."""
    if media_type in (kinds.PLAIN, kinds.MARKDOWN, kinds.HTML):
        content = _read_text(data, media_type)
    elif media_type == kinds.MAIL:
        content = _read_mail(data, bounds)
    elif media_type == kinds.RTF:
        content = _read_rtf(data, bounds)
    elif media_type in (*office_text.PARTS, kinds.EPUB) and media_type != kinds.XLSX:
        content = _read_package(data, media_type, bounds)
    else:
        return _read_by_kreuzberg(data, media_type, bounds)
    return content._replace(language=_language(content.text))


def _read_text(data: bytes, media_type: str) -> Content:
    source, whole = (kinds.decode_html if media_type == kinds.HTML else kinds.decode)(data)
    notes = () if whole else (UNREADABLE,)
    if media_type == kinds.HTML:
        page = read_html(source)
        return Content(page.text, page.metadata, notes, text_pages(len(page.text)))
    return Content(source, {}, notes, text_pages(len(source)))


def _read_mail(data: bytes, bounds: Bounds) -> Content:
    mail = read_mail(data, bounds.depth // 4)
    notes = [] if mail.whole else [UNREADABLE]
    if mail.metadata["attachments"]:
        notes.append(CLOSED)
    return Content(mail.text, mail.metadata, tuple(notes), text_pages(len(mail.text)))


def _read_rtf(data: bytes, bounds: Bounds) -> Content:
    text = read_rtf(data)
    if len(text) > bounds.text:
        raise Reject(f"This text has {len(text) / (1 << 20):.1f} MB; the limit is {megabytes(bounds.text)} MB")
    notes = ("not read: pictures inside this document",) if b"\\pict" in data else ()
    return Content(text, {}, notes, text_pages(len(text)))


def _read_package(data: bytes, media_type: str, bounds: Bounds) -> Content:
    package = archives.Package(data)
    if media_type == kinds.EPUB:
        text, notes = read_epub(package, bounds)
    else:
        text, notes = read_office(package, media_type, bounds)
    pages = count_pages(data, media_type) if media_type != kinds.EPUB else text_pages(len(text))
    return Content(text, read_properties(package, media_type, bounds), tuple(notes), pages)


def _read_by_kreuzberg(data: bytes, media_type: str, bounds: Bounds) -> Content:
    parsed = parser.parse(data, media_type)
    text, notes, metadata = parsed.content, list[str](), dict(parsed.metadata)
    if media_type == kinds.PDF:
        text = _pdf_text(data, parsed)
    elif media_type == kinds.XLSX:
        # Kreuzberg reads cells; what stands in comments and drawings lies beside them.
        beside = read_office(archives.Package(data), media_type, bounds)
        text, notes = "\n\n".join(filter(None, (text, beside.text))), beside.notes
    elif media_type == kinds.DOC:
        text = _fuller(read_doc(data), text)
    elif media_type in kinds.OLD:
        notes = [OLD]
    return Content(text, metadata, tuple(notes), metadata.get("page_count"), two_letters(parsed.detected_languages))


def _pdf_text(data: bytes, parsed: Any) -> str:
    """The text of all pages, and what was filled into a form.

    Kreuzberg takes a PDF in which tags are printed for HTML and drops them; its single pages are as they should be.
    What was read by OCR is in its whole text alone.
    """
    by_page = "\n\n".join(page["content"] for page in parsed.pages or ())
    text = _fuller(by_page, parsed.content)
    fields = "\n".join(f"{name}: {value}" for name, value in pdf_forms.read_fields(data).items())
    return "\n\n".join(filter(None, (text.replace("\r\n", "\n"), fields)))


def _fuller(text: str, other: str) -> str:
    """The text with more words; the first if both have as many."""
    return max(text, other, key=lambda text: len(text.split()))


def _language(text: str) -> str | None:
    """Detect the language by the beginning of the text."""
    return two_letters(parser.parse(text[:DETECTED].encode(), kinds.PLAIN).detected_languages) if text.strip() else None
