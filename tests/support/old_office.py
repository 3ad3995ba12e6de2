"""DOC, XLS and PPT files, made by code: the fewest bytes that the formats ask for, around the words they are given."""

import struct
from collections.abc import Mapping, Sequence

SECTOR_BYTES = 512
FREE, END_OF_CHAIN, FAT_SECTOR = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def compound(streams: Mapping[str, bytes]) -> bytes:
    """A compound file of these streams, each at least so long that it needs no smaller sectors."""
    sectors: list[bytes] = []
    chains: list[int] = []
    starts = {}
    for name, content in sorted(streams.items(), key=lambda stream: (len(stream[0]), stream[0].upper())):
        padded = content.ljust(4096, b"\0")
        pieces = [
            padded[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for at in range(0, len(padded), SECTOR_BYTES)
        ]
        starts[name] = (len(sectors), len(padded))
        chains += [len(sectors) + n + 1 for n in range(len(pieces) - 1)] + [END_OF_CHAIN]
        sectors += pieces
    folder = b"".join(
        [
            _entry("Root Entry", kind=5, child=1, start=END_OF_CHAIN, size=0),
            *(
                _entry(name, kind=2, right=n + 2 if n + 1 < len(starts) else FREE, start=start, size=size)
                for n, (name, (start, size)) in enumerate(starts.items())
            ),
        ]
    )
    folder = folder.ljust(-(-len(folder) // SECTOR_BYTES) * SECTOR_BYTES, b"\0")
    first = len(sectors)
    pieces = [folder[at : at + SECTOR_BYTES] for at in range(0, len(folder), SECTOR_BYTES)]
    chains += [first + n + 1 for n in range(len(pieces) - 1)] + [END_OF_CHAIN]
    sectors += pieces
    tables = -(-(len(chains) + 1) // 127)
    chains += [FAT_SECTOR] * tables
    table = b"".join(struct.pack("<I", chain) for chain in chains).ljust(tables * SECTOR_BYTES, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, tables, first, 0, 4096, END_OF_CHAIN, 0, END_OF_CHAIN, 0)
    header += b"".join(struct.pack("<I", len(sectors) + n if n < tables else FREE) for n in range(109))
    return header + b"".join(sectors) + table


def _entry(name: str, *, kind: int, start: int, size: int, right: int = FREE, child: int = FREE) -> bytes:
    written = name.encode("utf-16-le") + b"\0\0"
    head = written.ljust(64, b"\0") + struct.pack("<HBBIII", len(written), kind, 1, FREE, right, child)
    return head + bytes(36) + struct.pack("<IQ", start, size)


def doc(paragraphs: Sequence[str], *, notes: Sequence[str] = (), flags: int = 0) -> bytes:
    """A Word file of two pieces: Unicode, and notes of single bytes, which do not count as text of the body."""
    text = "".join(f"{paragraph}\r" for paragraph in paragraphs).encode("utf-16-le")
    beside = "".join(f"{note}\r" for note in notes).encode("cp1252")
    start, letters = 2048, len(text) // 2
    head = bytearray(start)
    struct.pack_into("<HHHHHH", head, 0, 0xA5EC, 0xC1, 0, 0x409, 0, 0x0200 | flags)
    struct.pack_into("<II", head, 0x18, start, start + len(text))
    struct.pack_into("<H", head, 0x20, 0x0E)
    struct.pack_into("<H", head, 0x3E, 0x16)
    struct.pack_into("<I", head, 0x4C, letters)
    struct.pack_into("<H", head, 0x98, 0x5D)
    struct.pack_into("<I", head, 0x50, len(beside))
    pieces = struct.pack("<III", 0, letters, letters + len(beside)) + struct.pack("<HIH", 0, start, 0)
    pieces += struct.pack("<HIH", 0, (start + len(text)) * 2 | 0x40000000, 0)
    pieces = b"\x02" + struct.pack("<I", len(pieces)) + pieces
    struct.pack_into("<II", head, 0x1A2, 0, len(pieces))
    return compound({"WordDocument": bytes(head) + text + beside + beside, "1Table": pieces})


def xls(rows: Sequence[Sequence[str | float]]) -> bytes:
    """A workbook of one sheet."""
    begin = record(0x809, struct.pack("<HHHHII", 0x600, 5, 0x1FAF, 0x7CC, 0, 6))
    sheet = record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0x1FAF, 0x7CC, 0, 6))
    width = max(map(len, rows), default=0)
    sheet += record(0x200, struct.pack("<IIHHH", 0, len(rows), 0, width, 0))
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            if isinstance(value, str):
                letters = value.encode("utf-16-le")
                written = struct.pack("<HB", len(letters) // 2, 1) + letters
                sheet += record(0x204, struct.pack("<HHH", at, column, 0) + written)
            else:
                sheet += record(0x203, struct.pack("<HHHd", at, column, 0, value))
    sheet += record(0x0A, b"")
    name = b"Sheet"
    place = len(begin) + 4 + 8 + len(name) + 4
    bound = record(0x85, struct.pack("<IBBBB", place, 0, 0, len(name), 0) + name)
    return compound({"Workbook": begin + bound + record(0x0A, b"") + sheet})


def record(kind: int, content: bytes) -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


def ppt(slides: Sequence[Sequence[str]]) -> bytes:
    """A presentation whose slides hold these lines."""
    content = b"".join(_container(0x03EE, b"".join(map(_text_record, lines))) for lines in slides)
    return compound({"PowerPoint Document": _container(0x03E8, b"") + content, "Current User": bytes(20)})


def _text_record(line: str) -> bytes:
    written = line.encode("utf-16-le")
    return struct.pack("<HHI", 0, 0x0FA0, len(written)) + written


def _container(kind: int, content: bytes) -> bytes:
    return struct.pack("<HHI", 0x0F, kind, len(content)) + content
