"""A content as a PNG that looks like a scan: black letters of five by seven dots on white."""

import struct
import unicodedata
import zlib
from textwrap import wrap

from demo.contents import Content

# Each letter is five columns of seven dots, the lowest bit on top.
# fmt: off
FONT = {
    "A": "7C1211127C", "B": "7F49494936", "C": "3E41414122", "D": "7F4141413E", "E": "7F49494941",
    "F": "7F09090901", "G": "3E41415173", "H": "7F0808087F", "I": "00417F4100", "J": "2040413F01",
    "K": "7F08142241", "L": "7F40404040", "M": "7F021C027F", "N": "7F0408107F", "O": "3E4141413E",
    "P": "7F09090906", "Q": "3E4151215E", "R": "7F09192946", "S": "2649494932", "T": "03017F0103",
    "U": "3F4040403F", "V": "1F2040201F", "W": "3F4038403F", "X": "6314081463", "Y": "0304780403",
    "Z": "6159494D43", "0": "3E5149453E", "1": "00427F4000", "2": "7249494946", "3": "2141494D33",
    "4": "1814127F10", "5": "2745454539", "6": "3C4A494931", "7": "4121110907", "8": "3649494936",
    "9": "464949291E", ".": "0000606000", ",": "0080703000", ":": "0000141400", "-": "0808080808",
}
# fmt: on
SCALE = 2
CHARACTERS_PER_LINE = 48
MAX_LINES = 24
WIDTH = (CHARACTERS_PER_LINE + 4) * 6 * SCALE


def write_png(content: Content) -> bytes:
    """One page of the words, in capitals and without accents."""
    lines = [part for line in content.lines() for part in wrap(_to_ascii_capitals(line), CHARACTERS_PER_LINE)][
        :MAX_LINES
    ]
    rows = [bytes(WIDTH)] * (8 * SCALE)
    for line in lines:
        rows.extend(_draw_line(line))
    rows.extend([bytes(WIDTH)] * (8 * SCALE))
    # 0 is black in a picture; the rows have 255 where there is ink.
    pixels = b"".join(b"\0" + bytes(255 - dot for dot in row) for row in rows)
    header = struct.pack(">IIBBBBB", WIDTH, len(rows), 8, 0, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _to_ascii_capitals(text: str) -> str:
    return unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode().upper()


def _draw_line(line: str) -> list[bytes]:
    rows = []
    for dot in range(10):
        row = bytearray(12 * SCALE)
        for letter in line:
            columns = bytes.fromhex(FONT.get(letter, "0000000000")) + b"\0"
            for column in columns:
                row += bytes([255 if column >> dot & 1 else 0]) * SCALE
        rows.extend([bytes(row.ljust(WIDTH, b"\0"))] * SCALE)
    return rows


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
