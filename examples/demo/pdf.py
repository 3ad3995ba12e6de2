"""Contents as a PDF, with the fonts that every reader has."""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from textwrap import wrap

from demo.contents import Content

LINES_PER_PAGE = 46
CHARACTERS_PER_LINE = 88


def write_pdf(content: Content) -> tuple[bytes, int]:
    """The file and its number of pages."""
    return write_combined_pdf([content])


def write_combined_pdf(contents: Sequence[Content]) -> tuple[bytes, int]:
    """Several contents behind each other in one file, which says of itself what the first one does; and its pages."""
    streams = [stream for content in contents for stream in page_streams(content)]
    first = contents[0]
    kids = " ".join(f"{5 + 2 * i} 0 R" for i in range(len(streams)))
    info = f"/Title ({_escape(first.title)}) /Author ({_escape(first.author)})"
    date = first.date.replace("-", "")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(streams)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< {info} /CreationDate (D:{date}090000Z) /Producer (Inturn demo) >>".encode("cp1252"),
    ]
    for i, stream in enumerate(streams):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (6 + 2 * i)
        )
        objects.append(stream)
    return assemble(objects, b"/Root 1 0 R /Info 4 0 R"), len(streams)


@lru_cache(maxsize=256)
def page_streams(content: Content) -> tuple[bytes, ...]:
    """What stands on each page; remembered, since a binder takes the same pages as another one, in another order."""
    lines = [part for line in content.lines() for part in [*wrap(line, CHARACTERS_PER_LINE), ""]]
    starts = range(0, len(lines), LINES_PER_PAGE)
    return tuple(_page_stream(lines[at : at + LINES_PER_PAGE], number) for number, at in enumerate(starts, 1))


def assemble(objects: list[bytes], trailer: bytes) -> bytes:
    """A file of these objects, numbered from 1, with its cross-reference table."""
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d %b >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)


def _page_stream(lines: list[str], page: int) -> bytes:
    shown = "\n".join(f"({_escape(line)}) Tj T*" for line in [*lines, "", f"Page {page}"])
    packed = zlib.compress(f"BT /F1 11 Tf 15 TL 56 780 Td\n{shown}\nET".encode("cp1252", "replace"))
    return b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
