"""Checks packages (zip files such as DOCX, XLSX, PPTX and ODT) before a parser opens them, and reads their parts.

The directory of a zip is not trusted: entries are counted by their signatures, and sizes by inflating.
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
from inturn.extract.content import PASSWORD_PROTECTED
from inturn.extract.limits import ExtractLimits, UnpackBudget
from inturn.extract.xml_parts import DOCTYPE_ERROR, XmlParser
from inturn.processor_api import Reject

CHUNK_BYTES = 1 << 16
MAX_NESTING = 3
ENTRY_SIGNATURE, PART_SIGNATURE = b"PK\x01\x02", b"PK\x03\x04"
DOCTYPE_MARKERS = tuple("<!DOCTYPE".encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be"))
XML_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
SAFE_ENCODINGS = re.compile(rb"(?:utf-?(?:8|16(?:le|be)?)|us-ascii|iso-8859-\d+|windows-125\d)", re.IGNORECASE)
XML_EXTENSIONS = (".xml", ".rels", ".vml", ".rdf", ".xhtml")
NUMBER = re.compile(r"\d{1,9}")
NUMBERED_PART = re.compile(r"\d+\.xml$")
DAMAGED_PACKAGE = "This file is damaged: its package cannot be opened"


def check_zip(data: bytes, limits: ExtractLimits, media_type: str) -> None:
    """Reject a package that is beyond a limit."""
    _check_level(data, UnpackBudget(limits, len(data)), 1, media_type)


def _check_level(data: bytes, budget: UnpackBudget, level: int, media_type: str) -> None:
    max_entries = budget.limits.entries
    if level > MAX_NESTING:
        raise Reject(
            f"This file holds packages inside packages, more than {MAX_NESTING} deep: it looks like a zip bomb"
        )
    if data.count(ENTRY_SIGNATURE) > max_entries:
        raise Reject(f"This file holds more than {max_entries:,} entries, which is the limit")
    entries = _entries(data)
    _check_overlap(entries, len(data))
    for entry in entries:
        _check_name(entry)
        _check_entry(data, entry, budget, level, media_type)


def package_media_type(data: bytes, max_entries: int) -> str:
    """Return the media type of a package by the parts in it; `ZIP` for other archives."""
    # Word on the web calls its main part "document2.xml".
    names = {NUMBERED_PART.sub(".xml", name) for name in entry_names(data, max_entries)}
    if "mimetype" in names:
        declared = (read_part(data, "mimetype", 100) or b"").decode("ascii", "replace").strip()
        # Templates and master documents are read like documents.
        declared = declared.removesuffix("-template").removesuffix("-master")
        return declared if declared in media_types.MIMETYPE_PACKAGES else media_types.ZIP
    return next((kind for kind, main in media_types.MAIN_PARTS.items() if main in names), media_types.ZIP)


class Package:
    """Reads the parts of a package that passed the checks."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._entries = {entry.filename: entry for entry in _entries(data)}
        self.names = tuple(self._entries)

    def read_chunks(self, name: str) -> Iterator[bytes]:
        """Inflate a part chunk by chunk; no chunks if there is no such part."""
        entry = self._entries.get(name)
        return iter(()) if entry is None else _inflate_entry(self._data, entry)

    def read(self, name: str) -> bytes:
        """Inflate a part; empty if there is no such part."""
        return b"".join(self.read_chunks(name))

    def names_matching(self, pattern: str) -> list[str]:
        """List the parts that match a shell pattern, in the order of the numbers in their names."""
        names = [
            name for name in self.names if fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
        ]
        return sorted(names, key=lambda name: ([int(number) for number in NUMBER.findall(name)], name))


def read_part(data: bytes, name: str, max_bytes: int) -> bytes | None:
    """Read the first bytes of one part of a package; None if there is no such part or it is damaged."""
    content = bytearray()
    try:
        entry = next((entry for entry in _entries(data) if entry.filename == name), None)
        if entry is None:
            return None
        for chunk in _inflate_entry(data, entry):
            content += chunk
            if len(content) >= max_bytes:
                break
    except Reject:
        return None
    return bytes(content[:max_bytes])


