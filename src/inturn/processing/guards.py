"""What is checked before any parser sees a document: what it is, and that it stays within bounds."""

from inturn.processing import archives, images, kinds, ole, pdfs
from inturn.processing.bounds import Bounds, megabytes
from inturn.processing.handler import Reject

PROTECTED = "This document is protected by a password: remove it and send the document again"
EXPLAINED = {
    kinds.LOCKED: PROTECTED,
    kinds.OUTLOOK: "This is an Outlook message: save it as an .eml file and send that",
    kinds.OLD_OFFICE: "This is an old Office file of an unknown kind: save it as DOCX, XLSX, PPTX or PDF and send that",
    kinds.ZIP: "This is an archive, not a document: send its files one by one",
    "application/x-elf": "This is a program, not a document",
    "application/x-dosexec": "This is a program, not a document",
}
SUPPORTED = (
    "PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, EPUB, RTF, DOC, XLS, PPT, HTML, Markdown, text, e-mail and pictures"
    " can be read"
)


def check(data: bytes, name: str, bounds: Bounds) -> str:
    """The document's media type if a parser may have it; otherwise rejects it with a reason."""
    if not data:
        raise Reject("This file is empty")
    media_type = kinds.sniff(data[: kinds.HEAD], name)
    if media_type == kinds.ZIP:
        media_type = _check_package(data, bounds)
    elif media_type == kinds.OLD_OFFICE:
        media_type = ole.kind_of(data)
    if media_type is None or media_type in EXPLAINED:
        raise Reject(EXPLAINED.get(media_type or "", f"This kind of file is not known: {SUPPORTED}"))
    if media_type == kinds.PDF:
        pdfs.look_through(data, bounds)
    elif media_type in kinds.IMAGES:
        _check_picture(data, media_type, bounds)
    elif media_type in kinds.TEXTS:
        _check_text(data, media_type, bounds)
    elif media_type not in (*kinds.PACKAGES, *kinds.OLD, kinds.RTF):
        raise Reject(f"Files of the type {media_type} cannot be read: {SUPPORTED}")
    return media_type


def _check_package(data: bytes, bounds: Bounds) -> str:
    media_type = archives.kind_of(data, bounds.entries)
    archives.look_through(data, bounds, media_type)
    return media_type


def _check_picture(data: bytes, media_type: str, bounds: Bounds) -> None:
    found = images.sizes(data, media_type)
    if not found or (0, 0) in found[:1]:
        raise Reject("This picture is damaged: its measures cannot be read")
    for width, height in found:
        if width * height > bounds.pixels:
            most = f"{bounds.pixels / 1_000_000:.4g}"
            raise Reject(f"This picture is {width:,} by {height:,} pixels; the limit is {most} million pixels")
    if len(found) >= min(bounds.pages, images.MOST_FRAMES):
        raise Reject(f"This picture has {len(found):,} pages or more; the limit is {bounds.pages:,}")


def _check_text(data: bytes, media_type: str, bounds: Bounds) -> None:
    # An e-mail carries its attachments as text, a third larger than they are.
    if media_type != kinds.MAIL and len(data) > bounds.text:
        raise Reject(f"This text has {len(data) / (1 << 20):.1f} MB; the limit is {megabytes(bounds.text)} MB")
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Reject("This is no text: it holds null bytes")
