"""What is checked before any parser sees a document: what it is, and that it stays within bounds."""

from . import archives, images, kinds, pdfs
from .bounds import Bounds
from .handler import Reject

EXPLAINED = {
    kinds.OLD_OFFICE: "This is an old or locked Office file: save it as DOCX, XLSX or PPTX, without a password",
    kinds.ZIP: "This is an archive, not a document: send its files one by one",
    "application/x-elf": "This is a program, not a document",
    "application/x-dosexec": "This is a program, not a document",
}
SUPPORTED = "PDF, DOCX, XLSX, PPTX, ODT, HTML, Markdown, text, e-mail and pictures can be read"


def check(data: bytes, name: str, bounds: Bounds) -> str:
    """The document's media type if a parser may have it; otherwise rejects it with a reason."""
    if not data:
        raise Reject("This file is empty")
    media_type = kinds.sniff(data[: kinds.HEAD], name)
    if media_type == kinds.ZIP:
        media_type = _package(archives.look_through(data, bounds), data)
    if media_type is None or media_type in EXPLAINED:
        raise Reject(EXPLAINED.get(media_type or "", f"This kind of file is not known: {SUPPORTED}"))
    if media_type == kinds.PDF:
        pdfs.look_through(data, bounds)
    elif media_type in kinds.IMAGES:
        _check_picture(data, media_type, bounds)
    elif media_type in kinds.TEXTS:
        _check_text(data, media_type, bounds)
    elif media_type not in kinds.PACKAGES:
        raise Reject(f"Files of the type {media_type} cannot be read: {SUPPORTED}")
    return media_type


def _package(names: list[str], data: bytes) -> str:
    found = set(names)
    for media_type, main in kinds.PACKAGES.items():
        if main in found and (media_type == kinds.ODT) == ("mimetype" in found):
            if media_type == kinds.ODT and archives.part(data, "mimetype", 100) != kinds.ODT.encode():
                continue
            return media_type
    return kinds.ZIP


def _check_picture(data: bytes, media_type: str, bounds: Bounds) -> None:
    found = images.sizes(data, media_type)
    if not found or (0, 0) in found[:1]:
        raise Reject("This picture is damaged: its measures cannot be read")
    for width, height in found:
        if width * height > bounds.pixels:
            most = bounds.pixels // 1_000_000
            raise Reject(f"This picture is {width:,} by {height:,} pixels; the limit is {most} million pixels")
    if len(found) >= min(bounds.pages, images.MOST_FRAMES):
        raise Reject(f"This picture has {len(found):,} pages or more; the limit is {bounds.pages:,}")


def _check_text(data: bytes, media_type: str, bounds: Bounds) -> None:
    # An e-mail carries its attachments as text, a third larger than they are.
    if media_type != kinds.MAIL and len(data) > bounds.text:
        raise Reject(f"This text has {len(data) / (1 << 20):.1f} MB; the limit is {bounds.text >> 20} MB")
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Reject("This is no text: it holds null bytes")
    if media_type == kinds.HTML and _html_depth(data, bounds.depth * 5) > bounds.depth * 5:
        raise Reject(f"HTML elements in this file lie more than {bounds.depth * 5:,} deep inside each other")
    if media_type == kinds.MAIL and data.lower().count(b"content-type: multipart/") > bounds.depth // 4:
        raise Reject(f"This e-mail holds more than {bounds.depth // 4} messages inside each other")


def _html_depth(data: bytes, most: int) -> int:
    """How many elements may be open at once, at the worst: elements that need no end count for half."""
    deepest = depth = 0
    for at in range(0, len(data), 4096):
        window = data[at : at + 4096]
        ends = window.count(b"</")
        begins = window.count(b"<") - ends - window.count(b"<!")
        depth = max(0, depth + begins - ends - window.count(b"/>"))
        deepest = max(deepest, depth)
        if deepest > most:
            # Paragraphs, list items, rows and line breaks often stay open by right.
            lower = data.lower()
            forgiven = sum(
                lower.count(tag) for tag in (b"<br", b"<p", b"<li", b"<t", b"<img", b"<meta", b"<link", b"<input")
            )
            return deepest - forgiven
    return deepest
