"""Chooses how each kind of document is read: by the reader that keeps most of its words.

Measured on real files as the share of words that come out (`tests/extract/test_recall.py` holds each kind to 0.98):
kreuzberg keeps all words of PDF, XLSX, XLS and PPT. It loses some of HTML, e-mail, DOCX, PPTX, DOC, OpenDocument, EPUB
and RTF, whatever its output format: these are read here.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from inturn import media_types
from inturn.extract import office_text, parser, pdf_forms, zip_checks
from inturn.extract.doc_text import read_doc
from inturn.extract.epub_text import read_epub
from inturn.extract.html_text import read_html
from inturn.extract.languages import to_iso_639_1
from inturn.extract.limits import ExtractLimits, format_megabytes
from inturn.extract.mail_text import read_mail
from inturn.extract.office_text import read_office
from inturn.extract.page_count import count_pages, estimate_text_pages
from inturn.extract.properties import read_properties
from inturn.extract.rtf_text import read_rtf
from inturn.processor import Reject

UNREADABLE_NOTE: Final = "some letters could not be read: the text is in an unknown encoding"
ATTACHMENTS_NOTE: Final = "attachments were not read: send them as documents of their own"
OLD_FORMAT_NOTE: Final = "this is an old Office format: headers, footers, comments and text in drawings may be missing"
LANGUAGE_SAMPLE_CHARACTERS: Final = 20_000
"""Letters of a text whose language is looked for."""


class ExtractedContent(NamedTuple):
    """What was read of a document."""

    text: str
    metadata: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()
    pages: int | None = None
    """None: to be counted."""
    language: str | None = None


def read(data: bytes, media_type: str, limits: ExtractLimits) -> ExtractedContent:
    """Read a document of a kind that was checked."""
    if media_type in (media_types.PLAIN, media_types.MARKDOWN, media_types.HTML):
        content = _read_text(data, media_type)
    elif media_type == media_types.MAIL:
        content = _read_mail(data, limits)
    elif media_type == media_types.RTF:
        content = _read_rtf(data, limits)
    elif media_type in (*office_text.TEXT_PARTS, media_types.EPUB) and media_type != media_types.XLSX:
        content = _read_package(data, media_type, limits)
    else:
        return _read_with_kreuzberg(data, media_type, limits)
    return content._replace(language=_detect_language(content.text))


def _read_text(data: bytes, media_type: str) -> ExtractedContent:
    source, whole = (media_types.decode_html if media_type == media_types.HTML else media_types.decode)(data)
    notes = () if whole else (UNREADABLE_NOTE,)
    if media_type == media_types.HTML:
        page = read_html(source)
        return ExtractedContent(page.text, page.metadata, notes, estimate_text_pages(len(page.text)))
    return ExtractedContent(source, {}, notes, estimate_text_pages(len(source)))


def _read_mail(data: bytes, limits: ExtractLimits) -> ExtractedContent:
    mail = read_mail(data, limits.depth // 4)
    notes = [] if mail.is_fully_decoded else [UNREADABLE_NOTE]
    if mail.metadata["attachments"]:
        notes.append(ATTACHMENTS_NOTE)
    return ExtractedContent(mail.text, mail.metadata, tuple(notes), estimate_text_pages(len(mail.text)))


def _read_rtf(data: bytes, limits: ExtractLimits) -> ExtractedContent:
    text = read_rtf(data)
    if len(text) > limits.text_bytes:
        raise Reject(
            f"This text has {len(text) / (1 << 20):.1f} MB; the limit is {format_megabytes(limits.text_bytes)} MB"
        )
    notes = ("not read: pictures inside this document",) if b"\\pict" in data else ()
    return ExtractedContent(text, {}, notes, estimate_text_pages(len(text)))


def _read_package(data: bytes, media_type: str, limits: ExtractLimits) -> ExtractedContent:
    package = zip_checks.Package(data)
    if media_type == media_types.EPUB:
        text, notes = read_epub(package, limits)
    else:
        text, notes = read_office(package, media_type, limits)
    pages = count_pages(data, media_type) if media_type != media_types.EPUB else estimate_text_pages(len(text))
    return ExtractedContent(text, read_properties(package, media_type, limits), tuple(notes), pages)


def _read_with_kreuzberg(data: bytes, media_type: str, limits: ExtractLimits) -> ExtractedContent:
    parsed = parser.parse(data, media_type)
    text, notes, metadata = parsed.content, list[str](), dict(parsed.metadata)
    if media_type == media_types.PDF:
        text = _pdf_text(data, parsed)
    elif media_type == media_types.XLSX:
        # Kreuzberg reads cells; what stands in comments and drawings lies beside them.
        beside = read_office(zip_checks.Package(data), media_type, limits)
        text, notes = "\n\n".join(filter(None, (text, beside.text))), beside.notes
    elif media_type == media_types.DOC:
        text = _longer_text(read_doc(data), text)
    elif media_type in media_types.LEGACY_OFFICE:
        notes = [OLD_FORMAT_NOTE]
    return ExtractedContent(
        text, metadata, tuple(notes), metadata.get("page_count"), to_iso_639_1(parsed.detected_languages)
    )


def _pdf_text(data: bytes, parsed: Any) -> str:
    """The text of all pages, and what was filled into a form.

    Kreuzberg takes a PDF in which tags are printed for HTML and drops them; its single pages are as they should be.
    What was read by OCR is in its whole text alone.
    """
    by_page = "\n\n".join(page["content"] for page in parsed.pages or ())
    text = _longer_text(by_page, parsed.content)
    fields = "\n".join(f"{name}: {value}" for name, value in pdf_forms.read_fields(data).items())
    return "\n\n".join(filter(None, (text.replace("\r\n", "\n"), fields)))


def _longer_text(text: str, other: str) -> str:
    """The text with more words; the first if both have as many."""
    return max(text, other, key=lambda text: len(text.split()))


def _detect_language(text: str) -> str | None:
    """Detect the language by the beginning of the text."""
    return (
        to_iso_639_1(parser.parse(text[:LANGUAGE_SAMPLE_CHARACTERS].encode(), media_types.PLAIN).detected_languages)
        if text.strip()
        else None
    )