def entry_names(data: bytes, max_entries: int) -> list[str]:
    """List the names in a package; empty if there are too many or it is damaged."""
    if data.count(ENTRY_SIGNATURE) > max_entries:
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
    """Reject entries that share bytes: a few kilobytes could unpack to gigabytes."""
    end = 0
    for start, length in sorted((entry.header_offset, entry.compress_size) for entry in entries):
        if start < end:
            raise Reject("Entries of this file share the same bytes: it looks like a zip bomb")
        end = start + length
    if end > size:
        raise Reject(DAMAGED_PACKAGE)


def _check_name(entry: zipfile.ZipInfo) -> None:
    # `filename` is cut at a null byte and has its backslashes replaced; attacks use both.
    name = entry.orig_filename.replace("\\", "/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name) or ".." in name.split("/") or "\0" in name:
        raise Reject("A name inside this file points outside of it, which is not allowed")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise Reject("This file holds a link to another place, which is not allowed")
    if entry.flag_bits & 0x1:
        raise Reject(PASSWORD_PROTECTED)


def _check_entry(data: bytes, entry: zipfile.ZipInfo, budget: UnpackBudget, level: int, media_type: str) -> None:
    """Inflate one entry and count its bytes; check XML, and packages inside the package."""
    nested: list[bytes] = []
    size = 0

    def count_chunks() -> Iterator[bytes]:
        nonlocal size
        for chunk in _inflate_entry(data, entry):
            budget.spend(len(chunk))
            if nested or (size == 0 and chunk.startswith(PART_SIGNATURE)):
                nested.append(chunk)
            size += len(chunk)
            yield chunk

    chunks = count_chunks()
    # Each page of an EPUB has a document type, which the HTML reader skips.
    if entry.filename.lower().endswith(XML_EXTENSIONS if media_type != media_types.EPUB else XML_EXTENSIONS[:2]):
        chunks = _require_no_doctype(chunks)
        if media_type == media_types.XLSX:  # for kreuzberg; our own readers check the depth themselves
            XmlParser(budget.limits.depth).parse(chunks)
    for _ in chunks:
        pass
    if size != entry.file_size:
        raise Reject("A part of this file has another size than the file declares: it is damaged or forged")
    if nested:
        _check_level(b"".join(nested), budget, level + 1, media_types.ZIP)


def _inflate_entry(data: bytes, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Inflate an entry chunk by chunk, to the real end of its stream."""
    head = data[entry.header_offset : entry.header_offset + 30]
    if len(head) < 30 or not head.startswith(PART_SIGNATURE):
        raise Reject(DAMAGED_PACKAGE)
    start = entry.header_offset + 30 + sum(struct.unpack_from("<HH", head, 26))
    packed = memoryview(data)[start : start + entry.compress_size]
    if len(packed) < entry.compress_size:
        raise Reject(DAMAGED_PACKAGE)
    if entry.compress_type == zipfile.ZIP_STORED:
        chunks: Iterator[bytes] = (bytes(packed[i : i + CHUNK_BYTES]) for i in range(0, len(packed), CHUNK_BYTES))
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        chunks = inflate(packed, -15)
    else:
        raise Reject("A part of this file is packed in a way that no office program uses")
    try:
        yield from chunks
    except zlib.error as error:
        raise Reject(DAMAGED_PACKAGE) from error


def inflate(packed: memoryview | bytes, wbits: int) -> Iterator[bytes]:
    """Inflate a deflated stream in chunks of at most 64 KB, until it ends or is cut off."""
    stream = zlib.decompressobj(wbits)
    chunk = stream.decompress(packed, CHUNK_BYTES)
    while chunk:
        yield chunk
        if stream.eof:
            return
        chunk = stream.decompress(stream.unconsumed_tail, CHUNK_BYTES)


def _require_no_doctype(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass on an XML part; reject a document type, or an encoding that parsers read differently."""
    tail = b""
    for chunk in chunks:
        searched = tail + chunk
        if any(mark in searched for mark in DOCTYPE_MARKERS):
            raise Reject(DOCTYPE_ERROR)
        if not tail:
            declared = XML_ENCODING.match(chunk.removeprefix(media_types.UTF_8_MARK))
            if declared and not SAFE_ENCODINGS.fullmatch(declared.group(1)):
                raise Reject("A part of this file is written in an encoding that no office program uses")
        tail = chunk[-18:]
        yield chunk
