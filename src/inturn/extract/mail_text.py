"""Reads an e-mail: its headers, and of each body the version with the most words. Attachments are not opened.

Kreuzberg joins the words of cells and lines in HTML. It also prefers a plain version even if that is only a stub.
"""

import email
import email.errors
import email.header
import email.policy
import email.utils
from email.message import Message
from typing import Final

from inturn.extract.content import UNREADABLE_NOTE, ExtractedContent
from inturn.extract.html_text import read_html
from inturn.extract.text_builder import TextBuilder
from inturn.processor_api import Reject

SHOWN_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")
MAX_ATTACHMENT_NAMES: Final = 1_000
MAX_ADDRESS_CHARACTERS: Final = 20_000
"""Characters of a header that are parsed for addresses."""
ATTACHMENTS_NOTE: Final = "attachments were not read: send them as documents of their own"


def read_mail(data: bytes, max_depth: int) -> ExtractedContent:
    """Read headers and bodies."""
    try:
        message = email.message_from_bytes(data, policy=email.policy.compat32)
    except RecursionError as error:
        raise _too_deep(max_depth) from error
    headers = {name: _read_header(message, name) for name in (*SHOWN_HEADERS, "Message-ID")}
    builder = TextBuilder()
    for name in SHOWN_HEADERS:
        if headers[name]:
            builder.add(f"{name}: {headers[name]}")
            builder.separate("\n")
    reader = _BodyReader(max_depth)
    builder.separate("\n\n")
    builder.add(reader.text(message, 1).strip())
    metadata = {
        "subject": headers["Subject"],
        "from_email": headers["From"],
        "to_emails": _addresses(headers["To"]),
        "cc_emails": _addresses(headers["Cc"]),
        "created_at": headers["Date"],
        "message_id": headers["Message-ID"].strip("<>"),
        "attachments": reader.attachments,
    }
    notes: tuple[str, ...] = () if reader.is_fully_decoded else (UNREADABLE_NOTE,)
    if reader.attachments:
        notes += (ATTACHMENTS_NOTE,)
    return ExtractedContent(str(builder), metadata, notes)


class _BodyReader:
    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self.attachments: list[str] = []
        self.is_fully_decoded = True

    def text(self, part: Message, depth: int) -> str:
        if depth > self._max_depth:
            raise _too_deep(self._max_depth)
        kind = part.get_content_type()
        if part.is_multipart() and kind != "message/rfc822":
            inner = [self.text(child, depth + 1) for child in part.get_payload() if isinstance(child, Message)]
            if kind == "multipart/alternative":
                return max(inner, key=lambda text: len(text.split()), default="")
            return "\n\n".join(filter(None, inner))
        is_text = kind in ("text/plain", "text/html") and part.get_content_disposition() != "attachment"
        if not is_text:
            name = part.get_filename() or part.get_content_type()
            if len(self.attachments) < MAX_ATTACHMENT_NAMES and not (
                kind.startswith("image/") and part.get("Content-ID")
            ):
                self.attachments.append(_decode_header(name))
            return ""
        content = self._content(part)
        return read_html(content).text if kind == "text/html" else content.replace("\r\n", "\n")

    def _content(self, part: Message) -> str:
        payload = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else b""
        for charset in (part.get_content_charset() or "utf-8", "utf-8"):
            try:
                return data.decode(charset)
            except (ValueError, LookupError):
                continue
        text = data.decode("cp1252", "replace")
        self.is_fully_decoded = self.is_fully_decoded and "\ufffd" not in text
        return text


def _too_deep(max_depth: int) -> Reject:
    return Reject(f"This e-mail holds messages more than {max_depth} deep inside each other")


def _read_header(message: Message, name: str) -> str:
    value = message.get(name)
    return "" if value is None else _decode_header(str(value))


def _decode_header(value: str) -> str:
    """Decode the encoded words of a header."""
    try:
        pieces = email.header.decode_header(value)
    except (email.errors.HeaderParseError, ValueError):
        pieces = [(value, None)]
    text = "".join(piece if isinstance(piece, str) else _decode_bytes(piece, charset) for piece, charset in pieces)
    return " ".join(text.split())


def _decode_bytes(data: bytes, charset: str | None) -> str:
    try:
        return data.decode(charset or "ascii")
    except (ValueError, LookupError):
        return data.decode("utf-8", "replace")


def _addresses(value: str) -> list[str]:
    pairs = email.utils.getaddresses([value[:MAX_ADDRESS_CHARACTERS]])
    return [f"{name} <{address}>" if name else address for name, address in pairs if address]
