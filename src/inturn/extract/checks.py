"""Checks a document's type and limits before any parser opens it."""

from inturn import media_types
from inturn.extract import image_size, ole, pdf_checks, zip_checks
from inturn.extract.content import PASSWORD_PROTECTED
from inturn.extract.limits import ExtractLimits, require_text_size
from inturn.processor_api import Reject

REJECT_REASONS = {
    media_types.ENCRYPTED_OFFICE: PASSWORD_PROTECTED,
    media_types.OUTLOOK: "This is an Outlook message: save it as an .eml file and send that",
    media_types.OLE_STORAGE: (
        "This is an old Office file of an unknown kind: save it as DOCX, XLSX, PPTX or PDF and send that"
    ),
    media_types.ZIP: "This is an archive, not a document: send its files one by one",
    "application/x-elf": "This is a program, not a document",
    "application/x-dosexec": "This is a program, not a document",
}
SUPPORTED_TYPES = (
    "PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, EPUB, RTF, DOC, XLS, PPT, HTML, Markdown, text, e-mail and pictures"
    " can be read"
)


def check(data: bytes, name: str, limits: ExtractLimits) -> str:
    """Return the media type of a document; reject a document that no parser may open."""
    if not data:
        raise Reject("This file is empty")
    media_type = media_types.sniff(data[: media_types.SNIFF_BYTES], name)
    if media_type == media_types.ZIP:
        media_type = zip_checks.package_media_type(data, limits.entries)
        zip_checks.check_zip(data, limits, media_type)
    elif media_type == media_types.OLE_STORAGE:
        media_type = ole.ole_media_type(data)
    if media_type is None or media_type in REJECT_REASONS:
        raise Reject(REJECT_REASONS.get(media_type or "", f"This kind of file is not known: {SUPPORTED_TYPES}"))
    if media_type == media_types.PDF:
        pdf_checks.check_pdf(data, limits)
    elif media_type in media_types.IMAGES:
        _check_image(data, media_type, limits)
    elif media_type in media_types.TEXTS:
        _check_text(data, media_type, limits)
    elif media_type not in (*media_types.PACKAGES, *media_types.LEGACY_OFFICE, media_types.RTF):
        raise Reject(f"Files of the type {media_type} cannot be read: {SUPPORTED_TYPES}")
    return media_type


def _check_image(data: bytes, media_type: str, limits: ExtractLimits) -> None:
    sizes = image_size.frame_sizes(data, media_type)
    if not sizes or (0, 0) in sizes[:1]:
        raise Reject("This picture is damaged: its measures cannot be read")
    for width, height in sizes:
        if width * height > limits.pixels:
            most = f"{limits.pixels / 1_000_000:.4g}"
            raise Reject(f"This picture is {width:,} by {height:,} pixels; the limit is {most} million pixels")
    if len(sizes) >= min(limits.pages, image_size.MAX_FRAMES):
        raise Reject(f"This picture has {len(sizes):,} pages or more; the limit is {limits.pages:,}")


def _check_text(data: bytes, media_type: str, limits: ExtractLimits) -> None:
    # The limit does not apply to e-mails: base64 makes their attachments a third larger.
    if media_type != media_types.MAIL:
        require_text_size(len(data), limits)
    if b"\0" in data and not data.startswith(media_types.UTF_16_MARKS):
        raise Reject("This is not a text: it contains null bytes")
