"""Reads the text of old Word files (DOC): the body, and the notes, headers and text boxes that kreuzberg omits."""

import re
import struct
from typing import Final

from inturn.extract.ole import CompoundFile
from inturn.extract.text_builder import TextBuilder

WORD_97_VERSION: Final = 0xC1
"""The oldest format whose header locates the piece table."""
TABLE_1_FLAG: Final = 0x0200
PIECE_TABLE_OFFSET: Final = 0x1A2
"""Offset of the header field that locates the piece table."""
CP1252_PIECE_FLAG: Final = 0x40000000
"""Set for a piece in code page 1252; other pieces are UTF-16."""
SEPARATORS: Final = {"\r": "\n\n", "\x0c": "\n\n", "\x0b": "\n", "\x07": "\t", "\t": "\t"}
FIELD_START, FIELD_SEPARATOR, FIELD_END = "\x13", "\x14", "\x15"
NON_BREAKING_HYPHEN: Final = "\x1e"
TOKEN: Final = re.compile(r"[^\x00-\x1f]+|[\x00-\x1f]")


def read_doc(data: bytes) -> str:
    """Read all text; empty if the file is older than Word 97 or its piece table cannot be read."""
    file = CompoundFile(data)
    main = file.read("WordDocument")
    try:
        version, flags = struct.unpack_from("<H6xH", main, 2)
        if version < WORD_97_VERSION:
            return ""
        table = file.read("1Table" if flags & TABLE_1_FLAG else "0Table")
        start, length = struct.unpack_from("<II", main, PIECE_TABLE_OFFSET)
        return _visible_text(_decode_pieces(main, table[start : start + length]))
    except (struct.error, IndexError):
        return ""


def _decode_pieces(main: bytes, table: bytes) -> str:
    at = 0
    while table[at] == 1:  # formats that pieces share
        at += 3 + struct.unpack_from("<H", table, at + 1)[0]
    count = (struct.unpack_from("<I", table, at + 1)[0] - 4) // 12
    ends = struct.unpack_from(f"<{count + 1}I", table, at + 5)
    pieces = []
    for number in range(count):
        length = ends[number + 1] - ends[number]
        offset = struct.unpack_from("<I", table, at + 5 + 4 * (count + 1) + 8 * number + 2)[0]
        if offset & CP1252_PIECE_FLAG:
            offset = (offset & ~CP1252_PIECE_FLAG) // 2
            pieces.append(main[offset : offset + length].decode("cp1252", "replace"))
        else:
            pieces.append(main[offset : offset + 2 * length].decode("utf-16-le", "replace"))
    return "".join(pieces)


def _visible_text(characters: str) -> str:
    """Replace fields by their results and control characters by separators."""
    builder, fields = TextBuilder(), list[bool]()
    for token in TOKEN.findall(characters):
        if token == FIELD_START:
            fields.append(False)
        elif token == FIELD_SEPARATOR and fields:
            fields[-1] = True
        elif token == FIELD_END and fields:
            fields.pop()
        elif not all(fields):
            continue
        elif token in SEPARATORS:
            builder.separate(SEPARATORS[token])
        elif token == NON_BREAKING_HYPHEN:
            builder.add("-")
        elif token[0] >= " ":
            builder.add_words(token)
    return str(builder)
