"""A repair for kreuzberg up to 4.10: it drops `&amp;`, `&lt;` and every other reference from DOCX.

"R&D" came out as "RD" (xberg issue 1242, mended only in its successor). So references become letters that no text
uses before the parser sees them, and turn back into what they stand for afterwards.
"""

import io
import re
import zipfile

NAMED = {b"amp": "&", b"lt": "<", b"gt": ">", b"quot": '"', b"apos": "'"}
TEXT = re.compile(r"word/[^/]+\.xml")
REFERENCE = re.compile(rb"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));")
# Plane 15 is for private use; only references to ASCII are moved there, the others become plain letters.
PRIVATE = 0xF0000
BACK = {PRIVATE + code: code for code in range(9, 128)}


def hide(data: bytes) -> bytes:
    """The same DOCX without references in its text; the very same bytes if there is none."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        texts = {name: package.read(name) for name in package.namelist() if TEXT.fullmatch(name)}
        changed = {name: REFERENCE.sub(_letter, part) for name, part in texts.items() if b"&" in part}
        if not changed:
            return data
        parts = {name: changed.get(name) or package.read(name) for name in package.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as package:
        for name, part in parts.items():
            package.writestr(name, part)
    return out.getvalue()


def show(text: str) -> str:
    """The text with the references' meaning back in place."""
    return text.translate(BACK)


def _letter(found: re.Match[bytes]) -> bytes:
    name, decimal, hexadecimal = found.groups()
    code = ord(NAMED[name]) if name else int(decimal) if decimal else int(hexadecimal, 16)
    if 9 <= code < 128:
        return chr(PRIVATE + code).encode()
    if code > 0x10FFFF or 0xD800 <= code < 0xE000 or code < 9:
        return b""
    return chr(code).encode()
