"""Reads compound files, in which old Office programs keep their streams, and tells their kinds apart."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from inturn import media_types

ENTRY_BYTES: Final = 128
MAX_SECTORS: Final = 400_000
SECTOR_BYTES: Final = {9: 512, 12: 4096}
"""Sizes of a sector, by what the header says."""
MINI_SECTOR_BYTES: Final = 64
"""Size of a sector of the stream that holds all small streams."""
MINI_STREAM_CUTOFF_BYTES: Final = 4096
"""Streams that are shorter are small."""
FIRST_SPECIAL_SECTOR: Final = 0xFFFFFFF0
"""Sector numbers from here on mean the end of a chain, or nothing."""
MEDIA_TYPE_BY_STREAM: Final = {
    "WordDocument": media_types.DOC,
    "Workbook": media_types.XLS,
    "Book": media_types.XLS,
    "PowerPoint Document": media_types.PPT,
}
ENCRYPTED_STREAMS: Final = frozenset({"EncryptedPackage", "EncryptionInfo", "EncryptedSummary"})
OUTLOOK_STREAM: Final = "__properties_version1.0"
ENCRYPTED_DOC_FLAG: Final = 0x0100
"""The flag in a Word file's header that says that it is encrypted."""


class DirectoryEntry(NamedTuple):
    """An entry of the directory: its neighbours in the tree, its first child, and where its stream is."""

    name: str
    left: int
    right: int
    child: int
    start: int
    size: int


class CompoundFile:
    """The streams in the root folder; none if the directory cannot be read."""

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
        """The bytes of a stream; as many as there are if the file is damaged."""
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
        whole = self._stream(self._root.start, self._root.size)
        table = self._stream(struct.unpack_from("<I", self._data, 60)[0], self._root.size)
        pieces, sector = list[bytes](), entry.start
        while sector < FIRST_SPECIAL_SECTOR and len(pieces) * MINI_SECTOR_BYTES < entry.size:
            pieces.append(whole[sector * MINI_SECTOR_BYTES : (sector + 1) * MINI_SECTOR_BYTES])
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
                neighbours = struct.unpack_from("<III", data, at + 68)
                yield DirectoryEntry(name, *neighbours, *struct.unpack_from("<II", data, at + 116))

    def _chain(self, first: int) -> Iterator[int]:
        """The sectors of a stream, by the allocation table."""
        a_table, sector = self._sector_bytes // 4, first
        for _ in range(MAX_SECTORS):
            if sector >= FIRST_SPECIAL_SECTOR:
                return
            yield sector
            place = (self._fat_sectors[sector // a_table] + 1) * self._sector_bytes + sector % a_table * 4
            sector = struct.unpack_from("<I", self._data, place)[0]

    def _read_fat_sectors(self) -> list[int]:
        """The sectors that hold the allocation table: 109 are named in the header, the others in a chain."""
        tables = list(struct.unpack_from("<109I", self._data, 76))
        sector, a_sector = struct.unpack_from("<I", self._data, 68)[0], self._sector_bytes // 4
        while sector < FIRST_SPECIAL_SECTOR and len(tables) < MAX_SECTORS:
            *more, sector = struct.unpack_from(f"<{a_sector}I", self._data, (sector + 1) * self._sector_bytes)
            tables += more
        return tables


def ole_media_type(data: bytes) -> str:
    """The media type of a compound file; `kinds.OLE_STORAGE` for one that holds something else."""
    file = CompoundFile(data)
    if ENCRYPTED_STREAMS & file.streams.keys():
        return media_types.ENCRYPTED_OFFICE
    if OUTLOOK_STREAM in file.streams:
        return media_types.OUTLOOK
    result = next(
        (kind for name, kind in MEDIA_TYPE_BY_STREAM.items() if name in file.streams), media_types.OLE_STORAGE
    )
    if result == media_types.DOC and int.from_bytes(file.read("WordDocument")[10:12], "little") & ENCRYPTED_DOC_FLAG:
        return media_types.ENCRYPTED_OFFICE
    return result
