"""Reads width and height of a picture from its header, before a decoder allocates memory for it."""

import struct
from collections.abc import Iterator

MAX_FRAMES = 2_000


def frame_sizes(data: bytes, media_type: str) -> list[tuple[int, int]]:
    """Return width and height of every frame or page with a readable header; empty for a damaged picture."""
    reader = {
        "image/png": _png,
        "image/jpeg": _jpeg,
        "image/gif": _gif,
        "image/tiff": _tiff,
        "image/webp": _webp,
        "image/bmp": _bmp,
    }.get(media_type)
    sizes: list[tuple[int, int]] = []
    if reader is None:
        return sizes
    try:
        for size in reader(data):
            sizes.append(size)
            if len(sizes) >= MAX_FRAMES:
                break
    except (struct.error, IndexError):
        pass  # the file is cut off: the frames so far are the answer
    return sizes


def _png(data: bytes) -> Iterator[tuple[int, int]]:
    if data[12:16] == b"IHDR":
        yield struct.unpack_from(">II", data, 16)


def _bmp(data: bytes) -> Iterator[tuple[int, int]]:
    width, height = struct.unpack_from("<ii", data, 18)
    yield abs(width), abs(height)


def _jpeg(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield all frame headers before the first scan: decoders may use any of them."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD8:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xDA, 0xD9):
            return
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            yield width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]


def _gif(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the screen, then each picture on it: either may be the large one."""
    yield struct.unpack_from("<HH", data, 6)
    at = 13 + _colour_table_bytes(data[10])
    while data[at] != 0x3B:
        if data[at] == 0x2C:
            left, top, width, height, flags = struct.unpack_from("<HHHHB", data, at + 1)
            yield left + width, top + height
            at = _skip_blocks(data, at + 11 + _colour_table_bytes(flags))
        elif data[at] == 0x21:
            at = _skip_blocks(data, at + 2)
        else:
            return


def _colour_table_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _skip_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += 1 + data[at]
    return at + 1


def _tiff(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield all pages of the chain, which ends at a page that occurs twice."""
    order = "<" if data[:2] == b"II" else ">"
    at, seen = struct.unpack_from(f"{order}I", data, 4)[0], set[int]()
    while at and at not in seen:
        seen.add(at)
        (count,) = struct.unpack_from(f"{order}H", data, at)
        tags: dict[int, int] = {}
        for offset in range(at + 2, at + 2 + 12 * count, 12):
            tag, field_type = struct.unpack_from(f"{order}HH", data, offset)
            if tag in (256, 257):
                tags[tag] = struct.unpack_from(f"{order}{'H' if field_type == 3 else 'I'}", data, offset + 8)[0]
        yield tags.get(256, 0), tags.get(257, 0)
        at = struct.unpack_from(f"{order}I", data, at + 2 + 12 * count)[0]


def _webp(data: bytes) -> Iterator[tuple[int, int]]:
    at = 12
    while at + 8 <= len(data):
        chunk_type, length = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if chunk_type == b"VP8X":
            width, width_high, height, height_high = struct.unpack_from("<HBHB", data, at + 12)
            yield 1 + (width | width_high << 16), 1 + (height | height_high << 16)
        elif chunk_type == b"VP8L":
            bits = struct.unpack_from("<I", data, at + 9)[0]
            yield 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        elif chunk_type == b"VP8 ":
            width, height = struct.unpack_from("<HH", data, at + 14)
            yield width & 0x3FFF, height & 0x3FFF
        at += 8 + length + (length & 1)
