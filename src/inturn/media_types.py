"""Detects the media type of a file by its first bytes. The name only decides between kinds of text."""

import mimetypes
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import PurePosixPath

OPEN_XML = "application/vnd.openxmlformats-officedocument"
PDF, DOCX = "application/pdf", f"{OPEN_XML}.wordprocessingml.document"
XLSX, PPTX = f"{OPEN_XML}.spreadsheetml.sheet", f"{OPEN_XML}.presentationml.presentation"
MACRO_TYPES = {
    DOCX: "application/vnd.ms-word.document.macroEnabled.12",
    XLSX: "application/vnd.ms-excel.sheet.macroEnabled.12",
    PPTX: "application/vnd.ms-powerpoint.presentation.macroEnabled.12",
}
"""The types of the same files with macros, which are never run."""
XLSB = "application/vnd.ms-excel.sheet.binary.macroEnabled.12"
OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
ODT, ODS = f"{OPEN_DOCUMENT}.text", f"{OPEN_DOCUMENT}.spreadsheet"
ODP, ODG = f"{OPEN_DOCUMENT}.presentation", f"{OPEN_DOCUMENT}.graphics"
EPUB, RTF = "application/epub+zip", "application/rtf"
DOC, XLS, PPT = "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"
HTML, MARKDOWN, PLAIN, MAIL = "text/html", "text/markdown", "text/plain", "message/rfc822"
ZIP, OLE_STORAGE = "application/zip", "application/x-ole-storage"
ENCRYPTED_OFFICE, OUTLOOK = "application/x-encrypted-office", "application/vnd.ms-outlook"
MAIN_PARTS = {DOCX: "word/document.xml", XLSX: "xl/workbook.xml", PPTX: "ppt/presentation.xml", XLSB: "xl/workbook.bin"}
"""Packages by a part that no other package has."""
MIMETYPE_PACKAGES = (ODT, ODS, ODP, ODG, EPUB)
"""Packages that declare their type in a part called `mimetype`."""
PACKAGES = (*MAIN_PARTS, *MIMETYPE_PACKAGES)
LEGACY_OFFICE = (DOC, XLS, PPT)
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/tiff", "image/webp", "image/bmp")
TEXTS = (HTML, MARKDOWN, PLAIN, MAIL)
ESTIMATED_PAGE_TYPES = (*TEXTS, RTF, EPUB)
"""Types whose pages are estimated from the length of the text; the limit of pages does not apply."""

MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE_STORAGE),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"BM", "image/bmp"),
    (b"\x7fELF", "application/x-elf"),
    (b"MZ", "application/x-dosexec"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", RTF),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)
HTML_PREAMBLE = rb"\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--.{0,2000}?-->\s*)*<"
HTML_START = re.compile(HTML_PREAMBLE + rb"(?:!doctype\s+html|html|head|body|meta|title)\b", re.IGNORECASE | re.DOTALL)
ELEMENT_START = re.compile(
    HTML_PREAMBLE + rb"(?:div|p|h[1-6]|table|ul|ol|span|center|font)\b", re.IGNORECASE | re.DOTALL
)
"""The start of an HTML page, or of a Markdown text."""
DECLARED_CHARSET = re.compile(
    rb"""<(?:meta\b|\?xml\b)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE
)
MAIL_HEADER = re.compile(rb"(?:[!-9;-~]+:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*)+")
MAIL_HEADER_NAMES = re.compile(
    rb"^(?:from|to|subject|date|message-id|received|mime-version|return-path):", re.IGNORECASE | re.MULTILINE
)
MARKDOWN_MARKS = re.compile(r"^(?:#{1,6} \S|\|.*\|$|```|[-*] \S+.*\n[-*] \S)", re.MULTILINE)
TYPE_BY_EXTENSION = {".html": HTML, ".htm": HTML, ".md": MARKDOWN, ".markdown": MARKDOWN, ".eml": MAIL, ".txt": PLAIN}
# Decoded as browsers do: most pages that declare these encodings are in a Windows code page.
HTML_CHARSETS = {b"iso-8859-1": "cp1252", b"us-ascii": "cp1252", b"utf-8": "cp1252", b"gb2312": "gb18030"}
UTF_8_MARK, UTF_16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
SNIFF_BYTES = 4096
CONTROL_CHARACTERS = bytes((*range(1, 9), *range(14, 27), *range(28, 32)))


def sniff(head: bytes, name: str = "") -> str | None:
    """Return the media type by the first `SNIFF_BYTES` of a file; None if it is neither known nor text.

    Packages such as DOCX differ only in their parts: all of them are `ZIP` here.
    """
    # PDF readers accept the signature anywhere in the first kilobyte.
    if b"%PDF-" in head[:1024]:
        return PDF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    for magic, kind in MAGIC:
        # A text may begin with the two letters of a short signature.
        if head.startswith(magic) and (len(magic) > 2 or not _is_text(head)):
            return kind
    return _sniff_text(head, name) if _is_text(head) else None


def media_type_of(head: bytes, name: str) -> str | None:
    """Return the media type by the first bytes, refined by the name where the bytes allow it."""
    sniffed, named = sniff(head, name), _guess_by_extension(".".join(name.rsplit(".", 2)[1:]))
    allowed: dict[str | None, tuple[str, ...]] = {
        None: ("",),
        PLAIN: ("text/",),
        ZIP: ("application/vnd.", EPUB),
        OLE_STORAGE: ("application/vnd.ms-", "application/msword"),
    }
    return named if named is not None and named.startswith(allowed.get(sniffed, ())) else sniffed


@lru_cache(maxsize=1_024)
def _guess_by_extension(extension: str) -> str | None:
    return mimetypes.guess_type(f"name.{extension}")[0]


def decode(data: bytes) -> tuple[str, bool]:
    """Decode a text; also return whether all its bytes could be decoded."""
    if data.startswith(UTF_16_MARKS):
        return data.decode("utf-16", "replace"), True
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        # In the Windows code page only five bytes are undefined.
        text = data.decode("cp1252", "replace")
        return text, "\ufffd" not in text


def decode_html(data: bytes) -> tuple[str, bool]:
    """Decode an HTML page; its declared encoding counts only if it is not valid Unicode."""
    declared = DECLARED_CHARSET.search(data[:SNIFF_BYTES])
    if declared and not data.startswith(UTF_16_MARKS):
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError:
            with suppress(LookupError, ValueError):
                return data.decode(HTML_CHARSETS.get(declared[1].lower(), declared[1].decode())), True
    return decode(data)


def _is_text(head: bytes) -> bool:
    if head.startswith(UTF_16_MARKS):
        return True
    control = len(head) - len(head.translate(None, CONTROL_CHARACTERS))
    return b"\0" not in head and control * 50 <= len(head)


def _sniff_text(head: bytes, name: str) -> str:
    named = TYPE_BY_EXTENSION.get(PurePosixPath(name.replace("\\", "/")).suffix.lower())
    start = head.removeprefix(UTF_8_MARK)
    if HTML_START.match(start):
        return HTML
    header = MAIL_HEADER.match(head)
    if header and (len(MAIL_HEADER_NAMES.findall(header.group())) >= 2 or named == MAIL):
        return MAIL
    if named == PLAIN and ELEMENT_START.match(start):
        named = None
    if named is not None:
        # A file without mail headers is not an e-mail, even if it is called .eml.
        return PLAIN if named == MAIL else named
    if len(MARKDOWN_MARKS.findall(head.decode("utf-8", "replace"))) >= 2:
        return MARKDOWN
    return HTML if ELEMENT_START.match(start) else PLAIN
