"""Packages (zip files, and so DOCX, XLSX, PPTX and ODT): looked through before a parser opens them.

Nothing in the directory of a zip is believed: entries are counted by their marks and sizes by inflating.
"""

import fnmatch
import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator

from inturn import media_types
from inturn.extract.limits import ExtractLimits, UnpackBudget
from inturn.extract.xml_parts import DOCTYPE_ERROR, XmlParser
from inturn.processor import Reject

CHUNK_BYTES = 1 << 16
MAX_NESTING = 3
DOCTYPE_MARKERS = tuple("<!DOCTYPE".encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be"))
XML_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
SAFE_ENCODINGS = re.compile(rb"(?:utf-?(?:8|16(?:le|be)?)|us-ascii|iso-8859-\d+|windows-125\d)", re.IGNORECASE)
XML_EXTENSIONS = (".xml", ".rels", ".vml", ".rdf", ".xhtml")
NUMBER = re.compile(r"\d{1,9}")
NUMBERED_PART = re.compile(r"\d+\.xml$")
DAMAGED_PACKAGE = "This file is damaged: its package cannot be opened"


def check_zip(data: bytes, limits: ExtractLimits, media_type: str) -> None:
    """Reject a package that is beyond bounds."""
    _check_level(data, UnpackBudget(limits, len(data)), 1, media_type)


def _check_level(data: bytes, budget: UnpackBudget, level: int, media_type: str) -> None:
    bounds = budget.limits
    if level > MAX_NESTING:
        raise Reject(
            f"This file holds packages inside packages, more than {MAX_NESTING} deep: it looks like a zip bomb"
        )
    if data.count(b"PK\x01\x02") > bounds.entries:
        raise Reject(f"This file holds more than {bounds.entries:,} entries, which is the limit")
    entries = _entries(data)
    _check_overlap(entries, len(data))
    for entry in entries:
        _check_name(entry)
        _check_entry(data, entry, budget, level, media_type)


def package_media_type(data: bytes, max_entries: int) -> str:
    """The media type of a package by what is in it; `kinds.ZIP` for a mere archive."""
    # Word on the web calls its main part "document2.xml".
    result = {NUMBERED_PART.sub(".xml", name) for name in entry_names(data, max_entries)}
    if "mimetype" in result:
        said = (read_part(data, "mimetype", 100) or b"").decode("ascii", "replace").strip()
        # Templates and master documents are read like what they are for.
        said = said.removesuffix("-template").removesuffix("-master")
        return said if said in media_types.MIMETYPE_PACKAGES else media_types.ZIP
    return next((kind for kind, main in media_types.MAIN_PARTS.items() if main in result), media_types.ZIP)


class Package:
    """The parts of a package that was looked through."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._entries = {entry.filename: entry for entry in _entries(data)}
        self.names = tuple(self._entries)

    def read_chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a part, piece by piece; none if there is no such part."""
        entry = self._entries.get(name)
        return iter(()) if entry is None else _inflate_entry(self._data, entry)

    def read(self, name: str) -> bytes:
        """The bytes of a part; empty if there is no such part."""
        return b"".join(self.read_chunks(name))

    def names_matching(self, pattern: str) -> list[str]:
        """The parts whose names match a pattern of the shell, in the order of the numbers in their names."""
        result = [
            name for name in self.names if fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
        ]
        return sorted(result, key=lambda name: ([int(number) for number in NUMBER.findall(name)], name))


def read_part(data: bytes, name: str, max_bytes: int) -> bytes | None:
    """The first bytes of one part of a package; None if there is no such part or it cannot be read."""
    try:
        entry = next((entry for entry in _entries(data) if entry.filename == name), None)
        return b"".join(_inflate_entry(data, entry, max_bytes)) if entry else None
    except (Reject, zlib.error):
        return None


def entry_names(data: bytes, max_entries: int) -> list[str]:
    """The names in a package; empty if there are too many or it cannot be read."""
    if data.count(b"PK\x01\x02") > max_entries:
        return []
    try:
        return [entry.filename for entry in _entries(data)]
    except Reject:
        return []


def _entries(data: bytes) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            return package.infolist()
    except (
        zipfile.BadZipFile,
        struct.error,
        ValueError,
        NotImplementedError,
        OverflowError,
        EOFError,
        OSError,
    ) as error:
        raise Reject(DAMAGED_PACKAGE) from error


def _check_overlap(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Bombs that open to more than 200 MB from kilobytes let many entries share one piece of the file."""
    end = 0
    for start, length in sorted((entry.header_offset, entry.compress_size) for entry in entries):
        if start < end:
            raise Reject("Entries of this file share the same bytes: it looks like a zip bomb")
        end = start + length
    if end > size:
        raise Reject(DAMAGED_PACKAGE)


def _check_name(entry: zipfile.ZipInfo) -> None:
    # zipfile cuts names at a null byte and turns backslashes; both are tricks.
    name = entry.orig_filename.replace("\\", "/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name) or ".." in name.split("/") or "\0" in name:
        raise Reject("A name inside this file points outside of it, which is not allowed")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise Reject("This file holds a link to another place, which is not allowed")
    if entry.flag_bits & 0x1:
        raise Reject("This file is protected by a password: remove it and send the file again")


def _check_entry(data: bytes, entry: zipfile.ZipInfo, budget: UnpackBudget, level: int, media_type: str) -> None:
    """Inflate one entry, counting; look for what XML must not hold, and into packages inside."""
    stored: list[bytes] = []
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for piece in _inflate_entry(data, entry):
            error = budget.spend(len(piece))
            if error:
                raise Reject(error)
            if stored or (size == 0 and piece.startswith(b"PK\x03\x04")):
                stored.append(piece)
            size += len(piece)
            yield piece

    pieces = counted()
    # The pages of an EPUB have a document type each, which our reader of HTML passes over.
    if entry.filename.lower().endswith(XML_EXTENSIONS if media_type != media_types.EPUB else XML_EXTENSIONS[:2]):
        pieces = _require_no_doctype(pieces)
        if media_type == media_types.XLSX:  # for kreuzberg; our own readers count while they read
            XmlParser(budget.limits.depth).parse(pieces)
    for _ in pieces:
        pass
    if size != entry.file_size:
        raise Reject("A part of this file has another size than the file says: it is damaged, or a trick")
    if stored:
        _check_level(b"".join(stored), budget, level + 1, media_types.ZIP)


def _inflate_entry(data: bytes, entry: zipfile.ZipInfo, max_bytes: int | None = None) -> Iterator[bytes]:
    """An entry's bytes, piece by piece, to the true end of its stream or to `most`."""
    head = data[entry.header_offset : entry.header_offset + 30]
    if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
        raise Reject(DAMAGED_PACKAGE)
    start = entry.header_offset + 30 + sum(struct.unpack_from("<HH", head, 26))
    packed = memoryview(data)[start : start + entry.compress_size]
    if len(packed) < entry.compress_size:
        raise Reject(DAMAGED_PACKAGE)
    if entry.compress_type == zipfile.ZIP_STORED:
        pieces: Iterator[bytes] = (bytes(packed[i : i + CHUNK_BYTES]) for i in range(0, len(packed), CHUNK_BYTES))
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        pieces = inflate(packed, -15)
    else:
        raise Reject("A part of this file is packed in a way that no office program uses")
    left = max_bytes
    try:
        for piece in pieces:
            yield piece if left is None else piece[:left]
            left = None if left is None else left - len(piece)
            if left is not None and left <= 0:
                return
    except zlib.error as error:
        raise Reject(DAMAGED_PACKAGE) from error


def inflate(packed: memoryview | bytes, wbits: int) -> Iterator[bytes]:
    """What a deflated stream opens to, in pieces of at most 64 KB, until it ends or breaks off."""
    stream = zlib.decompressobj(wbits)
    piece = stream.decompress(packed, CHUNK_BYTES)
    while piece:
        yield piece
        if stream.eof:
            return
        piece = stream.decompress(stream.unconsumed_tail, CHUNK_BYTES)


def _require_no_doctype(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass an XML part on; reject it at a document type or at an encoding that parsers read differently."""
    tail = b""
    for piece in chunks:
        seen = tail + piece
        if any(mark in seen for mark in DOCTYPE_MARKERS):
            raise Reject(DOCTYPE_ERROR)
        if not tail:
            named = XML_ENCODING.match(piece.removeprefix(b"\xef\xbb\xbf"))
            if named and not SAFE_ENCODINGS.fullmatch(named.group(1)):
                raise Reject("A part of this file is written in an encoding that no office program uses")
        tail = piece[-18:]
        yield piece
