"""Reads OLE compound files, the containers of old Office formats, and detects their media types."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from inturn import media_types

ENTRY_BYTES: Final = 128
MAX_SECTORS: Final = 400_000
SECTOR_BYTES: Final = {9: 512, 12: 4096}
"""Sector sizes by their exponent in the header."""
MINI_SECTOR_BYTES: Final = 64
"""Sector size of the mini stream, which contains all small streams."""
MINI_STREAM_CUTOFF_BYTES: Final = 4096
"""Shorter streams are in the mini stream."""
FIRST_SPECIAL_SECTOR: Final = 0xFFFFFFF0
"""Sector numbers from here on mark the end of a chain or a free sector."""
MEDIA_TYPE_BY_STREAM: Final = {
    "WordDocument": media_types.DOC,
    "Workbook": media_types.XLS,
    "Book": media_types.XLS,
    "PowerPoint Document": media_types.PPT,
}
ENCRYPTED_STREAMS: Final = frozenset({"EncryptedPackage", "EncryptionInfo", "EncryptedSummary"})
OUTLOOK_STREAM: Final = "__properties_version1.0"
ENCRYPTED_DOC_FLAG: Final = 0x0100
"""In the header of a Word file."""


class DirectoryEntry(NamedTuple):
    """A directory entry: its siblings and first child in the tree, and the first sector of its stream."""

    name: str
    left: int
    right: int
    child: int
    start: int
    size: int


class CompoundFile:
    """Reads the streams in the root folder; none if the directory is damaged."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.streams: dict[str, DirectoryEntry] = {}
        try:
            self._sector_bytes = SECTOR_BYTES[struct.unpack_from("<H", data, 30)[0]]
            self._fat_sectors = self._read_fat_sectors()
            entries = list(self._read_entries())
            self._root = entries[0]
            self._index_streams(entries)
        except (struct.error, IndexError, KeyError):
            self.streams.clear()

    def read(self, name: str) -> bytes:
        """Read a stream; of a damaged one, the bytes before the damage."""
        entry = self.streams.get(name)
        if entry is None:
            return b""
        try:
            if entry.size >= MINI_STREAM_CUTOFF_BYTES:
                return self._stream(entry.start, entry.size)
            return self._mini_stream(entry)
        except (struct.error, IndexError):
            return b""

    def _stream(self, start: int, size: int) -> bytes:
        length = self._sector_bytes
        pieces = (self._data[(sector + 1) * length : (sector + 2) * length] for sector in self._chain(start))
        return b"".join(pieces)[:size]

    def _mini_stream(self, entry: DirectoryEntry) -> bytes:
        mini_stream = self._stream(self._root.start, self._root.size)
        table = self._stream(struct.unpack_from("<I", self._data, 60)[0], self._root.size)
        pieces, sector = list[bytes](), entry.start
        while sector < FIRST_SPECIAL_SECTOR and len(pieces) * MINI_SECTOR_BYTES < entry.size:
            pieces.append(mini_stream[sector * MINI_SECTOR_BYTES : (sector + 1) * MINI_SECTOR_BYTES])
            sector = struct.unpack_from("<I", table, sector * 4)[0]
        return b"".join(pieces)[: entry.size]

    def _index_streams(self, entries: list[DirectoryEntry]) -> None:
        todo, seen = [self._root.child], set[int]()
        while todo:
            number = todo.pop()
            if number < len(entries) and number not in seen:
                seen.add(number)
                self.streams[entries[number].name] = entries[number]
                todo += (entries[number].left, entries[number].right)

    def _read_entries(self) -> Iterator[DirectoryEntry]:
        data, length = self._data, self._sector_bytes
        for sector in self._chain(struct.unpack_from("<I", data, 48)[0]):
            for at in range((sector + 1) * length, (sector + 2) * length, ENTRY_BYTES):
                letters = min(struct.unpack_from("<H", data, at + 64)[0], 64)
                name = data[at : at + letters].decode("utf-16-le", "replace").rstrip("\0")
                relatives = struct.unpack_from("<III", data, at + 68)
                yield DirectoryEntry(name, *relatives, *struct.unpack_from("<II", data, at + 116))

    def _chain(self, first: int) -> Iterator[int]:
        """Yield the sectors of a stream, by the allocation table (FAT)."""
        per_sector, sector = self._sector_bytes // 4, first
        for _ in range(MAX_SECTORS):
            if sector >= FIRST_SPECIAL_SECTOR:
                return
            yield sector
            offset = (self._fat_sectors[sector // per_sector] + 1) * self._sector_bytes + sector % per_sector * 4
            sector = struct.unpack_from("<I", self._data, offset)[0]

    def _read_fat_sectors(self) -> list[int]:
        """Return the sectors of the FAT: 109 are in the header, the others in a chain."""
        fat_sectors = list(struct.unpack_from("<109I", self._data, 76))
        sector, per_sector = struct.unpack_from("<I", self._data, 68)[0], self._sector_bytes // 4
        while sector < FIRST_SPECIAL_SECTOR and len(fat_sectors) < MAX_SECTORS:
            *more, sector = struct.unpack_from(f"<{per_sector}I", self._data, (sector + 1) * self._sector_bytes)
            fat_sectors += more
        return fat_sectors


def ole_media_type(data: bytes) -> str:
    """Return the media type of a compound file; `OLE_STORAGE` if it is unknown."""
    file = CompoundFile(data)
    if ENCRYPTED_STREAMS & file.streams.keys():
        return media_types.ENCRYPTED_OFFICE
    if OUTLOOK_STREAM in file.streams:
        return media_types.OUTLOOK
    matches = (media_type for name, media_type in MEDIA_TYPE_BY_STREAM.items() if name in file.streams)
    media_type = next(matches, media_types.OLE_STORAGE)
    if (
        media_type == media_types.DOC
        and int.from_bytes(file.read("WordDocument")[10:12], "little") & ENCRYPTED_DOC_FLAG
    ):
        return media_types.ENCRYPTED_OFFICE
    return media_type
