"""What a file is, by its first bytes. Its name only chooses among kinds of text, which have no mark of their own."""

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
"""What a file of these kinds is called when it holds macros, which nobody runs here."""
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
"""Packages, by the part that only they have."""
MIMETYPE_PACKAGES = (ODT, ODS, ODP, ODG, EPUB)
"""Packages that say in a part of their own what they are."""
PACKAGES = (*MAIN_PARTS, *MIMETYPE_PACKAGES)
LEGACY_OFFICE = (DOC, XLS, PPT)
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/tiff", "image/webp", "image/bmp")
TEXTS = (HTML, MARKDOWN, PLAIN, MAIL)
ESTIMATED_PAGE_TYPES = (*TEXTS, RTF, EPUB)
"""Kinds whose pages are only an estimate by their length: the limit of pages is not for them."""

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
"""How a page may begin, and how Markdown may begin as well."""
DECLARED_CHARSET = re.compile(
    rb"""<(?:meta\b|\?xml\b)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE
)
MAIL_HEADER = re.compile(rb"(?:[!-9;-~]+:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*)+")
MAIL_HEADER_NAMES = re.compile(
    rb"^(?:from|to|subject|date|message-id|received|mime-version|return-path):", re.IGNORECASE | re.MULTILINE
)
MARKDOWN_MARKS = re.compile(r"^(?:#{1,6} \S|\|.*\|$|```|[-*] \S+.*\n[-*] \S)", re.MULTILINE)
TYPE_BY_EXTENSION = {".html": HTML, ".htm": HTML, ".md": MARKDOWN, ".markdown": MARKDOWN, ".eml": MAIL, ".txt": PLAIN}
# What browsers read these as: most pages that name them mean Windows' letters.
HTML_CHARSETS = {b"iso-8859-1": "cp1252", b"us-ascii": "cp1252", b"utf-8": "cp1252", b"gb2312": "gb18030"}
SNIFF_BYTES = 4096
CONTROL_CHARACTERS = bytes((*range(1, 9), *range(14, 27), *range(28, 32)))


def sniff(head: bytes, name: str = "") -> str | None:
    """The media type by a file's first few thousand bytes; None for what is neither text nor known.

    A package (DOCX and the like) is only told apart by what is in it: it is `ZIP` here.
    """
    # Readers look for a PDF's mark within its first kilobyte.
    if b"%PDF-" in head[:1024]:
        return PDF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    for magic, kind in MAGIC:
        # Two letters are also how a text may begin.
        if head.startswith(magic) and (len(magic) > 2 or not _is_text(head)):
            return kind
    return _sniff_text(head, name) if _is_text(head) else None


def media_type_of(head: bytes, name: str) -> str | None:
    """By its first bytes; by its name where they say too little, and only what they allow."""
    result, named = sniff(head, name), _guess_by_extension(".".join(name.rsplit(".", 2)[1:]))
    allowed: dict[str | None, tuple[str, ...]] = {
        None: ("",),
        PLAIN: ("text/",),
        ZIP: ("application/vnd.", EPUB),
        OLE_STORAGE: ("application/vnd.ms-", "application/msword"),
    }
    return named if named is not None and named.startswith(allowed.get(result, ())) else result


@lru_cache(maxsize=1_024)
def _guess_by_extension(extension: str) -> str | None:
    return mimetypes.guess_type(f"name.{extension}")[0]


def decode(data: bytes) -> tuple[str, bool]:
    """The text, and whether every byte of it could be read."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace"), True
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        # Windows' letters, in which nearly every byte means something.
        text = data.decode("cp1252", "replace")
        return text, "\ufffd" not in text


def decode_html(data: bytes) -> tuple[str, bool]:
    """The source of a page, by the letters it says it is written in where those are not Unicode."""
    named = DECLARED_CHARSET.search(data[:SNIFF_BYTES])
    if named and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError:
            with suppress(LookupError, ValueError):
                return data.decode(HTML_CHARSETS.get(named[1].lower(), named[1].decode())), True
    return decode(data)


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    control = len(head) - len(head.translate(None, CONTROL_CHARACTERS))
    return b"\0" not in head and control * 50 <= len(head)


def _sniff_text(head: bytes, name: str) -> str:
    named = TYPE_BY_EXTENSION.get(PurePosixPath(name.replace("\\", "/")).suffix.lower())
    start = head.removeprefix(b"\xef\xbb\xbf")
    if HTML_START.match(start):
        return HTML
    header = MAIL_HEADER.match(head)
    if header and (len(MAIL_HEADER_NAMES.findall(header.group())) >= 2 or named == MAIL):
        return MAIL
    if named == PLAIN and ELEMENT_START.match(start):
        named = None
    if named is not None:
        # An e-mail without a header is no e-mail, whatever its name says.
        return PLAIN if named == MAIL else named
    if len(MARKDOWN_MARKS.findall(head.decode("utf-8", "replace"))) >= 2:
        return MARKDOWN
    return HTML if ELEMENT_START.match(start) else PLAIN
