"""Width and height from the header of a picture, in this process: hostile pictures are tested in a child's box."""

import struct

import pytest

from inturn.extract.image_size import MAX_FRAMES, frame_sizes

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
BMP = b"BM" + bytes(12) + struct.pack("<Iii", 40, 640, -480)  # a negative height: rows from top to bottom
GIF_SCREEN = b"GIF89a" + struct.pack("<HH", 10, 20)
GIF_FRAME = b"\x2c" + struct.pack("<HHHHB", 5, 6, 640, 480, 0) + b"\x02\x01x\x00"


def jpeg(*segments: tuple[int, bytes]) -> bytes:
    return b"\xff\xd8" + b"".join(struct.pack(">BBH", 0xFF, marker, 2 + len(body)) + body for marker, body in segments)


def jpeg_frame(marker: int = 0xC0, width: int = 640, height: int = 480) -> tuple[int, bytes]:
    return marker, struct.pack(">BHH", 8, height, width)


def tiff(order: str, *pages: tuple[int, int], last: int = 0, field_type: int = 4) -> bytes:
    """Pages of width and height alone; the last one leads to `last`."""
    data = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    size = 2 + 2 * 12 + 4
    for number, page in enumerate(pages):
        data += struct.pack(f"{order}H", 2)
        for tag, value in zip((256, 257), page, strict=True):
            packed = struct.pack(f"{order}HH", value, 0) if field_type == 3 else struct.pack(f"{order}I", value)
            data += struct.pack(f"{order}HHI", tag, field_type, 1) + packed
        is_last = number == len(pages) - 1
        data += struct.pack(f"{order}I", last if is_last else 8 + size * (number + 1))
    return data


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + struct.pack("<I", len(body)) + body


PICTURES = {
    "png": ("image/png", PNG, [(640, 480)]),
    "png without its header": ("image/png", PNG.replace(b"IHDR", b"IDAT"), []),
    "bmp": ("image/bmp", BMP, [(640, 480)]),
    "jpeg": ("image/jpeg", jpeg((0xE0, b"JFIF"), jpeg_frame()), [(640, 480)]),
    "jpeg of two frames": ("image/jpeg", jpeg(jpeg_frame(), jpeg_frame(0xC2, 9, 8)), [(640, 480), (9, 8)]),
    "jpeg with tables": ("image/jpeg", jpeg((0xC4, b"huffman"), (0xCC, b"coding"), jpeg_frame()), [(640, 480)]),
    "jpeg with fill bytes": ("image/jpeg", b"\xff\xd8\xff\xff\xd0" + jpeg(jpeg_frame())[2:], [(640, 480)]),
    "jpeg after its scan": ("image/jpeg", jpeg((0xDA, b"scan"), jpeg_frame()), []),
    "gif": ("image/gif", GIF_SCREEN + b"\0\0\0" + GIF_FRAME + b"\x3b", [(10, 20), (645, 486)]),
    "gif with a table of colours": (
        "image/gif",
        GIF_SCREEN + b"\x80\0\0" + bytes(6) + b"\x21\xf9\x01x\x00" + GIF_FRAME + b"\x3b",
        [(10, 20), (645, 486)],
    ),
    "gif that goes on as something else": ("image/gif", GIF_SCREEN + b"\0\0\0" + b"\x99", [(10, 20)]),
    "tiff, little end first": ("image/tiff", tiff("<", (640, 480), (9, 8)), [(640, 480), (9, 8)]),
    "tiff, big end first": ("image/tiff", tiff(">", (640, 480), field_type=3), [(640, 480)]),
    "tiff that leads back": ("image/tiff", tiff("<", (640, 480), (9, 8), last=8), [(640, 480), (9, 8)]),
    "webp": ("image/webp", webp(b"VP8 ", bytes(6) + struct.pack("<HH", 640, 480)), [(640, 480)]),
    "webp without loss": ("image/webp", webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)), [(640, 480)]),
    "webp with more": (
        "image/webp",
        webp(b"VP8X", bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
        [(640, 480)],
    ),
    "webp of other chunks": ("image/webp", webp(b"ICCP", b"odd"), []),
    "no picture": ("application/pdf", b"%PDF", []),
}


@pytest.mark.parametrize(("media_type", "data", "sizes"), PICTURES.values(), ids=PICTURES)
def test_sizes_of_all_frames_are_read(media_type: str, data: bytes, sizes: list[tuple[int, int]]) -> None:
    assert frame_sizes(data, media_type) == sizes


@pytest.mark.parametrize(("media_type", "data", "sizes"), PICTURES.values(), ids=PICTURES)
def test_a_picture_that_is_cut_off_anywhere_has_the_frames_before(
    media_type: str, data: bytes, sizes: list[tuple[int, int]]
) -> None:
    for length in range(len(data)):
        read = frame_sizes(data[:length], media_type)
        assert read == sizes[: len(read)]


def test_a_million_frames_are_not_all_read() -> None:
    data = GIF_SCREEN + b"\0\0\0" + GIF_FRAME * (MAX_FRAMES + 10)
    assert len(frame_sizes(data, "image/gif")) == MAX_FRAMES
