"""Reads each kind of document with the reader that keeps most of its words.

Word recall was measured on real files; `test_recall.py` requires 0.98 for every kind. Kreuzberg keeps all words of
PDF, XLSX, XLS and PPT. It loses words of HTML, e-mail, DOCX, PPTX, DOC, OpenDocument, EPUB and RTF in every output
format, so those have readers of their own.
"""

from typing import Any, Final

from inturn import media_types
from inturn.extract import office_text, parser, pdf_forms, zip_checks
from inturn.extract.content import PICTURES_NOTE, UNREADABLE_NOTE, ExtractedContent
from inturn.extract.doc_text import read_doc
from inturn.extract.epub_text import read_epub
from inturn.extract.html_text import read_html
from inturn.extract.languages import to_iso_639_1
from inturn.extract.limits import ExtractLimits, require_text_size
from inturn.extract.mail_text import read_mail
from inturn.extract.page_count import estimate_text_pages
from inturn.extract.properties import read_properties
from inturn.extract.rtf_text import read_rtf

OLD_FORMAT_NOTE: Final = "this is an old Office format: headers, footers, comments and text in drawings may be missing"
LANGUAGE_SAMPLE_CHARACTERS: Final = 20_000


def read(data: bytes, media_type: str, limits: ExtractLimits) -> ExtractedContent:
    """Read a document that passed the checks."""
    if media_type in (media_types.PLAIN, media_types.MARKDOWN, media_types.HTML):
        content = _read_text(data, media_type)
    elif media_type == media_types.MAIL:
        content = read_mail(data, limits.depth // 4)
    elif media_type == media_types.RTF:
        content = _read_rtf(data, limits)
    elif media_type in (*office_text.TEXT_PARTS, media_types.EPUB) and media_type != media_types.XLSX:
        content = _read_package(data, media_type, limits)
    else:
        return _read_with_kreuzberg(data, media_type, limits)
    if media_type in media_types.ESTIMATED_PAGE_TYPES:
        content = content._replace(pages=estimate_text_pages(len(content.text)))
    return content._replace(language=_detect_language(content.text))


def _read_text(data: bytes, media_type: str) -> ExtractedContent:
    if media_type == media_types.HTML:
        source, is_fully_decoded = media_types.decode_html(data)
        content = read_html(source)
    else:
        source, is_fully_decoded = media_types.decode(data)
        content = ExtractedContent(source)
    return content if is_fully_decoded else content._replace(notes=(UNREADABLE_NOTE,))


def _read_rtf(data: bytes, limits: ExtractLimits) -> ExtractedContent:
    text = read_rtf(data)
    require_text_size(len(text), limits)
    return ExtractedContent(text, notes=(PICTURES_NOTE,) if b"\\pict" in data else ())


def _read_package(data: bytes, media_type: str, limits: ExtractLimits) -> ExtractedContent:
    package = zip_checks.Package(data)
    if media_type == media_types.EPUB:
        content = read_epub(package, limits)
    else:
        content = office_text.read_office(package, media_type, limits)
    return content._replace(metadata=read_properties(package, media_type, limits))


def _read_with_kreuzberg(data: bytes, media_type: str, limits: ExtractLimits) -> ExtractedContent:
    parsed = parser.parse(data, media_type)
    text, notes, metadata = parsed.content, tuple[str, ...](), dict(parsed.metadata)
    if media_type == media_types.PDF:
        text = _pdf_text(data, parsed)
    elif media_type == media_types.XLSX:
        # Kreuzberg reads only the cells, not the comments and drawings.
        annotations = office_text.read_office(zip_checks.Package(data), media_type, limits)
        text, notes = "\n\n".join(filter(None, (text, annotations.text))), annotations.notes
    elif media_type == media_types.DOC:
        text = _longer_text(read_doc(data), text)
    elif media_type in media_types.LEGACY_OFFICE:
        notes = (OLD_FORMAT_NOTE,)
    return ExtractedContent(text, metadata, notes, metadata.get("page_count"), to_iso_639_1(parsed.detected_languages))


def _pdf_text(data: bytes, parsed: Any) -> str:
    """Return the text of all pages and the values of form fields.

    In a PDF that prints HTML tags, kreuzberg drops them from the whole text, but not from the single pages. Text
    from OCR is only in the whole text.
    """
    by_page = "\n\n".join(page["content"] for page in parsed.pages or ())
    text = _longer_text(by_page, parsed.content)
    fields = "\n".join(f"{name}: {value}" for name, value in pdf_forms.read_fields(data).items())
    return "\n\n".join(filter(None, (text.replace("\r\n", "\n"), fields)))


def _longer_text(text: str, other: str) -> str:
    """Return the text with more words; the first if both have as many."""
    return max(text, other, key=lambda text: len(text.split()))


def _detect_language(text: str) -> str | None:
    if not text.strip():
        return None
    sample = text[:LANGUAGE_SAMPLE_CHARACTERS].encode()
    return to_iso_639_1(parser.parse(sample, media_types.PLAIN).detected_languages)
